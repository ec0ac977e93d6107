/* SPDX-License-Identifier: MIT
 *
 * What the program needs beyond the public interface: looking into checkpoints, converting them, and measuring the
 * machine for the speed law. Not installed. Implemented in session/tool*.c; the app includes this and berth.h, nothing
 * deeper.
 */
#ifndef TOOL_H
#define TOOL_H

#include "berth.h"

/* ---- the build -------------------------------------------------------------------------------------- */

/* Kernel rows that this build has and this processor runs, best first: "avx512 avx2 ref". */
void tool_kernels(char *text, size_t cap);

/* ---- looking into a checkpoint ---------------------------------------------------------------------- */

typedef struct tool_tensor {
    const char *name; /* not NUL-terminated; borrowed for the call */
    size_t name_bytes;
    const char *dtype; /* "Q8_0" */
    uint32_t dims_count;
    uint64_t dims[6]; /* row-major, outermost first */
    uint32_t file;
    uint64_t offset, bytes;
} tool_tensor;

/* One metadata pair (GGUF) or top-level member of config.json (safetensors). */
typedef struct tool_meta {
    const char *key;
    size_t key_bytes;
    const char *type;  /* "u32", "string", "array", ...; JSON: "string", "number", "bool", "null", "object", "array" */
    const char *value; /* spelled out: numbers as text, strings as they are, the first items of arrays; safe to cut */
    size_t value_bytes;
    uint64_t count; /* items of an array, else 1 */
} tool_meta;

/* Returning false ends the walk early (not a failure). */
typedef bool tool_tensor_fn(void *user, const tool_tensor *tensor);
typedef bool tool_meta_fn(void *user, const tool_meta *meta);

typedef struct tool_checkpoint tool_checkpoint;

enum { TOOL_DTYPES_MAX = 40 };

typedef struct tool_summary {
    char name[128];
    char family[32];       /* empty: family_problem says why */
    bool family_is_broken; /* a family that runs, with a number that cannot be */
    char family_problem[640];
    char format[32]; /* "GGUF v3", "safetensors" */
    uint32_t files, tensors, meta_pairs;
    uint64_t header_bytes, tensor_bytes, file_bytes, parameters;
    struct {
        const char *dtype;
        uint32_t tensors;
        uint64_t bytes;
    } dtypes[TOOL_DTYPES_MAX]; /* [dtypes_count], largest first */
    uint32_t dtypes_count;
    /* Zero unless the family is known. */
    uint32_t layers, hidden, heads, kv_heads, head_dim, vocab, ctx_max_tokens;
    uint32_t moe_layers, experts, top_k, expert_ffn, shared_ffn, ffn, sliding_window;
    uint64_t lookup_bytes; /* an embedding table that is looked up by row, not multiplied */
    double token_macs;     /* multiply-adds of one token, attention's own left out */
    char fingerprint[17];  /* of names, types and shapes of all tensors, and of the model's name */
} tool_summary;

/* Reads headers only. *out must be closed. */
berth_status tool_open(const char *path, tool_checkpoint **out, berth_error *err);
void tool_close(tool_checkpoint *checkpoint); /* NULL is allowed */
void tool_summarise(const tool_checkpoint *checkpoint, tool_summary *out);
void tool_each_tensor(const tool_checkpoint *checkpoint, tool_tensor_fn *fn, void *user);
void tool_each_meta(const tool_checkpoint *checkpoint, tool_meta_fn *fn, void *user);
/* Name of a file of the checkpoint, borrowed. */
const char *tool_file_name(const tool_checkpoint *checkpoint, uint32_t file);

/* What a token of it takes with this plan: berth_speed_work_of() for headers that are open already. */
void tool_speed_work(const tool_summary *model, const berth_plan *plan, berth_speed_work *out);

/* What the program must know to size its own buffers before it opens a model. */
typedef struct tool_shape {
    uint32_t vocab, ctx_max_tokens;
} tool_shape;
berth_status tool_read_shape(const char *path, tool_shape *out, berth_error *err);

/* ---- many plans of one model ------------------------------------------------------------------------- */

/* The headers of a model, read once for a look at them and for any number of plans. */
typedef struct tool_planner tool_planner;

/* *out must be closed. A family that this version cannot run is no failure yet: the summary says so. */
berth_status tool_planner_open(const char *path, tool_planner **out, berth_error *err);
void tool_planner_close(tool_planner *planner); /* NULL is allowed */
/* Borrowed: not to be closed. */
const tool_checkpoint *tool_planner_checkpoint(const tool_planner *planner);
/* What berth_plan_memory() gives. The isa stays that of the first plan; mode is BERTH_OPEN_FULL. */
berth_status tool_planner_plan(tool_planner *planner, const berth_model_config *config, berth_plan *plan,
                               berth_error *err);

/* ---- writing checkpoints ---------------------------------------------------------------------------- */

typedef struct tool_convert {
    const char *type;      /* "f16", "q4_k_m", ...: tool_convert_type() */
    const char *overrides; /* "PART=TYPE,...": formats of the tensors with PART in their names; NULL: none */
    uint64_t split_bytes;  /* 0: one file */
    uint32_t alignment;    /* 0: 32 */
    uint32_t threads;      /* 0: the CPUs we may use */
    uint64_t buffer_bytes; /* 0: 64 MiB */
    bool overwrite;
    berth_progress_fn *progress;
    void *progress_user;
    berth_log_fn *log;
    void *log_user;
} tool_convert;
/* Name of a type; NULL past the last. */
const char *tool_convert_type(uint32_t i);
berth_status tool_convert_run(const char *in_path, const char *out_path, const tool_convert *config, berth_error *err);

typedef struct tool_random {
    const char *shape;
    uint32_t layers, experts; /* 0: the shape's own */
    uint64_t seed;
    bool spread; /* routing spreads over all experts: the worst case for caches */
} tool_random;
berth_status tool_random_run(const char *out_path, const tool_random *spec, const tool_convert *config,
                             berth_error *err);
/* Name of a shape; NULL past the last. */
const char *tool_random_shape(uint32_t i);

/* ---- measuring the machine -------------------------------------------------------------------------- */

/* The rates of the speed law (docs/cli.md, "The limit"), measured briefly on this machine the way a run uses it: reads
 * of expert-sized pieces through the same engine from the model's own files, memory streamed by the compute threads,
 * and the model's own kernel on weights that stay in the cache. 0: could not be measured. */
typedef struct tool_rates {
    double read_bytes_per_s;
    double memory_bytes_per_s; /* the faster of the next two */
    double plain_bytes_per_s;  /* memory by plain reads */
    double kernel_bytes_per_s; /* memory as the kernel streams weights, one token at a time */
    double gemv_macs_per_s;    /* one token at a time: decode */
    double gemm_macs_per_s;    /* many tokens at a time: prefill */
    uint64_t read_sample_bytes, memory_sample_bytes;
    bool direct_io;
    uint32_t threads;
    char dtype[16];     /* the model's main weight type, whose kernel was timed */
    double weight_bits; /* of one weight of that type */
} tool_rates;

/* Types that have a kernel in row `isa`, one after another; NULL past the last, or when this machine lacks the row. */
const char *tool_kernel_type(berth_isa isa, uint32_t i);

typedef struct tool_measure {
    bool plain_file;              /* the path is any file: reads alone say something about it */
    const char *dtype;            /* kernels of this type; NULL: the model's main weight type, or Q8_0 */
    uint32_t threads, io_threads; /* 0: as for a model */
    berth_isa isa;
    const char *io_engine;
    uint64_t request_bytes;    /* size of one read; 0: 1 MiB */
    uint64_t memory_bytes;     /* what one token streams; the sample is at most this and at most memory_max_bytes */
    uint64_t memory_max_bytes; /* everything the measurement may hold */
    uint32_t milliseconds;     /* about, in all; 0: 100 */
} tool_measure;

/* Takes and gives back its own memory. path NULL: no reads are measured. */
berth_status tool_measure_rates(const char *path, const tool_measure *config, tool_rates *out, berth_error *err);

/* What this machine is. */
typedef struct tool_machine {
    char cpu[128];    /* as the system names it; "" when it does not */
    char kernel[128]; /* "Linux 6.1.0" */
    uint64_t ram_bytes;
    uint32_t cpus;        /* that this process may use */
    uint32_t cpus_online; /* of the machine */
} tool_machine;
berth_status tool_machine_read(tool_machine *out, berth_error *err);

/* MemAvailable, then every memory cgroup level that has a limit. */
typedef void tool_memory_level_fn(void *user, const char *name, uint64_t limit_bytes, uint64_t available_bytes);
berth_status tool_memory_levels(tool_memory_level_fn *fn, void *user, berth_error *err);

/* The file system that a file or directory lies on. */
typedef struct tool_volume {
    uint64_t device;
    char source[128], type[32], mount[256];
} tool_volume;
berth_status tool_volume_of(const char *path, tool_volume *out, berth_error *err);

/* ---- the documents' memory contract ------------------------------------------------------------------ */

/* A Hugging Face directory (or its config.json alone) as the documents' contract sees it. */
typedef struct tool_contract {
    berth_fit_config config;
    berth_text config_json;
    char path[512], name[256]; /* name: the directory's */
    uint32_t files;            /* *.safetensors counted into weights_bytes; 0: only a configuration */
    double weights_bytes;      /* sizes of those files, headers included */
    double experts_bytes;      /* of tensors whose name contains ".experts." */
    double switch_bytes;       /* of tensors whose name contains ".switch_mlp.": experts that the documents miss */
    double sidecar_bytes;      /* optiq_vision.safetensors, never part of the weights */
    char problem[640];         /* why the sums are lower bounds: files missing, short or damaged; "": sound */
    uint32_t stray_files;      /* of `files`, those that do not belong to the model: a sum too high */
    double stray_bytes;
    void *region; /* private: holds what config borrows */
    uint64_t region_bytes;
} tool_contract;

/* Reads headers only. `path` is a directory or a config.json. *out must be closed. */
berth_status tool_contract_open(const char *path, tool_contract *out, berth_error *err);
void tool_contract_close(tool_contract *contract);

/* ---- the shape of any model, and llama.cpp's rules for it (docs/fit.md; session/tool_model.c) ------------ */

typedef struct tool_model tool_model;

typedef enum tool_weights {
    TOOL_WEIGHTS_RESIDENT = 0, /* read for every token */
    TOOL_WEIGHTS_EXPERTS,      /* routed experts */
    TOOL_WEIGHTS_LOOKUP,       /* tables of which a token reads a row */
    TOOL_WEIGHTS_NOT_LOADED,   /* blocks for further tokens, vision, audio */
    TOOL_WEIGHTS_COUNT
} tool_weights;

typedef struct tool_model_info {
    char name[128];
    char family[64]; /* architecture or model_type, as the file has it */
    char format[32]; /* "GGUF v3", "safetensors", "config.json" */
    bool is_known;   /* false: every size is a lower bound; `problem` says what is missing */
    char problem[160];
    uint32_t files, tensors, layers, mtp_layers, ctx_max_tokens, experts, top_k;
    uint64_t weight_bytes[TOOL_WEIGHTS_COUNT];
    bool lacks_tensors; /* ... and what is missing are weights */
    bool is_tied;       /* the embedding is the output matrix too */
    bool has_params;    /* from tensor shapes, or by arithmetic */
    uint64_t parameters;
    char defaults_of[64];    /* model_type of tool_model_default() */
    uint32_t defaults_count; /* numbers that the configuration leaves to its class */
    bool experts_by_params;  /* a configuration without weights: the experts' share of them is that of the parameters */
    bool has_linear;         /* layers of linear attention */
} tool_model_info;

/* Headers only: a GGUF file, a Hugging Face directory, or a bare config.json (then the sizes: weights_bytes, and
 * experts_bytes of them, 0 for the share by parameters). *out must be closed. */
berth_status tool_model_open(const char *path, uint64_t weights_bytes, uint64_t experts_bytes, tool_model **out,
                             berth_error *err);
/* The same from headers that are open already, and stay so as long as *out does. */
berth_status tool_model_of(const tool_checkpoint *checkpoint, tool_model **out, berth_error *err);
void tool_model_close(tool_model *model); /* NULL is allowed */
void tool_model_describe(const tool_model *model, tool_model_info *out);

/* The i-th number that is not in config.json but the documented default of its model_type; NULL past the last. */
const char *tool_model_default(const tool_model *model, uint32_t i, uint32_t *value);

typedef struct tool_llama {
    uint64_t ctx_tokens;    /* 0: the model's maximum, at most 4096 */
    uint32_t ubatch_tokens; /* 0: 512 */
    uint32_t slots;         /* 0: 1 */
    uint32_t outputs;       /* 0: the slots */
    bool is_unified, is_swa_full, no_flash_attention;
    bool is_draft;               /* and a context for the blocks for further tokens, whose cache is f16 */
    bool is_device;              /* every layer on an accelerator */
    const char *type_k, *type_v; /* NULL: f16 */
    const char *mla;             /* "latent" (NULL), "latent+v", "full" */
    const char *build;           /* NULL: "current" */
} tool_llama;

enum { TOOL_LLAMA_PARTS = 5 };
typedef struct tool_llama_report {
    struct {
        const char *name; /* "full", "window", "latent", "compressed", "index" */
        uint32_t layers;
        uint64_t cells, k_bytes, v_bytes;
        uint32_t k_elems, v_elems;
    } part[TOOL_LLAMA_PARTS];
    uint64_t ctx_tokens, weights_device_bytes, weights_host_bytes;
    uint64_t kv_bytes, state_bytes, device_compute_bytes, host_compute_bytes, output_bytes;
    uint32_t state_layers;
    struct {
        uint32_t layers; /* 0: no such context */
        uint64_t cells;  /* most of a layer */
        uint64_t weights_bytes, kv_bytes, compute_bytes;
    } draft;
    uint64_t device_bytes, host_bytes; /* sums */
} tool_llama_report;

/* BERTH_ERR_ARGUMENT names a type, build or rule that there is not, or says that there are no blocks to draft with. */
berth_status tool_model_llama(const tool_model *model, const tool_llama *request, tool_llama_report *out,
                              berth_error *err);
/* The largest context, at most the model's own, whose `device` (else host) sum is within the bytes; 0: none. */
berth_status tool_model_llama_ctx(const tool_model *model, const tool_llama *request, bool device, uint64_t bytes,
                                  uint64_t *ctx_tokens, berth_error *err);

/* What a token of one sequence takes at position `context`, for berth_speed_decode() at that context. */
berth_status tool_model_work(const tool_model *model, const tool_llama *request, uint64_t context,
                             berth_speed_work *out, berth_error *err);
/* The range of a prediction from that: wider where more than the machine is uncertain. */
void tool_model_widen(const tool_model_info *info, berth_speed *speed);

/* The arithmetic of each kind of layer, a line each, for any engine. `ctx` positions; an element of a cache takes
 * kv_num / kv_den bytes. */
typedef void tool_line_fn(void *user, const char *line);
void tool_model_explain(const tool_model *model, uint64_t ctx_tokens, uint32_t kv_num, uint32_t kv_den,
                        tool_line_fn *fn, void *user);

/* ---- fingerprints (session/tool_fingerprint.c) --------------------------------------------------------- */

typedef struct tool_prints tool_prints;

/* Headers only. *out must be closed. */
berth_status tool_prints_open(const char *path, tool_prints **out, berth_error *err);
void tool_prints_close(tool_prints *prints); /* NULL is allowed */
/* Of the configuration (docs/seeds.md); BERTH_ERR_UNSUPPORTED: a GGUF file has none. */
berth_status tool_prints_config(tool_prints *prints, char fingerprint[17], berth_error *err);
/* Of all tensors' names, types, shapes and bytes: 64 hex digits. In byte order tensors are hashed side by side by
 * `threads` (0: the processors we may use), in the documents' order one after another. Computed once, then remembered.
 * Types without a number in the documents go in by name, in byte order only. */
berth_status tool_prints_tensors(tool_prints *prints, berth_tensor_order order, uint32_t threads,
                                 berth_progress_fn *progress, void *progress_user, char sha256[65], berth_error *err);

/* ---- hardware ---------------------------------------------------------------------------------------- */

enum { TOOL_HARDWARE_MEM_MAX = 6, TOOL_HARDWARE_TEXT_MAX = 96 };

/* A machine or memory configuration that can be bought. */
typedef struct tool_hardware {
    const char *name;   /* "GeForce RTX 4090" */
    const char *vendor; /* "NVIDIA"; "CPU" for memory configurations */
    const char *kind; /* "unified", "desktop gpu", "laptop gpu", "workstation/server gpu", "datacenter gpu", "memory" */
    uint32_t mem_count; /* 0: as much as one likes */
    double mem_gb[TOOL_HARDWARE_MEM_MAX];
    double bandwidth_gbs;
} tool_hardware;

/* The table that is built in. */
const tool_hardware *tool_hardware_table(size_t *count);
/* One line of a user's file, the same columns as tools/hardware.tsv; texts stay in `line`, which is cut up. False with
 * BERTH_OK in *status: nothing on this line. */
bool tool_hardware_line(char *line, tool_hardware *out, berth_status *status, berth_error *err);
/* True when the row is called like this: upper and lower case alike, with or without the maker's name in front. */
bool tool_hardware_is(const tool_hardware *row, const char *name);
/* True when `text` occurs in name, vendor or kind. */
bool tool_hardware_has(const tool_hardware *row, const char *text);
/* Splits "M4 Pro 24GB" into the name and 24; 0 when it does not end in a size. */
double tool_hardware_split(const char *text, char *name, size_t cap);

/* ---- replaying recorded routes (docs/routes.md; session/tool_replay.c) --------------------------------- */

typedef struct tool_routes tool_routes;

typedef struct tool_routes_info {
    char model[128];
    char policy[128]; /* of the recording engine; "" for public traces */
    uint32_t layers, experts, top_k, sessions;
    uint64_t steps, tokens[2]; /* by berth_phase */
    double overlap;            /* per cent of selections that the token before had too */
    bool has_cache;            /* the recording says which slots its engine had */
    bool has_bytes;            /* and how big experts are */
    uint64_t slots;
    bool has_totals;
    uint64_t hits[2], misses[2]; /* as the engine counted them */
} tool_routes_info;

/* Reads files as consecutive sessions. experts 0: as the files say. */
berth_status tool_routes_open(const char *const *paths, uint32_t count, uint32_t experts, tool_routes **out,
                              berth_error *err);
void tool_routes_close(tool_routes *routes); /* NULL is allowed */
void tool_routes_describe(const tool_routes *routes, tool_routes_info *out);

typedef enum tool_prior { TOOL_PRIOR_NONE = 0, TOOL_PRIOR_RECORDED = 1, TOOL_PRIOR_HALF = 2 } tool_prior;

typedef struct tool_replay {
    const char *policy; /* NULL: the recording's, else the default */
    bool as_recorded;   /* slots and events as they were */
    uint64_t slots;     /* of equal size */
    uint64_t bytes;     /* or this much memory, experts as big as they are */
    bool global;        /* one pool without floors */
    bool per_layer;     /* every layer has an equal pool of its own */
    bool prefill;       /* prompt visits too */
    tool_prior prior;
    bool score_all; /* otherwise the second half of the decode tokens is scored, the first is "cold" */
} tool_replay;

typedef struct tool_replay_result {
    uint64_t slots;
    uint64_t hits[2], misses[2]; /* by berth_phase, whole run */
    uint64_t scored_hits, scored, cold_hits, cold;
    uint64_t evictions, bypassed, read_bytes, warm_experts;
    double policy_ns; /* of one visit */
} tool_replay_result;
berth_status tool_replay_run(const tool_routes *routes, const tool_replay *replay, tool_replay_result *out,
                             berth_error *err);

/* Name of a policy; NULL past the last. *replay_only: a bound, not for runs. */
const char *tool_policy_name(uint32_t i, bool *replay_only);

/* ---- usage ledgers (docs/ledger.md; session/tool_usage.c) ---------------------------------------------- */

typedef struct tool_usage tool_usage;

typedef struct tool_usage_config {
    const char *path;        /* a model, or a ledger's file */
    const char *ledger_path; /* with a model: this file instead of its own; NULL: its own */
    const char *state_dir;   /* as in berth_model_config */
    uint32_t experts;        /* of a ledger's file that does not say; 0: the largest it names plus one */
    void (*warn)(void *user, const char *message);
    void *warn_user;
} tool_usage_config;

typedef struct tool_usage_info {
    char path[512];            /* of the ledger */
    char model[128];           /* "" for a file alone */
    bool exists;               /* there is such a file */
    bool refused;              /* and it is not this model's, or unreadable: `warn` said why */
    uint32_t layers;           /* with experts */
    uint32_t experts;          /* of each layer */
    uint32_t top_k;            /* 0: a file alone does not say */
    uint64_t selections, used; /* experts of layers that were selected at all */
} tool_usage_info;

/* Whether tool_usage_open() of a model would find a ledger; cheap, no header is read. */
bool tool_usage_exists(const tool_usage_config *config);
/* *out must be closed. A model without a ledger is no failure, a ledger's file that is absent is. */
berth_status tool_usage_open(const tool_usage_config *config, tool_usage **out, berth_error *err);
void tool_usage_close(tool_usage *usage); /* NULL is allowed */
void tool_usage_describe(const tool_usage *usage, tool_usage_info *out);
/* The model's number of a layer, its place (layers: it has none), and its counts, [experts]. */
int64_t tool_usage_layer(const tool_usage *usage, uint32_t index);
uint32_t tool_usage_find(const tool_usage *usage, int64_t layer);
const uint32_t *tool_usage_counts(const tool_usage *usage, uint32_t index);
/* All experts that were selected, most first; borrowed, until the next call. */
uint64_t tool_usage_ranked(tool_usage *usage, const berth_ledger_count **out);

/* Adds what a ledger's file of any layout or recorded routes (docs/routes.md) count, prompts like answers. */
typedef struct tool_usage_added {
    bool routes;
    uint64_t rows, skipped, damaged, first_damaged_line; /* rows: of routes, the selections */
} tool_usage_added;
berth_status tool_usage_add(tool_usage *usage, const char *path, tool_usage_added *out, berth_error *err);
/* Multiplies all counts: now, and those of the file when it is saved. */
void tool_usage_scale(tool_usage *usage, double factor);
/* Saves as a run does: locked, merged, the old file kept as PATH.bak. */
berth_status tool_usage_save(tool_usage *usage, berth_error *err);
/* Writes the counts as a new file. */
berth_status tool_usage_write(tool_usage *usage, const char *path, berth_error *err);

/* What the seed policy would pin at the start. */
typedef struct tool_pin_plan {
    berth_autopin_plan plan;
    const berth_ledger_count *pins; /* [plan.pins_count], borrowed */
    uint64_t budget_bytes, slots_bytes, working_bytes, resident_bytes, mandatory_bytes;
    uint64_t min_history, full_history, share_percent, min_bytes;
    bool autopin; /* false: the policy's options turn it off */
} tool_pin_plan;
/* `model_path` and `config` as for a run; config->policy: "seed" or "seed:key=value,...". */
berth_status tool_usage_plan(tool_usage *usage, const char *model_path, const berth_model_config *config,
                             tool_pin_plan *out, berth_error *err);
/* Bytes of the slot that an expert of a layer takes; 0: a file alone does not say. */
uint64_t tool_usage_slot_bytes(const tool_usage *usage, int64_t layer);

#endif
