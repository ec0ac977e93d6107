/* SPDX-License-Identifier: MIT
 *
 * Three stages over a ring of slots. Chunk n lives in slot n mod STREAM_SLOTS; each stage counts the chunks that it has
 * finished, waits for the stage before it, and the reader also for the writer, so that a slot is free before it is
 * filled again. The caller's thread is the middle stage: it owns the pool and the progress callback. The first failure
 * of any stage stops all of them.
 */
#include "convert/stream.h"

#include <stdatomic.h>
#include <stdio.h>

#include "base/checked.h"
#include "compute/kernels.h"
#include "convert/transform.h"
#include "model/layouts.h"

/* Consecutive rows of one source tensor, or of a tensor without one. */
struct chunk {
    uint32_t item;
    const struct tensor *source; /* NULL: computed or drawn */
    uint64_t source_row;         /* first row, within the source */
    uint64_t source_rows;        /* stored rows: `rows`, or more where others lie between them */
    uint64_t row, rows;          /* within the output tensor */
    unsigned char *in;           /* where row source_row lies in the slot */
    unsigned char *side[2];      /* the same of its scales and biases; NULL: none */
    unsigned char *out;          /* converted rows; `in` itself when nothing changes */
    uint64_t out_bytes;
};

struct cursor {
    uint32_t item;
    uint64_t row; /* next, within the output tensor */
};

struct stream {
    const struct stream_job *job;
    const struct stream_memory *memory;
    struct chunk chunks[STREAM_SLOTS];
    struct cursor cursor;
    struct os_mutex mutex; /* guards everything below */
    struct os_cond moved;
    uint64_t read, made, put; /* chunks that left each stage */
    uint64_t end;             /* number of chunks, once the reader knows; UINT64_MAX before */
    bool stop;
    berth_status status;
    berth_error error;
};

berth_status stream_layout(struct arena *arena, uint64_t buffer_bytes, uint32_t threads, struct stream_memory *out,
                           berth_error *err)
{
    *out = (struct stream_memory){0};
    uint64_t slot = buffer_bytes / STREAM_SLOTS & ~(uint64_t)(OS_DIRECT_ALIGN - 1);
    out->slot_bytes = slot < STREAM_SLOT_MAX_BYTES ? slot : STREAM_SLOT_MAX_BYTES;
    for (uint32_t i = 0; i < STREAM_SLOTS; i++) {
        out->slots[i] = arena_take(arena, 1, out->slot_bytes, OS_DIRECT_ALIGN);
    }
    for (uint32_t i = 0; i < 2; i++) {
        out->stacks[i] = arena_take(arena, 1, OS_STACK_BYTES, OS_PAGE_BYTES);
    }
    TRY(pool_layout(arena, arena, threads, &out->pool, err));
    return arena_check(arena, "convert: buffers", err);
}

/* ---- stages in common --------------------------------------------------------------------------------- */

static void stream_fail(struct stream *s, const berth_error *error)
{
    os_mutex_lock(&s->mutex);
    if (s->status == BERTH_OK) {
        s->status = error->status;
        s->error = *error;
    }
    s->stop = true;
    os_cond_broadcast(&s->moved);
    os_mutex_unlock(&s->mutex);
}

/* Waits until stage counter `before` has passed chunk n. False: there is no chunk n, or the stream stops. */
static bool wait_for(struct stream *s, const uint64_t *before, uint64_t n)
{
    os_mutex_lock(&s->mutex);
    while (!s->stop && *before <= n && n < s->end) {
        os_cond_wait(&s->moved, &s->mutex);
    }
    bool go = !s->stop && n < s->end;
    os_mutex_unlock(&s->mutex);
    return go;
}

static void advance(struct stream *s, uint64_t *counter)
{
    os_mutex_lock(&s->mutex);
    *counter += 1;
    os_cond_broadcast(&s->moved);
    os_mutex_unlock(&s->mutex);
}

/* ---- reading ------------------------------------------------------------------------------------------ */

/* The source that holds output row `row`, and how many rows lie before the first of that source. */
static berth_status find_source(const struct stream *s, const struct convert_item *item, uint64_t row,
                                const struct tensor **source, uint64_t *rows_before, uint64_t *rows, berth_error *err)
{
    *source = item->source == SOURCE_TENSOR ? item->tensor : NULL;
    *rows_before = 0;
    *rows = item->rows;
    if (item->source != SOURCE_EXPERTS) {
        return BERTH_OK;
    }
    const struct convert_model *model = s->job->model;
    *rows = item->rows / model->hparams->experts;
    uint32_t expert = (uint32_t)(row / *rows);
    *rows_before = expert * *rows;
    return family_tensor(model->family, model->checkpoint, model->hparams, item->role, item->layer, expert, source,
                         err);
}

/* The tensors beside a chunk's source; NULL: none. */
static const struct tensor *side_tensor(const struct chunk *chunk, int which)
{
    const struct tensor_side *side = chunk->source == NULL ? NULL : chunk->source->side;
    const struct tensor *tensor = side == NULL ? NULL : which == 0 ? &side->scales : &side->biases;
    return tensor == NULL || tensor->bytes == 0 ? NULL : tensor;
}

/* One row of scales. */
static uint64_t side_row_bytes(const struct tensor *tensor)
{
    return tensor->dims[tensor->dims_count - 1] * quant_row(tensor->dtype)->block_bytes;
}

/* Where the chunk's rows of a side tensor begin in its file, and their bytes. */
static uint64_t side_begin(const struct chunk *chunk, const struct tensor *tensor, uint64_t *bytes)
{
    uint64_t tile = chunk->source == NULL ? 1 : chunk->source->side->format.tile_rows;
    uint64_t first = chunk->source_row / tile;
    uint64_t last = (chunk->source_row + chunk->source_rows - 1) / tile;
    *bytes = (last - first + 1) * side_row_bytes(tensor);
    return tensor->offset + first * side_row_bytes(tensor);
}

/* Rows of a chunk that fit a slot: the source's rows and what lies beside them, each with both ends rounded to direct
 * reads, then the result's. A chunk may touch one row of scales more than it has rows. */
static berth_status chunk_rows(const struct stream *s, const struct chunk *chunk, uint64_t in_row, uint64_t out_row,
                               uint64_t *rows, berth_error *err)
{
    const struct convert_item *item = &s->job->plan->items[chunk->item];
    uint64_t unit = item->permute == 0 ? 1 : item->permute;
    uint64_t step = item->row_step == 0 ? 1 : item->row_step;
    uint64_t row_bytes;
    uint64_t room = s->memory->slot_bytes - 3 * (uint64_t)OS_DIRECT_ALIGN;
    for (int which = 0; which < 2; which++) {
        const struct tensor *side = side_tensor(chunk, which);
        uint64_t bytes = side == NULL ? 0 : side_row_bytes(side);
        uint64_t extra = side == NULL ? 0 : bytes + 2 * (uint64_t)OS_DIRECT_ALIGN;
        room = room > extra ? room - extra : 0;
        in_row = u64_add_overflows(in_row, bytes, &in_row) ? UINT64_MAX : in_row;
    }
    if (u64_mul_overflows(in_row, step, &in_row) || u64_add_overflows(in_row, out_row, &row_bytes) ||
        row_bytes > room / unit) {
        const struct gguf_tensor *tensor = &s->job->plan->tensors[chunk->item];
        error_set(err, BERTH_ERR_LIMIT, "%llu rows of this tensor do not fit a buffer of %llu bytes; allow more memory",
                  (unsigned long long)unit, (unsigned long long)s->memory->slot_bytes);
        error_at_object(err, tensor->name.ptr, tensor->name.bytes);
        return BERTH_ERR_LIMIT;
    }
    uint64_t fit = row_bytes == 0 ? *rows : room / row_bytes;
    fit = fit < (uint64_t)1 << 30 ? fit : (uint64_t)1 << 30; /* the pool counts in 32 bits */
    fit -= fit % unit;
    *rows = fit < *rows ? fit : *rows;
    return BERTH_OK;
}

/* Cuts the next chunk and says where in the slot it goes. *more false: no chunk is left. */
static berth_status next_chunk(struct stream *s, unsigned char *slot, struct chunk *out, bool *more, berth_error *err)
{
    const struct convert_plan *plan = s->job->plan;
    struct cursor *cursor = &s->cursor;
    while (cursor->item < plan->count &&
           (cursor->row == plan->items[cursor->item].rows || plan->tensors[cursor->item].bytes == 0)) {
        *cursor = (struct cursor){.item = cursor->item + 1};
    }
    *more = cursor->item < plan->count;
    if (!*more) {
        return BERTH_OK;
    }
    const struct convert_item *item = &plan->items[cursor->item];
    const struct gguf_tensor *target = &plan->tensors[cursor->item];
    struct chunk chunk = {.item = cursor->item, .row = cursor->row};
    uint64_t before;
    uint64_t source_rows;
    TRY(find_source(s, item, cursor->row, &chunk.source, &before, &source_rows, err));
    const uint64_t step = item->row_step == 0 ? 1 : item->row_step;
    chunk.source_row = (cursor->row - before) * step;
    chunk.rows = source_rows - (cursor->row - before);
    bool same = chunk.source != NULL && chunk.source->dtype == target->dtype && item->permute == 0 && step == 1;
    uint64_t in_row = 0;
    uint64_t out_row;
    if ((chunk.source != NULL && !quant_row_bytes(chunk.source->dtype, item->k, &in_row)) ||
        !quant_row_bytes(target->dtype, item->k, &out_row)) {
        error_set(err, BERTH_ERR_UNSUPPORTED, "rows of %llu values are not whole blocks", (unsigned long long)item->k);
        error_at_object(err, target->name.ptr, target->name.bytes);
        return BERTH_ERR_UNSUPPORTED;
    }
    TRY(chunk_rows(s, &chunk, in_row, same ? 0 : out_row, &chunk.rows, err));
    chunk.source_rows = chunk.rows * step;
    uint64_t skip = chunk.source == NULL ? 0 : (chunk.source->offset + chunk.source_row * in_row) % OS_DIRECT_ALIGN;
    chunk.in = slot + skip;
    unsigned char *after = slot + size_round_up((size_t)(skip + chunk.source_rows * in_row), OS_DIRECT_ALIGN);
    for (int which = 0; which < 2; which++) {
        const struct tensor *side = side_tensor(&chunk, which);
        if (side != NULL) {
            uint64_t bytes;
            uint64_t side_skip = side_begin(&chunk, side, &bytes) % OS_DIRECT_ALIGN;
            chunk.side[which] = after + side_skip;
            after += size_round_up((size_t)(side_skip + bytes), OS_DIRECT_ALIGN);
        }
    }
    chunk.out = same ? chunk.in : after;
    chunk.out_bytes = chunk.rows * out_row;
    cursor->row += chunk.rows;
    *out = chunk;
    return BERTH_OK;
}

static berth_status read_side(const struct stream *s, const struct chunk *chunk, int which, berth_error *err)
{
    const struct tensor *tensor = side_tensor(chunk, which);
    if (tensor == NULL) {
        return BERTH_OK;
    }
    uint64_t bytes;
    uint64_t begin = side_begin(chunk, tensor, &bytes);
    uint64_t skip = begin % OS_DIRECT_ALIGN;
    berth_status status = os_file_read(&s->job->checkpoint->files[tensor->file], begin - skip, skip + bytes,
                                       chunk->side[which] - skip, err);
    if (status != BERTH_OK) {
        error_at_object(err, tensor->name.ptr, tensor->name.bytes);
    }
    return status;
}

static berth_status read_chunk(const struct stream *s, const struct chunk *chunk, berth_error *err)
{
    if (chunk->source == NULL) {
        return BERTH_OK;
    }
    uint64_t in_row;
    bool whole = quant_row_bytes(chunk->source->dtype, s->job->plan->items[chunk->item].k, &in_row);
    uint64_t begin = chunk->source->offset + chunk->source_row * in_row;
    uint64_t skip = begin % OS_DIRECT_ALIGN;
    berth_status status = !whole ? BERTH_ERR_INTERNAL
                                 : os_file_read(&s->job->checkpoint->files[chunk->source->file], begin - skip,
                                                skip + chunk->source_rows * in_row, chunk->in - skip, err);
    if (status == BERTH_OK) {
        status = os_file_unchanged(&s->job->checkpoint->files[chunk->source->file], err);
    }
    if (status != BERTH_OK) {
        error_at_object(err, chunk->source->name.ptr, chunk->source->name.bytes);
    }
    return status;
}

static void reader_main(void *arg)
{
    struct stream *s = arg;
    berth_error error;
    for (uint64_t n = 0;; n++) {
        /* A slot is free once the writer is done with the chunk that was in it. */
        if (n >= STREAM_SLOTS && !wait_for(s, &s->put, n - STREAM_SLOTS)) {
            return;
        }
        struct chunk *chunk = &s->chunks[n % STREAM_SLOTS];
        bool more = false;
        if (next_chunk(s, s->memory->slots[n % STREAM_SLOTS], chunk, &more, &error) != BERTH_OK ||
            (more && (read_chunk(s, chunk, &error) != BERTH_OK || read_side(s, chunk, 0, &error) != BERTH_OK ||
                      read_side(s, chunk, 1, &error) != BERTH_OK))) {
            stream_fail(s, &error);
            return;
        }
        if (!more) {
            os_mutex_lock(&s->mutex);
            s->end = n;
            os_cond_broadcast(&s->moved);
            os_mutex_unlock(&s->mutex);
            return;
        }
        advance(s, &s->read);
    }
}

/* ---- converting --------------------------------------------------------------------------------------- */

struct make {
    struct transform transform;
    const struct stream_job *job;
    const struct chunk *chunk; /* drawn when it has no source */
    atomic_bool bad;
};

static void make_rows(void *ctx, uint32_t begin, uint32_t end, uint32_t worker)
{
    struct make *make = ctx;
    const struct chunk *chunk = make->chunk;
    (void)worker;
    if (chunk->source == NULL) {
        uint64_t row_bytes = chunk->out_bytes / chunk->rows;
        make->job->draw(make->job->draw_user, chunk->item, chunk->row + begin, end - begin,
                        chunk->out + begin * row_bytes);
    } else if (!transform_rows(&make->transform, begin, end)) {
        atomic_store(&make->bad, true);
    }
}

static berth_status unreadable(const struct chunk *chunk, berth_error *err)
{
    const struct tensor *source = chunk->source;
    const char *companion = layouts_companion(source->dtype);
    if (companion != NULL) {
        error_set(err, BERTH_ERR_FORMAT, "the tensor is stored as %s, but there is no %s beside it",
                  quant_row(source->dtype)->name, companion);
        error_at_object(err, source->name.ptr, source->name.bytes);
        return BERTH_ERR_FORMAT;
    }
    error_set(err, BERTH_ERR_UNSUPPORTED, "values of type %s cannot be converted; it can only be kept as it is",
              quant_row(source->dtype)->name);
    error_at_object(err, source->name.ptr, source->name.bytes);
    return BERTH_ERR_UNSUPPORTED;
}

static berth_status make_chunk(struct stream *s, const struct chunk *chunk, berth_error *err)
{
    const struct convert_item *item = &s->job->plan->items[chunk->item];
    const struct gguf_tensor *target = &s->job->plan->tensors[chunk->item];
    if (item->source == SOURCE_ROPE_FACTORS) {
        const struct rope_maths maths = {.power = math_pow, .logarithm = math_log};
        family_rope_factors(s->job->model->hparams, &maths, (float *)(void *)chunk->out);
        return BERTH_OK;
    }
    if (chunk->in == chunk->out && chunk->source != NULL) {
        return BERTH_OK;
    }
    struct make make = {.job = s->job, .chunk = chunk};
    if (chunk->source != NULL) {
        make.transform = (struct transform){.in = chunk->in,
                                            .out = chunk->out,
                                            .from = chunk->source->dtype,
                                            .to = target->dtype,
                                            .k = item->k,
                                            .permute = item->permute,
                                            .step = item->row_step,
                                            .first = item->row_first};
        const struct tensor_side *side = chunk->source->side;
        if (side != NULL) {
            make.transform.side = (struct packed_side){.format = side->format,
                                                       .scales = chunk->side[0],
                                                       .biases = chunk->side[1],
                                                       .row_bytes = side_row_bytes(&side->scales)};
            make.transform.side_row = chunk->source_row % side->format.tile_rows;
        } else if (make.transform.from != make.transform.to && quant_row(make.transform.from)->dequantise == NULL) {
            return unreadable(chunk, err);
        }
    }
    const uint64_t grain_elems = 32768;
    uint32_t grain = item->k >= grain_elems ? 1 : (uint32_t)(grain_elems / item->k);
    pool_for(s->memory->pool, (uint32_t)chunk->rows, grain, make_rows, &make);
    if (atomic_load(&make.bad)) {
        bool halves = quant_row(target->dtype)->halves > 0;
        bool brain = target->dtype == DTYPE_BF16;
        error_set(err, BERTH_ERR_FORMAT, "a value of this tensor is not finite%s%s%s",
                  halves || brain ? ", or too large for " : "", halves || brain ? quant_row(target->dtype)->name : "",
                  halves  ? " (F16 numbers end at 65504); use BF16 or F32"
                  : brain ? " (it ends at 3.3895e38); use F32"
                          : "");
        error_at_object(err, target->name.ptr, target->name.bytes);
        return BERTH_ERR_FORMAT;
    }
    return BERTH_OK;
}

static berth_status report(struct stream *s, const struct chunk *chunk, uint64_t done, berth_error *err)
{
    const struct convert_config *config = s->job->config;
    if (config->progress == NULL || config->progress(config->progress_user, s->job->plan->tensors[chunk->item].name.ptr,
                                                     done, s->job->plan->bytes)) {
        return BERTH_OK;
    }
    return error_set(err, BERTH_ERR_CANCELLED, "cancelled after %llu of %llu bytes; nothing was written",
                     (unsigned long long)done, (unsigned long long)s->job->plan->bytes);
}

static void convert_chunks(struct stream *s)
{
    berth_error error;
    uint64_t done = 0;
    for (uint64_t n = 0; wait_for(s, &s->read, n); n++) {
        const struct chunk *chunk = &s->chunks[n % STREAM_SLOTS];
        done += chunk->out_bytes;
        struct chunk reported = *chunk; /* the slot may be the reader's again once it is written */
        if (make_chunk(s, chunk, &error) != BERTH_OK) {
            stream_fail(s, &error);
            return;
        }
        advance(s, &s->made);
        if (report(s, &reported, done, &error) != BERTH_OK) {
            stream_fail(s, &error);
            return;
        }
    }
}

/* ---- writing ------------------------------------------------------------------------------------------ */

static void writer_main(void *arg)
{
    struct stream *s = arg;
    berth_error error;
    for (uint64_t n = 0; wait_for(s, &s->made, n); n++) {
        const struct chunk *chunk = &s->chunks[n % STREAM_SLOTS];
        if (gguf_writer_put(s->job->writer, chunk->out, chunk->out_bytes, &error) != BERTH_OK) {
            stream_fail(s, &error);
            return;
        }
        advance(s, &s->put);
    }
}

static berth_status run_stages(struct stream *s, berth_error *err)
{
    struct os_thread reader = {.running = false};
    struct os_thread writer = {.running = false};
    berth_error error;
    TRY(pool_start(s->memory->pool, err));
    if (os_thread_start(&reader, s->memory->stacks[0], reader_main, s, &error) != BERTH_OK ||
        os_thread_start(&writer, s->memory->stacks[1], writer_main, s, &error) != BERTH_OK) {
        stream_fail(s, &error);
    } else {
        convert_chunks(s);
    }
    if (reader.running) {
        os_thread_join(&reader);
    }
    if (writer.running) {
        os_thread_join(&writer);
    }
    pool_stop(s->memory->pool);
    if (s->status != BERTH_OK && err != NULL) {
        *err = s->error;
    }
    return s->status;
}

berth_status stream_run(const struct stream_job *job, const struct stream_memory *memory, berth_error *err)
{
    struct stream s = {.job = job, .memory = memory, .end = UINT64_MAX};
    os_mutex_init(&s.mutex);
    os_cond_init(&s.moved);
    berth_status status = run_stages(&s, err);
    os_cond_destroy(&s.moved);
    os_mutex_destroy(&s.mutex);
    return status;
}
