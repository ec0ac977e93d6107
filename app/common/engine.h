/* SPDX-License-Identifier: MIT
 *
 * Opening a model the way every verb does: the shared options, the program's own share of the budget, progress on
 * stderr, and the refusal with advice.
 *
 * The program's share (plan line "app") depends on the context and the vocabulary only, not on the prompt, so that
 * `fit` and `run` with the same options speak of the same plan, to the byte.
 */
#ifndef APP_ENGINE_H
#define APP_ENGINE_H

#include "berth.h"
#include "common/args.h"
#include "common/limit.h"
#include "common/progress.h"

/* 0: what $BERTH_LEDGER says, else what the verb does by default. */
enum ledger_option { LEDGER_DEFAULT = 0, LEDGER_ON, LEDGER_READ, LEDGER_OFF };

struct model_options {
    const char *path;
    uint64_t budget_bytes; /* 0: auto */
    uint32_t ctx_tokens, chunk_tokens, threads, io_threads;
    int kv, isa;
    const char *policy, *io;
    int ledger; /* enum ledger_option */
    const char *ledger_path, *pins, *record_routes;
    uint64_t ledger_half_life;
    bool quiet, verbose, no_store;
};

/* --budget --ctx --chunk --kv: what a plan depends on; then --threads --io-threads --isa --io --policy and what is kept
 * in memory. */
extern const struct arg_option plan_option_rows[];
extern const struct arg_option machine_option_rows[];
extern const struct arg_option talk_option_rows[];
enum { PLAN_OPTIONS = 4, MACHINE_OPTIONS = 10, TALK_OPTIONS = 2 };

/* Most time for the warm start: a request waits; somebody still has to type. */
enum { WARM_REQUEST_MS = 500, WARM_IDLE_MS = 2000 };

/* What the verb needs besides the options. */
struct engine_needs {
    uint32_t ctx_tokens;     /* context known to be needed; used when --ctx is absent and the default is smaller */
    uint64_t text_bytes;     /* longest text to tokenise; 0: the default */
    uint64_t extra_bytes;    /* buffers of the verb beyond the common share */
    const tool_shape *shape; /* of the model, when it has been read already */
    bool text_only;          /* tokenizer only */
    bool no_session;
    bool observe;     /* by default the ledger is read only: what is evaluated is not use */
    uint32_t warm_ms; /* most time for the warm start; 0: WARM_REQUEST_MS, for a request that waits */
    bool exact_ctx_known;
    uint32_t exact_ctx; /* the plan's largest context to the token, as fit has it */
    bool measure;       /* measure the machine first, for the speed law */
    berth_route_fn *route;
    void *route_user;
};

struct engine {
    const char *verb;
    berth_model *model;
    berth_session *session; /* NULL when not wanted */
    berth_model_info info;
    berth_plan plan;
    uint64_t text_bytes; /* longest text one berth_tokenize() call takes */
    struct progress progress;
    bool verbose, quiet;
    uint64_t open_ns;
    berth_error refused; /* why the model was not opened: BERTH_ERR_BUDGET leaves the plan of what was asked */
    struct limit limit;
    /* private: prefill progress is told by the routes as they are decided */
    berth_route_fn *route;
    void *route_user;
    uint64_t prefill_tokens, prefill_base;
};

/* The configuration of a plan or an open, with the program's own share filled in. `extra_bytes` as above. */
int engine_config(const char *verb, const struct model_options *options, const struct engine_needs *needs,
                  berth_model_config *config);

/* Says "--budget" where the library only knows that a budget was given. */
void engine_name_budget(const struct model_options *options, berth_plan *plan);

/* --pin: a list is used as it is, anything else names a file of such rows. *text is free()d by the caller; NULL: a
 * list. The exit code. */
int engine_read_pins(const char *verb, const char *option, char **text);

/* EXIT_OK, or an exit code after the reason was printed. */
int engine_open(struct engine *engine, const char *verb, const struct model_options *options,
                const struct engine_needs *needs);
void engine_close(struct engine *engine);

/* Progress on stderr for the next eval of `tokens`; 0: no more. */
void engine_watch_prefill(struct engine *engine, uint64_t tokens);

/* Bytes of the buffers that verbs take for a context: prompt text, rendered text, ids twice. */
uint64_t engine_text_bytes(uint32_t ctx_tokens);

/* The largest context that fits, to the token: plans with `fn` until it is known. The exit code. */
typedef int engine_plan_fn(void *user, const struct model_options *options, berth_plan *plan);
int engine_settle_ctx(const struct model_options *options, berth_plan *plan, engine_plan_fn *fn, void *user);

/* $BERTH_LEDGER as enum ledger_option; the exit code. */
int engine_ledger_setting(const char *verb, int *out);

/* What to do about a prompt longer than the context. */
const char *engine_more_ctx(uint32_t ctx_tokens, uint32_t ctx_max_tokens);

/* Memory of the program: zeroed, NULL after a message when refused. Free with free(). */
void *engine_take(const char *verb, uint64_t bytes);

#endif
