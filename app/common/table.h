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

/* A name for the first cell: one of more than `columns` gets a line of its own, and stays whole. */
const char *table_name(const struct table *table, const char *name, size_t columns);

/* Columns a UTF-8 text takes on a terminal, one per code point. */
size_t text_columns(const char *text);

#endif
