/* SPDX-License-Identifier: MIT */
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/host.h"
#include "common/host_files.h"
#include "store/schema.h"
#include "store/sqlite.h"

/* No rate, time or size is larger. */
#define MOST 1e18

enum { APPLICATION_ID = 0x42727468 /* "Brth" */, SQL_MAX = 2048 };

struct store {
    const struct sqlite *sqlite;
    sqlite3 *db;
    char path[HOST_PATH_MAX + 16];
    char problem[STORE_PROBLEM_MAX];
    int wait_ms;
};

const char *store_problem(const struct store *store)
{
    return store->problem;
}

int64_t store_now(void)
{
    return (int64_t)time(NULL);
}

static bool failed(struct store *store, const char *doing)
{
    snprintf(store->problem, sizeof store->problem, "%.500s: %s: %.160s", store->path, doing,
             store->sqlite->errmsg(store->db));
    return false;
}

static bool execute(struct store *store, const char *sql, const char *doing)
{
    return store->sqlite->exec(store->db, sql, NULL, NULL, NULL) == SQLITE_OK || failed(store, doing);
}

/* ---- opening ---------------------------------------------------------------------------------------- */

static bool read_pragma(struct store *store, const char *sql, int64_t *out)
{
    sqlite3_stmt *statement = NULL;
    bool read = store->sqlite->prepare_v2(store->db, sql, -1, &statement, NULL) == SQLITE_OK &&
                store->sqlite->step(statement) == SQLITE_ROW;
    if (read) {
        *out = store->sqlite->column_int64(statement, 0);
    }
    store->sqlite->finalize(statement);
    return read;
}

/* Brings the tables from `version` to SCHEMA_VERSION, all or nothing. */
static bool migrate(struct store *store)
{
    int64_t version = 0;
    char pragma[64];
    if (!execute(store, "BEGIN IMMEDIATE", "cannot be written")) {
        return false;
    }
    /* Again, now that nobody else can change it. */
    bool done = read_pragma(store, "PRAGMA user_version", &version);
    for (; done && version < SCHEMA_VERSION; version++) {
        done = execute(store, schema_steps[version], "its tables could not be made");
    }
    snprintf(pragma, sizeof pragma, "PRAGMA application_id = %d; PRAGMA user_version = %d", (int)APPLICATION_ID,
             (int)SCHEMA_VERSION);
    if (!done || !execute(store, pragma, "cannot be marked") || !execute(store, "COMMIT", "cannot be written")) {
        store->sqlite->exec(store->db, "ROLLBACK", NULL, NULL, NULL);
        return false;
    }
    return true;
}

static bool check_and_migrate(struct store *store)
{
    int64_t id = 0;
    int64_t version = 0;
    int64_t objects = 0;
    store->sqlite->busy_timeout(store->db, store->wait_ms);
    /* The first read of the file: damage and foreign files show here. */
    if (!read_pragma(store, "SELECT count(*) FROM sqlite_master", &objects) ||
        !read_pragma(store, "PRAGMA application_id", &id) || !read_pragma(store, "PRAGMA user_version", &version)) {
        return failed(store, "damaged, or no database; it is left as it is (move it away to begin a new one)");
    }
    if (objects > 0 && id != APPLICATION_ID) {
        snprintf(store->problem, sizeof store->problem,
                 "%.500s: a database of another program; it is left as it is (move it away, or set BERTH_HOME)",
                 store->path);
        return false;
    }
    if (version > SCHEMA_VERSION) {
        snprintf(store->problem, sizeof store->problem,
                 "%.500s: written by a newer Berth (tables %lld, this version knows %d); it is left as it is",
                 store->path, (long long)version, (int)SCHEMA_VERSION);
        return false;
    }
    if (version < SCHEMA_VERSION && !migrate(store)) {
        return false;
    }
    store->sqlite->exec(store->db, "PRAGMA cache_size = -256; PRAGMA foreign_keys = ON", NULL, NULL, NULL);
    return true;
}

static bool open_file(struct store *store, bool create)
{
    char folder[HOST_PATH_MAX];
    if (!host_state_dir(folder, sizeof folder)) {
        snprintf(store->problem, sizeof store->problem, "neither HOME nor XDG_STATE_HOME nor BERTH_HOME is set");
        return false;
    }
    snprintf(store->path, sizeof store->path, "%s/berth.db", folder);
    uint64_t bytes;
    if (!create && !host_file_size(store->path, &bytes)) {
        snprintf(store->problem, sizeof store->problem, "%.500s: nothing is kept there yet", store->path);
        return false;
    }
    if (create && !host_make_directory(folder)) {
        snprintf(store->problem, sizeof store->problem, "%.500s: the directory cannot be made", folder);
        return false;
    }
    if (create && !host_make_private_file(store->path)) {
        snprintf(store->problem, sizeof store->problem, "%.500s: cannot be made or opened", store->path);
        return false;
    }
    if (!host_is_regular(store->path)) { /* SQLite would wait for a pipe's other end */
        snprintf(store->problem, sizeof store->problem, "%.500s: not a regular file; it is left as it is", store->path);
        return false;
    }
    store->sqlite = sqlite_load();
    if (store->sqlite == NULL) {
        snprintf(store->problem, sizeof store->problem, "libsqlite3.so.0 is not installed");
        return false;
    }
    int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX;
    if (store->sqlite->open_v2(store->path, &store->db, flags, NULL) != SQLITE_OK) {
        return store->db != NULL && failed(store, "cannot be opened");
    }
    return check_and_migrate(store);
}

struct store *store_open(bool create, char problem[STORE_PROBLEM_MAX])
{
    return store_open_within(create, STORE_WAIT_MS, problem);
}

struct store *store_open_within(bool create, int wait_ms, char problem[STORE_PROBLEM_MAX])
{
    struct store *store = calloc(1, sizeof *store);
    snprintf(problem, STORE_PROBLEM_MAX, "the system has no memory");
    if (store == NULL) {
        return NULL;
    }
    store->wait_ms = wait_ms;
    if (open_file(store, create)) {
        return store;
    }
    snprintf(problem, STORE_PROBLEM_MAX, "%s", store->problem);
    store_close(store);
    return NULL;
}

void store_close(struct store *store)
{
    if (store != NULL) {
        if (store->db != NULL) {
            store->sqlite->close_v2(store->db);
            host_drop_cache(store->path);
        }
        free(store);
    }
}

/* ---- statements ------------------------------------------------------------------------------------- */

static bool prepare(struct store *store, const char *sql, const char *const texts[2], sqlite3_stmt **statement)
{
    if (store->sqlite->prepare_v2(store->db, sql, -1, statement, NULL) != SQLITE_OK) {
        return failed(store, "a statement was refused");
    }
    for (int i = 0; texts != NULL && i < 2 && texts[i] != NULL; i++) {
        if (store->sqlite->bind_text(*statement, i + 1, texts[i], -1, SQLITE_STATIC) != SQLITE_OK) {
            failed(store, "a value was refused");
            store->sqlite->finalize(*statement);
            return false;
        }
    }
    return true;
}

bool store_do(struct store *store, const char *sql, const char *const texts[2])
{
    sqlite3_stmt *statement = NULL;
    if (!prepare(store, sql, texts, &statement)) {
        return false;
    }
    int result = store->sqlite->step(statement);
    bool done = result == SQLITE_DONE || result == SQLITE_ROW || failed(store, "cannot be written");
    store->sqlite->finalize(statement);
    return done;
}

static bool bind_row(struct store *store, sqlite3_stmt *statement, const struct store_table *table, const void *row)
{
    int result = SQLITE_OK;
    for (size_t i = 0; result == SQLITE_OK && i < table->count; i++) {
        const struct store_column *column = &table->columns[i];
        const char *at = (const char *)row + column->offset;
        if (column->type == STORE_TEXT) {
            result = store->sqlite->bind_text(statement, (int)i + 1, at, -1, SQLITE_STATIC);
        } else if (column->type == STORE_INT) {
            int64_t value;
            memcpy(&value, at, sizeof value);
            result = store->sqlite->bind_int64(statement, (int)i + 1, value);
        } else {
            double value;
            memcpy(&value, at, sizeof value);
            result = store->sqlite->bind_double(statement, (int)i + 1, value);
        }
    }
    return result == SQLITE_OK || failed(store, "a value was refused");
}

static size_t add_names(char *sql, size_t used, const struct store_table *table)
{
    for (size_t i = 0; i < table->count && used < SQL_MAX; i++) {
        used += (size_t)snprintf(sql + used, SQL_MAX - used, "%s%s", i > 0 ? ", " : "", table->columns[i].name);
    }
    return used;
}

bool store_put(struct store *store, const struct store_table *table, const void *row)
{
    char sql[SQL_MAX];
    size_t used = (size_t)snprintf(sql, sizeof sql, "INSERT OR REPLACE INTO %s (", table->name);
    used = add_names(sql, used, table);
    used += (size_t)snprintf(sql + used, sizeof sql - used, ") VALUES (");
    for (size_t i = 0; i < table->count; i++) {
        used += (size_t)snprintf(sql + used, sizeof sql - used, i > 0 ? ", ?" : "?");
    }
    snprintf(sql + used, sizeof sql - used, ")");
    sqlite3_stmt *statement = NULL;
    if (!prepare(store, sql, NULL, &statement)) {
        return false;
    }
    bool done = bind_row(store, statement, table, row) &&
                (store->sqlite->step(statement) == SQLITE_DONE || failed(store, "cannot be written"));
    store->sqlite->finalize(statement);
    return done;
}

static void read_row(const struct store *store, sqlite3_stmt *statement, const struct store_table *table, void *row)
{
    memset(row, 0, table->row_bytes);
    for (size_t i = 0; i < table->count; i++) {
        const struct store_column *column = &table->columns[i];
        char *at = (char *)row + column->offset;
        if (column->type == STORE_TEXT) {
            const unsigned char *text = store->sqlite->column_text(statement, (int)i);
            snprintf(at, column->size, "%s", text != NULL ? (const char *)text : "");
        } else if (column->type == STORE_INT) {
            int64_t value = store->sqlite->column_int64(statement, (int)i);
            memcpy(at, &value, sizeof value);
        } else {
            double value = store->sqlite->column_double(statement, (int)i);
            value = value >= -MOST && value <= MOST ? value : 0; /* not by Berth: infinities would become NaN */
            memcpy(at, &value, sizeof value);
        }
    }
}

bool store_each(struct store *store, const struct store_table *table, const char *tail, const char *const texts[2],
                void *row, store_row_fn *fn, void *user)
{
    char sql[SQL_MAX];
    size_t used = (size_t)snprintf(sql, sizeof sql, "SELECT ");
    used = add_names(sql, used, table);
    snprintf(sql + used, sizeof sql - used, " FROM %s %s", table->name, tail);
    sqlite3_stmt *statement = NULL;
    if (!prepare(store, sql, texts, &statement)) {
        return false;
    }
    int result = store->sqlite->step(statement);
    for (; result == SQLITE_ROW; result = store->sqlite->step(statement)) {
        read_row(store, statement, table, row);
        if (!fn(user, row)) {
            result = SQLITE_DONE;
            break;
        }
    }
    bool done = result == SQLITE_DONE || failed(store, "cannot be read");
    store->sqlite->finalize(statement);
    return done;
}
