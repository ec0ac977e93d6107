/* SPDX-License-Identifier: MIT
 * store_probe count                  runs in the store, after SQLite has checked the whole file
 * store_probe add N                  adds N runs, one a transaction; prints how many are in after each
 * store_probe hold SECONDS           keeps the file locked; prints "held" once it is
 * store_probe newer                  marks it as written by a later version
 * The store is that of $BERTH_HOME. */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "store/runs.h"
#include "store/schema.h"
#include "store/sqlite.h"

static int print_first(void *user, int columns, char **values, char **names)
{
    (void)user;
    (void)names;
    printf("%s\n", columns > 0 && values[0] != NULL ? values[0] : "?");
    return 0;
}

static int say(const char *problem)
{
    fprintf(stderr, "store_probe: %s\n", problem);
    return 1;
}

static int add(int count)
{
    static struct run_row row = {.model = "probe", .tps = 1};
    char problem[STORE_PROBLEM_MAX];
    struct store *store = store_open(true, problem);
    if (store == NULL) {
        return say(problem);
    }
    for (int i = 0; i < count; i++) {
        if (!runs_add(store, &row)) {
            return say(store_problem(store));
        }
        printf("%d\n", i + 1);
        fflush(stdout);
    }
    store_close(store);
    return 0;
}

static int direct(const char *sql, int seconds)
{
    char path[512];
    sqlite3 *db = NULL;
    const struct sqlite *sqlite = sqlite_load();
    const char *home = getenv("BERTH_HOME");
    snprintf(path, sizeof path, "%s/berth.db", home != NULL ? home : "");
    if (sqlite == NULL || sqlite->open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL) != SQLITE_OK) {
        return say("cannot open it");
    }
    sqlite->busy_timeout(db, 10000);
    if (sqlite->exec(db, sql, print_first, NULL, NULL) != SQLITE_OK) {
        return say(sqlite->errmsg(db));
    }
    if (seconds > 0) {
        puts("held");
        fflush(stdout);
        sleep((unsigned)seconds);
    }
    sqlite->close_v2(db);
    return 0;
}

int main(int argc, char **argv)
{
    char sql[96];
    if (argc == 2 && strcmp(argv[1], "count") == 0) {
        return direct("PRAGMA integrity_check; SELECT count(*) FROM run", 0);
    }
    if (argc == 3 && strcmp(argv[1], "add") == 0) {
        return add(atoi(argv[2]));
    }
    if (argc == 3 && strcmp(argv[1], "hold") == 0) {
        return direct("BEGIN EXCLUSIVE", atoi(argv[2]));
    }
    if (argc == 2 && strcmp(argv[1], "newer") == 0) {
        snprintf(sql, sizeof sql, "PRAGMA user_version = %d", SCHEMA_VERSION + 1);
        return direct(sql, 0);
    }
    return say("count, add N, hold SECONDS, newer");
}
