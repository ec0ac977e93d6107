/* SPDX-License-Identifier: MIT
 * Every golden family, safetensors to GGUF at every type, read back through the model room and compared value by value,
 * through the stacking of experts and the row order of interleaved RoPE, computed here on their own. */
#include "convert_help.h"

#include <math.h>

struct pair {
    struct opened source, result;
    const struct family *family;
    struct hparams hparams;
    uint64_t compared;
};

/* Head row (half, i) of the published order lies at 2 i + half. */
static uint64_t expected_row(const struct pair *pair, enum role role, uint64_t row)
{
    const struct tensor_row *spec = family_row(pair->family, role);
    uint64_t head = pair->hparams.head_dim;
    if ((spec->flags & TENSOR_PERMUTE) == 0) {
        return row;
    }
    uint64_t half = (row % head) / (head / 2);
    uint64_t i = (row % head) % (head / 2);
    return row / head * head + 2 * i + half;
}

/* One value in its stored type: the rounding is repeated here with the conversions of base/bytes.h. */
static float rounded(float value, enum dtype type)
{
    static const struct quant_row *row;
    uint16_t half;
    float back = value;
    row = quant_row(type);
    if (type == DTYPE_F16 || type == DTYPE_BF16) {
        row->quantise(&value, &half, 1);
        row->dequantise(&half, &back, 1);
    }
    return back;
}

static void compare_block(const float *want, const float *got, size_t count, enum dtype type)
{
    for (size_t i = 0; i < count; i++) {
        if (type != DTYPE_Q8_0) {
            float exact = rounded(want[i], type);
            assert_memory_equal(&exact, &got[i], sizeof exact);
            continue;
        }
        /* Half a step of the block's scale max|x| / 127, and the scale's own rounding to 11 bits over 127 steps. */
        float max = 0;
        for (size_t j = i / 32 * 32; j < i / 32 * 32 + 32; j++) {
            max = fmaxf(max, fabsf(want[j]));
        }
        assert_true(fabsf(want[i] - got[i]) <= max / 127.0f * 0.5f + max * 0x1p-11f);
    }
}

static const struct tensor *find(const struct opened *opened, const struct pair *pair, const char *pattern,
                                 uint32_t layer, uint32_t expert)
{
    char name[256];
    (void)pair;
    char out[256];
    size_t at = 0;
    uint32_t numbers[2] = {layer, expert};
    uint32_t used = 0;
    strcpy(name, pattern);
    for (const char *p = name; *p != '\0'; p++) {
        if (p[0] == '%' && p[1] == 'u') {
            at += (size_t)snprintf(out + at, sizeof out - at, "%u", numbers[used++]);
            p++;
        } else {
            out[at++] = *p;
        }
    }
    out[at] = '\0';
    return tensor_find(&opened->checkpoint.tensors, str_from(out));
}

static void compare_role(struct pair *pair, const struct tensor_row *row, uint32_t layer, enum dtype type)
{
    if (row->hf == NULL) {
        return;
    }
    uint32_t experts = role_is_expert(row->role) ? pair->hparams.experts : 1;
    const struct tensor *target = find(&pair->result, pair, row->gguf, layer, 0);
    if (target == NULL) {
        assert_null(find(&pair->source, pair, row->hf, layer, 0));
        return;
    }
    enum dtype want_type = (row->flags & (TENSOR_VECTOR | TENSOR_ROUTER)) != 0 ? DTYPE_F32 : type;
    assert_int_equal(target->dtype, want_type);
    float *got = help_tensor_floats(&pair->result, target);
    uint64_t each = tensor_elems(target) / experts;
    for (uint32_t expert = 0; expert < experts; expert++) {
        const struct tensor *source = find(&pair->source, pair, row->hf, layer, expert);
        assert_non_null(source);
        assert_int_equal(tensor_elems(source), each);
        float *want = help_tensor_floats(&pair->source, source);
        uint64_t k = source->dims[source->dims_count - 1];
        uint64_t rows = each / k;
        if (source->dims_count == 1) {
            assert_int_equal(row->flags & TENSOR_PERMUTE, 0);
        }
        for (uint64_t r = 0; r < rows; r++) {
            compare_block(want + r * k, got + expert * each + expected_row(pair, row->role, r) * k, (size_t)k,
                          want_type);
        }
        pair->compared++;
        free(want);
    }
    free(got);
}

static uint32_t count_in_source(const struct pair *pair)
{
    uint32_t count = pair->source.checkpoint.tensors.count;
    return count;
}

static void compare_family(const char *name, enum dtype type, const char *path)
{
    struct pair pair = {.compared = 0};
    struct hparams again;
    const struct family *family_again;
    berth_error error;
    help_open(&pair.source, help_golden(name));
    help_open(&pair.result, path);
    help_ok(family_read(&pair.source.checkpoint, &pair.family, &pair.hparams, &error), &error);
    help_ok(family_read(&pair.result.checkpoint, &family_again, &again, &error), &error);
    assert_ptr_equal(pair.family, family_again);
    assert_int_equal(pair.result.checkpoint.version, 3);
    for (int role = 0; role < ROLE_COUNT; role++) {
        const struct tensor_row *row = family_row(pair.family, (enum role)role);
        uint32_t layers = role_is_layer((enum role)role) ? pair.hparams.layers : 1;
        for (uint32_t layer = 0; row != NULL && layer < layers; layer++) {
            compare_role(&pair, row, layer, type);
        }
    }
    assert_int_equal(pair.compared, count_in_source(&pair)); /* every source tensor, once */
    /* The metadata says the same model. */
    const struct hparams *h = &pair.hparams;
    assert_int_equal(h->layers, again.layers);
    assert_int_equal(h->hidden, again.hidden);
    assert_int_equal(h->vocab, again.vocab);
    assert_int_equal(h->ctx_max, again.ctx_max);
    assert_int_equal(h->heads, again.heads);
    assert_int_equal(h->kv_heads, again.kv_heads);
    assert_int_equal(h->head_dim, again.head_dim);
    assert_int_equal(h->experts, again.experts);
    assert_int_equal(h->top_k, again.top_k);
    assert_int_equal(h->expert_ffn, again.expert_ffn);
    assert_int_equal(h->shared_ffn, again.shared_ffn);
    assert_int_equal(h->norm_topk, again.norm_topk);
    assert_int_equal(h->tied_embeddings, again.tied_embeddings);
    assert_true(h->norm_eps == again.norm_eps && h->rope_theta == again.rope_theta);
    help_close(&pair.source);
    help_close(&pair.result);
}

static void golden_every_family_and_type_reads_back(void **state)
{
    (void)state;
    static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_F16, DTYPE_Q8_0};
    for (uint32_t f = 0; f < HELP_FAMILIES; f++) {
        for (uint32_t t = 0; t < 4; t++) {
            berth_error error;
            struct convert_config config = {.type = types[t], .threads = 2};
            const char *path = help_path("out.gguf");
            help_ok(convert_run(help_golden(help_families[f]), path, &config, false, &error), &error);
            compare_family(help_families[f], types[t], path);
            assert_int_equal(help_count_files(), 1);
            help_clear();
        }
    }
}

/* Small buffers cut every tensor into many chunks; the bytes must not notice, nor with other thread counts. */
static void golden_buffers_and_threads_change_nothing(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < HELP_FAMILIES; f++) {
        berth_error error;
        struct convert_config wide = {.type = DTYPE_Q8_0, .threads = 1};
        struct convert_config narrow = {.type = DTYPE_Q8_0, .threads = 3, .buffer_bytes = 256 * 1024};
        help_ok(convert_run(help_golden(help_families[f]), help_path("wide.gguf"), &wide, false, &error), &error);
        help_ok(convert_run(help_golden(help_families[f]), help_path("narrow.gguf"), &narrow, false, &error), &error);
        help_same_files(help_path("wide.gguf"), help_path("narrow.gguf"));
        help_clear();
    }
}

/* llama3 scaling becomes division factors: 1 for the fast dimensions, the factor for the slow ones, between in order.
 */
static void golden_llama3_scaling_becomes_factors(void **state)
{
    (void)state;
    berth_error error;
    struct convert_config config = {.type = DTYPE_F32};
    struct opened opened;
    help_ok(convert_run(help_golden("llama"), help_path("llama.gguf"), &config, false, &error), &error);
    help_open(&opened, help_path("llama.gguf"));
    const struct tensor *tensor = tensor_find(&opened.checkpoint.tensors, STR("rope_freqs.weight"));
    assert_non_null(tensor);
    assert_int_equal(tensor->dtype, DTYPE_F32);
    assert_int_equal(tensor_elems(tensor), 8); /* head_dim 16 */
    float *factors = help_tensor_floats(&opened, tensor);
    /* config.json: theta 500000, factor 8, low 1, high 4, original context 64 */
    for (int i = 0; i < 8; i++) {
        double wavelength = 2 * 3.14159265358979323846 * pow(500000.0, 2.0 * i / 16.0);
        double want = wavelength < 64 / 4.0   ? 1
                      : wavelength > 64 / 1.0 ? 8
                                              : 1 / ((1 - (64 / wavelength - 1) / 3) / 8 + (64 / wavelength - 1) / 3);
        assert_true(fabs((double)factors[i] - want) < 1e-6 * want);
    }
    assert_true(factors[0] == 1.0f && factors[7] == 8.0f);
    free(factors);
    struct str text;
    uint64_t number;
    assert_true(meta_str(&opened.checkpoint.meta, STR("tokenizer.ggml.model"), &text) && str_is(text, "none"));
    assert_true(meta_u64(&opened.checkpoint.meta, STR("llama.vocab_size"), &number) && number == 384);
    assert_true(meta_u64(&opened.checkpoint.meta, STR("general.file_type"), &number) && number == 0);
    help_close(&opened);
    help_clear();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(golden_every_family_and_type_reads_back),
        cmocka_unit_test(golden_buffers_and_threads_change_nothing),
        cmocka_unit_test(golden_llama3_scaling_becomes_factors),
    };
    return cmocka_run_group_tests(tests, help_setup, help_teardown);
}
