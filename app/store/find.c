/* SPDX-License-Identifier: MIT */
#include "store/find.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"
#include "common/report.h"
#include "common/sizes.h"
#include "common/speed.h"

/* ---- matching --------------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *part)
{
    while (*part != '\0' && ascii_lower(*text) == ascii_lower(*part)) {
        text++;
        part++;
    }
    return *part == '\0';
}

/* 3: the same, 2: begins with it (the whole, or the last part of a path), 1: has it somewhere, 0: not. */
static int match_text(const char *text, const char *query)
{
    const char *tail = strrchr(text, '/');
    tail = tail != NULL ? tail + 1 : text;
    size_t bytes = strlen(query);
    if ((begins(text, query) && text[bytes] == '\0') || (begins(tail, query) && tail[bytes] == '\0')) {
        return 3;
    }
    if (begins(text, query) || begins(tail, query)) {
        return 2;
    }
    for (; *text != '\0'; text++) {
        if (begins(text, query)) {
            return 1;
        }
    }
    return 0;
}

static int match(const struct model_row *row, const char *query)
{
    char file[HOST_PATH_MAX];
    snprintf(file, sizeof file, "%s", row->path);
    size_t bytes = strlen(file);
    if (bytes > 5 && strcmp(file + bytes - 5, ".gguf") == 0) {
        file[bytes - 5] = '\0';
    }
    const char *slash = strrchr(file, '/');
    const char *texts[] = {row->alias, row->name, slash != NULL ? slash + 1 : file};
    int best = 0;
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        int one = query[0] != '\0' ? match_text(texts[i], query) : 0;
        best = one > best ? one : best;
    }
    return best;
}

struct finding {
    const char *query;
    int best;
    int64_t count;
    store_row_fn *fn;
    void *user;
};

static bool find_best(void *user, const void *data)
{
    struct finding *finding = user;
    int one = match(data, finding->query);
    if (one > finding->best) {
        finding->best = one;
        finding->count = 0;
    }
    finding->count += one > 0 && one == finding->best ? 1 : 0;
    return true;
}

static bool hand_out(void *user, const void *data)
{
    struct finding *finding = user;
    return match(data, finding->query) != finding->best || finding->fn(finding->user, data);
}

int64_t models_find(struct store *store, const char *query, store_row_fn *fn, void *user)
{
    struct model_row *row = calloc(1, sizeof *row);
    struct finding finding = {.query = query, .fn = fn, .user = user};
    static const char order[] = "ORDER BY alias, path";
    bool done = row != NULL && store_each(store, &model_table, order, NULL, row, find_best, &finding);
    if (done && finding.best > 0) {
        done = store_each(store, &model_table, order, NULL, row, hand_out, &finding);
    }
    free(row);
    return done ? finding.count : -1;
}

/* ---- outlook ---------------------------------------------------------------------------------------- */

const char *model_verdict_name(enum model_verdict verdict)
{
    static const char *const names[] = {"fits", "streams", "too big", "not supported"};
    return names[verdict];
}

void models_outlook(struct store *store, const char *machine, const struct model_row *row, uint64_t budget_bytes,
                    struct model_outlook *out)
{
    enum { CTX = 4096 };
    *out = (struct model_outlook){.experts = row->moe_layers * row->experts};
    double budget = (double)budget_bytes;
    if (row->family[0] == '\0' || row->full == 0) {
        out->verdict = MODEL_UNKNOWN;
        return;
    }
    out->verdict = budget >= (double)row->full         ? MODEL_FITS
                   : budget >= (double)row->hard_floor ? MODEL_STREAMS
                                                       : MODEL_TOO_BIG;
    if (out->verdict == MODEL_TOO_BIG) {
        return;
    }
    double expert = out->experts > 0 ? row->experts_bytes / (double)out->experts : 0;
    double room = budget - (double)row->fixed_bytes;
    out->slots = out->verdict == MODEL_FITS ? out->experts : expert > 0 && room > 0 ? (int64_t)(room / expert) : 0;
    out->slots = out->slots < out->experts ? out->slots : out->experts;
    out->slots = budget < (double)row->floor ? 0 : out->slots; /* uncached */
    berth_speed_work work;
    models_work(row, &work);
    char kernels[96];
    tool_kernels(kernels, sizeof kernels);
    kernels[strcspn(kernels, " ")] = '\0';
    tool_machine here;
    const struct speed_request request = {
        .work = &work,
        .fingerprint = row->fingerprint,
        .machine = machine,
        .path = row->path,
        .dtype = row->quant,
        .kv = "f16",
        .policy = "next-use",
        .isa = kernels,
        .threads = tool_machine_read(&here, NULL) == BERTH_OK ? here.cpus : 1,
        .ctx_tokens = row->ctx_max > 0 && row->ctx_max < CTX ? (double)row->ctx_max / 2 : CTX / 2.0,
        .request_bytes = speed_request_bytes(row->experts_bytes, (double)out->experts),
        .slots = out->slots,
        .experts = out->experts,
        .resident = out->verdict == MODEL_FITS,
    };
    runs_predict(store, &request, &out->speed);
}

/* ---- the default ------------------------------------------------------------------------------------ */

struct setting_row {
    char name[32], value[HOST_PATH_MAX];
};
static const struct store_column setting_columns[] = {
    {"name", STORE_TEXT, offsetof(struct setting_row, name), 32},
    {"value", STORE_TEXT, offsetof(struct setting_row, value), HOST_PATH_MAX},
};
static const struct store_table setting_table = {"setting", setting_columns, 2, sizeof(struct setting_row)};

static bool take_value(void *user, const void *row)
{
    snprintf(user, HOST_PATH_MAX, "%s", ((const struct setting_row *)row)->value);
    return false;
}

bool models_get_default(struct store *store, char *name, size_t cap)
{
    struct setting_row row;
    char value[HOST_PATH_MAX] = "";
    bool done = store_each(store, &setting_table, "WHERE name = 'default_model'", NULL, &row, take_value, value);
    snprintf(name, cap, "%s", value);
    return done;
}

bool models_set_default(struct store *store, const char *name)
{
    struct setting_row row = {.name = "default_model"};
    snprintf(row.value, sizeof row.value, "%s", name);
    return store_put(store, &setting_table, &row);
}

/* ---- the choice ------------------------------------------------------------------------------------- */

const char *pick_reason_text(enum pick_reason reason)
{
    static const char *const texts[] = {
        [PICK_NONE] = "no model",
        [PICK_DEFAULT] = "the default, and it fits",
        [PICK_COEXIST] = "the largest that leaves other programs their share of memory",
        [PICK_FITS] = "the largest that fits",
        [PICK_STREAMS] = "none fits; the largest that streams at a usable speed",
    };
    return texts[reason];
}

enum { CANDIDATES_MAX = 1024 };

struct choosing {
    struct store *store;
    uint64_t budget_bytes;
    double coexist_bytes;
    struct model_row *rows;             /* [count] */
    berth_choose_candidate *candidates; /* [count] */
    size_t count;
};

static bool take_candidate(void *user, const void *row)
{
    struct choosing *c = user;
    const struct model_row *model = row;
    if (model->family[0] != '\0' && model->full > 0) {
        c->rows[c->count] = *model;
        c->candidates[c->count] = (berth_choose_candidate){
            .repo_id = c->rows[c->count].alias[0] != '\0' ? c->rows[c->count].alias : c->rows[c->count].path,
            .size_bytes = (double)model->tensor_bytes};
        c->count++;
    }
    return c->count < CANDIDATES_MAX;
}

static const struct model_row *row_of(const struct choosing *c, const berth_choose_candidate *candidate)
{
    return &c->rows[candidate - c->candidates];
}

static bool fits_full(void *user, const berth_choose_candidate *candidate)
{
    const struct choosing *c = user;
    return (double)row_of(c, candidate)->full <= (double)c->budget_bytes;
}

static bool fits_coexist(void *user, const berth_choose_candidate *candidate)
{
    const struct choosing *c = user;
    return fits_full(user, candidate) && (double)row_of(c, candidate)->full <= c->coexist_bytes;
}

static void choose(struct choosing *c, const char *machine, double usable, struct model_pick *out)
{
    char wanted[HOST_PATH_MAX];
    models_get_default(c->store, wanted, sizeof wanted);
    const char *fallback = wanted[0] != '\0' ? wanted : BERTH_FIT_DEFAULT_REPO_ID;
    int64_t at = berth_choose_auto_model(c->candidates, c->count, fallback, fits_full, fits_coexist, c);
    if (at >= 0) {
        const berth_choose_candidate *chosen = &c->candidates[at];
        out->row = c->rows[at];
        out->reason = strcmp(chosen->repo_id, fallback) == 0 ? PICK_DEFAULT
                      : fits_coexist(c, chosen)              ? PICK_COEXIST
                                                             : PICK_FITS;
        models_outlook(c->store, machine, &out->row, c->budget_bytes, &out->outlook);
        return;
    }
    for (size_t i = 0; i < c->count; i++) {
        struct model_outlook outlook;
        models_outlook(c->store, machine, &c->rows[i], c->budget_bytes, &outlook);
        bool larger = out->reason == PICK_NONE || c->rows[i].tensor_bytes > out->row.tensor_bytes;
        if (larger && outlook.verdict == MODEL_STREAMS && outlook.speed.decode.tokens_per_s >= usable) {
            out->reason = PICK_STREAMS;
            out->row = c->rows[i];
            out->outlook = outlook;
        }
    }
}

bool models_pick(struct store *store, const char *machine, uint64_t budget_bytes, double usable, struct model_pick *out)
{
    memset(out, 0, sizeof *out);
    tool_machine here;
    struct choosing c = {.store = store, .budget_bytes = budget_bytes};
    c.rows = calloc(CANDIDATES_MAX, sizeof *c.rows);
    c.candidates = calloc(CANDIDATES_MAX, sizeof *c.candidates);
    bool done = c.rows != NULL && c.candidates != NULL && tool_machine_read(&here, NULL) == BERTH_OK;
    if (done) {
        c.coexist_bytes = BERTH_FIT_COEXIST_FRACTION * (double)here.ram_bytes;
        done = store_each(store, &model_table, "ORDER BY alias, path", NULL, &out->row, take_candidate, &c);
    }
    if (done) {
        choose(&c, machine, usable, out);
    }
    free(c.rows);
    free(c.candidates);
    return done;
}

/* ---- names on the command line ---------------------------------------------------------------------- */

struct listing {
    char path[HOST_PATH_MAX];
    uint32_t printed;
};

static bool take_path(void *user, const void *row)
{
    struct listing *listing = user;
    snprintf(listing->path, sizeof listing->path, "%s", ((const struct model_row *)row)->path);
    return false;
}

static bool print_path(void *user, const void *data)
{
    enum { SHOWN = 12 };
    struct listing *listing = user;
    const struct model_row *row = data;
    char size[FORMAT_MAX];
    fprintf(stderr, "  %s (%s, %s)\n", row->alias[0] != '\0' ? row->alias : row->name,
            size_format((uint64_t)row->tensor_bytes, size), row->path);
    return ++listing->printed < SHOWN;
}

static int resolve_auto(const char *verb, struct store *store, char *buffer, size_t cap)
{
    struct machine_row machine;
    berth_budget budget = BERTH_BUDGET_INIT;
    berth_error err;
    struct model_pick *pick = calloc(1, sizeof *pick);
    if (pick == NULL || !machine_identify(&machine, &err) || berth_budget_auto(&budget, &err) != BERTH_OK) {
        free(pick);
        return report_failure(verb, "this machine does not say what memory it has; name a model");
    }
    bool done = models_pick(store, machine.key, budget.bytes, USABLE_TOKENS_PER_S, pick);
    int code = EXIT_OK;
    if (!done || pick->reason == PICK_NONE) {
        code = report_failure(verb, "no known model fits or streams fast enough here; 'berth models' lists them");
    } else {
        snprintf(buffer, cap, "%s", pick->row.path);
        report_note("%s: %s", pick->row.alias[0] != '\0' ? pick->row.alias : pick->row.path,
                    pick_reason_text(pick->reason));
    }
    free(pick);
    return code;
}

static int resolve_name(const char *verb, struct store *store, const char *query, char *buffer, size_t cap)
{
    struct listing listing = {.printed = 0};
    int64_t count = models_find(store, query, take_path, &listing);
    if (count == 1) {
        snprintf(buffer, cap, "%s", listing.path);
        return EXIT_OK;
    }
    if (count > 1) {
        fprintf(stderr, "berth %s: '%.80s' may be any of %lld models:\n", verb, query, (long long)count);
        models_find(store, query, print_path, &listing);
        fprintf(stderr, "Say more of the name, or give the path.\n");
        return EXIT_USAGE;
    }
    return EXIT_OK; /* the verb says so when it gets there: options are looked at first */
}

int models_resolve(const char *verb, const char **path, char *buffer, size_t cap, bool *used)
{
    uint64_t bytes;
    char problem[STORE_PROBLEM_MAX];
    *used = false;
    bool is_name = (*path)[0] != '\0' && (*path)[0] != '/' && (*path)[0] != '.' && !host_file_size(*path, &bytes);
    report_unfound_model = is_name ? *path : NULL;
    struct store *store = is_name ? store_open_within(false, STORE_WAIT_BRIEF_MS, problem) : NULL;
    if (store == NULL) {
        return EXIT_OK;
    }
    *used = true;
    buffer[0] = '\0';
    int code = strcmp(*path, "auto") == 0 ? resolve_auto(verb, store, buffer, cap)
                                          : resolve_name(verb, store, *path, buffer, cap);
    store_close(store);
    if (buffer[0] != '\0') {
        *path = buffer;
    }
    return code;
}
