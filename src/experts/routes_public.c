/* SPDX-License-Identifier: MIT
 *
 * Readers of two public layouts: the route trace of BigMoeOnEdge (CSV, one line an expert) and WARP's decode traces
 * (JSON lines, one line a token). Prompt rows of the former come layer by layer and are read as one visit a layer. */
#include <string.h>

#include "experts/routes_text.h"
#include "model/json.h"

/* ---- CSV ------------------------------------------------------------------------------------------------ */

enum { COLUMN_TURN, COLUMN_PHASE, COLUMN_STEP, COLUMN_LAYER, COLUMN_EXPERT, COLUMNS, CSV_COLUMNS_MAX = 16 };
static const char *const column_names[COLUMNS] = {"turn", "phase", "step", "layer", "expert"};

struct csv {
    struct routes_text *text;
    int column_of[CSV_COLUMNS_MAX]; /* -1: not needed */
    uint32_t columns;
    uint64_t experts, top_k, layers;
    struct route_step step;
    uint64_t turn, row; /* of the rows being collected */
    uint32_t selected;  /* of this row */
    bool open;
    uint32_t layer_of[CATALOG_LAYERS_MAX / 4]; /* number in the file to MoE layer, plus one */
    uint64_t bytes_of[CATALOG_LAYERS_MAX / 4];
};

/* "key=" somewhere in a comment; the number behind it. */
static bool comment_number(struct str line, const char *key, uint64_t *out)
{
    size_t bytes = strlen(key);
    for (size_t i = 0; i + bytes < line.bytes; i++) {
        if (memcmp(line.ptr + i, key, bytes) == 0) {
            struct str rest = {line.ptr + i + bytes, line.bytes - i - bytes};
            return routes_number(&rest, out);
        }
    }
    return false;
}

static void csv_comment(struct csv *csv, struct str line)
{
    uint64_t layer = 0;
    uint64_t bytes = 0;
    (void)comment_number(line, "n_expert=", &csv->experts);
    (void)comment_number(line, "n_expert_used=", &csv->top_k);
    if (comment_number(line, "layer=", &layer) && comment_number(line, " expert_bytes=", &bytes) &&
        layer < CATALOG_LAYERS_MAX / 4) {
        csv->bytes_of[layer] = bytes;
    }
}

static berth_status csv_head(struct csv *csv, struct str line, berth_error *err)
{
    uint32_t found = 0;
    while (line.bytes > 0 && csv->columns < CSV_COLUMNS_MAX) {
        const char *comma = memchr(line.ptr, ',', line.bytes);
        struct str name = {line.ptr, comma != NULL ? (size_t)(comma - line.ptr) : line.bytes};
        csv->column_of[csv->columns] = -1;
        for (int i = 0; i < COLUMNS; i++) {
            if (str_is(name, column_names[i])) {
                csv->column_of[csv->columns] = i;
                found++;
            }
        }
        csv->columns++;
        line.ptr += name.bytes + (comma != NULL ? 1 : 0);
        line.bytes -= name.bytes + (comma != NULL ? 1 : 0);
    }
    return found == COLUMNS ? BERTH_OK
                            : routes_bad(csv->text, "wanted the columns turn, phase, step, layer and expert", err);
}

static berth_status csv_close_step(struct csv *csv, berth_error *err)
{
    if (!csv->open) {
        return BERTH_OK;
    }
    csv->open = false;
    csv->step.rows++;
    if (csv->top_k == 0) {
        csv->top_k = csv->selected;
    }
    if (csv->selected != csv->top_k) {
        return routes_bad(csv->text, "a token with another number of experts", err);
    }
    return routes_add_step(csv->text, &csv->step, err);
}

static berth_status csv_row(struct csv *csv, struct str line, berth_error *err)
{
    uint64_t cells[COLUMNS] = {0};
    struct str rest = line;
    for (uint32_t i = 0; i < csv->columns && rest.bytes > 0; i++) {
        const char *comma = memchr(rest.ptr, ',', rest.bytes);
        struct str cell = {rest.ptr, comma != NULL ? (size_t)(comma - rest.ptr) : rest.bytes};
        rest.ptr += cell.bytes + (comma != NULL ? 1 : 0);
        rest.bytes -= cell.bytes + (comma != NULL ? 1 : 0);
        if (csv->column_of[i] >= 0 && (!routes_number(&cell, &cells[csv->column_of[i]]) || cell.bytes > 0)) {
            return routes_bad(csv->text, "a cell that is not a whole number", err);
        }
    }
    if (cells[COLUMN_LAYER] >= CATALOG_LAYERS_MAX / 4 || cells[COLUMN_PHASE] > 1) {
        return routes_bad(csv->text, "a layer or phase out of range", err);
    }
    uint32_t *layer = &csv->layer_of[cells[COLUMN_LAYER]];
    *layer = *layer == 0 ? (uint32_t)++csv->layers : *layer;
    berth_phase phase = cells[COLUMN_PHASE] == 0 ? BERTH_PHASE_PREFILL : BERTH_PHASE_DECODE;
    bool same =
        csv->open && csv->step.phase == phase && csv->turn == cells[COLUMN_TURN] && csv->step.layer == *layer - 1;
    if (same && csv->row != cells[COLUMN_STEP] && phase == BERTH_PHASE_PREFILL) { /* next token of the prompt */
        if (csv->top_k == 0) {
            csv->top_k = csv->selected;
        }
        if (csv->selected != csv->top_k) {
            return routes_bad(csv->text, "a token with another number of experts", err);
        }
        csv->step.rows++;
        csv->selected = 0;
    } else if (!same || csv->row != cells[COLUMN_STEP]) {
        TRY(csv_close_step(csv, err));
        csv->step = (struct route_step){.first = csv->text->routes->ids_count,
                                        .layer = *layer - 1,
                                        .position = (uint32_t)cells[COLUMN_STEP],
                                        .session = csv->text->session,
                                        .phase = phase};
        csv->open = true;
        csv->selected = 0;
    }
    csv->turn = cells[COLUMN_TURN];
    csv->row = cells[COLUMN_STEP];
    csv->selected++;
    return routes_add_id(csv->text, cells[COLUMN_EXPERT], err);
}

static uint32_t experts_of(const struct routes_text *text, uint64_t said)
{
    if (text->experts > 0 || said > 0) {
        return text->experts > 0 ? text->experts : (uint32_t)(said > EXPERTS_MAX ? EXPERTS_MAX + 1 : said);
    }
    uint32_t experts = 1;
    while (experts <= text->largest) {
        experts *= 2;
    }
    return experts;
}

static void count_tokens(const struct routes_text *text)
{
    struct routes *routes = text->routes;
    for (uint64_t i = 0; i < routes->steps_count; i++) {
        const struct route_step *step = &routes->steps[i];
        if (step->session == text->session && step->layer == 0) {
            routes->tokens[step->phase] += step->rows;
        }
    }
}

static berth_status csv_finish(struct csv *csv, berth_error *err)
{
    struct routes *routes = csv->text->routes;
    bool first = routes->layers == 0;
    TRY(csv_close_step(csv, err));
    /* The header may speak of the model's own top-k while fewer were used. */
    TRY(routes_shape(csv->text, csv->layers, experts_of(csv->text, csv->experts), csv->top_k, err));
    for (uint32_t number = 0; first && number < CATALOG_LAYERS_MAX / 4; number++) {
        if (csv->layer_of[number] > 0) {
            routes->model_layer[csv->layer_of[number] - 1] = number;
            routes->layer_bytes[csv->layer_of[number] - 1] = csv->bytes_of[number];
        }
    }
    count_tokens(csv->text);
    return BERTH_OK;
}

berth_status routes_read_csv(struct routes_text *text, berth_error *err)
{
    struct str line;
    struct csv *csv = ARENA_NEW(&text->arena, struct csv, 1);
    TRY(arena_check(&text->arena, "routes", err));
    memset(csv, 0, sizeof *csv);
    csv->text = text;
    while (routes_line(text, &line)) {
        if (line.bytes == 0) {
            continue;
        }
        if (line.ptr[0] == '#') {
            csv_comment(csv, line);
        } else if (csv->columns == 0) {
            TRY(csv_head(csv, line, err));
        } else {
            TRY(csv_row(csv, line, err));
        }
    }
    return csv_finish(csv, err);
}

/* ---- JSON lines ----------------------------------------------------------------------------------------- */

/* The experts of one layer: "[1, 2, 3]", whose first token has been read. */
static berth_status jsonl_layer(struct routes_text *text, struct json *json, uint32_t layer, uint64_t token,
                                uint64_t *top_k, berth_error *err)
{
    struct route_step step = {.first = text->routes->ids_count,
                              .layer = layer,
                              .position = (uint32_t)token,
                              .rows = 1,
                              .session = text->session,
                              .phase = BERTH_PHASE_DECODE};
    uint64_t count = 0;
    for (; json_next(json) == JSON_NUMBER; count++) {
        uint64_t expert = 0;
        if (!json_token_u64(&json->token, &expert)) {
            return routes_bad(text, "an expert that is not a whole number", err);
        }
        TRY(routes_add_id(text, expert, err));
    }
    *top_k = *top_k == 0 ? count : *top_k;
    if (json->token.kind != JSON_ARRAY_END || count != *top_k || count == 0) {
        return routes_bad(text, "wanted a list of experts, as many as in every other layer", err);
    }
    return routes_add_step(text, &step, err);
}

static berth_status jsonl_token(struct routes_text *text, struct str line, uint64_t token, uint64_t *layers,
                                uint64_t *top_k, berth_error *err)
{
    static const char *const path[] = {"layers", NULL};
    struct json json;
    if (!json_find(line, path, &json)) {
        return BERTH_OK; /* a line about something else */
    }
    if (json.token.kind != JSON_ARRAY_BEGIN) {
        return routes_bad(text, "\"layers\" is not a list", err);
    }
    uint32_t layer = 0;
    for (; json_next(&json) == JSON_ARRAY_BEGIN; layer++) {
        TRY(jsonl_layer(text, &json, layer, token, top_k, err));
    }
    *layers = *layers == 0 ? layer : *layers;
    return json.token.kind == JSON_ARRAY_END && layer == *layers
               ? BERTH_OK
               : routes_bad(text, "wanted one list of experts for every layer", err);
}

berth_status routes_read_jsonl(struct routes_text *text, berth_error *err)
{
    struct str line;
    uint64_t layers = 0;
    uint64_t top_k = 0;
    for (uint64_t token = 0; routes_line(text, &line); token++) {
        if (line.bytes > 0 && line.ptr[0] != '#') {
            TRY(jsonl_token(text, line, token, &layers, &top_k, err));
        }
    }
    TRY(routes_shape(text, layers, experts_of(text, 0), top_k, err));
    count_tokens(text);
    return BERTH_OK;
}
