/* SPDX-License-Identifier: MIT
 * What the readers of route files share. Private to routes_*.c. */
#ifndef EXPERTS_ROUTES_TEXT_H
#define EXPERTS_ROUTES_TEXT_H

#include "base/str.h"
#include "experts/routes.h"

#define ROUTES_MAGIC "# berth routes v1"
enum { ROUTES_CELLS_MAX = 1 << 20, ROUTES_TABLES_BYTES = ROUTES_CELLS_MAX * 8 + CATALOG_LAYERS_MAX * 16 };

struct routes_text {
    struct arena arena;
    struct routes *routes;
    const char *path;
    char *begin;
    uint64_t text_cap; /* room from begin */
    const char *at, *end;
    uint64_t line;
    uint64_t steps_cap, ids_cap, events_cap;
    uint32_t session;
    uint32_t experts; /* what the caller says there are; 0: nothing */
    uint32_t largest; /* expert seen */
};

/* The next line without its end. False at the end of the text. */
bool routes_line(struct routes_text *text, struct str *line);
/* Takes a whole number off the front. */
bool routes_number(struct str *line, uint64_t *out);
/* Takes this character off the front. */
bool routes_skip(struct str *line, char c);
berth_status routes_bad(const struct routes_text *text, const char *what, berth_error *err);
/* Sets the shape, or checks that it is the one that was set. */
berth_status routes_shape(struct routes_text *text, uint64_t layers, uint64_t experts, uint64_t top_k,
                          berth_error *err);
berth_status routes_add_id(struct routes_text *text, uint64_t expert, berth_error *err);
berth_status routes_add_step(struct routes_text *text, const struct route_step *step, berth_error *err);

berth_status routes_read_berth(struct routes_text *text, berth_error *err);
berth_status routes_read_csv(struct routes_text *text, berth_error *err);
berth_status routes_read_jsonl(struct routes_text *text, berth_error *err);

#endif
