/* SPDX-License-Identifier: MIT
 * A folder of a test's own, in the working directory: /tmp is often tmpfs, which has no page cache and no holes of
 * hundreds of gigabytes. The program defines _GNU_SOURCE and includes cmocka.h first. */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include <stdio.h>
#include <stdlib.h>

static char folder[64];

static inline int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "./berth-test-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

#endif
