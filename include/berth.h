/* SPDX-License-Identifier: MIT
 *
 * berth.h - the public interface of libberth: run Mixture-of-Experts language models bigger than memory.
 *
 * How it is used: fill a berth_model_config (BERTH_MODEL_CONFIG_INIT), ask berth_plan_memory() what the model
 * would need (file headers only), open it with berth_model_open(), create the session, feed token ids with
 * berth_session_eval(), read logits, sample, repeat. examples/generate.c is a whole program, examples/plan.c one that
 * only plans.
 *
 * Rules that hold for every function:
 * - Fallible functions return berth_status: 0 is success, every failure is negative. On failure outputs are
 *   untouched and nothing is leaked. A `berth_error *` parameter may be NULL; otherwise it is filled on failure.
 * - Nothing prints, exits, aborts, installs signal handlers or reads the environment.
 * - Structs that start with struct_size are filled and passed after their _INIT macro; without it the call is
 *   BERTH_ERR_ARGUMENT. In configs a zero field means the documented default.
 * - Handles are opaque. A model may be used by one thread at a time, unless a function says otherwise. Two
 *   models in one process are independent.
 * - Text is UTF-8, sizes are bytes, counts of tokens are tokens, times are nanoseconds (monotonic).
 *
 * It is long because it is whole: a program that embeds Berth copies and reads one file.
 */
#ifndef BERTH_H
#define BERTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(BERTH_BUILD) && defined(__GNUC__)
#define BERTH_API __attribute__((visibility("default")))
#else
#define BERTH_API
#endif

#define BERTH_VERSION_MAJOR 0
#define BERTH_VERSION_MINOR 1
#define BERTH_VERSION_PATCH 0

/* ---- status and error ------------------------------------------------------------------------------- */

typedef enum berth_status {
    BERTH_OK = 0,
    BERTH_ERR_ARGUMENT = -1,    /* a parameter is out of its documented range */
    BERTH_ERR_MEMORY = -2,      /* the operating system refused memory */
    BERTH_ERR_IO = -3,          /* a file could not be opened, read or written */
    BERTH_ERR_FORMAT = -4,      /* a file is damaged or not what it claims to be */
    BERTH_ERR_UNSUPPORTED = -5, /* a well-formed file or request that this version cannot serve */
    BERTH_ERR_BUDGET = -6,      /* does not fit the memory budget */
    BERTH_ERR_STATE = -7,       /* the handle is not in a state that allows this call */
    BERTH_ERR_CANCELLED = -8,   /* berth_session_cancel() or a progress callback asked to stop */
    BERTH_ERR_LIMIT = -9,       /* a documented limit was reached (context full, text too long, ...) */
    BERTH_ERR_NOT_FOUND = -10,  /* the file or named object does not exist */
    BERTH_ERR_INTERNAL = -11    /* a defect in Berth; please report it */
} berth_status;

/* Details of a failure. Every string is NUL-terminated and may be empty. */
typedef struct berth_error {
    berth_status status;
    int32_t layer;     /* -1: not about a layer */
    int32_t expert;    /* -1: not about an expert */
    uint64_t offset;   /* byte offset in the file; UINT64_MAX: not about a place in a file */
    char path[512];    /* the file */
    char object[160];  /* tensor, metadata key or option */
    char message[640]; /* one sentence: what, got, wanted, what to do */
} berth_error;

/* Version of the library that is running, "0.1.0". Static storage. */
BERTH_API const char *berth_version(void);

/* Short name of a status, "does not fit the budget". Static storage; never NULL. */
BERTH_API const char *berth_status_text(berth_status status);

/* ---- plan ------------------------------------------------------------------------------------------- */

/* The named lines of the memory plan; every byte that a process running this model may be charged for is in
 * exactly one of them. */
typedef enum berth_line {
    BERTH_LINE_TRUNK = 0, /* all non-expert weights */
    BERTH_LINE_KV,        /* KV cache */
    BERTH_LINE_STATE,     /* recurrent state */
    BERTH_LINE_SCRATCH,   /* activations of the largest prefill chunk */
    BERTH_LINE_SLOTS,     /* expert cache */
    BERTH_LINE_STAGING,   /* I/O buffers */
    BERTH_LINE_TEXT,      /* tokenizer */
    BERTH_LINE_TABLES,    /* catalog, ledger, policy, bound tensors */
    BERTH_LINE_THREADS,   /* stacks */
    BERTH_LINE_PROCESS,   /* program, libraries, page tables, kernel batches */
    BERTH_LINE_APP,       /* what the embedding program says it needs itself */
    BERTH_LINE_DEVICE,    /* GPU memory (its own budget; not part of the totals) */
    BERTH_LINE_COUNT
} berth_line;

/* Name of a plan line, "trunk". NULL if out of range. */
BERTH_API const char *berth_line_name(berth_line line);

/* Q8_0 wants heads of a multiple of 32 dimensions. */
typedef enum berth_kv_type {
    BERTH_KV_DEFAULT = 0,
    BERTH_KV_F32 = 1,
    BERTH_KV_F16 = 2,
    BERTH_KV_Q8_0 = 3 /* 34 bytes for 32 values */
} berth_kv_type;

/* Instruction set row; BERTH_ISA_AUTO picks the best the CPU has. All rows give the same bits. */
typedef enum berth_isa {
    BERTH_ISA_AUTO = 0,
    BERTH_ISA_REF = 1,
    BERTH_ISA_AVX2 = 2,
    BERTH_ISA_AVX512 = 3,
    BERTH_ISA_NEON = 4
} berth_isa;

typedef enum berth_phase { BERTH_PHASE_PREFILL = 0, BERTH_PHASE_DECODE = 1 } berth_phase;

typedef enum berth_open_mode {
    BERTH_OPEN_FULL = 0, /* weights, session, tokenizer */
    BERTH_OPEN_TEXT = 1  /* tokenizer only: no weight is read, no session can be created */
} berth_open_mode;

typedef enum berth_log_level { BERTH_LOG_DEBUG = 0, BERTH_LOG_INFO, BERTH_LOG_WARN } berth_log_level;
typedef void berth_log_fn(void *user, berth_log_level level, const char *text);

/* Called while a model opens. Returning false cancels (BERTH_ERR_CANCELLED). */
typedef bool berth_progress_fn(void *user, const char *what, uint64_t done_bytes, uint64_t total_bytes);

/* The usage ledger learns which experts are used; the next start is warm. */
typedef enum berth_ledger_use {
    BERTH_LEDGER_OFF = 0, /* neither read nor written */
    BERTH_LEDGER_ON = 1,
    BERTH_LEDGER_READ = 2 /* learn from it, never write it */
} berth_ledger_use;

typedef struct berth_model_config {
    size_t struct_size;
    uint64_t budget_bytes; /* hard ceiling of the whole process; 0: auto (see berth_budget) */
    uint64_t app_bytes;    /* memory the embedding program needs for itself, counted in the budget */
    uint32_t ctx_tokens;   /* KV cache length; 0: min(model maximum, 4096) */
    uint32_t chunk_tokens; /* largest prefill chunk; 0: the largest that leaves the expert cache room */
    uint32_t threads;      /* compute threads; 0: the CPUs this process may use */
    uint32_t io_threads;   /* reader threads; 0: 4 */
    uint32_t text_bytes;   /* longest text one berth_tokenize() call takes; 0: max(64 KiB, 8 x ctx_tokens) */
    berth_kv_type kv_type; /* default f16 */
    berth_isa isa;
    berth_open_mode mode;
    const char *policy;    /* eviction policy: "NAME" or "NAME:key=value,..." (docs/ledger.md); NULL: the default */
    const char *io_engine; /* I/O row: "pread", "uring", "buffered"; NULL: "pread", else "buffered" */
    berth_log_fn *log;
    void *log_user;
    berth_progress_fn *progress;
    void *progress_user;
    /* What is kept in memory (docs/ledger.md): */
    berth_ledger_use ledger;        /* default: none */
    const char *ledger_path;        /* NULL: DIR/.coli_usage, FILE.coli_usage */
    const char *state_dir;          /* where the ledgers of directories that cannot be written go; NULL: nowhere */
    double ledger_half_life_tokens; /* its counts halve every so many tokens; 0: never */
    const char *pins;               /* experts that always stay: "LAYER:EXPERT" rows between commas or white
                                      space, '#' starts a comment; NULL: none */
    const char *record_routes;      /* every routing decision goes to this file (docs/routes.md); NULL: nowhere */
} berth_model_config;
/* C++ has no compound literals, and warns of members that a braced list leaves out. */
#ifdef __cplusplus
#define BERTH_INIT_(type)                \
    ([]() {                              \
        type zero = type();              \
        zero.struct_size = sizeof(type); \
        return zero;                     \
    }())
#else
#define BERTH_INIT_(type) ((type){.struct_size = sizeof(type)})
#endif
#define BERTH_MODEL_CONFIG_INIT BERTH_INIT_(berth_model_config)

/* Where an automatic budget came from. */
typedef struct berth_budget {
    size_t struct_size;
    uint64_t bytes;         /* limit minus reserve */
    uint64_t limit_bytes;   /* the binding limit itself */
    uint64_t reserve_bytes; /* kept free for the rest of the machine */
    char binding[256];      /* what binds: "MemAvailable" or the path of a cgroup file */
} berth_budget;
#define BERTH_BUDGET_INIT BERTH_INIT_(berth_budget)

/* The automatic budget of this process now: min over MemAvailable and every memory cgroup level (v1 and v2, all
 * parents; page cache of the group counts as free), minus a reserve. */
BERTH_API berth_status berth_budget_auto(berth_budget *out, berth_error *err);

typedef struct berth_plan {
    size_t struct_size;
    uint64_t line_bytes[BERTH_LINE_COUNT];
    uint64_t run_bytes;          /* sum of the lines without device: peak while running */
    uint64_t open_bytes;         /* peak while opening (header and tokenizer parsing) */
    uint64_t plan_bytes;         /* max(run_bytes, open_bytes): what the process will never exceed */
    uint64_t budget_bytes;       /* the ceiling it was made for */
    uint64_t floor_bytes;        /* budget with one cycle of slots: the smallest cached run */
    uint64_t hard_floor_bytes;   /* below this the model is refused */
    uint64_t full_bytes;         /* budget from which every expert stays resident */
    uint64_t cycle_bytes;        /* slot bytes of one cycle (layers x top-k experts) */
    uint64_t slots_count;        /* slots that the plan affords */
    uint64_t experts_count;      /* experts in the model (all layers) */
    uint64_t token_expert_bytes; /* expert bytes one token needs, as stored: B of the speed law */
    uint64_t experts_bytes;      /* all routed experts, as stored */
    uint32_t ctx_tokens;
    uint32_t ctx_max_tokens; /* largest context that fits the budget, never above the model's own maximum */
    uint32_t chunk_tokens;
    uint32_t threads;
    uint32_t io_threads;
    berth_kv_type kv_type;
    bool fits;         /* budget >= hard floor */
    bool cached;       /* budget >= floor */
    bool resident;     /* every expert has a slot */
    char binding[256]; /* what set the budget: "given budget", "MemAvailable", a cgroup path */
} berth_plan;
#define BERTH_PLAN_INIT BERTH_INIT_(berth_plan)

/* Plans the memory of opening `path` (a GGUF file, the first file of a split GGUF, or a Hugging Face directory) and
 * creating its session, from headers alone. Returns BERTH_OK also when the model does not fit (plan->fits). */
BERTH_API berth_status berth_plan_memory(const char *path, const berth_model_config *config, berth_plan *plan,
                                         berth_error *err);

/* ---- model ------------------------------------------------------------------------------------------ */

typedef struct berth_model berth_model;
typedef struct berth_session berth_session;

typedef struct berth_model_info {
    size_t struct_size;
    char name[128];     /* general.name, or the directory's name */
    char family[32];    /* "qwen3-moe" */
    char format[32];    /* "GGUF v3" or "safetensors" */
    char kernels[32];   /* kernel row in use, "avx512" */
    char io_engine[32]; /* I/O row in use, "pread" */
    char policy[32];
    uint32_t layers, hidden, heads, kv_heads, head_dim, vocab, ctx_max_tokens;
    uint32_t moe_layers, experts, top_k;
    uint64_t parameters;    /* from tensor shapes */
    uint64_t file_bytes;    /* tensor data */
    int32_t bos_id, eos_id; /* -1: none */
    bool has_tokenizer;
} berth_model_info;
#define BERTH_MODEL_INFO_INIT BERTH_INIT_(berth_model_info)

/* Opens a model: plans, refuses with BERTH_ERR_BUDGET when it does not fit, reserves the memory, reads the trunk.
 * config may be NULL. *out must be closed with berth_model_close(). */
BERTH_API berth_status berth_model_open(const char *path, const berth_model_config *config, berth_model **out,
                                        berth_error *err);
/* Frees the session too. NULL is allowed. */
BERTH_API void berth_model_close(berth_model *model);

/* What was opened. In text mode only what the tokenizer and the file say. */
BERTH_API berth_status berth_model_get_info(const berth_model *model, berth_model_info *info);
/* The plan the model was opened with. */
BERTH_API berth_status berth_model_get_plan(const berth_model *model, berth_plan *plan);

/* ---- text ------------------------------------------------------------------------------------------- */

enum {
    BERTH_TOKENIZE_BOS = 1,    /* add what the tokenizer's template adds around a text (BOS, ...) */
    BERTH_TOKENIZE_SPECIAL = 2 /* special tokens written in the text become their ids; otherwise plain text */
};

/* Encodes text[0..text_bytes). Writes at most cap ids; *count is the number the text needs, also when it is more than
 * cap (then BERTH_ERR_LIMIT and nothing else is promised about ids). ids NULL and cap 0 only count: BERTH_OK. */
BERTH_API berth_status berth_tokenize(berth_model *model, const char *text, size_t text_bytes, unsigned flags,
                                      int32_t *ids, size_t cap, size_t *count, berth_error *err);

/* Streaming detokeniser state; zero-initialise. Keeps an unfinished UTF-8 sequence between calls. */
typedef struct berth_detok {
    unsigned char pending[8];
    uint32_t pending_bytes;
    bool started;
    bool show_special; /* write special tokens as text; default false: they are dropped */
} berth_detok;

/* Appends token `id`; writes only whole UTF-8 sequences (invalid bytes become U+FFFD). buffer needs at least
 * berth_piece_max_bytes(). *count = bytes written, no NUL. */
BERTH_API berth_status berth_detok_push(const berth_model *model, berth_detok *detok, int32_t id, char *buffer,
                                        size_t cap, size_t *count);
/* Ends the stream: an unfinished sequence becomes U+FFFD. */
BERTH_API berth_status berth_detok_finish(berth_detok *detok, char *buffer, size_t cap, size_t *count);
/* The most bytes that one push or finish writes; 0: the model has no tokenizer. */
BERTH_API size_t berth_piece_max_bytes(const berth_model *model);

/* The token's own spelling as stored in the vocabulary, borrowed until the model closes. NULL: no such token. */
BERTH_API const char *berth_token_text(const berth_model *model, int32_t id, size_t *bytes, bool *is_special);
/* True for end-of-generation tokens (eos list of generation_config.json, eot of GGUF metadata). */
BERTH_API bool berth_token_is_end(const berth_model *model, int32_t id);
/* The chat template's source text, borrowed until the model closes; NULL: none. */
BERTH_API const char *berth_chat_template(const berth_model *model, size_t *bytes);

/* ---- session ---------------------------------------------------------------------------------------- */

/* One routing decision: `k` experts of one token at one layer, in router rank order. Arrays are borrowed for the call.
 */
typedef struct berth_route {
    uint32_t layer, position, k;
    berth_phase phase;
    const uint16_t *experts; /* [k] */
    const float *weights;    /* [k] as multiplied into the outputs */
} berth_route;
typedef void berth_route_fn(void *user, const berth_route *route);

/* Logits of one position, float32 [vocab], borrowed for the call. */
typedef void berth_logits_fn(void *user, uint32_t position, const float *logits, uint32_t vocab);

typedef struct berth_session_config {
    size_t struct_size;
    berth_route_fn *route; /* sees every selected route; NULL: none */
    void *route_user;
} berth_session_config;
#define BERTH_SESSION_CONFIG_INIT BERTH_INIT_(berth_session_config)

/* Creates the model's session (one at a time: a second one gets BERTH_ERR_STATE). Its memory was reserved at open. */
BERTH_API berth_status berth_session_create(berth_model *model, const berth_session_config *config, berth_session **out,
                                            berth_error *err);
/* The model may then create another. NULL is allowed. */
BERTH_API void berth_session_free(berth_session *session);

/* Appends ids[0..count) to the sequence, in chunks. With `each` every position's logits are computed and reported,
 * otherwise only the last one's. On failure (I/O, cancel) the sequence keeps the chunks that were finished:
 * berth_session_length() tells. */
BERTH_API berth_status berth_session_eval(berth_session *session, const int32_t *ids, size_t count,
                                          berth_logits_fn *each, void *each_user, berth_error *err);
/* Logits after the last evaluated token, [vocab], borrowed until the next eval. NULL before the first. */
BERTH_API const float *berth_session_logits(const berth_session *session);
/* Tokens in the sequence. */
BERTH_API uint32_t berth_session_length(const berth_session *session);
/* Forgets everything from position `length` on. Logits are not valid until the next eval. BERTH_ERR_ARGUMENT: `length`
 * is beyond the end (berth_session_length()), and nothing was forgotten. */
BERTH_API berth_status berth_session_truncate(berth_session *session, uint32_t length);
/* Asks a running eval (or warm start) to stop at the next layer. Between two of them it does nothing. May be called
 * from any thread or a signal handler. */
BERTH_API void berth_session_cancel(berth_session *session);

/* The end of a turn (after an answer): saves the ledger; with the seed policy, first swaps pins that have gone cold. */
typedef struct berth_turn {
    size_t struct_size;
    uint32_t candidates, swaps;
    bool saved;
} berth_turn;
#define BERTH_TURN_INIT BERTH_INIT_(berth_turn)
/* turn may be NULL. BERTH_ERR_STATE: the ledger's file was refused; everything else went on. */
BERTH_API berth_status berth_session_turn_end(berth_session *session, berth_turn *turn, berth_error *err);

/* Fills free slots with the experts that the ledger says are used most, in file order, for at most max_ns; goes on
 * where the last call stopped. The first eval ends it for good; berth_session_cancel() ends one call. warm may be NULL.
 */
typedef struct berth_warm {
    size_t struct_size;
    uint64_t experts, read_bytes, ns;
    bool complete; /* nothing is left to do */
} berth_warm;
#define BERTH_WARM_INIT BERTH_INIT_(berth_warm)
BERTH_API berth_status berth_model_warm(berth_model *model, uint64_t max_ns, berth_warm *warm, berth_error *err);

typedef struct berth_stats {
    size_t struct_size;
    uint64_t prefill_tokens, decode_tokens;
    uint64_t prefill_ns, decode_ns;
    uint64_t hits[2], misses[2];      /* by berth_phase: expert visits served from a slot / from disk */
    uint64_t read_bytes[2], reads[2]; /* by berth_phase: expert bytes asked from the files */
    uint64_t stall_ns[2];             /* by berth_phase: compute waited for reads */
    uint64_t evictions;
    uint64_t macs;         /* multiply-adds done */
    uint64_t kernel_calls; /* matrix kernels run, all of the row named in berth_model_info */
    uint64_t open_ns, open_read_bytes;
    uint64_t slots_used, slots_count;
    uint64_t major_faults; /* pages the process had to read from disk since the model opened */
    bool direct_io, memory_locked;
    uint64_t pinned_slots;
    uint64_t warm_experts, warm_read_bytes; /* pins and warm start: not among the reads above */
    uint64_t policy_ns;                     /* deciding what stays in memory */
} berth_stats;
#define BERTH_STATS_INIT BERTH_INIT_(berth_stats)
/* Counted since the model opened. */
BERTH_API berth_status berth_model_get_stats(const berth_model *model, berth_stats *stats);

/* ---- the documents' memory contract ------------------------------------------------------------------
 *
 * The rules of another engine (MLX on unified memory), reproduced to the byte: what a config.json needs at a context,
 * whether it fits a machine, how fast it decodes, and the identity of a model. Everything here is a pure function of
 * its arguments, except berth_fit_weights_of(), berth_sku_detect_chip() and berth_sku_this_machine(). Quantities are
 * doubles as in the documents: quantised KV bytes may be fractional. Quirks that are kept on purpose are listed in
 * docs/seeds.md. */

/* The six constants and the two defaults. */
#define BERTH_FIT_DECODE_EFFICIENCY 0.82
#define BERTH_FIT_MOE_DECODE_EFFICIENCY 0.76
#define BERTH_FIT_TRANSIENT_PER_TOKEN 550000.0
#define BERTH_FIT_WIRED_FRACTION 0.75
#define BERTH_FIT_COEXIST_FRACTION 0.6
#define BERTH_FIT_DEFAULT_CHUNK 2048
#define BERTH_FIT_DEFAULT_BANDWIDTH_GBS 273.0
#define BERTH_FIT_DEFAULT_REPO_ID "mlx-community/gemma-4-e4b-it-OptiQ-4bit"

#define BERTH_FIT_LAYERS_MAX 4096
#define BERTH_FIT_DOCUMENT_MAX ((size_t)4 << 20) /* longest config.json, kv_config.json, generation_config.json */

/* A borrowed string: not NUL-terminated. */
typedef struct berth_text {
    const char *ptr;
    size_t bytes;
} berth_text;

/* The numbers of a parsed configuration, in the documents' order. */
typedef enum berth_fit_field {
    BERTH_FIT_HIDDEN_SIZE = 0,
    BERTH_FIT_LAYERS,
    BERTH_FIT_HEADS,
    BERTH_FIT_KV_HEADS,
    BERTH_FIT_HEAD_DIM,
    BERTH_FIT_GLOBAL_KV_HEADS,
    BERTH_FIT_GLOBAL_HEAD_DIM,
    BERTH_FIT_INTERMEDIATE_SIZE,
    BERTH_FIT_RMS_NORM_EPS,
    BERTH_FIT_VOCAB_SIZE,
    BERTH_FIT_MAX_POSITIONS,
    BERTH_FIT_SLIDING_WINDOW,
    BERTH_FIT_PER_LAYER_INPUT, /* hidden_size_per_layer_input */
    BERTH_FIT_PER_LAYER_VOCAB, /* vocab_size_per_layer_input */
    BERTH_FIT_KV_SHARED_LAYERS,
    BERTH_FIT_EXPERTS,
    BERTH_FIT_TOP_K,
    BERTH_FIT_MOE_INTERMEDIATE_SIZE,
    BERTH_FIT_SPARSE_STEP,
    BERTH_FIT_LINEAR_VALUE_HEADS,
    BERTH_FIT_LINEAR_KEY_HEADS,
    BERTH_FIT_LINEAR_KEY_HEAD_DIM,
    BERTH_FIT_LINEAR_VALUE_HEAD_DIM,
    BERTH_FIT_LINEAR_CONV_KERNEL,
    BERTH_FIT_FULL_ATTENTION_INTERVAL,
    BERTH_FIT_PARTIAL_ROTARY_FACTOR,
    BERTH_FIT_FINAL_LOGIT_SOFTCAP,
    BERTH_FIT_BOS_TOKEN,
    BERTH_FIT_EOS_TOKEN,
    BERTH_FIT_CANVAS_LENGTH,
    BERTH_FIT_FIELDS
} berth_fit_field;

/* One row of kv_config.json: this layer's cache is quantised. */
typedef struct berth_kv_quant {
    double layer_idx, bits, group_size;
} berth_kv_quant;

typedef struct berth_fit_rope {
    berth_text kind; /* "full_attention" */
    double theta;
    berth_text type;
    double partial_rotary_factor, factor;
} berth_fit_rope;

/* A configuration as the documents' functions see it. Parsed, or filled by hand (zero-initialise). */
typedef struct berth_fit_config {
    size_t struct_size;
    double number[BERTH_FIT_FIELDS]; /* NaN: null, or not a number by arithmetic */
    uint64_t undefined;              /* bit BERTH_FIT_x: the member is absent; its number is NaN */
    bool attention_k_eq_v, enable_moe_block, norm_topk_prob, attn_output_gate, tie_word_embeddings;
    bool eos_is_list; /* the text part names its end tokens as a list: eos_list */
    bool has_vision_sidecar;
    bool has_kv_quant; /* kv_config.json was there, if only as an empty list */
    bool is_quantized;
    const berth_text *layer_types; /* [layer_types_count]; a layer past the end counts as "full_attention" */
    size_t layer_types_count;
    const double *mlp_only_layers, *eos_list, *eos_token_ids;
    size_t mlp_only_layers_count, eos_list_count, eos_token_ids_count;
    const berth_fit_rope *rope;
    size_t rope_count;
    const berth_kv_quant *kv_quant;
    size_t kv_quant_count;
    const berth_text *architectures;
    size_t architectures_count;
    berth_text model_type, dtype, hidden_activation, quant_mode;
    double quant_bits, quant_group_size; /* when is_quantized; NaN: not said */
} berth_fit_config;
#define BERTH_FIT_CONFIG_INIT BERTH_INIT_(berth_fit_config)

/* The files a configuration is read from; an empty text is an absent file. */
typedef struct berth_fit_source {
    size_t struct_size;
    berth_text config_json;
    berth_text kv_config_json;
    berth_text generation_config_json;
    bool has_vision_sidecar;
} berth_fit_source;
#define BERTH_FIT_SOURCE_INIT BERTH_INIT_(berth_fit_source)

/* Bytes that berth_fit_config_parse() may need for this source. */
BERTH_API size_t berth_fit_config_bytes(const berth_fit_source *source);
/* Reads a configuration in all dialects (docs/seeds.md). Lists and strings live in `memory` (8-byte aligned) or in the
 * source's text: both must outlive *out. A value of the wrong type is BERTH_ERR_FORMAT and names the key. Missing
 * dimensions are not an error here: they are `undefined`. */
BERTH_API berth_status berth_fit_config_parse(const berth_fit_source *source, void *memory, size_t memory_bytes,
                                              berth_fit_config *out, berth_error *err);

/* How the KV cache is stored. All zero: bf16. A non-empty `layers` wins over `bits`; layers it does not list are bf16.
 */
typedef struct berth_kv_scheme {
    double bits;       /* 0: bf16 */
    double group_size; /* 0: 64 */
    const berth_kv_quant *layers;
    size_t layers_count;
} berth_kv_scheme;

/* What a cache costs: full x n + sliding x min(n, window) + state. */
typedef struct berth_kv_cost {
    double full_bytes_per_token, sliding_bytes_per_token, state_bytes, window_tokens;
} berth_kv_cost;

/* Bytes of one stored element: bits / 8 + a 2-byte scale and bias a group. */
BERTH_API double berth_kv_quant_bytes_per_element(double bits, double group_size);
/* `scheme` may be NULL (bf16). Every layer is billed, also those that share another layer's cache. */
BERTH_API void berth_kv_cost_of(const berth_fit_config *config, const berth_kv_scheme *scheme, berth_kv_cost *out);
BERTH_API double berth_kv_bytes_at(const berth_fit_config *config, double tokens, const berth_kv_scheme *scheme);
/* Corrected: the trailing num_kv_shared_layers layers own no cache. */
BERTH_API double berth_kv_owned_bytes_at(const berth_fit_config *config, double tokens, const berth_kv_scheme *scheme);
/* The attention score matrix that prefill materialises for head sizes without a fused kernel. */
BERTH_API double berth_kv_sdpa_fallback_bytes(const berth_fit_config *config, double chunk_tokens, double ctx_tokens);
/* The prefill chunk: `wanted` if not 0; else 2048, halved while the score matrix is above 1 GiB when the graph bounds
 * its work space. */
BERTH_API uint32_t berth_kv_prefill_chunk(const berth_fit_config *config, double prompt_tokens, uint32_t wanted,
                                          bool bounded_workspace);

/* Where a bandwidth is from. */
typedef enum berth_sku_basis {
    BERTH_SKU_GIVEN = 0,  /* the caller */
    BERTH_SKU_TABLE = 1,  /* the row of the detected chip */
    BERTH_SKU_DEFAULT = 2 /* BERTH_FIT_DEFAULT_BANDWIDTH_GBS: the chip is not in the table, speeds mean nothing here */
} berth_sku_basis;
typedef struct berth_sku_machine {
    char name[64];
    double ram_bytes, bandwidth_gbs;
    berth_sku_basis bandwidth_basis; /* said by berth_sku_this_machine(), read by nobody */
} berth_sku_machine;

/* Sums over a directory's safetensors files, for the next struct. */
typedef struct berth_fit_weights {
    size_t struct_size;
    uint32_t files;          /* *.safetensors that weights_bytes counts */
    bool has_vision_sidecar; /* for berth_fit_source */
    double weights_bytes;    /* sizes of those files, headers included */
    double experts_bytes;    /* of tensors whose name contains ".experts." */
    double switch_bytes;     /* of tensors whose name contains ".switch_mlp.": experts that the documents miss */
    double sidecar_bytes;    /* optiq_vision.safetensors, never part of the weights */
} berth_fit_weights;
#define BERTH_FIT_WEIGHTS_INIT BERTH_INIT_(berth_fit_weights)

/* Adds up the files of a Hugging Face or MLX directory, from their sizes and headers. No such file: zeros. */
BERTH_API berth_status berth_fit_weights_of(const char *path, berth_fit_weights *out, berth_error *err);
/* An estimate for a configuration alone: its parameters, matrices in `bits` bits with a float16 scale and bias for each
 * `group`, the rest in two bytes. bits 0: both as its "quantization" says; BERTH_ERR_NOT_FOUND: it says nothing. */
BERTH_API berth_status berth_fit_weights_mlx(berth_text config_json, uint32_t bits, uint32_t group,
                                             berth_fit_weights *out, berth_error *err);

typedef struct berth_fit_request {
    size_t struct_size;
    double weights_bytes;
    double experts_bytes; /* of weights_bytes: routed experts */
    double context_tokens;
    double chunk_tokens; /* 0: BERTH_FIT_DEFAULT_CHUNK */
    bool has_budget;     /* budget_bytes replaces the machine's usable share outright */
    double budget_bytes;
    berth_sku_machine machine;
    berth_kv_scheme kv;
} berth_fit_request;
#define BERTH_FIT_REQUEST_INIT BERTH_INIT_(berth_fit_request)

/* weights + kv + transient + reserve = total. */
typedef struct berth_fit_report {
    size_t struct_size;
    uint32_t schema_version; /* 1 */
    const char *strategy;    /* "generic-kv" */
    bool fits;
    bool lower_bound; /* the configuration does not say how many layers there are: kv_bytes is not all */
    double context_tokens, max_safe_context;
    double weights_bytes, kv_bytes, transient_bytes, reserve_bytes, total_bytes, usable_bytes;
    double predicted_decode_tps; /* infinite when nothing is read */
} berth_fit_report;
#define BERTH_FIT_REPORT_INIT BERTH_INIT_(berth_fit_report)

/* The contract. A configuration whose dimensions give no size (negative, not a number, absurdly large) is
 * BERTH_ERR_FORMAT and names the field; no output is ever NaN or negative. */
BERTH_API berth_status berth_fit_solve(const berth_fit_config *config, const berth_fit_request *request,
                                       berth_fit_report *report, berth_error *err);

enum { BERTH_SKU_RAM_MAX = 5, BERTH_SKU_ROWS = 41 };
typedef struct berth_sku {
    const char *chip; /* "M4 Pro" */
    double bandwidth_gbs;
    uint32_t ram_count;
    uint32_t ram_gb[BERTH_SKU_RAM_MAX];
} berth_sku;
/* The documents' table. Static storage. */
BERTH_API const berth_sku *berth_sku_table(size_t *count);
/* The row of a chip by the name the system gives ("Apple M4 Pro" or "M4 Pro"); NULL: unknown. */
BERTH_API const berth_sku *berth_sku_find(const char *chip);

typedef struct berth_sku_row {
    const char *sku;
    uint32_t ram_gb;
    bool fits;
    double max_context, decode_tps;
} berth_sku_row;
/* The contract on every machine of the table: rows[BERTH_SKU_ROWS]. Of the request, machine, budget and chunk are not
 * used. */
BERTH_API berth_status berth_sku_matrix(const berth_fit_config *config, const berth_fit_request *request,
                                        berth_sku_row *rows, berth_error *err);

typedef struct berth_sku_chip {
    char name[128];       /* "" : the system does not say */
    double bandwidth_gbs; /* 0: not in the table */
} berth_sku_chip;
/* Asks the operating system what processor this is. */
BERTH_API void berth_sku_detect_chip(berth_sku_chip *out);
/* RAM asked from the operating system; bandwidth as given, or (0) of the detected chip, or the default:
 * out->bandwidth_basis says which. */
BERTH_API berth_status berth_sku_this_machine(double bandwidth_gbs, berth_sku_machine *out, berth_error *err);

typedef struct berth_choose_candidate {
    const char *repo_id;
    double size_bytes;
} berth_choose_candidate;
typedef bool berth_choose_fn(void *user, const berth_choose_candidate *candidate);
/* The model to load when none is named: the default if it is there and fits the whole budget; else the largest that
 * leaves other programs their share; else the largest that fits at all. Equal sizes: the earlier one. Returns the
 * index, -1: none. */
BERTH_API int64_t berth_choose_auto_model(const berth_choose_candidate *candidates, size_t count,
                                          const char *default_repo_id, berth_choose_fn *fits_full,
                                          berth_choose_fn *fits_coexist, void *user);
/* The recommended first model is the same for every machine; the largest one depends on memory. Static storage. */
BERTH_API const char *berth_choose_recommended(double ram_bytes);
BERTH_API const char *berth_choose_largest_recommended(double ram_bytes);

/* What a server does with a request that may not fit. */
typedef enum berth_admission {
    BERTH_ADMISSION_REJECT = 0, /* prompt + max_tokens above the ceiling is refused */
    BERTH_ADMISSION_CAP = 1,    /* max_tokens is cut to the room left; refused only when no token could be generated */
    BERTH_ADMISSION_ADVISE = 2  /* never refused for an estimate; `exceeds` says that it is expected not to fit */
} berth_admission;
typedef struct berth_admission_result {
    size_t struct_size;
    bool admitted, exceeds;
    int http_status;         /* 200 or 400 */
    double max_tokens;       /* granted; 0 when refused */
    const char *type, *code; /* "memory_admission", "context_over_budget" when refused; else "" */
    char message[256];       /* names needed tokens, prompt, max_tokens and ceiling when `exceeds`; else "" */
} berth_admission_result;
#define BERTH_ADMISSION_RESULT_INIT BERTH_INIT_(berth_admission_result)
/* Token counts are whole and not negative. */
BERTH_API berth_status berth_fit_admit(berth_admission policy, double prompt_tokens, double max_tokens,
                                       double max_safe_context, berth_admission_result *out, berth_error *err);

/* ---- speed ------------------------------------------------------------------------------------------
 *
 * How fast a token is decoded and a prompt is read: bytes over bandwidth, multiply-adds over kernel rate, a fixed cost
 * of each layer, and what streams from disk. Pure functions, but for berth_speed_work_of(); docs/models.md has the law
 * and what it was fitted to, examples/plan.c a whole prediction. */

/* What a token takes. */
typedef struct berth_speed_work {
    size_t struct_size;
    double trunk_bytes;    /* weights every token reads; neither experts nor an embedding table that is looked up */
    double expert_bytes;   /* of the routed experts that one token selects */
    double experts_bytes;  /* of all routed experts */
    double state_bytes;    /* recurrent state: read whatever the context */
    double kv_token_bytes; /* cache of one token of context, read again by every later one */
    double macs;           /* multiply-adds; 0: unknown */
    double kv_token_macs;  /* and more of them for each token of context */
    uint32_t layers, moe_layers, experts, top_k;
} berth_speed_work;
#define BERTH_SPEED_WORK_INIT BERTH_INIT_(berth_speed_work)

/* What a token of the model at `path` takes, from headers alone. `plan` is berth_plan_memory()'s of the same path: the
 * KV cache is billed as it has it, it need not fit, and slots_count / experts_count is the slots_share below.
 * BERTH_ERR_ARGUMENT: the plan is of another model or of text alone. */
BERTH_API berth_status berth_speed_work_of(const char *path, const berth_plan *plan, berth_speed_work *work,
                                           berth_error *err);

/* A machine. A rate of 0 is unknown. */
typedef struct berth_speed_machine {
    size_t struct_size;
    double memory_bytes_per_s;
    double read_bytes_per_s;
    double macs_per_s, prefill_macs_per_s; /* one token at a time, many at a time */
    double efficiency;                     /* share of the bandwidth that weights reach */
    double layer_s, moe_layer_s;           /* fixed cost of a dense layer and of one with experts */
    double overlap;                        /* how much of reading hides behind computing, 0 to 1 */
    double margin;                         /* the range: from rate / (1 + margin) to rate * (1 + margin) */
} berth_speed_machine;
#define BERTH_SPEED_MACHINE_INIT BERTH_INIT_(berth_speed_machine)

typedef enum berth_speed_class {
    BERTH_SPEED_MEASURED = 0, /* this processor, at rates that were measured on it */
    BERTH_SPEED_CPU,          /* a processor at the peak rate of its memory */
    BERTH_SPEED_UNIFIED,      /* Apple and the like, at peak rate */
    BERTH_SPEED_SHARED,       /* graphics that share a processor's memory (GB10, Strix Halo), at peak rate */
    BERTH_SPEED_GPU           /* graphics memory, at peak rate */
} berth_speed_class;
/* Efficiency, layer costs, overlap and margin of a class; rates are left alone. */
BERTH_API void berth_speed_machine_class(berth_speed_class kind, berth_speed_machine *machine);

/* Expected hit rate of an expert cache, with its range. */
typedef struct berth_speed_hit {
    double rate, low, high;
} berth_speed_hit;
/* Of a cache that holds `slots_share` of all experts, when routing is as skewed as `skew` says: 1 is uniform (the rate
 * is the share), towards 0 few experts do everything. skew 0: as in published routes, with a wide range. */
BERTH_API berth_speed_hit berth_speed_hit_of(double slots_share, double skew);
/* The skew that gives `rate` at `slots_share`; 0: they do not say (nothing or everything held, no hit or no miss). */
BERTH_API double berth_speed_skew(double slots_share, double rate);

typedef struct berth_speed {
    size_t struct_size;
    double tokens_per_s, low, high; /* 0: unknown */
    double memory_s, compute_s, layers_s, disk_s;
    const char *binding; /* "memory", "compute", "layers", "disk"; "unknown". Static storage */
} berth_speed;
#define BERTH_SPEED_INIT BERTH_INIT_(berth_speed)

/* One token at a position. hit NULL: every expert is in memory. Unknown rates that would matter make it unknown. */
BERTH_API berth_status berth_speed_decode(const berth_speed_work *work, const berth_speed_machine *machine,
                                          double context_tokens, const berth_speed_hit *hit, berth_speed *out,
                                          berth_error *err);
/* A prompt, in chunks, by a cache that holds `slots_share` of all experts: tokens a second over all of it. */
BERTH_API berth_status berth_speed_prefill(const berth_speed_work *work, const berth_speed_machine *machine,
                                           double prompt_tokens, double chunk_tokens, double slots_share,
                                           berth_speed *out, berth_error *err);

/* ---- identity of a model ---------------------------------------------------------------------------- */

enum { BERTH_FINGERPRINT_BYTES = 17, BERTH_SHA256_TEXT_BYTES = 65 }; /* with the NUL */

/* A stable hash over every member that changes the decode graph, and the KV layout: 16 hex digits, and the whole
 * SHA-256 (may be NULL). */
BERTH_API berth_status berth_config_fingerprint(const berth_fit_config *config, char fingerprint[17], char sha256[65],
                                                berth_error *err);
/* The text that is hashed. Writes at most cap bytes, no NUL; *bytes is what it needs, also when that is more than cap
 * (then BERTH_ERR_LIMIT). */
BERTH_API berth_status berth_config_fingerprint_payload(const berth_fit_config *config, char *buffer, size_t cap,
                                                        size_t *bytes, berth_error *err);

typedef enum berth_tensor_order {
    BERTH_TENSOR_ORDER_LOCALE = 0, /* the documents': names sorted as a person would; printable ASCII names alone */
    BERTH_TENSOR_ORDER_BYTES = 1   /* ours: any name, byte order, one digest a tensor (docs/seeds.md) */
} berth_tensor_order;

typedef struct berth_tensor_item {
    const char *name; /* NUL-terminated */
    uint32_t dtype;   /* berth_tensor_dtype() */
    uint32_t dims_count;
    const uint64_t *dims;
    uint64_t data_bytes;
    const void *data; /* NULL: fetched with `read` */
} berth_tensor_item;

/* Copies bytes [offset, offset + bytes) of item `index` into buffer. */
typedef berth_status berth_tensor_read_fn(void *user, size_t index, uint64_t offset, size_t bytes, void *buffer,
                                          berth_error *err);

typedef struct berth_tensor_set {
    size_t struct_size;
    const berth_tensor_item *items;
    size_t count;
    berth_tensor_order order;
    uint32_t *work;             /* [2 * count]; afterwards work[0..count) is the order of the items */
    berth_tensor_read_fn *read; /* may be NULL when every item has data */
    void *read_user;
    void *buffer; /* for `read` */
    size_t buffer_bytes;
    berth_progress_fn *progress; /* may be NULL */
    void *progress_user;
} berth_tensor_set;
#define BERTH_TENSOR_SET_INIT BERTH_INIT_(berth_tensor_set)

/* Number of an element type ("BF16", "bfloat16", "F32", ...) in tensor fingerprints; -1: none. */
BERTH_API int berth_tensor_dtype(const char *name);
/* The exact identity of a set of tensors: 64 hex digits. */
BERTH_API berth_status berth_tensor_fingerprint(const berth_tensor_set *set, char sha256[65], berth_error *err);

/* ---- usage ledger ----------------------------------------------------------------------------------- */

/* The ledger that a model keeps (berth_model_config.ledger), for programs that want one of their own. Calls on one
 * ledger come from one thread at a time. docs/ledger.md describes the file, docs/seeds.md where each call comes from.
 */
typedef struct berth_ledger berth_ledger;

typedef enum berth_ledger_mode {
    BERTH_LEDGER_TOLERANT = 0, /* reads every known layout, keeps what is valid, merges on save */
    BERTH_LEDGER_SEED = 1      /* plain rows only, all or nothing; the last writer wins */
} berth_ledger_mode;

typedef struct berth_ledger_config {
    size_t struct_size;
    const char *path;          /* of the file; need not exist */
    const char *fallback_path; /* used when the directory of path cannot be written; NULL: none */
    const int64_t *layers;     /* [layers_count] unique, 0 or more; their order is that of the rows in the file */
    uint32_t layers_count;
    uint64_t experts; /* of each layer, at most 2^32 - 1 */
    berth_ledger_mode mode;
    const char *engine;                            /* its id goes into the header of new files; NULL: no header */
    uint64_t fingerprint;                          /* of the model, compared with the file's; 0: none */
    double half_life_tokens;                       /* counts halve every so many tokens, when saved; 0: never */
    void (*warn)(void *user, const char *message); /* damaged and refused files; NULL: silent */
    void *warn_user;
} berth_ledger_config;
#define BERTH_LEDGER_CONFIG_INIT BERTH_INIT_(berth_ledger_config)

/* Bytes that berth_ledger_open() needs; 0: the configuration is refused. */
BERTH_API size_t berth_ledger_bytes(const berth_ledger_config *config);
/* Builds a ledger in caller memory (4,096-byte aligned) and reads its file. Damage is told to `warn` and is no failure.
 * No destructor: what was not flushed is lost. */
BERTH_API berth_status berth_ledger_open(void *memory, size_t bytes, const berth_ledger_config *config,
                                         berth_ledger **out, berth_error *err);
/* Counts every selected expert: rows[row][0..counts[row]). A bad id changes nothing at all. */
BERTH_API berth_status berth_ledger_record(berth_ledger *ledger, int64_t layer, const int64_t *const *rows,
                                           const uint32_t *counts, uint32_t rows_count, berth_error *err);
/* How many tokens the recorded rows belong to (for half_life_tokens). */
BERTH_API void berth_ledger_add_tokens(berth_ledger *ledger, uint64_t tokens);

typedef struct berth_ledger_entry {
    uint32_t count, heat, last_access; /* saturating; last_access on a clock of selections that wraps */
} berth_ledger_entry;
BERTH_API berth_status berth_ledger_get(const berth_ledger *ledger, int64_t layer, int64_t expert,
                                        berth_ledger_entry *out, berth_error *err);

typedef struct berth_ledger_snapshot {
    uint32_t clock;
    uint64_t route_selections, total_count, nonzero_counts;
    bool dirty;
} berth_ledger_snapshot;
BERTH_API void berth_ledger_get_snapshot(const berth_ledger *ledger, berth_ledger_snapshot *out);

typedef struct berth_ledger_count {
    int64_t layer;
    uint32_t expert, count;
} berth_ledger_count;
/* Nonzero counts: count descending, then layer, then expert. Writes at most cap; returns how many there are. */
BERTH_API uint64_t berth_ledger_ranked(const berth_ledger *ledger, berth_ledger_count *out, uint64_t cap);

/* heat x 256 + max(0, 255 - age), the age modulo 2^32. */
BERTH_API uint64_t berth_lfru_score(uint32_t heat, uint32_t last_access, uint32_t clock);
typedef struct berth_lfru_candidate {
    int64_t layer;
    uint32_t cold_slot; /* place in the list of pins */
    uint32_t cold_expert, hot_expert;
    uint64_t cold_score, hot_score, gain;
} berth_lfru_candidate;
/* The swap that pays in a layer: hot > cold + cold / 4 + 1024. *found false: none does. */
BERTH_API berth_status berth_ledger_candidate(const berth_ledger *ledger, int64_t layer, const int64_t *pinned,
                                              uint32_t pinned_count, berth_lfru_candidate *out, bool *found,
                                              berth_error *err);
/* Sorts by gain descending, layer, hot expert and cuts to limit (4 in the documents). */
BERTH_API berth_status berth_lfru_select(berth_lfru_candidate *candidates, uint32_t *count, int64_t limit,
                                         berth_error *err);
BERTH_API void berth_ledger_decay_heat(berth_ledger *ledger);
/* Saves when something was recorded: beside the file, synced, renamed. On failure the ledger stays dirty and the file
 * as it was; BERTH_ERR_STATE: the file belongs to another model and is left alone. */
BERTH_API berth_status berth_ledger_flush(berth_ledger *ledger, berth_error *err);

typedef struct berth_ledger_import_counts {
    uint64_t rows, skipped, damaged, first_damaged_line;
} berth_ledger_import_counts;
/* Adds the counts of another file, of any known layout. */
BERTH_API berth_status berth_ledger_import(berth_ledger *ledger, const char *path, berth_ledger_import_counts *out,
                                           berth_error *err);
/* Multiplies all counts by 0 or more (0: forgets everything); the next flush does the same to what the file holds by
 * then, and keeps the old file as PATH.bak. */
BERTH_API berth_status berth_ledger_scale(berth_ledger *ledger, double factor, berth_error *err);
/* The path in use, borrowed. */
BERTH_API const char *berth_ledger_path(const berth_ledger *ledger);
/* Where the ledger of a model lies: DIR/.coli_usage, FILE.coli_usage. BERTH_ERR_LIMIT: it needs more than cap bytes. */
BERTH_API berth_status berth_ledger_default_path(const char *model_path, const char *state_dir, char *out, size_t cap,
                                                 berth_error *err);

typedef struct berth_autopin_config {
    size_t struct_size;
    int64_t resident_bytes;  /* of the persistent tiers, after working slots */
    int64_t mandatory_bytes; /* one slot for every layer */
    int64_t (*slot_bytes)(void *user, int64_t layer);
    void *user;
    int64_t min_history_selections;     /* 5,000 */
    int64_t full_confidence_selections; /* 200,000 */
    double pin_share;                   /* 0.5 */
    int64_t min_pin_bytes;              /* 500,000,000 */
} berth_autopin_config;
#ifdef __cplusplus
#define BERTH_AUTOPIN_CONFIG_INIT                                        \
    ([]() {                                                              \
        berth_autopin_config config = BERTH_INIT_(berth_autopin_config); \
        config.min_history_selections = 5000;                            \
        config.full_confidence_selections = 200000;                      \
        config.pin_share = 0.5;                                          \
        config.min_pin_bytes = 500000000;                                \
        return config;                                                   \
    }())
#else
#define BERTH_AUTOPIN_CONFIG_INIT                                        \
    ((berth_autopin_config){.struct_size = sizeof(berth_autopin_config), \
                            .min_history_selections = 5000,              \
                            .full_confidence_selections = 200000,        \
                            .pin_share = 0.5,                            \
                            .min_pin_bytes = 500000000})
#endif
typedef struct berth_autopin_plan {
    uint64_t history_selections;
    double confidence;
    uint64_t requested_bytes, usable_bytes, planned_bytes;
    uint64_t pins_count;
} berth_autopin_plan;
/* What AUTOPIN would pin, into pins[cap]; cap is at least the snapshot's nonzero_counts. */
BERTH_API berth_status berth_ledger_auto_pins(const berth_ledger *ledger, const berth_autopin_config *config,
                                              berth_ledger_count *pins, uint64_t cap, berth_autopin_plan *out,
                                              berth_error *err);

/* ---- sampling --------------------------------------------------------------------------------------- */

typedef struct berth_sampler_config {
    size_t struct_size;
    float temperature;       /* 0: greedy */
    uint32_t top_k;          /* 0: off */
    float top_p;             /* 0 or 1: off */
    float min_p;             /* 0: off */
    float repeat_penalty;    /* 0 or 1: off; divides positive, multiplies negative logits (CTRL, arXiv 1909.05858) */
    float presence_penalty;  /* subtracted once per seen token */
    float frequency_penalty; /* subtracted per occurrence */
    uint32_t penalty_last;   /* window of tokens penalties look at; 0: 64 */
    uint64_t seed;
} berth_sampler_config;
#define BERTH_SAMPLER_CONFIG_INIT BERTH_INIT_(berth_sampler_config)

/* Bytes that berth_sampler_init() needs for this vocabulary. */
BERTH_API size_t berth_sampler_bytes(uint32_t vocab, const berth_sampler_config *config);
typedef struct berth_sampler berth_sampler;
/* Builds a sampler in caller memory (8-byte aligned, berth_sampler_bytes() bytes). No destructor. */
BERTH_API berth_status berth_sampler_init(void *memory, size_t bytes, uint32_t vocab,
                                          const berth_sampler_config *config, berth_sampler **out, berth_error *err);
/* Tells the sampler about a token of the prompt or the answer (for the penalties). */
BERTH_API void berth_sampler_accept(berth_sampler *sampler, int32_t id);
/* Picks a token; the same logits, config and history give the same choice on every machine. Ties go to the lower id;
 * logits that are not a number are never chosen, and when none is one the choice is 0. */
BERTH_API int32_t berth_sampler_pick(berth_sampler *sampler, const float *logits);

#ifdef __cplusplus
}
#endif
#endif
