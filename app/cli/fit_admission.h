/* SPDX-License-Identifier: MIT
 * berth fit --prompt: whether a request would be admitted, with the largest context that fits as its ceiling. */
#ifndef CLI_FIT_ADMISSION_H
#define CLI_FIT_ADMISSION_H

#include "berth.h"
#include "common/args.h"
#include "common/json_out.h"

enum { ADMISSION_LENGTH = 256 }; /* --max-tokens when absent, as of berth run */
#define ADMISSION_NONE UINT64_MAX

struct admission_options {
    uint64_t prompt_tokens, max_tokens; /* ADMISSION_NONE: not given */
    int policy;                         /* -1: not given */
};
#define ADMISSION_OPTIONS_INIT             \
    {                                      \
        ADMISSION_NONE, ADMISSION_NONE, -1 \
    }

struct admission {
    bool asked;
    uint64_t prompt_tokens, max_tokens;
    uint64_t ceiling;
    bool is_ctx; /* the ceiling is --ctx */
    berth_admission_result result;
};

extern const struct arg_option admission_option_rows[];
enum { ADMISSION_OPTIONS = 3 };

/* Options that contradict each other; the exit code. */
int admission_check(const struct admission_options *options, bool matrix);
/* The ceiling is the largest context that fits, or the one that was asked for (0: none was) if that is smaller. The
 * exit code. */
int admission_solve(const struct admission_options *options, double largest, uint32_t ctx_tokens,
                    struct admission *out);
/* "request  admitted, ..."; nothing when none was asked. */
void admission_text(const struct admission *admission, char *text, size_t cap);
void admission_json(struct json_out *json, const struct admission *admission);
static inline bool admission_refused(const struct admission *admission)
{
    return admission->asked && !admission->result.admitted;
}

#endif
