/* SPDX-License-Identifier: MIT
 *
 * The loop of every verb that writes text: feed a prompt, then sample, detokenise, look for stop strings and hand out
 * text as soon as it is certain, token by token.
 */
#ifndef APP_GENERATE_H
#define APP_GENERATE_H

#include "common/args.h"
#include "common/engine.h"

/* Sampling options shared by run and chat. */
struct sample_options {
    float temperature, top_p, min_p, repeat_penalty, presence_penalty, frequency_penalty;
    uint32_t top_k, penalty_last;
    uint64_t seed; /* SEED_NONE: one is made up */
};
#define SEED_NONE UINT64_MAX
extern const struct arg_option sample_option_rows[];
enum { SAMPLE_OPTIONS = 9 };

enum generate_end {
    GENERATE_RUNNING = 0,
    GENERATE_END_TOKEN,
    GENERATE_STOP,    /* a stop string */
    GENERATE_LENGTH,  /* as many tokens as asked for */
    GENERATE_CONTEXT, /* the context is full */
    GENERATE_INTERRUPTED,
    GENERATE_OUTPUT, /* the text could not be written */
    GENERATE_FAILED  /* err says why */
};
/* Stable names for JSON: "end", "stop", "length", "context", "interrupted", "output", "failed". */
const char *generate_end_name(enum generate_end end);
/* For people: "ended by a full context". */
const char *generate_end_text(enum generate_end end);

enum { STOP_BYTES_MAX = 128 };

struct live;

struct generator {
    struct engine *engine;
    berth_sampler *sampler;
    const struct arg_texts *stops; /* NULL: none; each at most STOP_BYTES_MAX bytes */
    int32_t end_id;                /* one more end token, -1: none */
    bool ignore_end;
    bool has_text; /* the model has a tokenizer */
    struct live *live;
    /* Receives text; false: it could not be written. */
    bool (*write)(void *user, const char *text, size_t bytes);
    void *write_user;
    /* private */
    char *held;      /* [held_cap]: text that may be the beginning of a stop string, and the newest piece */
    size_t held_cap; /* berth_piece_max_bytes() + STOP_BYTES_MAX at least */
    size_t held_bytes;
    berth_detok detok;
};

struct generated {
    enum generate_end end;
    uint32_t count;    /* ids written */
    uint64_t first_ns; /* monotonic time of the first token; 0: none */
    uint64_t last_ns;
    berth_error err;
};

/* Builds the sampler in memory that engine_take() gives; NULL after a message. Free with free(). */
berth_sampler *generate_sampler(const char *verb, const struct sample_options *options, uint32_t vocab, void **memory);
/* Too long or empty stop strings: a usage message; true when all are fine. */
bool generate_stops_ok(const char *verb, const struct arg_texts *stops);

/* Evaluates ids[0..count) with progress on stderr. */
berth_status generate_feed(struct engine *engine, const int32_t *ids, size_t count, berth_error *err);
/* Writes up to `limit` ids, the first one sampled from the session's logits. Every id but the last one has been
 * evaluated when it returns. */
void generate(struct generator *generator, int32_t *ids, uint32_t limit, struct generated *out);

/* Repeats the first text_bytes bytes of the text of ids, piece by piece, so that no one needs to keep it. */
berth_status generate_text_again(const berth_model *model, const int32_t *ids, uint32_t count, uint64_t text_bytes,
                                 char *buffer, size_t cap, void (*write)(void *user, const char *text, size_t bytes),
                                 void *user);

#endif
