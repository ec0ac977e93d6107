/* SPDX-License-Identifier: MIT
 * The three admission rules that the documents' product had over time. */
#include <math.h>
#include <stdio.h>

#include "base/error.h"

static bool is_count(double value)
{
    return value >= 0 && value <= 9007199254740991.0 && value == floor(value);
}

static void refuse(berth_admission_result *out)
{
    out->admitted = false;
    out->http_status = 400;
    out->max_tokens = 0;
    out->type = "memory_admission";
    out->code = "context_over_budget";
}

berth_status berth_fit_admit(berth_admission policy, double prompt_tokens, double max_tokens, double max_safe_context,
                             berth_admission_result *out, berth_error *err)
{
    if (out == NULL || !is_count(prompt_tokens) || !is_count(max_tokens) || !is_count(max_safe_context)) {
        return error_set(err, BERTH_ERR_ARGUMENT, "prompt, max_tokens and the ceiling are whole numbers from 0");
    }
    double room = max_safe_context - prompt_tokens;
    *out = (berth_admission_result){
        .struct_size = sizeof *out,
        .admitted = true,
        .exceeds = max_tokens > room,
        .http_status = 200,
        .max_tokens = max_tokens,
        .type = "",
        .code = "",
    };
    if (out->exceeds) {
        snprintf(out->message, sizeof out->message,
                 "%.0f tokens are needed (prompt %.0f + max_tokens %.0f), the memory budget holds %.0f",
                 prompt_tokens + max_tokens, prompt_tokens, max_tokens, max_safe_context);
    }
    switch (policy) {
    case BERTH_ADMISSION_REJECT:
        if (out->exceeds) {
            refuse(out);
        }
        return BERTH_OK;
    case BERTH_ADMISSION_CAP:
        if (room < 1) {
            out->exceeds = true;
            refuse(out);
        } else if (out->exceeds) {
            out->max_tokens = room;
        }
        return BERTH_OK;
    case BERTH_ADMISSION_ADVISE:
        return BERTH_OK;
    default:
        return error_set(err, BERTH_ERR_ARGUMENT, "there is no admission policy %d", (int)policy);
    }
}
