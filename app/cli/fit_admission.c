/* SPDX-License-Identifier: MIT */
#include "cli/fit_admission.h"

#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>

#include "common/report.h"

static const struct arg_choice policies[] = {
    {"cap", BERTH_ADMISSION_CAP}, {"reject", BERTH_ADMISSION_REJECT}, {"advise", BERTH_ADMISSION_ADVISE}, {NULL, 0}};

#define AT(field) offsetof(struct admission_options, field)

const struct arg_option admission_option_rows[ADMISSION_OPTIONS] = {
    {.name = "prompt",
     .type = ARG_U64,
     .offset = AT(prompt_tokens),
     .high = 1u << 30,
     .value = "N",
     .help = "would a request with N prompt tokens be admitted?"},
    {.name = "max-tokens",
     .type = ARG_U64,
     .offset = AT(max_tokens),
     .high = 1u << 30,
     .value = "N",
     .help = "with --prompt: tokens to generate (default 256)"},
    {.name = "admission",
     .type = ARG_CHOICE,
     .offset = AT(policy),
     .choices = policies,
     .value = "RULE",
     .help = "with --prompt: cut the answer to what fits (default),\nrefuse the request, or admit it all the same"},
};

int admission_check(const struct admission_options *options, bool matrix)
{
    if (options->prompt_tokens == ADMISSION_NONE) {
        if (options->max_tokens != ADMISSION_NONE || options->policy >= 0) {
            return report_usage("fit", "%s goes with --prompt", options->policy >= 0 ? "--admission" : "--max-tokens");
        }
    } else if (matrix) {
        return report_usage("fit", "--prompt asks about one machine; --matrix shows many");
    }
    return EXIT_OK;
}

int admission_solve(const struct admission_options *options, double largest, uint32_t ctx_tokens, struct admission *out)
{
    berth_error err;
    *out = (struct admission){.asked = options->prompt_tokens != ADMISSION_NONE};
    if (!out->asked) {
        return EXIT_OK;
    }
    out->prompt_tokens = options->prompt_tokens;
    out->max_tokens = options->max_tokens != ADMISSION_NONE ? options->max_tokens : ADMISSION_LENGTH;
    out->is_ctx = ctx_tokens > 0 && ctx_tokens < largest;
    double ceiling = out->is_ctx ? ctx_tokens : largest;
    out->ceiling = (uint64_t)fmin(ceiling, 1e18);
    /* Where no context fits there is nothing to admit a request to, whatever the rule. */
    berth_admission policy =
        options->policy >= 0 && ceiling >= 1 ? (berth_admission)options->policy : BERTH_ADMISSION_CAP;
    out->result = BERTH_ADMISSION_RESULT_INIT;
    if (berth_fit_admit(policy, (double)out->prompt_tokens, (double)out->max_tokens, ceiling, &out->result, &err) !=
        BERTH_OK) {
        return report_error("fit", &err);
    }
    return EXIT_OK;
}

void admission_text(const struct admission *admission, char *text, size_t cap)
{
    const berth_admission_result *result = &admission->result;
    if (admission->ceiling == 0) {
        snprintf(text, cap, "refused: no context of this model fits");
        return;
    }
    int bytes = snprintf(
        text, cap, "%s: prompt %" PRIu64 " + answer %" PRIu64 " = %" PRIu64 " of at most %" PRIu64 " tokens%s",
        result->admitted ? "admitted" : "refused", admission->prompt_tokens, admission->max_tokens,
        admission->prompt_tokens + admission->max_tokens, admission->ceiling, admission->is_ctx ? " (--ctx)" : "");
    if (bytes < 0 || (size_t)bytes >= cap || !result->admitted || !result->exceeds) {
        return;
    }
    if (result->max_tokens < (double)admission->max_tokens) {
        snprintf(text + bytes, cap - (size_t)bytes, "; the answer is cut to %.0f", result->max_tokens);
    } else {
        snprintf(text + bytes, cap - (size_t)bytes, "; it will not fit");
    }
}

void admission_json(struct json_out *json, const struct admission *admission)
{
    const berth_admission_result *result = &admission->result;
    if (!admission->asked) {
        return;
    }
    json_out_object(json, "admission");
    json_out_bool(json, "admitted", result->admitted);
    json_out_bool(json, "exceeds", result->exceeds);
    json_out_i64(json, "status", result->http_status);
    json_out_u64(json, "prompt_tokens", admission->prompt_tokens);
    json_out_u64(json, "ceiling", admission->ceiling);
    json_out_u64(json, "max_tokens", (uint64_t)result->max_tokens);
    json_out_string(json, "type", result->type);
    json_out_string(json, "code", result->code);
    json_out_string(json, "message", result->message);
    json_out_close(json);
}
