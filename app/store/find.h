/* SPDX-License-Identifier: MIT
 * Models by name, and the choice when no name is given. */
#ifndef APP_STORE_FIND_H
#define APP_STORE_FIND_H

#include "store/models.h"
#include "store/runs.h"

/* The models that `query` may mean, best kind of match alone: whole alias, name or file name; else a beginning of one;
 * else a part of one; upper and lower case alike. fn sees each; returns how many, -1: the store failed. */
int64_t models_find(struct store *store, const char *query, store_row_fn *fn, void *user);

/* What a model would do here. */
enum model_verdict { MODEL_FITS, MODEL_STREAMS, MODEL_TOO_BIG, MODEL_UNKNOWN };
const char *model_verdict_name(enum model_verdict verdict); /* "fits", "streams", "too big", "not supported" */

struct model_outlook {
    enum model_verdict verdict;
    int64_t slots, experts; /* experts: of all layers */
    struct speed_answer speed;
};
/* `machine`: key. Of a decode at the middle of 4,096 tokens. */
void models_outlook(struct store *store, const char *machine, const struct model_row *row, uint64_t budget_bytes,
                    struct model_outlook *out);

/* The choice of the documents among models that fit; when none does, the largest that streams at `usable` tokens a
 * second or more. */
enum pick_reason { PICK_NONE, PICK_DEFAULT, PICK_COEXIST, PICK_FITS, PICK_STREAMS };
const char *pick_reason_text(enum pick_reason reason);
struct model_pick {
    enum pick_reason reason;
    struct model_row row;
    struct model_outlook outlook;
};
bool models_pick(struct store *store, const char *machine, uint64_t budget_bytes, double usable,
                 struct model_pick *out);

/* The default of the choice: an alias or a path; "" when none was set. */
bool models_get_default(struct store *store, char *name, size_t cap);
bool models_set_default(struct store *store, const char *name);

enum { USABLE_TOKENS_PER_S = 5 }; /* about as fast as people read */

/* What MODEL on a command line means: a path that exists, else a name. Sets *path to `buffer` when it was a name. The
 * exit code; a name that nobody knows stays as it is. *used: the store was opened. */
int models_resolve(const char *verb, const char **path, char *buffer, size_t cap, bool *used);

#endif
