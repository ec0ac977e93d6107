/* SPDX-License-Identifier: MIT
 * The strict dialect: latent attention with an index, every dimension present and in range. */
#include "fit/seed_config.h"

#include <math.h>

struct range_row {
    const char *key;
    double least, most;
    int field; /* berth_fit_field, -1: checked only */
};

static const struct range_row rows[] = {
    {"hidden_size", 1, 1 << 20, BERTH_FIT_HIDDEN_SIZE},
    {"num_hidden_layers", 1, BERTH_FIT_LAYERS_MAX, BERTH_FIT_LAYERS},
    {"num_attention_heads", 1, 1 << 16, BERTH_FIT_HEADS},
    {"num_key_value_heads", 1, 1 << 16, BERTH_FIT_KV_HEADS},
    {"intermediate_size", 1, 1 << 24, BERTH_FIT_INTERMEDIATE_SIZE},
    {"moe_intermediate_size", 1, 1 << 24, BERTH_FIT_MOE_INTERMEDIATE_SIZE},
    {"n_routed_experts", 1, 1 << 16, BERTH_FIT_EXPERTS},
    {"num_experts_per_tok", 1, 1 << 16, BERTH_FIT_TOP_K},
    {"vocab_size", 1, 1 << 28, BERTH_FIT_VOCAB_SIZE},
    {"max_position_embeddings", 1, 1 << 30, BERTH_FIT_MAX_POSITIONS},
    {"q_lora_rank", 1, 1 << 20, -1},
    {"kv_lora_rank", 1, 1 << 20, -1},
    {"v_head_dim", 1, 1 << 16, -1},
    {"n_shared_experts", 0, 1 << 16, -1},
    {"n_group", 1, 1, -1},
    {"topk_group", 1, 1, -1},
    {"index_topk", 1, 1 << 30, -1},
    {"index_n_heads", 1, 1 << 16, -1},
    {"index_head_dim", 1, 1 << 16, -1},
    {"num_nextn_predict_layers", 0, BERTH_FIT_LAYERS_MAX, -1},
};

static berth_status whole_in(struct seed_parse *parse, const struct range_row *row, double *value)
{
    bool found;
    TRY(seed_number(&parse->text, row->key, value, &found, parse->err));
    if (found && *value >= row->least && *value <= row->most && *value == floor(*value)) {
        return BERTH_OK;
    }
    berth_status status = found ? error_set(parse->err, BERTH_ERR_FORMAT,
                                            "glm_moe_dsa: \"%s\" is not a whole number between %.0f and %.0f", row->key,
                                            row->least, row->most)
                                : error_set(parse->err, BERTH_ERR_FORMAT, "glm_moe_dsa: \"%s\" is missing", row->key);
    error_at_object(parse->err, row->key, strlen(row->key));
    return status;
}

/* The first layers are dense. */
static berth_status read_dense_layers(struct seed_parse *parse)
{
    const struct range_row row = {"first_k_dense_replace", 0, parse->out->number[BERTH_FIT_LAYERS], -1};
    double dense = 0;
    TRY(whole_in(parse, &row, &dense));
    size_t count = (size_t)dense;
    double *layers = arena_take(&parse->arena, count, sizeof *layers, sizeof *layers);
    TRY(arena_check(&parse->arena, "memory for the configuration", parse->err));
    for (size_t i = 0; i < count; i++) {
        layers[i] = (double)i;
    }
    parse->out->mlp_only_layers = layers;
    parse->out->mlp_only_layers_count = count;
    return BERTH_OK;
}

static berth_status read_heads(struct seed_parse *parse)
{
    static const struct range_row nope_row = {"qk_nope_head_dim", 1, 1 << 16, -1};
    static const struct range_row rope_row = {"qk_rope_head_dim", 1, 1 << 16, -1};
    berth_fit_config *out = parse->out;
    double nope = 0;
    double rope = 0;
    TRY(whole_in(parse, &nope_row, &nope));
    TRY(whole_in(parse, &rope_row, &rope));
    double whole = nope + rope;
    const struct range_row whole_row = {"qk_head_dim", whole, whole, -1};
    struct json value;
    if (seed_find(&parse->text, "qk_head_dim", &value)) {
        double said = 0;
        TRY(whole_in(parse, &whole_row, &said));
    }
    seed_set(out, BERTH_FIT_HEAD_DIM, whole);
    seed_set(out, BERTH_FIT_GLOBAL_HEAD_DIM, whole);
    seed_set(out, BERTH_FIT_GLOBAL_KV_HEADS, out->number[BERTH_FIT_KV_HEADS]);
    seed_set(out, BERTH_FIT_PARTIAL_ROTARY_FACTOR, rope / whole);
    double theta = 10000;
    struct seed_scope inside = {parse->text.document, "rope_parameters"};
    TRY(seed_number(&parse->text, "rope_theta", &theta, NULL, parse->err));
    if (parse->text.inside == NULL) {
        TRY(seed_number(&inside, "rope_theta", &theta, NULL, parse->err));
    }
    return seed_one_rope(parse, theta, SEED_TEXT("default"), rope / whole);
}

/* End tokens of both files, each once, in order of appearance. */
static berth_status unite_end_tokens(struct seed_parse *parse)
{
    berth_fit_config *out = parse->out;
    struct seed_numbers more = {0};
    if (parse->generation_json.bytes > 0) {
        struct seed_scope generation = {parse->generation_json, NULL};
        TRY(seed_numbers(&generation, "eos_token_id", SEED_TOKENS_MAX, &parse->arena, &more, parse->err));
    }
    double *all = arena_take(&parse->arena, out->eos_token_ids_count + more.count, sizeof *all, sizeof *all);
    TRY(arena_check(&parse->arena, "memory for the configuration", parse->err));
    size_t count = 0;
    for (size_t i = 0; i < out->eos_token_ids_count + more.count; i++) {
        double id = i < out->eos_token_ids_count ? out->eos_token_ids[i] : more.items[i - out->eos_token_ids_count];
        bool known = isnan(id);
        for (size_t k = 0; k < count; k++) {
            known = known || all[k] == id;
        }
        if (!known) {
            all[count++] = id;
        }
    }
    out->eos_is_list = true;
    out->eos_list = out->eos_token_ids = all;
    out->eos_list_count = out->eos_token_ids_count = count;
    seed_unset(out, BERTH_FIT_EOS_TOKEN);
    return BERTH_OK;
}

berth_status seed_parse_glm(struct seed_parse *parse)
{
    berth_fit_config *out = parse->out;
    static const berth_fit_field zeros[] = {
        BERTH_FIT_SLIDING_WINDOW,     BERTH_FIT_PER_LAYER_INPUT,       BERTH_FIT_KV_SHARED_LAYERS,
        BERTH_FIT_LINEAR_VALUE_HEADS, BERTH_FIT_LINEAR_KEY_HEADS,      BERTH_FIT_LINEAR_KEY_HEAD_DIM,
        BERTH_FIT_LINEAR_CONV_KERNEL, BERTH_FIT_LINEAR_VALUE_HEAD_DIM, BERTH_FIT_FULL_ATTENTION_INTERVAL,
    };
    for (size_t i = 0; i < sizeof zeros / sizeof zeros[0]; i++) {
        seed_set(out, zeros[i], 0);
    }
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        double value = 0;
        TRY(whole_in(parse, &rows[i], &value));
        if (rows[i].field >= 0) {
            seed_set(out, (berth_fit_field)rows[i].field, value);
        }
    }
    double eps = 0;
    TRY(seed_number(&parse->text, "rms_norm_eps", &eps, NULL, parse->err));
    if (!(eps > 0)) {
        return error_set(parse->err, BERTH_ERR_FORMAT, "glm_moe_dsa: \"rms_norm_eps\" is not a positive number");
    }
    seed_set(out, BERTH_FIT_RMS_NORM_EPS, eps);
    seed_set(out, BERTH_FIT_SPARSE_STEP, 1);
    seed_set(out, BERTH_FIT_PER_LAYER_VOCAB, out->number[BERTH_FIT_VOCAB_SIZE]);
    seed_set(out, BERTH_FIT_FINAL_LOGIT_SOFTCAP, (double)NAN);
    out->enable_moe_block = true;
    TRY(seed_bool(&parse->text, "norm_topk_prob", &out->norm_topk_prob, parse->err));
    TRY(seed_bool(&parse->text, "tie_word_embeddings", &out->tie_word_embeddings, parse->err));
    TRY(seed_text(&parse->text, "hidden_act", &parse->arena, &out->hidden_activation, parse->err));
    TRY(read_heads(parse));
    TRY(read_dense_layers(parse));
    TRY(seed_all_full(parse, out->number[BERTH_FIT_LAYERS]));
    TRY(seed_bos_and_eos(parse));
    return unite_end_tokens(parse);
}
