/* SPDX-License-Identifier: MIT
 * The tokenizer half of berth.h. */
#include "session/model.h"

berth_status berth_tokenize(berth_model *model, const char *text, size_t text_bytes, unsigned flags, int32_t *ids,
                            size_t cap, size_t *count, berth_error *err)
{
    if (model == NULL || count == NULL || (text == NULL && text_bytes > 0) || (ids == NULL && cap > 0)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "no model, text or place for the token ids");
    }
    if (model->engine.text == NULL) {
        bool named = model->text_problem[0] != '\0';
        return error_set(err, BERTH_ERR_UNSUPPORTED, "%s; give token ids instead",
                         named ? model->text_problem : "the model has no tokenizer");
    }
    return text_encode(model->engine.text, (struct str){text, text_bytes}, flags, ids, cap, count, err);
}

berth_status berth_detok_push(const berth_model *model, berth_detok *detok, int32_t id, char *buffer, size_t cap,
                              size_t *count)
{
    if (model == NULL || detok == NULL || buffer == NULL || count == NULL) {
        return BERTH_ERR_ARGUMENT;
    }
    if (model->engine.text == NULL) {
        return BERTH_ERR_UNSUPPORTED;
    }
    return text_detok_push(model->engine.text, detok, id, buffer, cap, count);
}

berth_status berth_detok_finish(berth_detok *detok, char *buffer, size_t cap, size_t *count)
{
    if (detok == NULL || buffer == NULL || count == NULL) {
        return BERTH_ERR_ARGUMENT;
    }
    return text_detok_finish(detok, buffer, cap, count);
}

size_t berth_piece_max_bytes(const berth_model *model)
{
    return model != NULL && model->engine.text != NULL ? text_piece_max_bytes(model->engine.text) : 0;
}

const char *berth_token_text(const berth_model *model, int32_t id, size_t *bytes, bool *is_special)
{
    bool special = false;
    struct str token = {NULL, 0};
    if (model != NULL && model->engine.text != NULL) {
        token = text_token(model->engine.text, id, &special);
    }
    if (bytes != NULL) {
        *bytes = token.bytes;
    }
    if (is_special != NULL) {
        *is_special = special;
    }
    return token.ptr;
}

bool berth_token_is_end(const berth_model *model, int32_t id)
{
    return model != NULL && model->engine.text != NULL && text_is_end(model->engine.text, id);
}

const char *berth_chat_template(const berth_model *model, size_t *bytes)
{
    struct str source = {NULL, 0};
    if (model != NULL && model->engine.text != NULL) {
        source = text_chat_template(model->engine.text);
    }
    if (bytes != NULL) {
        *bytes = source.bytes;
    }
    return source.bytes > 0 ? source.ptr : NULL;
}
