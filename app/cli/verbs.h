/* SPDX-License-Identifier: MIT
 * The verbs: one file each (cmd_*.c), one line in verbs.def. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include "common/args.h"

struct verb {
    const char *name;
    const struct arg_spec *spec;
    int (*run)(int argc, char **argv); /* without program and verb; the exit code */
    bool developer;                    /* not in the short list of `berth help` */
};

extern const struct verb *const verbs[]; /* ends with NULL */

/* NULL: no such verb. */
const struct verb *verb_find(const char *name);

#endif
