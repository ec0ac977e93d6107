/* SPDX-License-Identifier: MIT */
#include "common/advice.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/sizes.h"

static bool shows(uint64_t before, uint64_t after)
{
    char was[FORMAT_MAX];
    char is[FORMAT_MAX];
    return after < before && strcmp(size_format(before, was), size_format(after, is)) != 0;
}

static void add(struct advice_list *list, const char *option, uint64_t bytes, bool fits)
{
    if (list->count < ADVICE_MAX) {
        struct advice *advice = &list->items[list->count++];
        snprintf(advice->option, sizeof advice->option, "%s", option);
        advice->bytes = bytes;
        advice->fits = fits;
    }
}

void advice_add(struct advice_list *list, const char *option, uint64_t before, uint64_t after, bool fits)
{
    if (fits || shows(before, after)) {
        add(list, option, after, fits);
    }
}

void advice_add_all(struct advice_list *list, const char *option, uint64_t after, bool fits)
{
    uint64_t before = UINT64_MAX;
    bool fitted = false;
    for (uint32_t i = 0; i < list->count; i++) {
        before = list->items[i].bytes < before ? list->items[i].bytes : before;
        fitted = fitted || list->items[i].fits;
    }
    if ((fits && !fitted) || shows(before, after)) {
        add(list, option, after, fits);
    }
}

static bool is_option(const struct advice *advice)
{
    return strncmp(advice->option, "--", 2) == 0;
}

void advice_join(const struct advice_list *list, char *text, uint64_t cap)
{
    size_t used = 0;
    text[0] = '\0';
    for (int pass = 0; pass < 2; pass++) { /* what to add, then what to leave out */
        for (uint32_t i = 0; i < list->count && used < cap; i++) {
            if (is_option(&list->items[i]) == (pass == 0)) {
                int more = snprintf(text + used, (size_t)cap - used, "%s%s",
                                    used == 0   ? ""
                                    : pass == 0 ? " "
                                                : ", ",
                                    list->items[i].option);
                used += more > 0 ? (size_t)more : 0;
            }
        }
    }
}

void advice_print(const struct advice_list *list, uint64_t needed_bytes, const char *budget_is)
{
    enum { COLUMNS = 80 };
    char bytes[FORMAT_MAX];
    printf("\nWhat would help:\n  --budget %" PRIu64 " %s (%s)\n", needed_bytes, budget_is,
           size_format(needed_bytes, bytes));
    for (uint32_t i = 0; i < list->count; i++) {
        const struct advice *advice = &list->items[i];
        char rest[96];
        snprintf(rest, sizeof rest, "lowers that to %s, %s", size_format(advice->bytes, bytes),
                 advice->fits ? "which fits" : "which is not enough");
        bool wraps = 3 + strlen(advice->option) + strlen(rest) > COLUMNS;
        printf("  %s%s%s\n", advice->option, wraps ? "\n    " : " ", rest);
    }
}

void advice_json(struct json_out *json, const struct advice_list *list, const char *bytes_key)
{
    json_out_array(json, "advice", false);
    for (uint32_t i = 0; i < list->count; i++) {
        json_out_object(json, NULL);
        json_out_string(json, "option", list->items[i].option);
        json_out_u64(json, bytes_key, list->items[i].bytes);
        json_out_bool(json, "fits", list->items[i].fits);
        json_out_close(json);
    }
    json_out_close(json);
}
