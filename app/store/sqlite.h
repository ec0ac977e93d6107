/* SPDX-License-Identifier: MIT
 * SQLite, loaded when a verb needs it: a run never maps it while its model is open (docs/models.md). */
#ifndef APP_SQLITE_H
#define APP_SQLITE_H

#include <sqlite3.h>

struct sqlite {
    int (*open_v2)(const char *path, sqlite3 **db, int flags, const char *vfs);
    int (*close_v2)(sqlite3 *db);
    int (*exec)(sqlite3 *db, const char *sql, int (*each)(void *, int, char **, char **), void *user, char **problem);
    int (*prepare_v2)(sqlite3 *db, const char *sql, int bytes, sqlite3_stmt **statement, const char **tail);
    int (*step)(sqlite3_stmt *statement);
    int (*reset)(sqlite3_stmt *statement);
    int (*finalize)(sqlite3_stmt *statement);
    int (*bind_text)(sqlite3_stmt *statement, int at, const char *text, int bytes, void (*destroy)(void *));
    int (*bind_int64)(sqlite3_stmt *statement, int at, sqlite3_int64 value);
    int (*bind_double)(sqlite3_stmt *statement, int at, double value);
    int (*bind_null)(sqlite3_stmt *statement, int at);
    sqlite3_int64 (*column_int64)(sqlite3_stmt *statement, int at);
    double (*column_double)(sqlite3_stmt *statement, int at);
    const unsigned char *(*column_text)(sqlite3_stmt *statement, int at);
    int (*busy_timeout)(sqlite3 *db, int milliseconds);
    const char *(*errmsg)(sqlite3 *db);
};

/* NULL: the library is not installed. Loaded once. */
const struct sqlite *sqlite_load(void);

#endif
