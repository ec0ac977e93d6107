/* SPDX-License-Identifier: MIT */
#include "fake/fake_model.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"

struct berth_model {
    int unused;
};
struct berth_session {
    float logits[FAKE_VOCAB];
    bool has_logits;
};

struct fake fake;
static struct berth_model the_model;
static struct berth_session the_session;

static const struct {
    const char *text;
    int32_t id;
} specials[] = {{"<|im_start|>", FAKE_IM_START}, {"<|im_end|>", FAKE_IM_END}, {"<|endoftext|>", FAKE_END_OF_TEXT}};

void fake_reset(uint32_t ctx_tokens)
{
    memset(&fake, 0, sizeof fake);
    memset(&the_session, 0, sizeof the_session);
    fake.ctx_tokens = ctx_tokens;
}

berth_model *fake_model(void)
{
    return &the_model;
}

berth_session *fake_session(void)
{
    return &the_session;
}

static int32_t special_at(const char *text, size_t bytes, size_t *length)
{
    for (size_t i = 0; i < sizeof specials / sizeof specials[0]; i++) {
        *length = strlen(specials[i].text);
        if (bytes >= *length && memcmp(text, specials[i].text, *length) == 0 &&
            !(fake.no_im_tokens && specials[i].id != FAKE_END_OF_TEXT)) {
            return specials[i].id;
        }
    }
    return -1;
}

static size_t encode(const char *text, size_t bytes, bool with_specials, int32_t *ids, size_t cap)
{
    size_t count = 0;
    for (size_t i = 0; i < bytes; count++) {
        size_t length = 1;
        int32_t id = with_specials ? special_at(text + i, bytes - i, &length) : -1;
        if (id < 0) {
            length = 1;
            id = (unsigned char)text[i];
        }
        if (count < cap) {
            ids[count] = id;
        }
        i += length;
    }
    return count;
}

void fake_say(const char *text)
{
    fake.answer_count = (uint32_t)encode(text, strlen(text), true, fake.answer, FAKE_IDS_MAX);
    fake.answer_at = 0;
}

/* ---- berth.h ---------------------------------------------------------------------------------------- */

const char *berth_version(void)
{
    return "fake";
}

const char *berth_line_name(berth_line line)
{
    (void)line;
    return "line";
}

berth_status berth_plan_memory(const char *path, const berth_model_config *config, berth_plan *plan, berth_error *err)
{
    (void)path;
    (void)config;
    (void)plan;
    return error_set(err, BERTH_ERR_UNSUPPORTED, "fake");
}

berth_status berth_model_open(const char *path, const berth_model_config *config, berth_model **out, berth_error *err)
{
    (void)path;
    (void)config;
    (void)out;
    return error_set(err, BERTH_ERR_UNSUPPORTED, "fake");
}

void berth_model_close(berth_model *model)
{
    (void)model;
}

berth_status berth_model_get_info(const berth_model *model, berth_model_info *info)
{
    (void)model;
    info->vocab = FAKE_VOCAB;
    info->bos_id = FAKE_END_OF_TEXT;
    info->has_tokenizer = true;
    return BERTH_OK;
}

berth_status berth_model_get_plan(const berth_model *model, berth_plan *plan)
{
    (void)model;
    plan->ctx_tokens = fake.ctx_tokens;
    return BERTH_OK;
}

berth_status berth_model_get_stats(const berth_model *model, berth_stats *stats)
{
    (void)model;
    (void)stats;
    return BERTH_OK;
}

berth_status berth_tokenize(berth_model *model, const char *text, size_t text_bytes, unsigned flags, int32_t *ids,
                            size_t cap, size_t *count, berth_error *err)
{
    (void)model;
    *count = encode(text, text_bytes, (flags & BERTH_TOKENIZE_SPECIAL) != 0, ids, cap);
    return *count > cap ? error_set(err, BERTH_ERR_LIMIT, "too many ids") : BERTH_OK;
}

berth_status berth_detok_push(const berth_model *model, berth_detok *detok, int32_t id, char *buffer, size_t cap,
                              size_t *count)
{
    (void)model;
    (void)detok;
    *count = 0;
    if (id == FAKE_LONG) {
        memset(buffer, 'x', 16);
        *count = cap >= 16 ? 16 : 0;
    } else if (id < 256 && cap > 0) {
        buffer[0] = (char)id;
        *count = 1;
    }
    return BERTH_OK;
}

berth_status berth_detok_finish(berth_detok *detok, char *buffer, size_t cap, size_t *count)
{
    (void)detok;
    (void)buffer;
    (void)cap;
    *count = 0;
    return BERTH_OK;
}

size_t berth_piece_max_bytes(const berth_model *model)
{
    (void)model;
    return 16;
}

const char *berth_token_text(const berth_model *model, int32_t id, size_t *bytes, bool *is_special)
{
    (void)model;
    (void)id;
    *bytes = 0;
    *is_special = id >= 256;
    return "";
}

bool berth_token_is_end(const berth_model *model, int32_t id)
{
    (void)model;
    return id == FAKE_END_OF_TEXT;
}

const char *berth_chat_template(const berth_model *model, size_t *bytes)
{
    (void)model;
    *bytes = fake.template_source != NULL ? strlen(fake.template_source) : 0;
    return fake.template_source;
}

berth_status berth_session_create(berth_model *model, const berth_session_config *config, berth_session **out,
                                  berth_error *err)
{
    (void)model;
    (void)config;
    (void)err;
    *out = &the_session;
    return BERTH_OK;
}

void berth_session_free(berth_session *session)
{
    (void)session;
}

berth_status berth_session_eval(berth_session *session, const int32_t *ids, size_t count, berth_logits_fn *each,
                                void *each_user, berth_error *err)
{
    (void)each;
    (void)each_user;
    fake.evals++;
    if (fake.evals == fake.fail_eval) {
        return error_set(err, fake.fail_status, "the fake was told to fail");
    }
    if (count > fake.ctx_tokens - fake.length) {
        return error_set(err, BERTH_ERR_LIMIT, "context");
    }
    memcpy(fake.ids + fake.length, ids, count * sizeof *ids);
    fake.length += (uint32_t)count;
    fake.evaluated += count;
    int32_t next = fake.answer_at < fake.answer_count ? fake.answer[fake.answer_at++] : FAKE_IM_END;
    memset(session->logits, 0, sizeof session->logits);
    session->logits[next] = 10;
    session->has_logits = true;
    return BERTH_OK;
}

const float *berth_session_logits(const berth_session *session)
{
    return session->has_logits ? session->logits : NULL;
}

uint32_t berth_session_length(const berth_session *session)
{
    (void)session;
    return fake.length;
}

berth_status berth_session_truncate(berth_session *session, uint32_t length)
{
    session->has_logits = false;
    if (length > fake.length) {
        return BERTH_ERR_ARGUMENT;
    }
    fake.length = length;
    return BERTH_OK;
}

berth_status berth_model_warm(berth_model *model, uint64_t max_ns, berth_warm *warm, berth_error *err)
{
    (void)model;
    (void)max_ns;
    (void)err;
    warm->complete = true;
    return BERTH_OK;
}

berth_status berth_session_turn_end(berth_session *session, berth_turn *turn, berth_error *err)
{
    (void)session;
    (void)turn;
    (void)err;
    return BERTH_OK;
}

void berth_session_cancel(berth_session *session)
{
    (void)session;
}
