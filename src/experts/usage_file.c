/* SPDX-License-Identifier: MIT
 *
 * The ledger's file. Saving in tolerant mode is read, add, write, rename under an advisory lock: what another process
 * saved meanwhile is kept, and a crash at any moment leaves the old file or the new one. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/halve.h"
#include "experts/usage_parts.h"
#include "os/file.h"
#include "os/store.h"

enum { LOCK_WAIT_MS = 20000 };

/* A million experts with their counts have 30 MB. */
static const uint64_t file_bytes_most = 64ull << 20;

uint32_t usage_engine_id(const char *name)
{
    uint32_t hash = 2166136261u;
    for (const char *p = name; *p != '\0'; p++) {
        hash = (hash ^ (unsigned char)*p) * 16777619u;
    }
    return hash;
}

void usage_colibri_decay(uint32_t *counts, uint64_t count, double decay)
{
    for (uint64_t i = 0; i < count; i++) {
        double kept = floor((double)counts[i] * decay + 0.5);
        counts[i] = kept >= (double)UINT32_MAX ? UINT32_MAX : (uint32_t)kept;
    }
}

bool usage_default_path(const char *model_path, bool is_directory, const char *state_dir, char *out, size_t cap)
{
    size_t bytes = strlen(model_path);
    while (bytes > 1 && model_path[bytes - 1] == '/') {
        bytes--;
    }
    int wrote = 0;
    if (state_dir == NULL) {
        wrote = snprintf(out, cap, is_directory ? "%.*s/.coli_usage" : "%.*s.coli_usage", (int)bytes, model_path);
    } else {
        size_t base = bytes;
        while (base > 0 && model_path[base - 1] != '/') {
            base--;
        }
        uint64_t hash = hash_bytes(HASH_SEED, model_path, bytes);
        wrote = snprintf(out, cap, "%s/%.*s-%016llx.coli_usage", state_dir, (int)(bytes - base), model_path + base,
                         (unsigned long long)hash);
    }
    return wrote > 0 && (size_t)wrote < cap;
}

/* ---- reading ---------------------------------------------------------------------------------------- */

static berth_status feed_file(struct usage_reader *reader, const char *path, char *buffer, berth_error *err)
{
    struct os_file file;
    TRY(os_file_open(&file, path, false, NULL, err));
    berth_status status = BERTH_OK;
    if (file.size_bytes > file_bytes_most) {
        status = error_set(err, BERTH_ERR_LIMIT, "no usage ledger: %llu bytes, wanted %llu or less",
                           (unsigned long long)file.size_bytes, (unsigned long long)file_bytes_most);
        error_at_path(err, path);
    }
    for (uint64_t at = 0; at < file.size_bytes && status == BERTH_OK; at += USAGE_BUFFER_BYTES) {
        uint64_t left = file.size_bytes - at;
        uint64_t bytes = left < USAGE_BUFFER_BYTES ? left : (uint64_t)USAGE_BUFFER_BYTES;
        status = os_file_read(&file, at, bytes, buffer, err);
        if (status == BERTH_OK) {
            usage_reader_feed(reader, buffer, (size_t)bytes);
        }
    }
    os_file_close(&file);
    usage_reader_end(reader);
    return status;
}

/* Feeds the file through usage->reader into counts[]. */
static berth_status read_file(struct usage *usage, const char *path, uint32_t *counts, bool check, berth_error *err)
{
    usage_reader_begin(usage->reader, usage, counts, check);
    return feed_file(usage->reader, path, usage->buffer, err);
}

berth_status usage_scan(struct arena *scratch, const char *path, struct usage_shape *out, berth_error *err)
{
    uint64_t mark = arena_mark(scratch);
    struct usage_reader *reader = ARENA_NEW(scratch, struct usage_reader, 1);
    char *buffer = ARENA_NEW(scratch, char, USAGE_BUFFER_BYTES);
    *out = (struct usage_shape){0};
    TRY(arena_check(scratch, "usage scan", err));
    usage_reader_begin_scan(reader, out);
    berth_status status = feed_file(reader, path, buffer, err);
    out->has_header = reader->has_header;
    out->binary = reader->binary;
    out->file_layers = reader->file_layers;
    out->file_experts = reader->file_experts;
    out->engine_id = reader->file_engine;
    out->rows = reader->rows;
    out->skipped = reader->skipped;
    out->damaged = reader->damaged;
    memcpy(out->problem, reader->problem, sizeof out->problem);
    arena_rewind(scratch, mark);
    return status;
}

/* "BEFORE PATH AFTER: WHAT", cut to fit. */
static void warn(const struct usage *usage, const char *before, const char *path, const char *after, const char *what)
{
    if (usage->warn != NULL) {
        char message[1200];
        snprintf(message, sizeof message, "%s %.500s%s: %.600s", before, path, after, what);
        usage->warn(usage->warn_user, message);
    }
}

static void clear(const struct usage *usage, uint32_t *counts)
{
    memset(counts, 0, usage->cells * sizeof *counts);
}

static void set_refusal(struct usage *usage, const char *path, const char *why)
{
    usage->refused = true;
    snprintf(usage->refusal, sizeof usage->refusal, "%.*s", (int)sizeof usage->refusal - 1, why);
    warn(usage, "expert usage", path, " is not used and will not be written", usage->refusal);
}

static enum usage_load_result load_seed(struct usage *usage, berth_status read, const char *why)
{
    const struct usage_reader *reader = usage->reader;
    if (read == BERTH_OK && reader->damaged == 0) {
        return USAGE_LOADED;
    }
    warn(usage, "ignoring invalid expert usage profile", usage->path, "", read == BERTH_OK ? reader->problem : why);
    clear(usage, usage->counts);
    usage->keep_backup = true;
    return USAGE_DAMAGED;
}

static enum usage_load_result load_tolerant(struct usage *usage, const char *path)
{
    const struct usage_reader *reader = usage->reader;
    if (reader->refused) {
        clear(usage, usage->counts);
        set_refusal(usage, path, reader->problem);
        return USAGE_REFUSED;
    }
    if (reader->damaged == 0) {
        return USAGE_LOADED;
    }
    char what[400];
    snprintf(what, sizeof what, "%s; %llu damaged rows were left out and %llu kept", reader->problem,
             (unsigned long long)reader->damaged, (unsigned long long)reader->rows);
    warn(usage, "expert usage", path, "", what);
    return USAGE_DAMAGED;
}

berth_status usage_load(struct usage *usage, enum usage_load_result *result, berth_error *err)
{
    char real[USAGE_PATH_MAX];
    berth_error why = {.status = BERTH_OK};
    bool tolerant = usage->mode == USAGE_TOLERANT;
    *result = USAGE_ABSENT;
    berth_status status = os_store_resolve(usage->path, real, sizeof real, tolerant ? &why : err);
    if (status != BERTH_OK && tolerant) { /* a circle of links: as any other file that cannot be read */
        set_refusal(usage, usage->path, why.message);
        *result = USAGE_REFUSED;
        return BERTH_OK;
    }
    TRY(status);
    usage->on_fallback = tolerant && usage->fallback_path[0] != '\0' && !os_store_can_write(real);
    status = BERTH_ERR_NOT_FOUND;
    const char *path = usage->fallback_path;
    if (usage->on_fallback) {
        status = read_file(usage, path, usage->counts, true, &why);
    }
    bool imported = status == BERTH_ERR_NOT_FOUND; /* from a place that we cannot write */
    if (status == BERTH_ERR_NOT_FOUND) {
        path = usage->path;
        status = read_file(usage, path, usage->counts, tolerant, &why);
    }
    if (status == BERTH_ERR_NOT_FOUND) {
        return BERTH_OK;
    }
    if (!tolerant) {
        *result = load_seed(usage, status, why.message);
        return BERTH_OK;
    }
    if (status != BERTH_OK) {
        clear(usage, usage->counts);
        set_refusal(usage, path, why.message);
        *result = USAGE_REFUSED;
        return BERTH_OK;
    }
    *result = load_tolerant(usage, path);
    if (imported && usage->on_fallback && *result != USAGE_REFUSED) {
        memcpy(usage->delta, usage->counts, usage->cells * sizeof *usage->delta);
    }
    return BERTH_OK;
}

berth_status usage_import(struct usage *usage, const char *path, struct usage_import *out, berth_error *err)
{
    const struct usage_reader *reader = usage->reader;
    clear(usage, usage->fresh);
    TRY(read_file(usage, path, usage->fresh, false, err));
    for (uint64_t cell = 0; cell < usage->cells; cell++) {
        usage->counts[cell] = usage_saturate((uint64_t)usage->counts[cell] + usage->fresh[cell]);
        usage->delta[cell] = usage_saturate((uint64_t)usage->delta[cell] + usage->fresh[cell]);
    }
    usage->dirty = usage->dirty || reader->rows > 0;
    *out = (struct usage_import){.rows = reader->rows,
                                 .skipped = reader->skipped,
                                 .damaged = reader->damaged,
                                 .first_damaged_line = reader->first_damaged_line,
                                 .file_layers = reader->file_layers,
                                 .file_experts = reader->file_experts,
                                 .engine_id = reader->file_engine};
    return BERTH_OK;
}

/* ---- writing ---------------------------------------------------------------------------------------- */

static berth_status put_row(struct os_writer *writer, long long a, unsigned long long b, unsigned long long c,
                            berth_error *err)
{
    char row[80];
    int bytes = snprintf(row, sizeof row, "%lld %llu %llu\n", a, b, c);
    return os_writer_put(writer, row, (size_t)bytes, err);
}

static berth_status put_header(const struct usage *usage, bool exists, struct os_writer *writer, berth_error *err)
{
    const struct usage_reader *reader = usage->reader;
    bool wanted = exists ? reader->has_header : usage->has_engine;
    if (usage->mode == USAGE_SEED || !wanted) {
        return BERTH_OK;
    }
    uint32_t engine = exists && reader->has_engine ? reader->file_engine : usage->engine_id;
    uint64_t fingerprint = exists && reader->file_fingerprint != 0 ? reader->file_fingerprint : usage->fingerprint;
    TRY(put_row(writer, -1, usage->model_layers, usage->experts, err));
    if (engine != 0) {
        TRY(put_row(writer, -2, 1, engine, err));
    }
    return fingerprint == 0 ? BERTH_OK : put_row(writer, -3, fingerprint >> 32, fingerprint & UINT32_MAX, err);
}

/* counts[] as rows, in place of `path`. */
static berth_status write_file(const struct usage *usage, const char *path, const uint32_t *counts, bool exists,
                               berth_error *err)
{
    struct os_writer writer;
    TRY(os_writer_open_private(&writer, path, usage->buffer, USAGE_BUFFER_BYTES, err));
    berth_status status = put_header(usage, exists, &writer, err);
    for (uint64_t cell = 0; cell < usage->cells && status == BERTH_OK; cell++) {
        if (counts[cell] != 0) {
            status = put_row(&writer, (long long)usage->layers[cell / usage->experts], cell % usage->experts,
                             counts[cell], err);
        }
    }
    if (status == BERTH_OK) {
        status = os_writer_finish(&writer, err);
    }
    os_writer_abandon(&writer);
    return status;
}

static berth_status refused(const struct usage *usage, const char *why, berth_error *err)
{
    error_set(err, BERTH_ERR_STATE, "the expert usage file was refused and is left as it is: %s", why);
    error_at_path(err, usage_path(usage));
    return BERTH_ERR_STATE;
}

/* What the file must hold now, into fresh[]: the counts that are there, aged, plus ours since the last save. */
static berth_status merge(struct usage *usage, const char *path, bool *exists, bool *backup, berth_error *err)
{
    const struct usage_reader *reader = usage->reader;
    clear(usage, usage->fresh);
    berth_status status = read_file(usage, path, usage->fresh, true, err);
    *exists = status == BERTH_OK;
    if (status != BERTH_OK && status != BERTH_ERR_NOT_FOUND) {
        return status;
    }
    if (reader->refused) {
        return refused(usage, reader->problem, err);
    }
    *backup = *exists && (reader->damaged > 0 || reader->binary || usage->keep_backup);
    double kept = 1.0;
    if (usage->half_life_tokens > 0.0 && (double)usage->tokens * 16.0 >= usage->half_life_tokens) {
        kept = half_power((double)usage->tokens / usage->half_life_tokens);
    }
    for (uint64_t cell = 0; cell < usage->cells; cell++) {
        uint32_t aged = usage_scaled(usage->fresh[cell], usage->scale);
        aged = kept < 1.0 ? (uint32_t)((double)aged * kept) : aged;
        usage->fresh[cell] = usage_saturate((uint64_t)aged + usage->delta[cell]);
    }
    usage->tokens = kept < 1.0 ? 0 : usage->tokens;
    return BERTH_OK;
}

static berth_status save_locked(struct usage *usage, const char *path, berth_error *err)
{
    bool exists = false;
    bool backup = false;
    uint64_t tokens = usage->tokens;
    berth_status status = merge(usage, path, &exists, &backup, err);
    if (status == BERTH_OK) {
        os_store_sweep(path);
        status = backup ? os_store_backup(path, err) : BERTH_OK;
    }
    if (status == BERTH_OK) {
        status = write_file(usage, path, usage->fresh, exists, err);
    }
    if (status != BERTH_OK) {
        usage->tokens = tokens;
        return status;
    }
    memcpy(usage->counts, usage->fresh, usage->cells * sizeof *usage->counts);
    clear(usage, usage->delta);
    usage->dirty = usage->keep_backup = false;
    usage->scale = 1.0;
    return BERTH_OK;
}

static berth_status save_seed(struct usage *usage, const char *path, berth_error *err)
{
    berth_status kept = usage->keep_backup ? os_store_backup(path, err) : BERTH_OK;
    if (kept != BERTH_OK && kept != BERTH_ERR_NOT_FOUND) {
        return kept;
    }
    TRY(write_file(usage, path, usage->counts, false, err));
    clear(usage, usage->delta);
    usage->dirty = usage->keep_backup = false;
    usage->scale = 1.0;
    return BERTH_OK;
}

berth_status usage_write_copy(struct usage *usage, const char *path, berth_error *err)
{
    char real[USAGE_PATH_MAX];
    TRY(os_store_resolve(path, real, sizeof real, err));
    return write_file(usage, real, usage->counts, false, err);
}

berth_status usage_flush(struct usage *usage, berth_error *err)
{
    char path[USAGE_PATH_MAX];
    if (!usage->dirty) {
        return BERTH_OK;
    }
    if (usage->refused) {
        return refused(usage, usage->refusal, err);
    }
    TRY(os_store_resolve(usage_path(usage), path, sizeof path, err));
    if (usage->on_fallback) {
        TRY(os_store_make_parents(path, err));
    }
    if (usage->mode == USAGE_SEED) {
        return save_seed(usage, path, err);
    }
    struct os_lock_file lock;
    TRY(os_lock_file_take(&lock, path, LOCK_WAIT_MS, err));
    berth_status status = save_locked(usage, path, err);
    os_lock_file_give(&lock);
    return status;
}
