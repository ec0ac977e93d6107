/* SPDX-License-Identifier: MIT */
#include "cli/verbs.h"

#include <string.h>

#define VERB(name) extern const struct verb verb_##name;
#define GROUP(name, summary)
#define PART(group, name) extern const struct verb verb_##group##_##name;
#include "cli/verbs.def"
#undef VERB
#undef GROUP
#undef PART

const struct verb_entry verb_entries[] = {
#define VERB(name) {#name, NULL, &verb_##name, NULL},
#define GROUP(name, summary) {#name, summary, NULL, NULL},
#define PART(group, name) {#name, NULL, &verb_##group##_##name, #group},
#include "cli/verbs.def"
#undef VERB
#undef GROUP
#undef PART
    {NULL, NULL, NULL, NULL},
};

static bool same_group(const char *a, const char *b)
{
    return a == NULL || b == NULL ? a == b : strcmp(a, b) == 0;
}

const struct verb_entry *verb_find(const char *group, const char *name)
{
    for (const struct verb_entry *entry = verb_entries; entry->name != NULL; entry++) {
        if (same_group(entry->group, group) && strcmp(entry->name, name) == 0) {
            return entry;
        }
    }
    return NULL;
}

bool verb_group_has_parts(const char *group)
{
    for (const struct verb_entry *entry = verb_entries; entry->name != NULL; entry++) {
        if (entry->group != NULL && strcmp(entry->group, group) == 0) {
            return true;
        }
    }
    return false;
}
