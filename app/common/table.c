/* SPDX-License-Identifier: MIT */
#include "common/table.h"

#include <string.h>

size_t text_columns(const char *text)
{
    size_t columns = 0;
    for (; *text != '\0'; text++) {
        columns += ((unsigned char)*text & 0xc0) != 0x80 ? 1 : 0;
    }
    return columns;
}

/* File names and what files say may hold anything, but must neither break a line nor command the terminal. */
static void print_cell(FILE *out, const char *cell)
{
    for (const char *c = cell; *c != '\0'; c++) {
        fputc((unsigned char)*c < 0x20 || *c == 0x7f ? '?' : *c, out);
    }
}

void table_line(const struct table *table, const char *text)
{
    fprintf(table->out, "%*s", table->indent, "");
    print_cell(table->out, text);
    fputc('\n', table->out);
}

const char *table_name(const struct table *table, const char *name, size_t columns)
{
    if (text_columns(name) <= columns) {
        return name;
    }
    if (!table->measuring) {
        table_line(table, name);
    }
    return "";
}

void table_begin(struct table *table, FILE *out, const char *align, int indent)
{
    *table = (struct table){.out = out, .align = align, .columns = strlen(align), .measuring = true, .indent = indent};
}

void table_print(struct table *table)
{
    table->measuring = false;
}

void table_row(struct table *table, const char *const *cells)
{
    if (table->measuring) {
        for (size_t i = 0; i < table->columns; i++) {
            size_t columns = text_columns(cells[i]);
            table->widths[i] = columns > table->widths[i] ? columns : table->widths[i];
        }
        return;
    }
    fprintf(table->out, "%*s", table->indent, "");
    size_t owed = 0; /* spaces before the next cell; none at the end of a line */
    for (size_t i = 0; i < table->columns; i++) {
        size_t columns = text_columns(cells[i]);
        size_t pad = table->widths[i] > columns ? table->widths[i] - columns : 0;
        size_t before = owed + (table->align[i] == 'r' ? pad : 0);
        owed = table->align[i] == 'r' ? 2 : pad + 2;
        if (columns == 0 && table->align[i] != 'r') {
            owed += before;
            continue;
        }
        fprintf(table->out, "%*s", (int)before, "");
        print_cell(table->out, cells[i]);
    }
    fputc('\n', table->out);
}
