/* SPDX-License-Identifier: MIT
 * "What would help": the changes of options that berth fit tries, for each engine in the same words. */
#ifndef APP_ADVICE_H
#define APP_ADVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/json_out.h"

enum { ADVICE_MAX = 6, ADVICE_OPTION_MAX = 160 };

struct advice {
    char option[ADVICE_OPTION_MAX];
    uint64_t bytes; /* needed with it */
    bool fits;
};

struct advice_list {
    struct advice items[ADVICE_MAX];
    uint32_t count;
};

/* Takes a change that lowers what is needed so far that the printed sizes differ. */
void advice_add(struct advice_list *list, const char *option, uint64_t before, uint64_t after, bool fits);
/* All changes of the list together: only where they do more than each alone. */
void advice_add_all(struct advice_list *list, const char *option, uint64_t after, bool fits);
/* All options of the list, to be used as they are printed: "--ctx 512 --kv q8_0, leaving out --swa-full". */
void advice_join(const struct advice_list *list, char *text, uint64_t cap);
/* The budget that is enough, "is the smallest that runs", then the list; on standard output. */
void advice_print(const struct advice_list *list, uint64_t needed_bytes, const char *budget_is);

/* An array "advice" of objects; `bytes_key` says what the bytes are the size of. */
void advice_json(struct json_out *json, const struct advice_list *list, const char *bytes_key);

#endif
