/* SPDX-License-Identifier: MIT
 *
 * golden_run FOLDER [f32|f16|bf16|none] : the checkpoint of a golden folder against its reference logits, greedy ids
 * and routes. With a type, the checkpoint is first converted to GGUF. Tolerances of the design: logits 1e-3, greedy ids
 * where the reference's margin is over 2e-3, routes as sets.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "berth.h"
#include "convert/convert.h"
#include "support/golden.h"

static const double logit_tolerance = 1e-3;
static const double margin_least = 2e-3;

struct seen {
    const struct golden *golden;
    double worst;
    uint32_t positions;
    uint32_t layer_of[64]; /* model layer -> reference index */
    uint32_t layers;
    uint64_t rows, row_differences;
};

static void on_logits(void *user, uint32_t position, const float *logits, uint32_t vocab)
{
    struct seen *seen = user;
    CHECK(vocab == seen->golden->vocab && position < seen->golden->ids_count, "position %u vocab %u", position, vocab);
    const float *want = seen->golden->logits + (size_t)position * vocab;
    for (uint32_t i = 0; i < vocab; i++) {
        double error = fabs((double)logits[i] - (double)want[i]);
        CHECK(error == error, "NaN at position %u", position);
        seen->worst = error > seen->worst ? error : seen->worst;
    }
    seen->positions++;
}

static void on_route(void *user, const berth_route *route)
{
    struct seen *seen = user;
    const struct golden *g = seen->golden;
    if (route->position >= g->ids_count || g->route_layers == 0) {
        return;
    }
    uint32_t index = 0; /* MoE layers come in order; the first token of each layer registers it */
    while (index < seen->layers && seen->layer_of[index] != route->layer) {
        index++;
    }
    if (index == seen->layers) {
        seen->layer_of[seen->layers++] = route->layer;
    }
    CHECK(index < g->route_layers && route->k == g->top_k, "layer %u k %u", route->layer, route->k);
    bool same = true;
    for (uint32_t i = 0; i < route->k; i++) {
        bool found = false;
        for (uint32_t j = 0; j < route->k; j++) {
            found = found || g->routes[index][route->position][j] == route->experts[i];
        }
        same = same && found;
    }
    seen->rows++;
    seen->row_differences += same ? 0 : 1;
}

static int32_t argmax(const float *logits, uint32_t vocab)
{
    int32_t best = 0;
    for (uint32_t i = 1; i < vocab; i++) {
        best = logits[i] > logits[best] ? (int32_t)i : best;
    }
    return best;
}

static uint32_t check_greedy(berth_session *session, const struct golden *g)
{
    berth_error err;
    uint32_t equal = 0;
    for (size_t i = 0; i < g->greedy_count; i++) {
        int32_t id = argmax(berth_session_logits(session), g->vocab);
        if (id != g->greedy[i]) {
            CHECK(g->margin[i] <= margin_least, "greedy id %zu is %d, want %d (margin %g)", i, id, g->greedy[i],
                  g->margin[i]);
            break;
        }
        equal++;
        CHECK(berth_session_eval(session, &id, 1, NULL, NULL, &err) == BERTH_OK, "%s", err.message);
    }
    return equal;
}

static void convert(const char *folder, const char *type, char *path, size_t cap)
{
    berth_error err;
    const char *temp = getenv("TMPDIR");
    snprintf(path, cap, "%s/berth-golden-%ld.gguf", temp != NULL ? temp : "/tmp", (long)getpid());
    struct convert_config config = {.type = quant_from_name(str_from(type))};
    CHECK(convert_run(folder, path, &config, true, &err) == BERTH_OK, "convert: %s (%s)", err.message, err.object);
}

int main(int argc, char **argv)
{
    CHECK(argc == 3, "usage: golden_run FOLDER TYPE|none");
    char path[1024];
    static struct golden golden;
    golden_read(argv[1], &golden);
    bool converted = strcmp(argv[2], "none") != 0;
    snprintf(path, sizeof path, "%s", argv[1]);
    if (converted) {
        convert(argv[1], argv[2], path, sizeof path);
    }
    berth_error err;
    berth_model *model = NULL;
    berth_session *session = NULL;
    struct seen seen = {.golden = &golden};
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    config.kv_type = BERTH_KV_F32;
    config.budget_bytes = 64ull << 20;
    config.ctx_tokens = 128;
    CHECK(berth_model_open(path, &config, &model, &err) == BERTH_OK, "open: %s (%s)", err.message, err.object);
    berth_session_config session_config = BERTH_SESSION_CONFIG_INIT;
    session_config.route = on_route;
    session_config.route_user = &seen;
    CHECK(berth_session_create(model, &session_config, &session, &err) == BERTH_OK, "%s", err.message);
    CHECK(berth_session_eval(session, golden.ids, golden.ids_count, on_logits, &seen, &err) == BERTH_OK, "eval: %s",
          err.message);
    CHECK(seen.positions == golden.ids_count, "%u positions", seen.positions);
    uint32_t greedy = check_greedy(session, &golden);
    printf("%s %s: largest logit error %.3g, greedy %u of %zu, routes %llu rows %llu different\n", argv[1], argv[2],
           seen.worst, greedy, golden.greedy_count, (unsigned long long)seen.rows,
           (unsigned long long)seen.row_differences);
    CHECK(seen.worst <= logit_tolerance, "largest logit error %g", seen.worst);
    CHECK(seen.rows == (uint64_t)golden.route_layers * golden.ids_count, "%llu route rows",
          (unsigned long long)seen.rows);
    CHECK(seen.row_differences == 0, "%llu route rows differ", (unsigned long long)seen.row_differences);
    berth_session_free(session);
    berth_model_close(model);
    golden_free(&golden);
    if (converted) {
        remove(path);
    }
    return 0;
}
