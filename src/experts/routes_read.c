/* SPDX-License-Identifier: MIT
 *
 * Readers of recorded routing. One reservation holds a file's text and everything made from it: each table's room
 * follows from the size of the files, and only what is used gets charged. */
#include <stdio.h>
#include <string.h>

#include "base/checked.h"
#include "experts/routes.h"
#include "experts/routes_text.h"
#include "os/file.h"

enum { FILES_MAX = 64 };
static const uint64_t file_bytes_most = 4ull << 30;

static berth_status carve(struct routes_text *text, uint64_t file_bytes, uint64_t text_bytes, struct routes **out,
                          berth_error *err)
{
    /* Shortest texts: a step has 4 bytes or more ("[1]," or a line), an id 2, an event 6. */
    uint64_t steps = file_bytes / 4 + 16;
    uint64_t ids = file_bytes / 2 + 16;
    uint64_t events = file_bytes / 6 + 16;
    uint64_t bytes = steps * sizeof(struct route_step) + ids * sizeof(uint16_t) + events * sizeof(struct route_event) +
                     text_bytes + ROUTES_TABLES_BYTES + 16ull * OS_PAGE_BYTES;
    void *region = NULL;
    TRY(os_reserve(NULL, bytes, false, &region, err));
    arena_carve(&text->arena, region, bytes);
    struct routes *routes = ARENA_NEW(&text->arena, struct routes, 1);
    routes->region = region;
    routes->region_bytes = bytes;
    routes->steps = ARENA_NEW(&text->arena, struct route_step, steps);
    routes->ids = ARENA_NEW(&text->arena, uint16_t, ids);
    routes->events = ARENA_NEW(&text->arena, struct route_event, events);
    text->begin = arena_take(&text->arena, text_bytes, 1, OS_PAGE_BYTES);
    text->text_cap = text_bytes;
    text->routes = routes;
    text->steps_cap = steps;
    text->ids_cap = ids;
    text->events_cap = events;
    *out = routes;
    return arena_check(&text->arena, "routes", err);
}

void routes_free(struct routes *routes)
{
    if (routes != NULL) {
        os_release(routes->region, routes->region_bytes);
    }
}

berth_status routes_make(uint32_t layers, uint32_t experts, uint32_t top_k, uint64_t steps, uint64_t ids,
                         struct routes **out, berth_error *err)
{
    struct routes_text text = {0};
    uint64_t bytes = steps * 4 > ids * 2 ? steps * 4 : ids * 2;
    TRY(carve(&text, bytes, 0, out, err));
    berth_status status = routes_shape(&text, layers, experts, top_k, err);
    if (status != BERTH_OK) {
        routes_free(*out);
        *out = NULL;
    }
    return status;
}

/* ---- shared by the readers: routes_text.h --------------------------------------------------------------- */

berth_status routes_bad(const struct routes_text *text, const char *what, berth_error *err)
{
    error_set(err, BERTH_ERR_FORMAT, "line %llu: %s", (unsigned long long)text->line, what);
    error_at_path(err, text->path);
    return BERTH_ERR_FORMAT;
}

berth_status routes_shape(struct routes_text *text, uint64_t layers, uint64_t experts, uint64_t top_k, berth_error *err)
{
    struct routes *routes = text->routes;
    if (layers == 0 || layers > CATALOG_LAYERS_MAX || experts == 0 || experts > EXPERTS_MAX || top_k == 0 ||
        top_k > experts || layers * experts > ROUTES_CELLS_MAX) {
        return routes_bad(text, "a shape that no model has", err);
    }
    if (routes->layers != 0) {
        bool same = routes->layers == layers && routes->experts == experts && routes->top_k == top_k;
        return same ? BERTH_OK : routes_bad(text, "the files are not of one shape", err);
    }
    routes->layers = (uint32_t)layers;
    routes->experts = (uint32_t)experts;
    routes->top_k = (uint32_t)top_k;
    routes->layer_bytes = ARENA_NEW(&text->arena, uint64_t, layers);
    routes->model_layer = ARENA_NEW(&text->arena, uint32_t, layers);
    routes->layer_class = ARENA_NEW(&text->arena, uint8_t, layers);
    routes->order = ARENA_NEW(&text->arena, uint16_t, layers * experts);
    routes->prior = ARENA_NEW(&text->arena, float, layers *experts);
    TRY(arena_check(&text->arena, "routes", err));
    for (uint32_t layer = 0; layer < routes->layers; layer++) {
        routes->model_layer[layer] = layer;
        for (uint32_t expert = 0; expert < routes->experts; expert++) {
            routes->order[(uint64_t)layer * experts + expert] = (uint16_t)expert;
        }
    }
    return BERTH_OK;
}

bool routes_line(struct routes_text *text, struct str *line)
{
    if (text->at >= text->end) {
        return false;
    }
    const char *stop = memchr(text->at, '\n', (size_t)(text->end - text->at));
    stop = stop == NULL ? text->end : stop;
    *line = (struct str){text->at, (size_t)(stop - text->at)};
    if (line->bytes > 0 && line->ptr[line->bytes - 1] == '\r') {
        line->bytes--;
    }
    text->at = stop < text->end ? stop + 1 : stop;
    text->line++;
    return true;
}

bool routes_number(struct str *line, uint64_t *out)
{
    uint64_t value = 0;
    size_t digits = 0;
    while (digits < line->bytes && digits < 19 && line->ptr[digits] >= '0' && line->ptr[digits] <= '9') {
        value = value * 10 + (uint64_t)(line->ptr[digits++] - '0');
    }
    line->ptr += digits;
    line->bytes -= digits;
    *out = value;
    return digits > 0 && digits < 19;
}

bool routes_skip(struct str *line, char c)
{
    if (line->bytes == 0 || line->ptr[0] != c) {
        return false;
    }
    line->ptr++;
    line->bytes--;
    return true;
}

berth_status routes_add_id(struct routes_text *text, uint64_t expert, berth_error *err)
{
    struct routes *routes = text->routes;
    if (expert >= EXPERTS_MAX || (routes->experts != 0 && expert >= routes->experts)) {
        return routes_bad(text, "an expert out of range", err);
    }
    if (routes->ids_count == text->ids_cap) {
        return routes_bad(text, "more experts than the file's size allows", err);
    }
    text->largest = expert > text->largest ? (uint32_t)expert : text->largest;
    routes->ids[routes->ids_count++] = (uint16_t)expert;
    return BERTH_OK;
}

berth_status routes_add_step(struct routes_text *text, const struct route_step *step, berth_error *err)
{
    struct routes *routes = text->routes;
    if (routes->steps_count == text->steps_cap) {
        return routes_bad(text, "more steps than the file's size allows", err);
    }
    routes->steps[routes->steps_count++] = *step;
    return BERTH_OK;
}

/* ---- files ---------------------------------------------------------------------------------------------- */

static berth_status read_text(struct routes_text *text, const char *path, berth_error *err)
{
    struct os_file file;
    TRY(os_file_open(&file, path, false, NULL, err));
    text->path = path;
    text->line = 0;
    text->at = text->begin;
    text->end = text->begin + file.size_bytes;
    if (file.size_bytes > text->text_cap) { /* a recording that is still being written */
        os_file_close(&file);
        error_set(err, BERTH_ERR_STATE, "the file grew while it was read: %llu bytes, %llu before",
                  (unsigned long long)file.size_bytes, (unsigned long long)text->text_cap);
        error_at_path(err, path);
        return BERTH_ERR_STATE;
    }
    berth_status status = os_file_read(&file, 0, file.size_bytes, text->begin, err);
    os_file_close(&file);
    return status;
}

static enum routes_format guess(const struct routes_text *text)
{
    struct str all = {text->at, (size_t)(text->end - text->at)};
    if (str_starts(all, STR(ROUTES_MAGIC))) {
        return ROUTES_BERTH;
    }
    return str_starts(all, STR("{")) ? ROUTES_JSONL : ROUTES_CSV;
}

static berth_status read_one(struct routes_text *text, const char *path, berth_error *err)
{
    TRY(read_text(text, path, err));
    text->session = text->routes->sessions++;
    switch (guess(text)) {
    case ROUTES_BERTH:
        return routes_read_berth(text, err);
    case ROUTES_JSONL:
        return routes_read_jsonl(text, err);
    case ROUTES_CSV:
    case ROUTES_AUTO:
    default:
        return routes_read_csv(text, err);
    }
}

/* Every step has its ids within bounds and every layer is one of the model's. */
static berth_status check(const struct routes_text *text, berth_error *err)
{
    const struct routes *routes = text->routes;
    if (routes->layers == 0 || routes->steps_count == 0) {
        return routes_bad(text, "the file holds no routing decision", err);
    }
    for (uint64_t i = 0; i < routes->ids_count; i++) {
        if (routes->ids[i] >= routes->experts) {
            return routes_bad(text, "an expert out of range", err);
        }
    }
    return BERTH_OK;
}

berth_status routes_read(const char *const *paths, uint32_t paths_count, uint32_t experts, struct routes **out,
                         berth_error *err)
{
    struct routes_text text = {.experts = experts};
    uint64_t all = 0;
    uint64_t most = 0;
    if (paths_count == 0 || paths_count > FILES_MAX) {
        return error_set(err, BERTH_ERR_ARGUMENT, "1 to %d route files can be read, got %u", FILES_MAX, paths_count);
    }
    for (uint32_t i = 0; i < paths_count; i++) {
        bool directory = false;
        uint64_t bytes = 0;
        TRY(os_path_info(paths[i], &directory, &bytes, err));
        if (bytes > file_bytes_most) {
            return error_set(err, BERTH_ERR_LIMIT, "a route file of more than 4 GiB");
        }
        all += bytes;
        most = bytes > most ? bytes : most;
    }
    struct routes *routes = NULL;
    berth_status status = carve(&text, all, most > 0 ? most : 1, &routes, err);
    for (uint32_t i = 0; i < paths_count && status == BERTH_OK; i++) {
        status = read_one(&text, paths[i], err);
    }
    status = status == BERTH_OK ? check(&text, err) : status;
    if (status != BERTH_OK) {
        routes_free(routes);
        return status;
    }
    *out = routes;
    return BERTH_OK;
}

double routes_overlap(const struct routes *routes)
{
    uint64_t same = 0;
    uint64_t all = 0;
    const struct route_step *before[CATALOG_LAYERS_MAX / 16] = {NULL}; /* layers past this are left out */
    for (uint64_t i = 0; i < routes->steps_count; i++) {
        const struct route_step *step = &routes->steps[i];
        if (step->phase != BERTH_PHASE_DECODE || step->layer >= CATALOG_LAYERS_MAX / 16) {
            continue;
        }
        const struct route_step *last = before[step->layer];
        before[step->layer] = step;
        for (uint32_t a = 0; last != NULL && last->session == step->session && a < routes->top_k; a++) {
            all++;
            for (uint32_t b = 0; b < routes->top_k; b++) {
                if (routes->ids[step->first + a] == routes->ids[last->first + b]) {
                    same++;
                    break;
                }
            }
        }
    }
    return all > 0 ? 100.0 * (double)same / (double)all : 0.0;
}
