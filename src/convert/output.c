/* SPDX-License-Identifier: MIT
 * On failure nothing is left behind: data goes to temporary files, which are renamed only after all of them are
 * complete and on the disk. */
#include "convert/output.h"

#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "compute/kernels.h"
#include "os/cpu.h"

enum { THREADS_MAX = 64, META_HEAD_BYTES = 64 * 1024 };

/* "F32, F16, ... or Q8_0" */
static void list_recipes(char *out, size_t cap)
{
    size_t at = 0;
    for (uint32_t i = 0; convert_recipe_row(i) != NULL && at + 16 < cap; i++) {
        at += (size_t)snprintf(out + at, cap - at, "%s%s", i > 0 ? ", " : "", convert_recipe_row(i)->name);
    }
}

berth_status convert_unknown_type(const char *name, berth_error *err)
{
    char list[256];
    list_recipes(list, sizeof list);
    return error_set(err, BERTH_ERR_ARGUMENT, "'%.40s' is not a type convert writes; want one of %s", name, list);
}

berth_status convert_check_config(const struct convert_config *config, const struct convert_recipe **recipe,
                                  berth_error *err)
{
    uint32_t alignment = config->alignment;
    *recipe = config->recipe != NULL ? config->recipe : convert_recipe_plain(config->type);
    if (*recipe == NULL) {
        return convert_unknown_type((unsigned)config->type < DTYPE_COUNT ? quant_row(config->type)->name : "?", err);
    }
    TRY(convert_check_overrides(config->overrides, err));
    if (alignment != 0 &&
        (alignment < GGUF_ALIGNMENT_DEFAULT || alignment > GGUF_ALIGNMENT_MAX || (alignment & (alignment - 1)) != 0)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "alignment %u: must be a power of two from %d to %d", alignment,
                         GGUF_ALIGNMENT_DEFAULT, GGUF_ALIGNMENT_MAX);
    }
    if (config->buffer_bytes != 0 && config->buffer_bytes < STREAM_BUFFER_MIN_BYTES) {
        return error_set(err, BERTH_ERR_ARGUMENT, "a buffer of %llu bytes is too small; at least %d are needed",
                         (unsigned long long)config->buffer_bytes, STREAM_BUFFER_MIN_BYTES);
    }
    return BERTH_OK;
}

berth_status convert_reserve_scratch(struct arena *scratch, berth_error *err)
{
    /* The largest known headers need well under 1 GiB. Smaller sizes serve where address space is limited. */
    static const uint64_t sizes[] = {(uint64_t)8 << 30, (uint64_t)2 << 30, (uint64_t)512 << 20};
    void *base = NULL;
    berth_status status = BERTH_ERR_MEMORY;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0] && status != BERTH_OK; i++) {
        status = os_reserve(NULL, sizes[i], false, &base, err);
        if (status == BERTH_OK) {
            arena_carve(scratch, base, sizes[i]);
        }
    }
    return status;
}

berth_status convert_take_meta(struct arena *scratch, uint64_t cap_bytes, struct gguf_meta *meta, berth_error *err)
{
    *meta = (struct gguf_meta){.bytes.cap_bytes = cap_bytes};
    meta->bytes.ptr = arena_take(scratch, 1, cap_bytes, 0);
    return arena_check(scratch, "convert: metadata", err);
}

static void put_family_meta(struct gguf_meta *meta, const struct family_meta *row)
{
    if (row->type == META_F32) {
        gguf_meta_f32(meta, row->key, row->f32);
    } else if (row->type == META_BOOL) {
        gguf_meta_bool(meta, row->key, row->u32 != 0);
    } else if (row->type == META_STRING) {
        gguf_meta_str(meta, row->key, str_from(row->text));
    } else {
        gguf_meta_u32(meta, row->key, row->u32);
    }
}

berth_status convert_general_meta(const struct convert_model *model, const char *name,
                                  const struct convert_recipe *recipe, struct arena *scratch, struct gguf_meta *meta,
                                  berth_error *err)
{
    struct family_meta *rows = ARENA_NEW(scratch, struct family_meta, FAMILY_META_MAX);
    TRY(arena_check(scratch, "convert: metadata", err));
    gguf_meta_str(meta, "general.architecture", str_from(model->family->gguf_arch));
    gguf_meta_str(meta, "general.type", STR("model"));
    gguf_meta_str(meta, "general.name", str_from(name));
    gguf_meta_u32(meta, "general.file_type", recipe->file_type);
    if (quant_row(recipe->base)->block_elems > 1) {
        gguf_meta_u32(meta, "general.quantization_version", 2);
    }
    uint32_t count = family_to_meta(model->family, model->hparams, rows);
    for (uint32_t i = 0; i < count; i++) {
        put_family_meta(meta, &rows[i]);
    }
    return BERTH_OK;
}

/* ---- destination -------------------------------------------------------------------------------------- */

static berth_status check_destination(const struct convert_output *output, uint32_t parts, berth_error *err)
{
    if (output->path[0] == '\0') {
        return error_set(err, BERTH_ERR_ARGUMENT, "the output has no name");
    }
    for (uint32_t part = 0; part < parts; part++) {
        char path[512];
        bool directory = false;
        uint64_t bytes = 0;
        TRY(gguf_part_path(output->path, part, parts, path, sizeof path, err));
        berth_status status = os_path_info(path, &directory, &bytes, err);
        if (status == BERTH_ERR_NOT_FOUND) {
            continue;
        }
        TRY(status);
        if (directory || !output->overwrite) {
            error_set(err, BERTH_ERR_IO,
                      directory ? "the output is a directory; name a file"
                                : "the output exists already; remove it, or ask to overwrite it");
            error_at_path(err, path);
            return BERTH_ERR_IO;
        }
    }
    return BERTH_OK;
}

/* ---- what earlier conversions to the same name have left ---------------------------------------------- */

struct leftovers {
    const struct convert_output *output;
    const char *stem;                  /* base name without .gguf */
    uint64_t stem_bytes, folder_bytes; /* folder: of the path, with its slash */
    uint32_t parts;                    /* just written; 0: nothing yet, temporary files alone */
};

/* Digits at least five long at *at. */
static bool take_index(const char **at, uint32_t *out)
{
    uint32_t value = 0;
    const char *first = *at;
    for (; **at >= '0' && **at <= '9' && *at - first < 8; ++*at) {
        value = value * 10 + (uint32_t)(**at - '0');
    }
    *out = value;
    return *at - first >= 5;
}

/* "STEM-00002-of-00005.gguf" and what follows it; NULL: another name. */
static const char *after_part(const struct leftovers *left, const char *name, uint32_t *count)
{
    uint32_t part = 0;
    const char *at = name + left->stem_bytes;
    if (strncmp(name, left->stem, left->stem_bytes) != 0 || *at++ != '-' || !take_index(&at, &part) ||
        strncmp(at, "-of-", 4) != 0) {
        return NULL;
    }
    at += 4;
    bool whole = take_index(&at, count) && part >= 1 && part <= *count && strncmp(at, ".gguf", 5) == 0;
    return whole ? at + 5 : NULL;
}

static bool is_input(const struct convert_output *output, const char *path)
{
    const struct checkpoint *from = output->checkpoint;
    for (uint32_t i = 0; from != NULL && i < from->files_count; i++) {
        if (os_path_is(path, &from->files[i])) {
            return true;
        }
    }
    return false;
}

/* Parts of a set with another count are of the model that was replaced; those that were read stay. */
static bool clear_one(void *user, const char *name)
{
    const struct leftovers *left = user;
    char path[512];
    uint32_t count = 0;
    const char *rest = after_part(left, name, &count);
    if (rest == NULL) {
        return true;
    }
    int bytes =
        snprintf(path, sizeof path, "%.*s%.*s", (int)left->folder_bytes, left->output->path, (int)(rest - name), name);
    if (bytes < 0 || (size_t)bytes >= sizeof path) {
        return true;
    }
    if (left->parts == 0) {
        if (*rest != '\0') {
            os_writer_sweep(path);
        }
    } else if (*rest == '\0' && count != left->parts && !is_input(left->output, path)) {
        os_path_remove(path);
    }
    return true;
}

static void clear_leftovers(const struct convert_output *output, uint32_t parts)
{
    char folder[512];
    struct str name = str_from(output->path);
    if (parts == 0) {
        os_writer_sweep(output->path);
    }
    struct leftovers left = {.output = output, .parts = parts};
    while (name.bytes > 0 && name.ptr[name.bytes - 1] != '/') {
        name.bytes--;
    }
    left.folder_bytes = name.bytes;
    left.stem = output->path + name.bytes;
    left.stem_bytes = strlen(left.stem);
    left.stem_bytes -= str_ends(str_from(left.stem), STR(".gguf")) ? 5 : 0;
    int bytes = snprintf(folder, sizeof folder, "%.*s", (int)name.bytes, name.bytes > 0 ? output->path : "./");
    if (name.bytes == 0) {
        bytes = snprintf(folder, sizeof folder, "./");
    }
    if (left.stem_bytes > 0 && bytes > 0 && (size_t)bytes < sizeof folder) {
        (void)os_directory_each(folder, clear_one, &left, NULL); /* a convenience: what stays is named clearly */
    }
}

/* ---- warnings ----------------------------------------------------------------------------------------- */

static bool plan_has(const struct convert_plan *plan, struct str part)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        if (convert_override_fits(part, plan->tensors[i].name)) {
            return true;
        }
    }
    return false;
}

static void warn(const struct convert_output *output)
{
    const struct convert_plan *plan = output->plan;
    const struct log_sink *log = &output->config->log;
    if (plan->fallbacks > 0) {
        log_write(log, BERTH_LOG_WARN,
                  "%u %s written in another format: no block of the wanted one divides the rows (%s as %s%s)",
                  plan->fallbacks, plan->fallbacks == 1 ? "matrix is" : "matrices are", plan->fallback_at,
                  plan->fallback_type, plan->fallbacks == 1 ? "" : ", ...");
    }
    const char *overrides = output->config->overrides;
    struct str part;
    while (convert_override_part(&overrides, &part)) {
        if (!plan_has(plan, part)) {
            log_write(log, BERTH_LOG_WARN, "no tensor of the result has \"%.*s\" in its name (its names are GGUF's)",
                      STR_ARG(part));
        }
    }
}

/* ---- writing ------------------------------------------------------------------------------------------ */

/* Bytes of the largest header: metadata and all tensor infos, whatever part they fall into. */
static uint64_t head_bytes(const struct convert_output *output)
{
    uint64_t bytes = output->meta->bytes.used_bytes + META_HEAD_BYTES;
    for (uint32_t i = 0; i < output->plan->count; i++) {
        bytes += output->plan->tensors[i].name.bytes + 24 + sizeof(uint64_t) * TENSOR_DIMS_MAX;
    }
    return bytes;
}

static berth_status open_writer(const struct convert_output *output, uint32_t parts, uint32_t alignment,
                                struct gguf_writer *writer, berth_error *err)
{
    struct gguf_bytes head = {.cap_bytes = head_bytes(output)};
    head.ptr = arena_take(output->scratch, 1, head.cap_bytes, 0);
    struct gguf_writer_config config = {.path = output->path,
                                        .tensors = output->plan->tensors,
                                        .tensors_count = output->plan->count,
                                        .parts = parts,
                                        .alignment = alignment,
                                        .meta = output->meta,
                                        .head = &head};
    config.writers = ARENA_NEW(output->scratch, struct os_writer, parts);
    config.buffers = arena_take(output->scratch, parts, GGUF_WRITER_BUFFER_BYTES, 0);
    TRY(arena_check(output->scratch, "convert: headers", err));
    return gguf_writer_open(writer, &config, err);
}

static berth_status stream_plan(const struct convert_output *output, struct gguf_writer *writer,
                                const struct stream_memory *memory, berth_error *err)
{
    const struct stream_job job = {.plan = output->plan,
                                   .model = output->model,
                                   .checkpoint = output->checkpoint,
                                   .draw = output->draw,
                                   .draw_user = output->draw_user,
                                   .writer = writer,
                                   .config = output->config};
    TRY(stream_run(&job, memory, err));
    return gguf_writer_finish(writer, err);
}

static uint32_t thread_count(const struct convert_config *config)
{
    uint32_t threads = config->threads == 0 ? os_cpu_count() : config->threads;
    return threads < THREADS_MAX ? threads : THREADS_MAX;
}

berth_status convert_write(const struct convert_output *output, berth_error *err)
{
    const struct convert_config *config = output->config;
    uint32_t alignment = config->alignment == 0 ? GGUF_ALIGNMENT_DEFAULT : config->alignment;
    uint64_t buffer_bytes = config->buffer_bytes == 0 ? STREAM_BUFFER_DEFAULT_BYTES : config->buffer_bytes;
    uint32_t threads = thread_count(config);
    uint32_t parts = 0;
    if (output->meta->bytes.failed) {
        return error_set(err, BERTH_ERR_LIMIT, "the metadata needs more than the %llu bytes set aside for it",
                         (unsigned long long)output->meta->bytes.cap_bytes);
    }
    TRY(gguf_place(output->plan->tensors, output->plan->count, alignment, config->split_bytes, &parts, err));
    TRY(check_destination(output, parts, err));
    clear_leftovers(output, 0);
    warn(output);
    struct arena work;
    struct stream_memory memory;
    arena_measure(&work);
    TRY(stream_layout(&work, buffer_bytes, threads, &memory, err));
    uint64_t work_bytes = work.used_bytes;
    void *base = NULL;
    TRY(os_reserve(NULL, work_bytes, false, &base, err));
    arena_carve(&work, base, work_bytes);
    struct gguf_writer writer = {.opened = 0};
    berth_status status = stream_layout(&work, buffer_bytes, threads, &memory, err);
    if (status == BERTH_OK) {
        status = open_writer(output, parts, alignment, &writer, err);
    }
    if (status == BERTH_OK) {
        status = stream_plan(output, &writer, &memory, err);
    }
    if (status == BERTH_OK && parts > 1 && output->overwrite) {
        clear_leftovers(output, parts);
    }
    gguf_writer_abandon(&writer);
    os_release(base, work_bytes);
    return status;
}
