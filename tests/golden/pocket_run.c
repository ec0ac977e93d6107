/* SPDX-License-Identifier: MIT
 *
 * pocket_run MODEL REFERENCE exact|quantised|quantised_kv [route tokens]: the bundled pocket model against its
 * reference (tests/golden/pocket, or a folder of the same layout): logits of 128 held-out tokens, six generations,
 * tokenization of the prompts, routes of val_head.npy. exact (BF16): logits within 2e-3, generations equal up to the
 * first margin under 5e-3, routes equal as sets in 99.99 % of the rows and every difference a near-tie (relative gap
 * under 1e-4). quantised, quantised_kv (with a Q8_0 KV cache as well): mean KL at most 0.01, top-1 agreement at least
 * 97 %.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/json.h"
#include "session/model.h"
#include "support/golden.h"

enum { VOCAB = 8192, LOGIT_TOKENS = 128, LAYERS = 8, TOP_K = 8, WINDOW = 1024, PROMPTS_MAX = 16 };

static double kl_divergence(const float *want, const float *got, uint32_t n)
{
    double want_max = -(double)INFINITY;
    double got_max = -(double)INFINITY;
    for (uint32_t i = 0; i < n; i++) {
        want_max = fmax(want_max, (double)want[i]);
        got_max = fmax(got_max, (double)got[i]);
    }
    double want_sum = 0;
    double got_sum = 0;
    for (uint32_t i = 0; i < n; i++) {
        want_sum += exp((double)want[i] - want_max);
        got_sum += exp((double)got[i] - got_max);
    }
    double kl = 0;
    for (uint32_t i = 0; i < n; i++) {
        double log_want = (double)want[i] - want_max - log(want_sum);
        double log_got = (double)got[i] - got_max - log(got_sum);
        kl += exp(log_want) * (log_want - log_got);
    }
    return kl;
}

static int32_t argmax(const float *logits)
{
    int32_t best = 0;
    for (int32_t i = 1; i < VOCAB; i++) {
        best = logits[i] > logits[best] ? i : best;
    }
    return best;
}

struct logits_check {
    const float *want;
    double worst, kl;
    uint32_t agree, count;
};

static void on_logits(void *user, uint32_t position, const float *logits, uint32_t vocab)
{
    struct logits_check *check = user;
    const float *want = check->want + (size_t)position * VOCAB;
    CHECK(vocab == VOCAB && position < LOGIT_TOKENS, "position %u", position);
    for (uint32_t i = 0; i < VOCAB; i++) {
        check->worst = fmax(check->worst, fabs((double)logits[i] - (double)want[i]));
    }
    check->kl += kl_divergence(want, logits, VOCAB);
    check->agree += argmax(want) == argmax(logits) ? 1 : 0;
    check->count++;
}

static size_t number_list(struct json *json, double *out, size_t cap)
{
    size_t count = 0;
    CHECK(json->token.kind == JSON_ARRAY_BEGIN, "array expected");
    while (json_next(json) == JSON_NUMBER) {
        CHECK(count < cap && json_token_f64(&json->token, &out[count]), "number");
        count++;
    }
    return count;
}

static void check_logits(berth_session *session, struct str reference, const char *folder, bool exact)
{
    char path[1024];
    double numbers[GOLDEN_IDS_MAX];
    int32_t ids[GOLDEN_IDS_MAX];
    struct json json;
    size_t bytes = 0;
    berth_error err;
    CHECK(json_find(reference, (const char *const[]){"logits_input_ids", NULL}, &json), "no logits_input_ids");
    size_t count = number_list(&json, numbers, GOLDEN_IDS_MAX);
    CHECK(count == LOGIT_TOKENS, "%zu ids", count);
    for (size_t i = 0; i < count; i++) {
        ids[i] = (int32_t)numbers[i];
    }
    snprintf(path, sizeof path, "%s/logits.f32", folder);
    struct logits_check check = {.want = (const float *)(const void *)test_read_file(path, &bytes)};
    CHECK(bytes == (size_t)LOGIT_TOKENS * VOCAB * 4, "%s", path);
    CHECK(berth_session_truncate(session, 0) == BERTH_OK, "truncate");
    CHECK(berth_session_eval(session, ids, count, on_logits, &check, &err) == BERTH_OK, "%s", err.message);
    double agreement = 100.0 * check.agree / check.count;
    printf("logits: largest error %.3g, mean KL %.3g, top-1 agreement %.2f %%\n", check.worst, check.kl / check.count,
           agreement);
    if (exact) {
        CHECK(check.worst <= 2e-3, "largest logit error %g", check.worst);
    } else {
        CHECK(check.kl / check.count <= 0.01, "mean KL %g", check.kl / check.count);
        CHECK(agreement >= 97.0, "top-1 agreement %g", agreement);
    }
    free((void *)(uintptr_t)check.want);
}

struct prompt {
    char text[4096];
    size_t text_bytes;
    double ids[GOLDEN_IDS_MAX], greedy[GOLDEN_IDS_MAX], margin[GOLDEN_IDS_MAX];
    size_t ids_count, greedy_count;
};

static void read_prompt(struct json *json, struct prompt *out)
{
    memset(out, 0, sizeof *out);
    while (json_next(json) == JSON_KEY) {
        if (json_token_is(&json->token, "prompt")) {
            CHECK(json_next(json) == JSON_STRING && json->token.raw.bytes < sizeof out->text, "prompt");
            out->text_bytes = json_unescape(&json->token, out->text, sizeof out->text);
        } else if (json_token_is(&json->token, "prompt_ids") || json_token_is(&json->token, "ids")) {
            json_next(json);
            out->ids_count = number_list(json, out->ids, GOLDEN_IDS_MAX);
        } else if (json_token_is(&json->token, "greedy")) {
            json_next(json);
            out->greedy_count = number_list(json, out->greedy, GOLDEN_IDS_MAX);
        } else if (json_token_is(&json->token, "margin") || json_token_is(&json->token, "greedy_margin")) {
            json_next(json);
            number_list(json, out->margin, GOLDEN_IDS_MAX);
        } else {
            CHECK(json_skip(json), "skip");
        }
    }
}

/* Greedy continuation; returns how many ids are equal before the first margin under 5e-3 decides otherwise. */
static size_t check_generation(berth_session *session, const struct prompt *p, bool exact)
{
    berth_error err;
    int32_t ids[GOLDEN_IDS_MAX];
    for (size_t i = 0; i < p->ids_count; i++) {
        ids[i] = (int32_t)p->ids[i];
    }
    CHECK(berth_session_truncate(session, 0) == BERTH_OK, "truncate");
    CHECK(berth_session_eval(session, ids, p->ids_count, NULL, NULL, &err) == BERTH_OK, "%s", err.message);
    for (size_t i = 0; i < p->greedy_count; i++) {
        int32_t id = argmax(berth_session_logits(session));
        if (id != (int32_t)p->greedy[i]) {
            CHECK(!exact || p->margin[i] < 5e-3, "token %zu is %d, want %d (margin %g)", i, id, (int)p->greedy[i],
                  p->margin[i]);
            return i;
        }
        CHECK(berth_session_eval(session, &id, 1, NULL, NULL, &err) == BERTH_OK, "%s", err.message);
    }
    return p->greedy_count;
}

static void check_prompts(berth_model *model, berth_session *session, struct str reference, bool exact)
{
    static struct prompt prompt;
    struct json json;
    uint32_t prompts = 0;
    CHECK(json_find(reference, (const char *const[]){"prompts", NULL}, &json) ||
              json_find(reference, (const char *const[]){"generations", NULL}, &json),
          "no prompts");
    CHECK(json.token.kind == JSON_ARRAY_BEGIN, "prompts");
    while (json_next(&json) == JSON_OBJECT_BEGIN) {
        berth_error err;
        int32_t ids[GOLDEN_IDS_MAX];
        size_t count = 0;
        read_prompt(&json, &prompt);
        CHECK(berth_tokenize(model, prompt.text, prompt.text_bytes, BERTH_TOKENIZE_SPECIAL, ids, GOLDEN_IDS_MAX, &count,
                             &err) == BERTH_OK,
              "%s", err.message);
        CHECK(count == prompt.ids_count && count > 0, "prompt %u has %zu tokens, want %zu", prompts, count,
              prompt.ids_count);
        for (size_t i = 0; i < count; i++) {
            CHECK(ids[i] == (int32_t)prompt.ids[i], "prompt %u token %zu is %d, want %d", prompts, i, ids[i],
                  (int)prompt.ids[i]);
        }
        size_t equal = check_generation(session, &prompt, exact);
        printf("prompt %u: %zu tokens equal, generation %zu of %zu equal\n", prompts, count, equal,
               prompt.greedy_count);
        prompts++;
    }
    CHECK(prompts == 6, "%u prompts", prompts);
}

struct routes_check {
    const berth_model *model;
    const uint8_t *want; /* [tokens][LAYERS][TOP_K] */
    size_t base;         /* first token of the window */
    uint64_t rows, different, far;
    double largest_gap;
};

static void on_route(void *user, const berth_route *route)
{
    struct routes_check *check = user;
    if (check->want == NULL) {
        return;
    }
    const struct forward *fw = &check->model->engine.forward;
    const uint8_t *want = check->want + ((check->base + route->position) * LAYERS + route->layer) * TOP_K;
    size_t token = (size_t)(route->experts - fw->scratch.route_ids) / TOP_K;
    const float *p = fw->scratch.probabilities + token * fw->hparams->experts;
    double gap = 0;
    bool same = true;
    for (uint32_t i = 0; i < TOP_K; i++) {
        bool found = false;
        for (uint32_t j = 0; j < TOP_K; j++) {
            found = found || route->experts[i] == want[j];
        }
        if (!found) { /* ours, not theirs: how far is it above the lowest of theirs? */
            same = false;
            double low = (double)INFINITY;
            for (uint32_t j = 0; j < TOP_K; j++) {
                low = fmin(low, (double)p[want[j]]);
            }
            gap = fmax(gap, ((double)p[route->experts[i]] - low) / (double)p[route->experts[i]]);
        }
    }
    check->rows++;
    check->different += same ? 0 : 1;
    check->far += gap >= 1e-4 ? 1 : 0;
    check->largest_gap = fmax(check->largest_gap, gap);
}

static void check_routes(berth_session *session, struct routes_check *check, const char *folder, size_t tokens,
                         bool exact)
{
    char path[1024];
    size_t npy_bytes = 0;
    size_t route_bytes = 0;
    snprintf(path, sizeof path, "%s/val_head.npy", folder);
    unsigned char *npy = (unsigned char *)test_read_file(path, &npy_bytes);
    size_t header = 10 + (size_t)npy[8] + ((size_t)npy[9] << 8);
    snprintf(path, sizeof path, "%s/routes.u8", folder);
    uint8_t *want = (uint8_t *)test_read_file(path, &route_bytes);
    size_t have = route_bytes / (LAYERS * TOP_K);
    tokens = tokens < have ? tokens : have;
    CHECK(npy_bytes >= header + tokens * 2, "%s is short", path);
    for (size_t base = 0; base < tokens; base += WINDOW) {
        int32_t ids[WINDOW];
        berth_error err;
        size_t count = tokens - base < WINDOW ? tokens - base : WINDOW;
        for (size_t i = 0; i < count; i++) {
            ids[i] = npy[header + (base + i) * 2] | npy[header + (base + i) * 2 + 1] << 8;
        }
        check->want = want;
        check->base = base;
        CHECK(berth_session_truncate(session, 0) == BERTH_OK, "truncate");
        CHECK(berth_session_eval(session, ids, count, NULL, NULL, &err) == BERTH_OK, "%s", err.message);
    }
    check->want = NULL;
    printf("routes: %llu rows, %llu different (%.4f %%), %llu not near-ties, largest relative gap %.3g\n",
           (unsigned long long)check->rows, (unsigned long long)check->different,
           100.0 * (double)check->different / (double)check->rows, (unsigned long long)check->far, check->largest_gap);
    if (exact) {
        CHECK((double)check->different <= 1e-4 * (double)check->rows, "too many different rows");
        CHECK(check->far == 0, "differences that are not near-ties");
    }
    free(npy);
    free(want);
}

int main(int argc, char **argv)
{
    CHECK(argc >= 4, "usage: pocket_run MODEL REFERENCE exact|quantised|quantised_kv [route tokens]");
    bool exact = strcmp(argv[3], "exact") == 0;
    size_t route_tokens = argc > 4 ? (size_t)strtoul(argv[4], NULL, 10) : 0;
    char path[1024];
    size_t bytes = 0;
    snprintf(path, sizeof path, "%s/reference.json", argv[2]);
    FILE *probe = fopen(path, "rb");
    if (probe == NULL) {
        fprintf(stderr, "SKIPPED: %s is not here (the full-precision pocket checkpoint is not part of the project)\n",
                path);
        return 77;
    }
    fclose(probe);
    char *text = test_read_file(path, &bytes);
    struct str reference = {text, bytes};
    berth_error err;
    berth_model *model = NULL;
    berth_session *session = NULL;
    struct routes_check routes = {0};
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    config.kv_type = exact ? BERTH_KV_F32 : strcmp(argv[3], "quantised_kv") == 0 ? BERTH_KV_Q8_0 : BERTH_KV_F16;
    config.budget_bytes = 256ull << 20;
    CHECK(berth_model_open(argv[1], &config, &model, &err) == BERTH_OK, "open: %s (%s)", err.message, err.object);
    routes.model = model;
    berth_session_config session_config = BERTH_SESSION_CONFIG_INIT;
    session_config.route = on_route;
    session_config.route_user = &routes;
    CHECK(berth_session_create(model, &session_config, &session, &err) == BERTH_OK, "%s", err.message);
    check_logits(session, reference, argv[2], exact);
    check_prompts(model, session, reference, exact);
    if (route_tokens > 0) {
        check_routes(session, &routes, argv[2], route_tokens, exact);
    }
    berth_model_close(model);
    free(text);
    return 0;
}
