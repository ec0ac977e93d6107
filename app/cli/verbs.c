/* SPDX-License-Identifier: MIT */
#include "cli/verbs.h"

#include <string.h>

#define VERB(name) extern const struct verb verb_##name;
#include "cli/verbs.def"
#undef VERB

const struct verb *const verbs[] = {
#define VERB(name) &verb_##name,
#include "cli/verbs.def"
#undef VERB
    NULL,
};

const struct verb *verb_find(const char *name)
{
    for (const struct verb *const *verb = verbs; *verb != NULL; verb++) {
        if (strcmp((*verb)->name, name) == 0) {
            return *verb;
        }
    }
    return NULL;
}
