/* SPDX-License-Identifier: MIT */
#include "text/text.h"

struct text {
    uint32_t vocab;
};

berth_status text_layout(struct arena *arena, struct arena *temp, const struct checkpoint *checkpoint,
                         uint64_t text_bytes_max, struct text **out, berth_error *err)
{
    (void)arena;
    (void)temp;
    (void)text_bytes_max;
    *out = NULL;
    struct str model;
    bool has_json = checkpoint->tokenizer_json.bytes != 0;
    bool has_meta = meta_str(&checkpoint->meta, STR("tokenizer.ggml.model"), &model);
    if (!has_json && (!has_meta || str_is(model, "none") || str_is(model, "no_vocab"))) {
        return BERTH_OK;
    }
    return error_set(err, BERTH_ERR_UNSUPPORTED, "tokenizers are not wired up yet");
}

berth_status text_encode(struct text *text, struct str input, unsigned flags, int32_t *ids, size_t cap, size_t *count,
                         berth_error *err)
{
    (void)text;
    (void)input;
    (void)flags;
    (void)ids;
    (void)cap;
    *count = 0;
    return error_set(err, BERTH_ERR_UNSUPPORTED, "tokenizers are not wired up yet");
}

uint32_t text_vocab(const struct text *text)
{
    return text->vocab;
}

struct str text_token(const struct text *text, int32_t id, bool *is_special)
{
    (void)text;
    (void)id;
    *is_special = false;
    return (struct str){NULL, 0};
}

size_t text_piece_max_bytes(const struct text *text)
{
    (void)text;
    return 16;
}

int32_t text_bos(const struct text *text)
{
    (void)text;
    return -1;
}

int32_t text_eos(const struct text *text)
{
    (void)text;
    return -1;
}

bool text_is_end(const struct text *text, int32_t id)
{
    (void)text;
    (void)id;
    return false;
}

struct str text_chat_template(const struct text *text)
{
    (void)text;
    return (struct str){NULL, 0};
}

berth_status text_detok_push(const struct text *text, berth_detok *detok, int32_t id, char *buffer, size_t cap,
                             size_t *count)
{
    (void)text;
    (void)detok;
    (void)id;
    (void)buffer;
    (void)cap;
    *count = 0;
    return BERTH_ERR_UNSUPPORTED;
}

berth_status text_detok_finish(berth_detok *detok, char *buffer, size_t cap, size_t *count)
{
    (void)detok;
    (void)buffer;
    (void)cap;
    *count = 0;
    return BERTH_OK;
}
