/* SPDX-License-Identifier: MIT
 * The verbs: one file each (cmd_*.c), one line in verbs.def. A group ("usage") has parts ("usage show") and nothing of
 * its own. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include "common/args.h"

struct verb {
    const char *name;
    const struct arg_spec *spec;
    int (*run)(int argc, char **argv); /* without program and verb; the exit code */
    bool developer;                    /* not in the short list of `berth help` */
};

/* One line of `berth help`: a verb, or a group and its parts. */
struct verb_entry {
    const char *name, *summary;
    const struct verb *verb; /* NULL: a group */
    const char *group;       /* of a part; NULL for the others */
};

extern const struct verb_entry verb_entries[]; /* ends with a NULL name */

/* Entry `name` of `group` (NULL: the verbs and groups themselves). NULL: there is none. */
const struct verb_entry *verb_find(const char *group, const char *name);

bool verb_group_has_parts(const char *group);

#endif
