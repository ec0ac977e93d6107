/* SPDX-License-Identifier: MIT
 * src/tool.h: machines by name. */
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/str.h"
#include "model/json.h"
#include "tool.h"

/* "RTX4090", "rtx-4090" and "RTX 4090" are one name. */
static const char *over_gaps(const char *text)
{
    while (*text == ' ' || *text == '-') {
        text++;
    }
    return text;
}

/* What is left of `whole` after `part`; NULL: it does not begin so. */
static const char *after(const char *whole, const char *part)
{
    for (part = over_gaps(part); *part != '\0'; part = over_gaps(part + 1)) {
        whole = over_gaps(whole);
        if (ascii_lower(*whole) != ascii_lower(*part)) {
            return NULL;
        }
        whole++;
    }
    return whole;
}

static bool same(const char *a, const char *b)
{
    const char *rest = after(a, b);
    return rest != NULL && *over_gaps(rest) == '\0';
}

static bool has(const char *whole, const char *part)
{
    for (; *whole != '\0'; whole++) {
        if (after(whole, part) != NULL) {
            return true;
        }
    }
    return *over_gaps(part) == '\0';
}

/* What follows the names of maker and product line. */
static const char *without_brand(const char *name)
{
    static const char *const brands[] = {"Apple ", "NVIDIA ", "GeForce ", "AMD ", "Radeon ", "Instinct ", "Intel "};
    for (size_t i = 0; i < sizeof brands / sizeof brands[0]; i++) {
        size_t k = 0;
        while (brands[i][k] != '\0' && ascii_lower(name[k]) == ascii_lower(brands[i][k])) {
            k++;
        }
        name += brands[i][k] == '\0' ? k : 0;
    }
    return name;
}

bool tool_hardware_is(const tool_hardware *row, const char *name)
{
    return same(without_brand(row->name), without_brand(name));
}

bool tool_hardware_has(const tool_hardware *row, const char *text)
{
    return has(row->name, text) || has(row->vendor, text) || has(row->kind, text);
}

double tool_hardware_split(const char *text, char *name, size_t cap)
{
    size_t bytes = strlen(text);
    size_t end = bytes;
    double size = 0;
    if (end >= 3 && (same(text + end - 3, "GiB"))) {
        end -= 3;
    } else if (end >= 2 && same(text + end - 2, "GB")) {
        end -= 2;
    } else {
        end = 0;
    }
    while (end > 0 && text[end - 1] == ' ') {
        end--;
    }
    size_t digits = end;
    while (digits > 0 && text[digits - 1] >= '0' && text[digits - 1] <= '9') {
        digits--;
    }
    if (digits == end || digits == 0 || text[digits - 1] != ' ' || end - digits > 6) {
        snprintf(name, cap, "%s", text);
        return 0;
    }
    for (size_t i = digits; i < end; i++) {
        size = size * 10 + (text[i] - '0');
    }
    while (digits > 0 && text[digits - 1] == ' ') {
        digits--;
    }
    snprintf(name, cap, "%.*s", (int)digits, text);
    return size;
}

/* A number that fills the whole text, above 0. */
static bool read_number(const char *text, size_t bytes, double *out)
{
    struct json json;
    json_begin(&json, (struct str){text, bytes});
    return json_next(&json) == JSON_NUMBER && json_token_f64(&json.token, out) && json_next(&json) == JSON_END &&
           *out > 0 && *out <= 1e9;
}

static bool read_sizes(const char *text, tool_hardware *out)
{
    if (strcmp(text, "-") == 0) {
        return true;
    }
    for (;;) {
        size_t bytes = strcspn(text, ",");
        if (out->mem_count == TOOL_HARDWARE_MEM_MAX || !read_number(text, bytes, &out->mem_gb[out->mem_count])) {
            return false;
        }
        out->mem_count++;
        if (text[bytes] == '\0') {
            return true;
        }
        text += bytes + 1;
    }
}

/* Cuts the line at its tabs; more than `most` columns count as most + 1. */
static size_t cut(char *line, char **columns, size_t most)
{
    size_t count = 0;
    for (char *at = line; at != NULL; count++) {
        if (count == most) {
            return most + 1;
        }
        columns[count] = at;
        at = strchr(at, '\t');
        if (at != NULL) {
            *at++ = '\0';
        }
    }
    return count;
}

/* One that the table has, too: what a machine may use follows from it. */
static bool is_kind(const char *kind)
{
    size_t count;
    const tool_hardware *rows = tool_hardware_table(&count);
    for (size_t i = 0; i < count; i++) {
        if (strcmp(rows[i].kind, kind) == 0) {
            return true;
        }
    }
    return false;
}

bool tool_hardware_line(char *line, tool_hardware *out, berth_status *status, berth_error *err)
{
    char *columns[5];
    *status = BERTH_OK;
    *out = (tool_hardware){.mem_count = 0};
    line[strcspn(line, "\r\n")] = '\0';
    if (line[0] == '\0' || line[0] == '#') {
        return false;
    }
    if (cut(line, columns, 5) == 5 && columns[0][0] != '\0' && read_sizes(columns[3], out) &&
        read_number(columns[4], strlen(columns[4]), &out->bandwidth_gbs)) {
        out->name = columns[0];
        out->vendor = columns[1];
        out->kind = columns[2];
        if (!is_kind(out->kind)) {
            *status = error_set(err, BERTH_ERR_FORMAT,
                                "the third column, the kind, is none of: unified, desktop gpu, laptop gpu, "
                                "workstation/server gpu, datacenter gpu, memory");
        }
        return *status == BERTH_OK;
    }
    *status = error_set(err, BERTH_ERR_FORMAT,
                        "a machine is five columns between tabs: name, maker, kind, GB of memory (\"24,48\" or "
                        "\"-\"), GB/s");
    return false;
}
