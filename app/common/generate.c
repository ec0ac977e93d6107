/* SPDX-License-Identifier: MIT */
#include "common/generate.h"

#include <stddef.h>
#include <string.h>

#include "common/host.h"
#include "common/live.h"
#include "common/report.h"

/* ---- options ---------------------------------------------------------------------------------------- */

#define AT(field) offsetof(struct sample_options, field)

const struct arg_option sample_option_rows[SAMPLE_OPTIONS] = {
    {.name = "temp",
     .type = ARG_REAL,
     .offset = AT(temperature),
     .value = "T",
     .real_high = 100,
     .help = "temperature; 0 always takes the likeliest token"},
    {.name = "top-k",
     .type = ARG_U32,
     .offset = AT(top_k),
     .value = "N",
     .high = 1u << 24,
     .help = "sample among the N likeliest (0: off)"},
    {.name = "top-p",
     .type = ARG_REAL,
     .offset = AT(top_p),
     .value = "P",
     .real_high = 1,
     .help = "sample among the likeliest that add up to P"},
    {.name = "min-p",
     .type = ARG_REAL,
     .offset = AT(min_p),
     .value = "P",
     .real_high = 1,
     .help = "drop tokens below P times the likeliest"},
    {.name = "repeat-penalty",
     .type = ARG_REAL,
     .offset = AT(repeat_penalty),
     .value = "X",
     .real_high = 100,
     .help = "divide the logits of recent tokens (1: off)"},
    {.name = "presence-penalty",
     .type = ARG_REAL,
     .offset = AT(presence_penalty),
     .value = "X",
     .real_low = -100,
     .real_high = 100,
     .help = "subtract once for a recent token"},
    {.name = "frequency-penalty",
     .type = ARG_REAL,
     .offset = AT(frequency_penalty),
     .value = "X",
     .real_low = -100,
     .real_high = 100,
     .help = "subtract for each time a token is recent"},
    {.name = "penalty-last",
     .type = ARG_U32,
     .offset = AT(penalty_last),
     .value = "N",
     .low = 1,
     .high = 1u << 24,
     .help = "how many tokens are recent (default 64)"},
    {.name = "seed",
     .type = ARG_U64,
     .offset = AT(seed),
     .value = "S",
     .high = SEED_NONE - 1,
     .help = "seed of the sampler (default: a new one each run)"},
};

berth_sampler *generate_sampler(const char *verb, const struct sample_options *options, uint32_t vocab, void **memory)
{
    berth_sampler_config config = BERTH_SAMPLER_CONFIG_INIT;
    config.temperature = options->temperature;
    config.top_k = options->top_k;
    config.top_p = options->top_p;
    config.min_p = options->min_p;
    config.repeat_penalty = options->repeat_penalty;
    config.presence_penalty = options->presence_penalty;
    config.frequency_penalty = options->frequency_penalty;
    config.penalty_last = options->penalty_last;
    config.seed = options->seed;
    size_t bytes = berth_sampler_bytes(vocab, &config);
    *memory = engine_take(verb, bytes);
    if (*memory == NULL) {
        return NULL;
    }
    berth_sampler *sampler;
    berth_error err;
    if (berth_sampler_init(*memory, bytes, vocab, &config, &sampler, &err) != BERTH_OK) {
        report_error(verb, &err);
        return NULL;
    }
    return sampler;
}

bool generate_stops_ok(const char *verb, const struct arg_texts *stops)
{
    for (uint32_t i = 0; i < stops->count; i++) {
        size_t bytes = strlen(stops->items[i]);
        if (bytes == 0 || bytes > STOP_BYTES_MAX) {
            report_usage(verb, "--stop: a stop string has 1 to %d bytes", STOP_BYTES_MAX);
            return false;
        }
    }
    return true;
}

const char *generate_end_text(enum generate_end end)
{
    static const char *const texts[] = {
        [GENERATE_RUNNING] = "not ended",
        [GENERATE_END_TOKEN] = "ended by the model",
        [GENERATE_STOP] = "ended at a stop text",
        [GENERATE_LENGTH] = "ended at the length asked for (-n)",
        [GENERATE_CONTEXT] = "ended by a full context",
        [GENERATE_INTERRUPTED] = "interrupted",
        [GENERATE_OUTPUT] = "ended by a lost output",
        [GENERATE_FAILED] = "failed",
    };
    return texts[end];
}

const char *generate_end_name(enum generate_end end)
{
    switch (end) {
    case GENERATE_RUNNING:
        return "running";
    case GENERATE_END_TOKEN:
        return "end";
    case GENERATE_STOP:
        return "stop";
    case GENERATE_LENGTH:
        return "length";
    case GENERATE_CONTEXT:
        return "context";
    case GENERATE_INTERRUPTED:
        return "interrupted";
    case GENERATE_OUTPUT:
        return "output";
    case GENERATE_FAILED:
        return "failed";
    }
    return "unknown";
}

/* ---- prompts ---------------------------------------------------------------------------------------- */

berth_status generate_feed(struct engine *engine, const int32_t *ids, size_t count, berth_error *err)
{
    engine_watch_prefill(engine, count);
    berth_status status = berth_session_eval(engine->session, ids, count, NULL, NULL, err);
    engine_watch_prefill(engine, 0);
    progress_end(&engine->progress);
    return status;
}

/* ---- text ------------------------------------------------------------------------------------------- */

/* Length of the longest end of the held text that begins a stop string. */
static size_t partial_stop(const struct generator *g)
{
    size_t longest = 0;
    for (uint32_t i = 0; g->stops != NULL && i < g->stops->count; i++) {
        const char *stop = g->stops->items[i];
        size_t most = strlen(stop) - 1;
        most = most < g->held_bytes ? most : g->held_bytes;
        for (size_t length = most; length > longest; length--) {
            if (memcmp(g->held + g->held_bytes - length, stop, length) == 0) {
                longest = length;
            }
        }
    }
    return longest;
}

/* Where the first stop string begins in the held text; held_bytes: none. */
static size_t find_stop(const struct generator *g)
{
    size_t first = g->held_bytes;
    for (uint32_t i = 0; g->stops != NULL && i < g->stops->count; i++) {
        size_t bytes = strlen(g->stops->items[i]);
        for (size_t at = 0; at + bytes <= g->held_bytes && at < first; at++) {
            if (memcmp(g->held + at, g->stops->items[i], bytes) == 0) {
                first = at;
            }
        }
    }
    return first;
}

static bool release(struct generator *g, size_t bytes)
{
    if (bytes > 0 && !g->write(g->write_user, g->held, bytes)) {
        return false;
    }
    memmove(g->held, g->held + bytes, g->held_bytes - bytes);
    g->held_bytes -= bytes;
    return true;
}

/* Hands out what is certain of the held text. */
static enum generate_end settle(struct generator *g)
{
    size_t stop = find_stop(g);
    if (stop < g->held_bytes) {
        bool written = release(g, stop);
        g->held_bytes = 0;
        return written ? GENERATE_STOP : GENERATE_OUTPUT;
    }
    return release(g, g->held_bytes - partial_stop(g)) ? GENERATE_RUNNING : GENERATE_OUTPUT;
}

static enum generate_end add_token(struct generator *g, int32_t id)
{
    if (!g->has_text) {
        return GENERATE_RUNNING;
    }
    size_t count = 0;
    if (berth_detok_push(g->engine->model, &g->detok, id, g->held + g->held_bytes, g->held_cap - g->held_bytes,
                         &count) != BERTH_OK) {
        return GENERATE_FAILED;
    }
    g->held_bytes += count;
    return settle(g);
}

/* What is left when the answer is over: an unfinished character, the beginning of a stop string that never came. */
static bool finish_text(struct generator *g)
{
    size_t count = 0;
    if (g->has_text &&
        berth_detok_finish(&g->detok, g->held + g->held_bytes, g->held_cap - g->held_bytes, &count) == BERTH_OK) {
        g->held_bytes += count;
    }
    return release(g, g->held_bytes);
}

/* ---- the loop --------------------------------------------------------------------------------------- */

static bool is_end(const struct generator *g, int32_t id)
{
    return !g->ignore_end && (id == g->end_id || berth_token_is_end(g->engine->model, id));
}

/* Samples one token; RUNNING: go on. */
static enum generate_end step(struct generator *g, int32_t *ids, uint32_t limit, struct generated *out)
{
    berth_session *session = g->engine->session;
    int32_t id = berth_sampler_pick(g->sampler, berth_session_logits(session));
    berth_sampler_accept(g->sampler, id);
    ids[out->count++] = id;
    out->last_ns = host_now_ns();
    out->first_ns = out->first_ns == 0 ? out->last_ns : out->first_ns;
    if (is_end(g, id)) {
        return GENERATE_END_TOKEN;
    }
    enum generate_end end = add_token(g, id);
    if (end == GENERATE_FAILED) {
        error_set(&out->err, BERTH_ERR_INTERNAL, "token %d could not be turned into text", (int)id);
    }
    if (end != GENERATE_RUNNING) {
        return end;
    }
    if (out->count == limit) {
        return GENERATE_LENGTH;
    }
    if (berth_session_length(session) >= g->engine->plan.ctx_tokens) {
        return GENERATE_CONTEXT;
    }
    if (host_interrupted()) {
        return GENERATE_INTERRUPTED;
    }
    berth_status status = berth_session_eval(session, &id, 1, NULL, NULL, &out->err);
    if (status == BERTH_ERR_CANCELLED && host_interrupted()) {
        return GENERATE_INTERRUPTED;
    }
    return status == BERTH_OK ? GENERATE_RUNNING : GENERATE_FAILED;
}

void generate(struct generator *generator, int32_t *ids, uint32_t limit, struct generated *out)
{
    *out = (struct generated){.end = limit == 0 ? GENERATE_LENGTH : GENERATE_RUNNING};
    generator->held_bytes = 0;
    generator->detok = (berth_detok){0};
    while (out->end == GENERATE_RUNNING) {
        out->end = step(generator, ids, limit, out);
        live_token(generator->live);
    }
    if (out->end != GENERATE_OUTPUT && out->end != GENERATE_STOP && !finish_text(generator)) {
        out->end = GENERATE_OUTPUT;
    }
}

berth_status generate_text_again(const berth_model *model, const int32_t *ids, uint32_t count, uint64_t text_bytes,
                                 char *buffer, size_t cap, void (*write)(void *user, const char *text, size_t bytes),
                                 void *user)
{
    berth_detok detok = {0};
    for (uint32_t i = 0; i <= count && text_bytes > 0; i++) {
        size_t bytes = 0;
        TRY(i < count ? berth_detok_push(model, &detok, ids[i], buffer, cap, &bytes)
                      : berth_detok_finish(&detok, buffer, cap, &bytes));
        bytes = bytes < text_bytes ? bytes : (size_t)text_bytes;
        write(user, buffer, bytes);
        text_bytes -= bytes;
    }
    return BERTH_OK;
}
