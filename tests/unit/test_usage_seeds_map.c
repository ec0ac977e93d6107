/* SPDX-License-Identifier: MIT
 * docs/seeds.md against the tree: every export of the first document has a row, every row's function is declared in a
 * header, and the test it names uses it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* What the document exports, and the methods of its class. */
static const char *const exports[] = {
    "ExpertUsageRoute",
    "ExpertUsageLedgerOptions",
    "ExpertUsageEntry",
    "ExpertUsageSnapshot",
    "ExpertUsageCount",
    "ExpertAutoPinPlan",
    "ExpertAutoPinInput",
    "ExpertLfruCandidate",
    "expertLfruScore",
    "selectExpertLfruCandidates",
    "ExpertUsageLedger",
    "ExpertUsageLedger.open",
    "recordRoutes",
    "entry",
    "snapshot",
    "rankedCounts",
    "lfruCandidate",
    "decayHeat",
    "flush",
    "planExpertAutoPins",
    "onWarning",
};
enum { EXPORTS = sizeof exports / sizeof exports[0] };

static const char *const headers[] = {"include/berth.h", "src/experts/usage.h", "src/experts/seed.h",
                                      "src/experts/cache.h"};

static char *read_text(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", BERTH_ROOT_DIR, name);
    FILE *file = fopen(path, "rb");
    if (file == NULL) {
        return NULL;
    }
    char *text = calloc(1, (size_t)1 << 20);
    assert_non_null(text);
    size_t bytes = fread(text, 1, ((size_t)1 << 20) - 1, file);
    assert_true(bytes > 0);
    fclose(file);
    return text;
}

/* `word` with no letter, digit or underscore beside it. */
static bool has_word(const char *text, const char *word)
{
    size_t bytes = strlen(word);
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_";
    for (const char *at = strstr(text, word); at != NULL; at = strstr(at + 1, word)) {
        bool before = at > text && strchr(letters, at[-1]) != NULL;
        bool after = at[bytes] != '\0' && strchr(letters, at[bytes]) != NULL;
        if (!before && !after) {
            return true;
        }
    }
    return false;
}

static bool declared(const char *name)
{
    bool found = false;
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        char *text = read_text(headers[i]);
        assert_non_null(text);
        found = found || has_word(text, name);
        free(text);
    }
    return found;
}

/* The test program names it. */
static bool tested(const char *path, const char *name)
{
    char *text = read_text(path);
    bool found = text != NULL && has_word(text, name);
    free(text);
    return found;
}

/* Takes `| a | b | c.c |` apart. */
static bool split_row(const char *line, char cells[3][80])
{
    const char *at = line;
    for (int i = 0; i < 3; i++) {
        at = strchr(at, '|');
        if (at == NULL) {
            return false;
        }
        const char *end = strchr(at + 1, '|');
        if (end == NULL) {
            return false;
        }
        size_t used = 0;
        for (const char *c = at + 1; c < end; c++) {
            if (*c != '`' && used + 1 < 80 && (*c != ' ' || used > 0)) {
                cells[i][used++] = *c;
            }
        }
        while (used > 0 && cells[i][used - 1] == ' ') {
            used--;
        }
        cells[i][used] = '\0';
        at = end;
    }
    size_t bytes = strlen(cells[2]);
    return bytes > 2 && strcmp(cells[2] + bytes - 2, ".c") == 0;
}

static void the_map_is_true(void **state)
{
    (void)state;
    bool seen[EXPORTS] = {false};
    uint32_t rows = 0;
    char *text = read_text("docs/seeds.md");
    assert_non_null(text);
    char *begin = strstr(text, "## The usage ledger");
    assert_non_null(begin);
    char *stop = strstr(begin + 3, "\n## ");
    if (stop != NULL) {
        *stop = '\0';
    }
    for (char *line = begin; line != NULL; line = strchr(line, '\n')) {
        char cells[3][80];
        line += *line == '\n' ? 1 : 0;
        char *end = strchr(line, '\n');
        char row[400];
        snprintf(row, sizeof row, "%.*s", end != NULL ? (int)(end - line) : (int)strlen(line), line);
        if (row[0] != '|' || !split_row(row, cells)) {
            continue;
        }
        rows++;
        for (int i = 0; i < EXPORTS; i++) {
            seen[i] = seen[i] || strcmp(cells[0], exports[i]) == 0;
        }
        if (!declared(cells[1])) {
            fail_msg("%s: no header declares %s", cells[0], cells[1]);
        }
        if (!tested(cells[2], cells[1])) {
            fail_msg("%s: %s does not use %s", cells[0], cells[2], cells[1]);
        }
    }
    for (int i = 0; i < EXPORTS; i++) {
        if (!seen[i]) {
            fail_msg("docs/seeds.md has no row for %s", exports[i]);
        }
    }
    assert_true(rows >= EXPORTS + 5);
    free(text);
}

static void the_check_can_fail(void **state)
{
    (void)state;
    char cells[3][80];
    assert_false(declared("berth_ledger_forget_everything"));
    assert_false(tested("tests/unit/test_usage_public.c", "berth_ledger_forget_everything"));
    assert_false(tested("tests/unit/no_such_program.c", "usage_ranked"));
    assert_false(split_row("| a | b |", cells));
    assert_false(split_row("|---|---|---|", cells));
    assert_true(split_row("| `x` | `y` | `p.c` |", cells));
    assert_string_equal(cells[1], "y");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_map_is_true),
        cmocka_unit_test(the_check_can_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
