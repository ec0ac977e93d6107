/* SPDX-License-Identifier: MIT
 *
 * What the program remembers between runs: machines and their rates, models found on this machine, runs. One SQLite
 * file, berth.db in the state directory (host_state_dir()).
 *
 * The file is never replaced, emptied or repaired: when it is damaged, not ours, or of a newer Berth, opening it fails
 * with one sentence, and the caller goes on without it. Several processes may use it at once.
 */
#ifndef APP_STORE_H
#define APP_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct store;

enum { STORE_PROBLEM_MAX = 768 };

/* How long another process that holds the file is waited for: by verbs that are about the store, and by those that only
 * leave something in it or look something up. */
enum { STORE_WAIT_MS = 5000, STORE_WAIT_BRIEF_MS = 2000 };

/* NULL: it cannot be used, `problem` says why. `create` false: a file that is not there is a problem too. */
struct store *store_open(bool create, char problem[STORE_PROBLEM_MAX]);
struct store *store_open_within(bool create, int wait_ms, char problem[STORE_PROBLEM_MAX]);
void store_close(struct store *store); /* NULL is allowed */
/* What the last failed call met. */
const char *store_problem(const struct store *store);
/* Seconds since 1970. */
int64_t store_now(void);

/* ---- rows as structs -------------------------------------------------------------------------------- */

enum store_type { STORE_TEXT, STORE_INT, STORE_REAL }; /* char[size]; int64_t; double */

struct store_column {
    const char *name;
    enum store_type type;
    size_t offset, size;
};

struct store_table {
    const char *name;
    const struct store_column *columns;
    size_t count, row_bytes;
};

/* Adds a row, or replaces the one with the same key. */
bool store_put(struct store *store, const struct store_table *table, const void *row);

/* Calls fn for each row; `tail` is what follows "FROM table" and may hold ?1, ?2, which are texts. fn returning false
 * ends the walk. False: it failed. */
typedef bool store_row_fn(void *user, const void *row);
bool store_each(struct store *store, const struct store_table *table, const char *tail, const char *const texts[2],
                void *row, store_row_fn *fn, void *user);

/* A statement without result; texts as above. */
bool store_do(struct store *store, const char *sql, const char *const texts[2]);

#endif
