/* SPDX-License-Identifier: MIT
 * Machines for berth fit --engine mlx: by name, from a user's file, or this one. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/fit_mlx.h"
#include "common/report.h"
#include "common/sizes.h"
#include "store/machine.h"

static const double gib = 1073741824.0;
/* What a graphics card's driver, context and libraries were seen to take at most. */
static const double card_reserve = 749.0 * 1048576.0;

/* "M4 Pro 24GB"; rows that differ by their memory alone ("A100 40GB") say it in their names already. What does not fit
 * is cut where a list or a parenthesis begins. */
static void name_machine(const char *name, double mem_gb, char *out, size_t cap)
{
    char size[32];
    size_t bytes = strlen(name);
    int length = snprintf(size, sizeof size, " %gGB", mem_gb);
    const char *own = strstr(name, size);
    if (own != NULL && (own[length] == '\0' || own[length] == ' ')) {
        size[0] = '\0';
        length = 0;
    }
    while (bytes > 1 && bytes + (size_t)length >= cap) {
        bytes--;
        while (bytes > 1 && !(name[bytes] == ' ' && strchr("(/,", name[bytes + 1]) != NULL)) {
            bytes--;
        }
    }
    snprintf(out, cap, "%.*s%s", (int)(bytes > 1 ? bytes : cap / 2), name, size);
}

static void fill(struct mlx_machine *out, const tool_hardware *row, double mem_gb)
{
    bool card = strstr(row->kind, "gpu") != NULL;
    *out = (struct mlx_machine){.basis = "table", .vendor = strcmp(row->vendor, "Apple") == 0 ? "Apple" : ""};
    snprintf(out->kind, sizeof out->kind, "%s", row->kind);
    out->machine.ram_bytes = mem_gb * gib;
    out->machine.bandwidth_gbs = row->bandwidth_gbs;
    out->has_budget = card;
    out->budget_bytes = card ? (mem_gb * gib > card_reserve ? mem_gb * gib - card_reserve : 0) : 0;
    name_machine(row->name, mem_gb, out->machine.name, sizeof out->machine.name);
}

/* ---- the user's file -------------------------------------------------------------------------------- */

enum { LINE_MAX_BYTES = 512, FILE_ROWS_MAX = 4096 };

typedef int row_fn(void *user, const tool_hardware *row);

/* Rows of the file; 0 goes on. */
static int each_file_row(const char *path, row_fn *fn, void *user)
{
    FILE *file = fopen(path, "r");
    if (file == NULL) {
        return report_failure("fit", "cannot open the machines file '%s'", path);
    }
    char line[LINE_MAX_BYTES];
    int code = EXIT_OK;
    for (int number = 1; code == EXIT_OK && fgets(line, sizeof line, file) != NULL; number++) {
        tool_hardware row;
        berth_status status;
        berth_error err;
        if (number > FILE_ROWS_MAX || (strchr(line, '\n') == NULL && !feof(file))) {
            code = report_failure("fit", "%s:%d: more than %d lines, or a line of more than %d bytes", path, number,
                                  FILE_ROWS_MAX, LINE_MAX_BYTES - 2);
        } else if (tool_hardware_line(line, &row, &status, &err)) {
            code = fn(user, &row);
        } else if (status != BERTH_OK) {
            code = report_failure("fit", "%s:%d: %s", path, number, err.message);
        }
    }
    if (code == EXIT_OK && ferror(file)) { /* a directory opens, and only reading it fails */
        code = report_failure("fit", "cannot read the machines file '%s'", path);
    }
    fclose(file);
    return code;
}

static int each_row(const struct mlx_options *options, row_fn *fn, void *user)
{
    size_t count;
    const tool_hardware *rows = tool_hardware_table(&count);
    int code = options->machines_file != NULL ? each_file_row(options->machines_file, fn, user) : EXIT_OK;
    for (size_t i = 0; code == EXIT_OK && i < count; i++) {
        code = fn(user, &rows[i]);
    }
    return code;
}

/* ---- all of them ------------------------------------------------------------------------------------ */

struct walk {
    const struct mlx_options *options;
    mlx_machine_fn *fn;
    void *user;
    double own_ram;
};

static int walk_row(void *user, const tool_hardware *row)
{
    const struct walk *walk = user;
    struct mlx_machine machine;
    int code = EXIT_OK;
    if (walk->options->filter != NULL && strcmp(walk->options->filter, "all") != 0 &&
        !tool_hardware_has(row, walk->options->filter)) {
        return EXIT_OK;
    }
    for (uint32_t i = 0; code == EXIT_OK && i < row->mem_count; i++) {
        fill(&machine, row, row->mem_gb[i]);
        code = walk->fn(walk->user, &machine, row->vendor);
    }
    if (row->mem_count == 0) {
        fill(&machine, row, floor(walk->own_ram / gib * 10) / 10);
        machine.machine.ram_bytes = walk->own_ram;
        code = walk->fn(walk->user, &machine, row->vendor);
    }
    return code;
}

static int own_ram(const struct mlx_options *options, double *ram)
{
    berth_sku_machine own;
    berth_error err;
    if (options->ram_bytes > 0) {
        *ram = (double)options->ram_bytes;
        return EXIT_OK;
    }
    if (berth_sku_this_machine(0, &own, &err) != BERTH_OK) {
        return report_error("fit", &err);
    }
    *ram = own.ram_bytes;
    return EXIT_OK;
}

int mlx_each_machine(const struct mlx_options *options, mlx_machine_fn *fn, void *user)
{
    struct walk walk = {.options = options, .fn = fn, .user = user};
    int code = own_ram(options, &walk.own_ram);
    return code == EXIT_OK ? each_row(options, walk_row, &walk) : code;
}

/* ---- one of them ------------------------------------------------------------------------------------ */

/* How well a row answers to a name: by its whole name, with the memory or without; by a part that has the memory in
 * it; by a part, and sold with this memory; by a part. */
enum match { MATCH_NONE, MATCH_PART, MATCH_PART_SIZE, MATCH_PART_WHOLE, MATCH_NAME, MATCH_NAME_WHOLE };

enum { CANDIDATES_SHOWN = 12 };

struct search {
    const struct mlx_options *options;
    struct mlx_machine *out;
    const char *name; /* without memory */
    double wanted_gb;
    enum match best;
    uint32_t count;         /* rows that match this well */
    bool printing, is_sold; /* the wanted memory, of the best row */
    char sold[96];          /* its sizes */
    const char *near;       /* a row whose name looks alike */
    char near_name[TOOL_HARDWARE_TEXT_MAX], near_key[TOOL_HARDWARE_TEXT_MAX];
};

/* The memory to assume: what was asked, else the smallest that is sold. */
static double memory_of(const struct search *search, const tool_hardware *row)
{
    if (search->wanted_gb > 0) {
        return search->wanted_gb;
    }
    return row->mem_count > 0 ? row->mem_gb[0] : 0;
}

static bool sells(const tool_hardware *row, double gb)
{
    for (uint32_t i = 0; i < row->mem_count; i++) {
        if (row->mem_gb[i] == gb) {
            return true;
        }
    }
    return row->mem_count == 0;
}

static enum match match_row(const struct search *search, const tool_hardware *row)
{
    if (tool_hardware_is(row, search->options->machine)) {
        return MATCH_NAME_WHOLE;
    }
    if (tool_hardware_is(row, search->name)) {
        return MATCH_NAME;
    }
    if (tool_hardware_has(row, search->options->machine)) {
        return MATCH_PART_WHOLE;
    }
    if (!tool_hardware_has(row, search->name)) {
        return MATCH_NONE;
    }
    return search->wanted_gb > 0 && sells(row, search->wanted_gb) ? MATCH_PART_SIZE : MATCH_PART;
}

static void lower(const char *text, char *out, size_t cap)
{
    size_t i = 0;
    for (; text[i] != '\0' && i + 1 < cap; i++) {
        out[i] = (char)(text[i] >= 'A' && text[i] <= 'Z' ? text[i] - 'A' + 'a' : text[i]);
    }
    out[i] = '\0';
}

/* With and without the product line that its name begins with; the nearest of all rows stays. */
static void look_alike(struct search *search, const tool_hardware *row)
{
    char wanted[TOOL_HARDWARE_TEXT_MAX];
    char name[TOOL_HARDWARE_TEXT_MAX];
    lower(search->name, wanted, sizeof wanted);
    lower(row->name, name, sizeof name);
    const char *space = strchr(name, ' ');
    const char *rest = space != NULL ? space + 1 : name;
    const char *const candidates[] = {search->near_key[0] != '\0' ? search->near_key : name, name, rest, NULL};
    const char *near = args_suggest(wanted, candidates);
    if (near == name || near == rest) {
        snprintf(search->near_name, sizeof search->near_name, "%s", row->name);
        memmove(search->near_key, near, strlen(near) + 1);
        search->near = search->near_name;
    }
}

/* "24, 48, 64" */
static void sold_sizes(const double *gb, uint32_t count, char *text, size_t cap)
{
    size_t used = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < count && used < cap; i++) {
        int more = snprintf(text + used, cap - used, "%s%g", i > 0 ? ", " : "", gb[i]);
        used += more > 0 ? (size_t)more : 0;
    }
}

static int search_row(void *user, const tool_hardware *row)
{
    struct search *search = user;
    enum match match = match_row(search, row);
    if (search->printing) {
        if (match == search->best && search->count++ < CANDIDATES_SHOWN) {
            fprintf(stderr, "  %s\n", row->name);
        }
        return EXIT_OK;
    }
    look_alike(search, row);
    if (match > search->best) {
        search->best = match;
        search->count = 0;
        search->is_sold = sells(row, search->wanted_gb);
        sold_sizes(row->mem_gb, row->mem_count, search->sold, sizeof search->sold);
        fill(search->out, row,
             match == MATCH_NAME_WHOLE && row->mem_count > 0 ? row->mem_gb[0] : memory_of(search, row));
    }
    search->count += match == search->best && match != MATCH_NONE ? 1 : 0;
    return EXIT_OK;
}

static int not_sold(const char *name, const char *sold)
{
    return report_usage("fit", "'%.80s' is not sold; its memory is %s GB (--ram SIZE beside the name is any other)",
                        name, sold);
}

static int list_candidates(struct search *search)
{
    fprintf(stderr, "berth fit: '%.80s' may be any of %" PRIu32 " machines:\n", search->options->machine,
            search->count);
    search->printing = true;
    search->count = 0;
    int code = each_row(search->options, search_row, search);
    if (search->count > CANDIDATES_SHOWN) {
        fprintf(stderr, "  and %" PRIu32 " more\n", search->count - CANDIDATES_SHOWN);
    }
    fprintf(stderr, "Say more of the name; --matrix --filter lists them with their memory.\n");
    return code == EXIT_OK ? EXIT_USAGE : code;
}

static int find_named(const struct mlx_options *options, struct mlx_machine *out)
{
    char name[TOOL_HARDWARE_TEXT_MAX];
    struct search search = {.options = options, .out = out, .name = name};
    search.wanted_gb = tool_hardware_split(options->machine, name, sizeof name);
    if (name[strspn(name, " ")] == '\0' || (search.wanted_gb == 0 && strlen(name) < strlen(options->machine))) {
        return report_usage("fit", "--machine '%.80s': wanted a name, and its memory if you like (\"M4 Pro 24GB\")",
                            options->machine);
    }
    const berth_sku *sku = berth_sku_find(name);
    if (sku != NULL) { /* the documents' own figure for a chip they know */
        *out = (struct mlx_machine){.basis = "table", .kind = "unified", .vendor = "Apple"};
        double gb = search.wanted_gb > 0 ? search.wanted_gb : sku->ram_gb[0];
        out->machine.ram_bytes = gb * gib;
        out->machine.bandwidth_gbs = sku->bandwidth_gbs;
        snprintf(out->machine.name, sizeof out->machine.name, "%s %gGB", sku->chip, gb);
        bool is_sold = search.wanted_gb == 0;
        uint32_t sizes = 0;
        double sold_gb[sizeof sku->ram_gb / sizeof sku->ram_gb[0]];
        for (; sizes < sizeof sold_gb / sizeof sold_gb[0] && sku->ram_gb[sizes] > 0; sizes++) {
            sold_gb[sizes] = sku->ram_gb[sizes];
            is_sold = is_sold || sold_gb[sizes] == gb;
        }
        sold_sizes(sold_gb, sizes, search.sold, sizeof search.sold);
        return is_sold ? EXIT_OK : not_sold(out->machine.name, search.sold);
    }
    int code = each_row(options, search_row, &search);
    if (code != EXIT_OK) {
        return code;
    }
    if (search.best == MATCH_NONE) {
        return report_usage("fit",
                            "no machine is called '%.80s'%s%s%s (--matrix --filter all lists them; --ram and "
                            "--bandwidth describe one)",
                            name, search.near != NULL ? "; did you mean '" : "", search.near != NULL ? search.near : "",
                            search.near != NULL ? "'?" : "");
    }
    if (search.best < MATCH_NAME && search.count > 1) {
        return list_candidates(&search);
    }
    if (search.wanted_gb > 0 && !search.is_sold && search.best != MATCH_NAME_WHOLE) {
        return not_sold(out->machine.name, search.sold);
    }
    if (out->machine.ram_bytes == 0 && options->ram_bytes == 0) {
        return report_usage("fit", "'%.80s' has no memory size of its own: add one (\"%.80s 64GB\", or --ram)", name,
                            name);
    }
    return EXIT_OK;
}

/* "M4 Pro with 30.00 GiB": --ram beside a name. */
static void rename_machine(struct mlx_machine *machine, uint64_t ram_bytes)
{
    char size[FORMAT_MAX];
    char name[sizeof machine->machine.name];
    size_t bytes = strlen(machine->machine.name);
    const char *last = strrchr(machine->machine.name, ' ');
    if (last != NULL && bytes > 2 && strcmp(machine->machine.name + bytes - 2, "GB") == 0) {
        bytes = (size_t)(last - machine->machine.name);
    }
    bytes = bytes < sizeof name - FORMAT_MAX ? bytes : sizeof name - FORMAT_MAX;
    snprintf(name, sizeof name, "%.*s with %s", (int)bytes, machine->machine.name, size_format(ram_bytes, size));
    snprintf(machine->machine.name, sizeof machine->machine.name, "%s", name);
}

/* What bench machine kept for this machine, 1e9 bytes/s; 0: nothing. */
static double measured_gbs(void)
{
    char problem[STORE_PROBLEM_MAX];
    struct machine_row row = {.memory_all = 0};
    struct machine_row here;
    struct store *store = store_open(false, problem);
    bool known = store != NULL && machine_identify(&here, NULL) && machine_get(store, here.key, &row);
    store_close(store);
    return known ? row.memory_all * 1e-9 : 0;
}

int mlx_find_machine(const struct mlx_options *options, struct mlx_machine *out)
{
    double bandwidth = 0;
    if (options->bandwidth != NULL &&
        (!real_parse(options->bandwidth, &bandwidth) || bandwidth < FIT_RATE_LEAST || bandwidth > FIT_RATE_MOST)) {
        return report_usage("fit", "--bandwidth is '%.60s', but GB/s from %g to %.0f are wanted", options->bandwidth,
                            FIT_RATE_LEAST, FIT_RATE_MOST);
    }
    if (options->machine != NULL) {
        int code = find_named(options, out);
        if (code != EXIT_OK) {
            return code;
        }
    } else {
        berth_sku_chip chip;
        berth_error err;
        *out = (struct mlx_machine){.basis = "table", .vendor = ""};
        berth_sku_detect_chip(&chip);
        if (options->ram_bytes > 0) {
            out->machine.bandwidth_gbs = chip.bandwidth_gbs > 0 ? chip.bandwidth_gbs : BERTH_FIT_DEFAULT_BANDWIDTH_GBS;
            snprintf(out->machine.name, sizeof out->machine.name, "a machine of this size");
        } else if (berth_sku_this_machine(0, &out->machine, &err) != BERTH_OK) {
            return report_error("fit", &err);
        }
        out->basis = chip.bandwidth_gbs > 0 ? "table" : "default";
        double measured = options->ram_bytes > 0 || bandwidth > 0 ? 0 : measured_gbs();
        if (measured > 0) {
            out->machine.bandwidth_gbs = measured;
            out->basis = "measured";
        }
    }
    if (options->ram_bytes > 0) {
        out->machine.ram_bytes = (double)options->ram_bytes;
        if (options->machine != NULL) {
            rename_machine(out, options->ram_bytes);
        }
        if (out->has_budget) {
            out->budget_bytes = fmax(out->machine.ram_bytes - card_reserve, 0);
        }
    }
    if (bandwidth > 0) {
        out->machine.bandwidth_gbs = bandwidth;
        out->basis = "given";
    }
    return EXIT_OK;
}
