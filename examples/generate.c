/* SPDX-License-Identifier: MIT
 * generate MODEL BUDGET_MIB PROMPT [TOKENS]: opens a model inside a budget and writes on from a prompt.
 *
 *     cc generate.c -o generate $(pkg-config --cflags --libs berth)
 */
#include <berth.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The message says what went wrong, the path where: neither has the other in it. */
static void print_error(const berth_error *err)
{
    fprintf(stderr, "generate: %s%s%s\n", err->path, err->path[0] != '\0' ? ": " : "", err->message);
}

static void *take(size_t bytes)
{
    void *memory = malloc(bytes);
    if (memory == NULL) {
        fprintf(stderr, "generate: no memory\n");
        exit(1);
    }
    return memory;
}

/* Evaluates the prompt: afterwards the session has the logits of the token that comes next. */
static berth_status read_prompt(berth_model *model, berth_session *session, const char *text, berth_error *err)
{
    size_t count = 0;
    berth_status status = berth_tokenize(model, text, strlen(text), BERTH_TOKENIZE_BOS, NULL, 0, &count, err);
    if (status != BERTH_OK) {
        return status;
    }
    int32_t *ids = take((count + 1) * sizeof *ids);
    status = berth_tokenize(model, text, strlen(text), BERTH_TOKENIZE_BOS, ids, count, &count, err);
    if (status == BERTH_OK) {
        status = berth_session_eval(session, ids, count, NULL, NULL, err);
    }
    free(ids);
    return status;
}

/* Picks, prints and evaluates one token after another, until the model ends, the context is full, or there are enough.
 */
static berth_status write_answer(berth_model *model, berth_session *session, unsigned long most, berth_error *err)
{
    berth_model_info info = BERTH_MODEL_INFO_INIT;
    berth_plan plan = BERTH_PLAN_INIT;
    berth_model_get_info(model, &info);
    berth_model_get_plan(model, &plan);
    berth_sampler_config config = BERTH_SAMPLER_CONFIG_INIT; /* temperature 0: always the likeliest token */
    size_t sampler_bytes = berth_sampler_bytes(info.vocab, &config);
    size_t piece_bytes = berth_piece_max_bytes(model);
    void *sampler_memory = take(sampler_bytes);
    char *piece = take(piece_bytes);
    berth_sampler *sampler = NULL;
    berth_detok detok = {0};
    size_t count = 0;
    berth_status status = berth_sampler_init(sampler_memory, sampler_bytes, info.vocab, &config, &sampler, err);
    for (unsigned long i = 0; i < most && status == BERTH_OK; i++) {
        int32_t id = berth_sampler_pick(sampler, berth_session_logits(session));
        berth_sampler_accept(sampler, id);
        if (berth_token_is_end(model, id)) {
            break;
        }
        if (berth_detok_push(model, &detok, id, piece, piece_bytes, &count) == BERTH_OK) {
            fwrite(piece, 1, count, stdout);
            fflush(stdout);
        }
        if (berth_session_length(session) == plan.ctx_tokens) {
            break;
        }
        status = berth_session_eval(session, &id, 1, NULL, NULL, err);
    }
    if (berth_detok_finish(&detok, piece, piece_bytes, &count) == BERTH_OK) { /* half a character at the end */
        fwrite(piece, 1, count, stdout);
    }
    printf("\n");
    free(piece);
    free(sampler_memory);
    return status;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: generate MODEL BUDGET_MIB PROMPT [TOKENS]\n");
        return 2;
    }
    berth_model_config config = BERTH_MODEL_CONFIG_INIT;
    config.budget_bytes = strtoull(argv[2], NULL, 10) << 20; /* of the whole process; 0: what the machine can give */
    config.app_bytes = 4u << 20;                             /* of that, what this program takes for itself */
    berth_model *model = NULL;
    berth_session *session = NULL;
    berth_error err;
    berth_status status = berth_model_open(argv[1], &config, &model, &err);
    if (status == BERTH_OK) {
        status = berth_session_create(model, NULL, &session, &err);
    }
    if (status == BERTH_OK) {
        status = read_prompt(model, session, argv[3], &err);
    }
    if (status == BERTH_OK) {
        status = write_answer(model, session, argc > 4 ? strtoul(argv[4], NULL, 10) : 64, &err);
    }
    if (status != BERTH_OK) {
        print_error(&err);
    }
    berth_model_close(model); /* the session too */
    return status == BERTH_OK ? 0 : 1;
}
