/* SPDX-License-Identifier: MIT
 * Aligned columns without keeping the rows: walk the rows twice, first measuring, then printing. */
#ifndef APP_TABLE_H
#define APP_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum { TABLE_COLUMNS_MAX = 12 };

struct table {
    FILE *out;
    size_t columns;
    const char *align; /* one letter a column: 'l' or 'r' */
    bool measuring;
    int indent;
    size_t widths[TABLE_COLUMNS_MAX];
};

void table_begin(struct table *table, FILE *out, const char *align, int indent);
/* From here on rows are printed. */
void table_print(struct table *table);
/* cells[columns] */
void table_row(struct table *table, const char *const *cells);

/* A line between the rows, as it is. */
void table_line(const struct table *table, const char *text);

/* At most `columns` of a text: a longer one loses its middle, and keeps a short last word ("Ryzen AI Max+... 128GB").
 */
const char *text_fit(const char *text, size_t columns, char *out, size_t cap);

/* Columns a UTF-8 text takes on a terminal, one per code point. */
size_t text_columns(const char *text);

#endif
