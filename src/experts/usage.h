/* SPDX-License-Identifier: MIT
 *
 * The usage ledger: how often each (layer, expert) was selected, over all sessions (counts), and in this one (heat,
 * last access on a clock of selections). docs/ledger.md describes the file, docs/seeds.md what each function stands
 * for.
 *
 * Layers are named by the model's own numbers, in the order given at the start: that is also the order of the rows in
 * the file. Everything lives in one arena. Not thread-safe: one thread at a time. */
#ifndef EXPERTS_USAGE_H
#define EXPERTS_USAGE_H

#include "memory/arena.h"

struct usage; /* opaque: usage_parts.h */

enum usage_mode {
    USAGE_TOLERANT = 0, /* reads every known layout, keeps what is valid, merges on save */
    USAGE_SEED          /* the documents: plain rows, all or nothing, the last writer wins */
};

enum { USAGE_PATH_MAX = 480, USAGE_LINE_MAX = 4095, USAGE_ENGINE_MAX = 64 };

typedef void usage_warn_fn(void *user, const char *message);

struct usage_config {
    const char *path;          /* borrowed for the call */
    const char *fallback_path; /* used when the directory of path cannot be written; NULL: none */
    const int64_t *layers;     /* [layers_count], borrowed for the call */
    uint32_t layers_count;
    uint64_t experts; /* of each layer */
    enum usage_mode mode;
    usage_warn_fn *warn; /* NULL: silent */
    void *warn_user;
    const char *engine;      /* name in the header of a new file; NULL: new files have no header */
    bool any_engine;         /* accept files of other engines: the user named the file */
    uint32_t model_layers;   /* for the header; 0: the largest layer plus one */
    uint64_t fingerprint;    /* of the model; 0: none, nothing is compared */
    double half_life_tokens; /* counts halve every so many tokens, when they are saved; 0: never */
};

/* Checks the configuration and takes the tables. When measuring, *out is NULL and `layers` may be NULL too. Reads
 * nothing: usage_load(). */
berth_status usage_layout(struct arena *arena, const struct usage_config *config, struct usage **out, berth_error *err);

/* ---- recording -------------------------------------------------------------------------------------- */

/* Selected experts of some rows: ids[row][0..counts[row]). All rows are checked before anything changes. */
struct usage_rows {
    const double *const *ids;      /* numbers as they come from JSON or a script: a fraction is refused */
    const int64_t *const *int_ids; /* used when ids is NULL */
    const uint32_t *counts;
    uint32_t rows;
};
berth_status usage_record(struct usage *usage, int64_t layer, const struct usage_rows *rows, berth_error *err);
/* The same for one row of the engine: `index` is the place of the layer in the configuration; ids are in range. */
void usage_record_row(struct usage *usage, uint32_t index, const uint16_t *ids, uint32_t count);
/* Tells how many tokens the recorded routes belong to (for half_life_tokens). */
void usage_add_tokens(struct usage *usage, uint64_t tokens);
void usage_decay_heat(struct usage *usage);

/* ---- reading ---------------------------------------------------------------------------------------- */

struct usage_entry {
    uint32_t count, heat, last;
};
berth_status usage_entry(const struct usage *usage, int64_t layer, int64_t expert, struct usage_entry *out,
                         berth_error *err);

struct usage_snapshot {
    uint32_t clock;
    uint64_t selections; /* recorded by this ledger, however the clock wraps */
    uint64_t total_count, nonzero_counts;
    bool dirty;
};
void usage_get_snapshot(const struct usage *usage, struct usage_snapshot *out);

struct usage_count {
    int64_t layer;
    uint32_t expert, count;
};
/* Nonzero counts: count descending, then layer, then expert. Writes at most cap; returns how many there are. */
uint64_t usage_ranked(const struct usage *usage, struct usage_count *out, uint64_t cap);

int64_t usage_layer(const struct usage *usage, uint32_t index);
/* Counts of one layer, [experts]. */
const uint32_t *usage_counts(const struct usage *usage, uint32_t index);
const char *usage_path(const struct usage *usage);

/* ---- LFRU and pins ---------------------------------------------------------------------------------- */

/* heat x 256 plus 255 minus the age where that is under 255; ages wrap with the clock. */
uint64_t usage_lfru_score(uint32_t heat, uint32_t last, uint32_t clock);
/* A challenger must score more than this to replace a pin of `cold` points: a quarter and four selections more. */
static inline uint64_t usage_lfru_threshold(uint64_t cold)
{
    return cold + cold / 4 + 1024;
}

struct usage_candidate {
    int64_t layer;
    uint32_t cold_slot; /* place in the pin list */
    uint32_t cold_expert, hot_expert;
    uint64_t cold_score, hot_score, gain;
};
/* The layer's coldest pin and hottest other expert, when a swap pays. *found false: it does not. */
berth_status usage_lfru_candidate(const struct usage *usage, int64_t layer, const int64_t *pinned, uint32_t count,
                                  struct usage_candidate *out, bool *found, berth_error *err);
/* Sorts by gain descending, layer, hot expert (equal ones keep their order) and cuts to limit; returns the number. */
berth_status usage_select_candidates(struct usage_candidate *candidates, uint32_t *count, int64_t limit,
                                     berth_error *err);

struct autopin_config {
    int64_t resident_bytes;  /* of the persistent tiers, after working banks */
    int64_t mandatory_bytes; /* one slot a layer */
    int64_t (*slot_bytes)(void *user, int64_t layer);
    void *user;
    int64_t min_history, full_history, min_pin_bytes;
    double share;
};
#define AUTOPIN_CONFIG_INIT \
    ((struct autopin_config){.min_history = 5000, .full_history = 200000, .share = 0.5, .min_pin_bytes = 500000000})
struct autopin_plan {
    uint64_t history;
    double confidence;
    uint64_t requested_bytes, usable_bytes, planned_bytes;
    uint64_t pins; /* written */
};
/* What AUTOPIN would pin, into pins[cap]; cap is at least the snapshot's nonzero_counts. */
berth_status usage_autopin(const struct usage *usage, const struct autopin_config *config, struct usage_count *pins,
                           uint64_t cap, struct autopin_plan *out, berth_error *err);

/* The end of a turn: one candidate a layer, at most `limit` swaps by gain, heat halved, ledger saved. */
struct usage_pins {
    int64_t layer;
    int64_t *experts; /* [count]; a swap writes the new expert in its place */
    uint32_t count;
};
struct usage_turn {
    struct usage_pins *pins; /* [pins_count], one a layer */
    uint32_t pins_count;
    int64_t limit;                /* 4 in the documents */
    struct usage_candidate *work; /* [pins_count]; the candidates in order of gain afterwards */
    uint32_t candidates, applied; /* out */
    bool no_save;                 /* the caller saves */
    /* Makes the hot expert resident and gives up the cold one. A failure ends the turn. NULL: nothing to do. */
    berth_status (*swap)(void *user, const struct usage_candidate *candidate, berth_error *err);
    void *user;
};
berth_status usage_turn_end(struct usage *usage, struct usage_turn *turn, berth_error *err);

/* ---- the file: usage_file.c ------------------------------------------------------------------------- */

enum usage_load_result {
    USAGE_ABSENT = 0, /* no file yet */
    USAGE_LOADED,
    USAGE_DAMAGED, /* tolerant: some rows were left out; seed: the whole file was */
    USAGE_REFUSED  /* not for this model, or not readable: it will not be written either */
};
/* Reads the file. Damage and refusal are told to `warn` and to *result, not as failures. */
berth_status usage_load(struct usage *usage, enum usage_load_result *result, berth_error *err);
/* Saves when something was recorded. Tolerant mode: locks, reads the file again, adds what this ledger recorded since
 * its last save, keeps a damaged or foreign file as PATH.bak, writes beside it and renames. On failure the ledger stays
 * dirty and the file as it was. BERTH_ERR_STATE: the file was refused. */
berth_status usage_flush(struct usage *usage, berth_error *err);

/* Adds all counts of another file (any layout) to this ledger; what does not fit is left out and counted. */
struct usage_import {
    uint64_t rows, skipped; /* rows taken, and rows of other layers or experts */
    uint64_t damaged;       /* malformed rows */
    uint64_t first_damaged_line;
    uint64_t file_layers, file_experts; /* what its header says; 0: no header */
    uint32_t engine_id;
};
berth_status usage_import(struct usage *usage, const char *path, struct usage_import *out, berth_error *err);
/* Multiplies all counts; those that fall under one half become zero. The next flush does the same to what the file
 * holds by then, keeps the old file as PATH.bak and adds what was recorded. */
void usage_scale(struct usage *usage, double factor);
/* The next flush keeps the old file as PATH.bak. */
void usage_keep_backup(struct usage *usage);

/* What a file says of its own shape, for looking at it without the model. */
struct usage_shape {
    bool has_header, binary, refused;
    uint64_t file_layers, file_experts; /* of the header; 0: it does not say */
    uint32_t engine_id;
    uint64_t rows, skipped, damaged; /* skipped: beyond CATALOG_LAYERS_MAX, EXPERTS_MAX */
    uint32_t experts;                /* the largest named plus one */
    uint32_t layers_count;           /* named by rows */
    uint8_t layers[4096 / 8];        /* a bit each */
    char problem[256];               /* the first damage */
};
/* Takes a little from `scratch` and gives it back. */
berth_status usage_scan(struct arena *scratch, const char *path, struct usage_shape *out, berth_error *err);
/* Writes the counts as a new file, replacing what `path` holds; nothing is merged or locked. */
berth_status usage_write_copy(struct usage *usage, const char *path, berth_error *err);

/* FNV-1a, 32 bit, of an engine's name: the engine id of header rows. */
uint32_t usage_engine_id(const char *name);
/* Colibri's decay at save: every count times `decay`, rounded, halves up. */
void usage_colibri_decay(uint32_t *counts, uint64_t count, double decay);
/* Where the ledger of a model lies: DIR/.coli_usage, FILE.coli_usage; or in state_dir, named after both. False: the
 * name is too long. */
bool usage_default_path(const char *model_path, bool is_directory, const char *state_dir, char *out, size_t cap);

#endif
