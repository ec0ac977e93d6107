/* SPDX-License-Identifier: MIT
 * The tables, by versions: step n leads from version n to n + 1 and is never edited once it was released. */
#ifndef APP_SCHEMA_H
#define APP_SCHEMA_H

enum { SCHEMA_VERSION = 3 };
extern const char *const schema_steps[SCHEMA_VERSION];

#endif
