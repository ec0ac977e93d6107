/* SPDX-License-Identifier: MIT
 *
 * The headers of a safetensors release, of one file or of hundreds, in three steps that a few threads share: open each
 * file and see how long its header is; read the headers, each at its place in the arena; parse them, each into its part
 * of one array. Places are counted out between the steps, so that what comes out, and how much memory it takes, depends
 * neither on the number of threads nor on their order. Of several files with faults the first by name is reported.
 */
#include <stdatomic.h>

#include "model/checkpoint_parts.h"
#include "model/safetensors.h"
#include "os/memory.h"
#include "os/thread.h"

enum {
    /* Waiting for the disk overlaps on one processor too, so the number does not depend on the machine. */
    SHARD_THREADS = 4,
    SHARDS_A_THREAD = 4, /* fewer are not worth a thread */
    /* What the system keeps for a thread beside its stack: part of the peak of the open phase. */
    THREAD_BYTES = 32 << 10
};

struct shard {
    uint64_t header_bytes;
    char *header;
    struct tensor *tensors;
    uint32_t most, count; /* tensors */
};

struct reading;
typedef berth_status shard_fn(struct reading *r, uint32_t index, unsigned char *page, berth_error *err);

struct reading {
    struct opening *o;
    const char *directory;
    const struct str *names;
    struct shard *shards; /* [out->files_count] */
    shard_fn *step;
    atomic_uint next; /* shard to take */
    atomic_bool stop; /* a step failed: those taken before it are still done */
};

struct worker {
    struct reading *reading;
    struct os_thread thread;
    unsigned char *page; /* [OS_DIRECT_ALIGN] */
    uint32_t failed_at;  /* UINT32_MAX: nothing failed */
    berth_status status;
    berth_error err;
};

/* ---- steps ------------------------------------------------------------------------------------------ */

static berth_status at_file(berth_status status, const struct os_file *file, berth_error *err)
{
    if (status != BERTH_OK && (err == NULL || err->path[0] == '\0')) {
        error_at_path(err, file->path);
    }
    return status;
}

static berth_status open_shard(struct reading *r, uint32_t index, unsigned char *page, berth_error *err)
{
    struct os_file *file = &r->o->out->files[index];
    char path[CHECKPOINT_PATH_BYTES];
    uint64_t bytes = 0;
    TRY(checkpoint_join(path, r->directory, r->names[index], err));
    TRY(os_file_open_page(file, path, r->o->hooks, page, &bytes, err));
    return at_file(safetensors_header_bytes(page, bytes, file->size_bytes, &r->shards[index].header_bytes, err), file,
                   err);
}

static berth_status read_shard(struct reading *r, uint32_t index, unsigned char *page, berth_error *err)
{
    struct os_file *file = &r->o->out->files[index];
    struct shard *shard = &r->shards[index];
    uint64_t length = 0;
    (void)page;
    TRY(os_file_read(file, 0, shard->header_bytes, shard->header, err));
    TRY(os_file_unchanged(file, err));
    TRY(at_file(safetensors_header_bytes(shard->header, shard->header_bytes, file->size_bytes, &length, err), file,
                err));
    if (length != shard->header_bytes) { /* written to between the two reads, within the resolution of its time */
        return at_file(error_set(err, BERTH_ERR_IO, "the file was changed while in use; open the model again"), file,
                       err);
    }
    shard->most = safetensors_most(shard->header, shard->header_bytes);
    return BERTH_OK;
}

static berth_status parse_shard(struct reading *r, uint32_t index, unsigned char *page, berth_error *err)
{
    struct os_file *file = &r->o->out->files[index];
    struct shard *shard = &r->shards[index];
    (void)page;
    return at_file(safetensors_parse(shard->header, shard->header_bytes, file->size_bytes, index, shard->tensors,
                                     shard->most, &shard->count, err),
                   file, err);
}

/* ---- side by side ----------------------------------------------------------------------------------- */

static void work(void *arg)
{
    struct worker *worker = arg;
    struct reading *r = worker->reading;
    while (!atomic_load_explicit(&r->stop, memory_order_relaxed)) {
        uint32_t index = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
        if (index >= r->o->out->files_count) {
            return;
        }
        worker->status = r->step(r, index, worker->page, &worker->err);
        if (worker->status != BERTH_OK) {
            worker->failed_at = index;
            atomic_store_explicit(&r->stop, true, memory_order_relaxed);
            return;
        }
    }
}

/* Shards are taken in order and each one taken is done, so the first that fails is always among those that were. */
static berth_status first_failure(const struct worker *workers, uint32_t count, berth_error *err)
{
    const struct worker *first = &workers[0];
    for (uint32_t i = 1; i < count; i++) {
        first = workers[i].failed_at < first->failed_at ? &workers[i] : first;
    }
    if (first->failed_at != UINT32_MAX && err != NULL) {
        *err = first->err;
    }
    return first->failed_at == UINT32_MAX ? BERTH_OK : first->status;
}

/* Does a step for every shard. What it takes from the arena is given back. */
static berth_status each_shard(struct reading *r, shard_fn *step, berth_error *err)
{
    struct arena *arena = r->o->scratch;
    uint64_t mark = arena_mark(arena);
    uint32_t threads = r->o->out->files_count / SHARDS_A_THREAD;
    /* Injected faults count reads: in order. */
    threads = threads < 1 || r->o->hooks != NULL ? 1 : threads < SHARD_THREADS ? threads : SHARD_THREADS;
    struct worker *workers = ARENA_NEW(arena, struct worker, threads);
    unsigned char *pages = arena_take(arena, threads, OS_DIRECT_ALIGN, OS_DIRECT_ALIGN);
    unsigned char *stacks = arena_take(arena, threads - 1, OS_STACK_BYTES, OS_DIRECT_ALIGN);
    (void)arena_take(arena, threads - 1, THREAD_BYTES, 0);
    TRY(arena_check(arena, "the threads that read headers", err));
    r->step = step;
    atomic_store(&r->next, 0);
    atomic_store(&r->stop, false);
    for (uint32_t i = 0; i < threads; i++) {
        workers[i].reading = r;
        workers[i].page = pages + (size_t)i * OS_DIRECT_ALIGN;
        workers[i].failed_at = UINT32_MAX;
        workers[i].status = BERTH_OK;
        workers[i].thread.running = false;
    }
    for (uint32_t i = 1; i < threads; i++) { /* with fewer threads than wanted it takes longer */
        (void)os_thread_start(&workers[i].thread, stacks + (size_t)(i - 1) * OS_STACK_BYTES, work, &workers[i], NULL);
    }
    work(&workers[0]);
    for (uint32_t i = 1; i < threads; i++) {
        os_thread_join(&workers[i].thread);
    }
    berth_status status = first_failure(workers, threads, err);
    arena_rewind(arena, mark);
    return status;
}

/* ---- places ----------------------------------------------------------------------------------------- */

/* What has been taken since the mark. Threads that fault the same page at the same time would each be charged for one:
 * os/memory.h. */
static void map_in(const struct arena *arena, uint64_t mark)
{
    uint64_t from = mark & ~(uint64_t)(OS_PAGE_BYTES - 1);
    os_populate(arena->base + from, arena->used_bytes - from);
}

static berth_status place_headers(struct reading *r, berth_error *err)
{
    struct checkpoint *out = r->o->out;
    uint64_t mark = arena_mark(r->o->scratch);
    for (uint32_t i = 0; i < out->files_count; i++) {
        struct shard *shard = &r->shards[i];
        uint64_t pages = (shard->header_bytes + (OS_DIRECT_ALIGN - 1)) / OS_DIRECT_ALIGN;
        shard->header = arena_take(r->o->scratch, pages, OS_DIRECT_ALIGN, OS_DIRECT_ALIGN);
        TRY(at_file(arena_check(r->o->scratch, "reading the file's header", err), &out->files[i], err));
        out->header_bytes += pages * OS_DIRECT_ALIGN;
    }
    map_in(r->o->scratch, mark);
    return BERTH_OK;
}

static berth_status place_tensors(struct reading *r, berth_error *err)
{
    struct arena *arena = r->o->scratch;
    uint64_t mark = arena_mark(arena);
    (void)arena_take(arena, 0, 1, 0);
    for (uint32_t i = 0; i < r->o->out->files_count; i++) {
        struct shard *shard = &r->shards[i];
        shard->tensors = arena_take(arena, shard->most, sizeof(struct tensor), _Alignof(struct tensor));
        TRY(at_file(arena_check(arena, "the tensor directory", err), &r->o->out->files[i], err));
    }
    map_in(arena, mark);
    return BERTH_OK;
}

/* Closes the gaps that headers with fewer tensors than braces have left. */
static berth_status join_tensors(struct reading *r, uint64_t mark, uint32_t *count, berth_error *err)
{
    struct arena *arena = r->o->scratch;
    struct tensor *tensors = r->shards[0].tensors;
    *count = 0;
    for (uint32_t i = 0; i < r->o->out->files_count; i++) {
        const struct shard *shard = &r->shards[i];
        if (shard->count > TENSORS_MAX - *count) {
            return at_file(error_set(err, BERTH_ERR_LIMIT, "more than %d tensors", TENSORS_MAX), &r->o->out->files[i],
                           err);
        }
        if (shard->tensors != tensors + *count) {
            memmove(tensors + *count, shard->tensors, shard->count * sizeof *tensors);
        }
        *count += shard->count;
    }
    arena_rewind(arena, mark);
    (void)arena_take(arena, *count, sizeof *tensors, 0);
    return arena_check(arena, "the tensor directory", err);
}

static berth_status build_tensors(struct reading *r, struct tensor *tensors, uint32_t count, berth_error *err)
{
    struct checkpoint *out = r->o->out;
    struct tensor_file *places = ARENA_NEW(r->o->scratch, struct tensor_file, out->files_count);
    TRY(arena_check(r->o->scratch, "the tensor directory", err));
    for (uint32_t i = 0; i < out->files_count; i++) {
        const struct os_file *file = &out->files[i];
        places[i] = (struct tensor_file){file->path, r->shards[i].header_bytes, file->size_bytes, true};
    }
    return tensor_dir_build(&out->tensors, tensors, count, places, out->files_count, r->o->scratch, err);
}

berth_status checkpoint_read_shards(struct opening *o, const char *directory, const struct str *names, uint32_t count,
                                    berth_error *err)
{
    uint32_t tensors = 0;
    struct reading r = {.o = o, .directory = directory, .names = names};
    TRY(checkpoint_take_files(o, count, err));
    r.shards = ARENA_NEW(o->scratch, struct shard, count);
    TRY(arena_check(o->scratch, "the shard table", err));
    TRY(each_shard(&r, open_shard, err));
    TRY(place_headers(&r, err));
    TRY(each_shard(&r, read_shard, err));
    uint64_t mark = arena_mark(o->scratch);
    TRY(place_tensors(&r, err));
    TRY(each_shard(&r, parse_shard, err));
    TRY(join_tensors(&r, mark, &tensors, err));
    return build_tensors(&r, r.shards[0].tensors, tensors, err);
}
