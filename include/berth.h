/* SPDX-License-Identifier: MIT
 *
 * berth.h - the public interface of libberth: run Mixture-of-Experts language models bigger than memory.
 *
 * How it is used: fill a berth_model_config (BERTH_MODEL_CONFIG_INIT), ask berth_plan_memory() what the model
 * would need (file headers only), open it with berth_model_open(), create the session, feed token ids with
 * berth_session_eval(), read logits, sample, repeat.
 *
 * Rules that hold for every function:
 * - Fallible functions return berth_status: 0 is success, every failure is negative. On failure outputs are
 *   untouched and nothing is leaked. A `berth_error *` parameter may be NULL; otherwise it is filled on failure.
 * - Nothing prints, exits, aborts, installs signal handlers or reads the environment.
 * - Config structs start with struct_size; use the _INIT macros. A zero field means the documented default.
 * - Handles are opaque. A model may be used by one thread at a time, unless a function says otherwise. Two
 *   models in one process are independent.
 * - Text is UTF-8, sizes are bytes, counts of tokens are tokens, times are nanoseconds (monotonic).
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

typedef enum berth_kv_type { BERTH_KV_DEFAULT = 0, BERTH_KV_F32 = 1, BERTH_KV_F16 = 2 } berth_kv_type;

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
    const char *policy;    /* eviction policy row; NULL: "lru" */
    const char *io_engine; /* I/O row: "pread", "uring", "buffered"; NULL: "pread", else "buffered" */
    berth_log_fn *log;
    void *log_user;
    berth_progress_fn *progress;
    void *progress_user;
} berth_model_config;
#define BERTH_MODEL_CONFIG_INIT ((berth_model_config){.struct_size = sizeof(berth_model_config)})

/* Where an automatic budget came from. */
typedef struct berth_budget {
    size_t struct_size;
    uint64_t bytes;         /* limit minus reserve */
    uint64_t limit_bytes;   /* the binding limit itself */
    uint64_t reserve_bytes; /* kept free for the rest of the machine */
    char binding[256];      /* what binds: "MemAvailable" or the path of a cgroup file */
} berth_budget;
#define BERTH_BUDGET_INIT ((berth_budget){.struct_size = sizeof(berth_budget)})

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
    char binding[256]; /* what set the budget: "--budget", "MemAvailable", a cgroup path */
} berth_plan;
#define BERTH_PLAN_INIT ((berth_plan){.struct_size = sizeof(berth_plan)})

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
#define BERTH_MODEL_INFO_INIT ((berth_model_info){.struct_size = sizeof(berth_model_info)})

/* Opens a model: plans, refuses with BERTH_ERR_BUDGET when it does not fit, reserves the memory, reads the trunk.
 * config may be NULL. *out must be closed with berth_model_close(). */
BERTH_API berth_status berth_model_open(const char *path, const berth_model_config *config, berth_model **out,
                                        berth_error *err);
/* Frees the session too. NULL is allowed. */
BERTH_API void berth_model_close(berth_model *model);

BERTH_API berth_status berth_model_get_info(const berth_model *model, berth_model_info *info);
/* The plan the model was opened with. */
BERTH_API berth_status berth_model_get_plan(const berth_model *model, berth_plan *plan);

/* ---- text ------------------------------------------------------------------------------------------- */

enum {
    BERTH_TOKENIZE_BOS = 1,    /* add what the tokenizer's template adds around a text (BOS, ...) */
    BERTH_TOKENIZE_SPECIAL = 2 /* special tokens written in the text become their ids; otherwise plain text */
};

/* Encodes text[0..text_bytes). Writes at most cap ids; *count is the number the text needs, also when it is more than
 * cap (then BERTH_ERR_LIMIT and nothing else is promised about ids). */
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
#define BERTH_SESSION_CONFIG_INIT ((berth_session_config){.struct_size = sizeof(berth_session_config)})

/* Creates the model's session (one at a time: a second one gets BERTH_ERR_STATE). Its memory was reserved at open. */
BERTH_API berth_status berth_session_create(berth_model *model, const berth_session_config *config, berth_session **out,
                                            berth_error *err);
BERTH_API void berth_session_free(berth_session *session);

/* Appends ids[0..count) to the sequence, in chunks. With `each` every position's logits are computed and reported,
 * otherwise only the last one's. On failure (I/O, cancel) the sequence keeps the chunks that were finished:
 * berth_session_length() tells. */
BERTH_API berth_status berth_session_eval(berth_session *session, const int32_t *ids, size_t count,
                                          berth_logits_fn *each, void *each_user, berth_error *err);
/* Logits after the last evaluated token, [vocab], borrowed until the next eval. NULL before the first. */
BERTH_API const float *berth_session_logits(const berth_session *session);
BERTH_API uint32_t berth_session_length(const berth_session *session);
/* Forgets everything from position `length` on (length <= current). Logits are not valid until the next eval. */
BERTH_API berth_status berth_session_truncate(berth_session *session, uint32_t length);
/* Asks a running eval to stop at the next layer. May be called from any thread or a signal handler. */
BERTH_API void berth_session_cancel(berth_session *session);

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
} berth_stats;
#define BERTH_STATS_INIT ((berth_stats){.struct_size = sizeof(berth_stats)})
BERTH_API berth_status berth_model_get_stats(const berth_model *model, berth_stats *stats);

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
#define BERTH_SAMPLER_CONFIG_INIT ((berth_sampler_config){.struct_size = sizeof(berth_sampler_config)})

/* Bytes that berth_sampler_init() needs for this vocabulary. */
BERTH_API size_t berth_sampler_bytes(uint32_t vocab, const berth_sampler_config *config);
typedef struct berth_sampler berth_sampler;
/* Builds a sampler in caller memory (8-byte aligned, berth_sampler_bytes() bytes). No destructor. */
BERTH_API berth_status berth_sampler_init(void *memory, size_t bytes, uint32_t vocab,
                                          const berth_sampler_config *config, berth_sampler **out, berth_error *err);
/* Tells the sampler about a token of the prompt or the answer (for the penalties). */
BERTH_API void berth_sampler_accept(berth_sampler *sampler, int32_t id);
/* Picks a token; the same logits, config and history give the same choice on every machine. Ties go to the lower id. */
BERTH_API int32_t berth_sampler_pick(berth_sampler *sampler, const float *logits);

#ifdef __cplusplus
}
#endif
#endif
