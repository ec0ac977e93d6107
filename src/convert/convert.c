/* SPDX-License-Identifier: MIT
 *
 * A checkpoint to GGUF. From safetensors: the family's names, shapes and metadata, experts stacked, rows of q and k
 * interleaved where GGUF readers rotate neighbours. From GGUF: the metadata as it is, matrices at the new type.
 */
#include "convert/convert.h"

#include "base/sort.h"
#include "compute/kernels.h"
#include "convert/output.h"
#include "convert/vocab.h"

/* ---- from safetensors --------------------------------------------------------------------------------- */

/* What this family's GGUF metadata has no key for would be lost in silence. */
static berth_status check_expressible(const struct convert_model *model, berth_error *err)
{
    const struct hparams *h = model->hparams;
    uint32_t sliding = 0;
    for (uint32_t layer = 0; layer < h->layers; layer++) {
        sliding += h->layer_slides[layer];
    }
    if (sliding != 0 && sliding != h->layers) {
        error_set(err, BERTH_ERR_UNSUPPORTED,
                  "a sliding window on %u of %u layers cannot be written to GGUF for this family; run it from its "
                  "directory",
                  sliding, h->layers);
        error_at_object(err, "sliding_window", strlen("sliding_window"));
        return BERTH_ERR_UNSUPPORTED;
    }
    return BERTH_OK;
}

/* GGUF readers derive YaRN's magnitude correction from the factor; the key holds what they multiply it by. */
static void put_yarn_multiplier(const struct convert_model *model, struct gguf_meta *meta)
{
    const struct rope_maths maths = {.power = math_pow, .logarithm = math_log};
    struct hparams derived = *model->hparams;
    if (derived.rope_scaling != ROPE_SCALING_YARN) {
        return;
    }
    derived.rope_attention_factor = derived.rope_mscale = derived.rope_mscale_all_dim = 0;
    derived.rope_attention_multiplier = 1;
    float wanted = family_rope_attention(model->hparams, &maths);
    float given = family_rope_attention(&derived, &maths);
    if (wanted != given) {
        char key[96];
        size_t bytes = strlen(model->family->gguf_arch);
        memcpy(key, model->family->gguf_arch, bytes);
        memcpy(key + bytes, ".rope.scaling.attn_factor", sizeof ".rope.scaling.attn_factor");
        gguf_meta_f32(meta, key, wanted / given);
    }
}

static berth_status convert_family(const struct checkpoint *checkpoint, struct convert_output *output, berth_error *err)
{
    const struct convert_config *config = output->config;
    struct convert_model model = {.checkpoint = checkpoint};
    struct hparams hparams;
    struct convert_plan plan;
    struct gguf_meta meta;
    TRY(family_read(checkpoint, &model.family, &hparams, err));
    model.hparams = &hparams;
    TRY(check_expressible(&model, err));
    TRY(convert_plan_family(output->scratch, &model, output->recipe, output->config->overrides, &plan, err));
    TRY(convert_take_meta(output->scratch, convert_vocab_bytes(checkpoint, hparams.vocab), &meta, err));
    TRY(convert_general_meta(&model, checkpoint->name, output->recipe, output->scratch, &meta, err));
    put_yarn_multiplier(&model, &meta);
    TRY(convert_vocab(checkpoint, hparams.vocab, output->scratch, &config->log, &meta, err));
    output->plan = &plan;
    output->meta = &meta;
    output->model = &model;
    return convert_write(output, err);
}

/* ---- from GGUF ---------------------------------------------------------------------------------------- */

/* The pairs borrow from the header: the addresses of their values are their order in the file. */
static int by_address(const void *user, uint32_t a, uint32_t b)
{
    const struct meta_pair *pairs = user;
    uintptr_t x = (uintptr_t)pairs[a].value;
    uintptr_t y = (uintptr_t)pairs[b].value;
    return x < y ? -1 : x > y ? 1 : 0;
}

/* Pairs that describe the file rather than the model: the writer makes its own. */
static bool is_of_the_file(struct str key)
{
    return str_is(key, "general.alignment") || str_starts(key, STR("split."));
}

static berth_status copy_meta(const struct checkpoint *checkpoint, const struct convert_recipe *recipe,
                              struct arena *scratch, struct gguf_meta *meta, berth_error *err)
{
    const struct meta *source = &checkpoint->meta;
    uint64_t bytes = 4096;
    for (uint32_t i = 0; i < source->count; i++) {
        bytes += source->pairs[i].key.bytes + source->pairs[i].value_bytes + 32;
    }
    TRY(convert_take_meta(scratch, bytes, meta, err));
    uint32_t *order = ARENA_NEW(scratch, uint32_t, source->count);
    uint32_t *spare = ARENA_NEW(scratch, uint32_t, source->count);
    TRY(arena_check(scratch, "convert: metadata order", err));
    sort_order(order, spare, source->count, by_address, source->pairs);
    for (uint32_t i = 0; i < source->count; i++) {
        const struct meta_pair *pair = &source->pairs[order[i]];
        if (str_is(pair->key, "general.file_type")) {
            gguf_meta_u32(meta, "general.file_type", recipe->file_type);
        } else if (!is_of_the_file(pair->key)) {
            gguf_meta_copy(meta, pair);
        }
    }
    if (meta_find(source, STR("general.file_type")) == NULL) {
        gguf_meta_u32(meta, "general.file_type", recipe->file_type);
    }
    if (quant_row(recipe->base)->block_elems > 1 && meta_find(source, STR("general.quantization_version")) == NULL) {
        gguf_meta_u32(meta, "general.quantization_version", 2);
    }
    return BERTH_OK;
}

static berth_status convert_gguf(const struct checkpoint *checkpoint, struct convert_output *output, berth_error *err)
{
    struct convert_plan plan;
    struct gguf_meta meta;
    TRY(convert_plan_copy(output->scratch, checkpoint, output->recipe, output->config->overrides, &plan, err));
    TRY(copy_meta(checkpoint, output->recipe, output->scratch, &meta, err));
    output->plan = &plan;
    output->meta = &meta;
    return convert_write(output, err);
}

/* ---- both --------------------------------------------------------------------------------------------- */

berth_status convert_run(const char *in_path, const char *out_path, const struct convert_config *config, bool overwrite,
                         berth_error *err)
{
    const struct convert_recipe *recipe = NULL;
    TRY(convert_check_config(config, &recipe, err));
    struct arena scratch;
    TRY(convert_reserve_scratch(&scratch, err));
    struct checkpoint checkpoint;
    berth_status status =
        checkpoint_open(&checkpoint, in_path, CHECKPOINT_WANT_TENSORS | CHECKPOINT_WANT_TEXT, &scratch, NULL, err);
    if (status == BERTH_OK) {
        struct convert_output output = {.path = out_path,
                                        .overwrite = overwrite,
                                        .config = config,
                                        .recipe = recipe,
                                        .scratch = &scratch,
                                        .checkpoint = &checkpoint};
        status = checkpoint.format == CHECKPOINT_GGUF ? convert_gguf(&checkpoint, &output, err)
                                                      : convert_family(&checkpoint, &output, err);
        checkpoint_close(&checkpoint);
    }
    os_release(scratch.base, scratch.cap_bytes);
    return status;
}
