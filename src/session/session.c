/* SPDX-License-Identifier: MIT
 * One sequence of tokens over a model. */
#include "session/model.h"

#include <math.h>

berth_status berth_session_create(berth_model *model, const berth_session_config *config, berth_session **out,
                                  berth_error *err)
{
    if (model == NULL || out == NULL) {
        return error_set(err, BERTH_ERR_ARGUMENT, "no model, or no place for the session handle");
    }
    if (model->text_only) {
        return error_set(err, BERTH_ERR_STATE, "the model was opened for its tokenizer only (BERTH_OPEN_TEXT)");
    }
    if (model->session.live) {
        return error_set(err, BERTH_ERR_STATE, "the model has a session already; free it first");
    }
    struct forward *fw = &model->engine.forward;
    fw->route = config != NULL ? config->route : NULL;
    fw->route_user = config != NULL ? config->route_user : NULL;
    struct berth_session *session = &model->session;
    session->live = true;
    session->has_logits = false;
    session->length = 0;
    atomic_store(&session->cancel, 0);
    *out = session;
    return BERTH_OK;
}

void berth_session_free(berth_session *session)
{
    if (session != NULL) {
        session->live = false;
    }
}

static berth_status check_ids(const struct berth_session *session, const int32_t *ids, size_t count, berth_error *err)
{
    const struct berth_model *model = session->model;
    uint32_t vocab = model->engine.hparams->vocab;
    if (count == 0 || ids == NULL) {
        return error_set(err, BERTH_ERR_ARGUMENT, "no tokens given");
    }
    if (count > model->plan.ctx_tokens - session->length) {
        return error_set(err, BERTH_ERR_LIMIT, "the context of %u tokens is full: %u held, %llu more asked for",
                         (unsigned)model->plan.ctx_tokens, (unsigned)session->length, (unsigned long long)count);
    }
    for (size_t i = 0; i < count; i++) {
        if (ids[i] < 0 || (uint32_t)ids[i] >= vocab) {
            return error_set(err, BERTH_ERR_ARGUMENT, "token id %ld at place %llu is outside the vocabulary of %u",
                             (long)ids[i], (unsigned long long)i, (unsigned)vocab);
        }
    }
    return BERTH_OK;
}

/* A damaged file shows here: NaN and infinity spread from any weight to every later logit. */
static berth_status check_logits(const struct berth_model *model, berth_error *err)
{
    const float *logits = model->engine.forward.scratch.logits;
    for (uint32_t i = 0; i < model->engine.hparams->vocab; i++) {
        if (!isfinite(logits[i])) {
            return error_set(err, BERTH_ERR_FORMAT,
                             "the logit of token %u is %s: weights in the model's files are damaged, or not finite",
                             (unsigned)i, isnan(logits[i]) ? "not a number" : "infinite");
        }
    }
    return BERTH_OK;
}

berth_status berth_session_eval(berth_session *session, const int32_t *ids, size_t count, berth_logits_fn *each,
                                void *each_user, berth_error *err)
{
    if (session == NULL || !session->live) {
        return error_set(err, BERTH_ERR_ARGUMENT, "no session");
    }
    TRY(check_ids(session, ids, count, err));
    struct berth_model *model = session->model;
    atomic_store(&session->cancel, 0); /* meant for an eval that is over */
    berth_phase phase = count == 1 ? BERTH_PHASE_DECODE : BERTH_PHASE_PREFILL;
    uint64_t began = os_now_ns();
    berth_status status = BERTH_OK;
    session->has_logits = false;
    for (size_t done = 0; done < count && status == BERTH_OK;) {
        size_t left = count - done;
        uint32_t chunk_tokens = left < model->plan.chunk_tokens ? (uint32_t)left : model->plan.chunk_tokens;
        struct forward_chunk chunk = {.ids = ids + done,
                                      .count = chunk_tokens,
                                      .first = session->length,
                                      .phase = phase,
                                      .want_logits = done + chunk_tokens == count,
                                      .each = each,
                                      .each_user = each_user};
        status = forward_chunk(&model->engine.forward, &chunk, err);
        if (status == BERTH_OK) {
            session->length += chunk_tokens;
            model->tokens[phase] += chunk_tokens;
            done += chunk_tokens;
        }
    }
    model->ns[phase] += os_now_ns() - began;
    if (status == BERTH_OK) {
        status = check_logits(model, err);
    }
    session->has_logits = status == BERTH_OK;
    atomic_store(&session->cancel, 0);
    return status;
}

const float *berth_session_logits(const berth_session *session)
{
    return session != NULL && session->has_logits ? session->model->engine.forward.scratch.logits : NULL;
}

uint32_t berth_session_length(const berth_session *session)
{
    return session != NULL ? session->length : 0;
}

berth_status berth_session_truncate(berth_session *session, uint32_t length)
{
    if (session == NULL || !session->live || length > session->length) {
        return BERTH_ERR_ARGUMENT;
    }
    session->has_logits = session->has_logits && length == session->length;
    session->length = length;
    return BERTH_OK;
}

berth_status berth_session_turn_end(berth_session *session, berth_turn *turn, berth_error *err)
{
    if (session == NULL || !session->live || (turn != NULL && turn->struct_size < sizeof *turn)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "no session, or a berth_turn without BERTH_TURN_INIT");
    }
    struct residency_turn done = {0};
    if (session->model->engine.residency != NULL) {
        TRY(residency_turn(session->model->engine.residency, &done, err));
    }
    if (turn != NULL) {
        turn->candidates = done.candidates;
        turn->swaps = done.swaps;
        turn->saved = done.saved;
    }
    return BERTH_OK;
}

berth_status berth_model_warm(berth_model *model, uint64_t max_ns, berth_warm *warm, berth_error *err)
{
    if (model == NULL || (warm != NULL && warm->struct_size < sizeof *warm)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "no model, or a berth_warm without BERTH_WARM_INIT");
    }
    struct residency_warm done = {.complete = true};
    atomic_store(&model->session.cancel, 0);
    if (model->engine.residency != NULL) {
        TRY(residency_warm(model->engine.residency, max_ns, &model->session.cancel, &done, err));
    }
    if (warm != NULL) {
        warm->experts = done.experts;
        warm->read_bytes = done.bytes;
        warm->ns = done.ns;
        warm->complete = done.complete;
    }
    return BERTH_OK;
}

void berth_session_cancel(berth_session *session)
{
    if (session != NULL) {
        atomic_store(&session->cancel, 1);
    }
}
