/* SPDX-License-Identifier: MIT
 * Reader of our own recordings (docs/routes.md). Lines are words separated by single spaces. */
#include <string.h>

#include "base/bytes.h"
#include "experts/routes_text.h"

struct own {
    struct routes_text *text;
    struct route_step step;
    uint32_t rows_left;
    uint32_t tokens_layer; /* the layer whose steps count tokens */
};

static berth_status bad(const struct own *own, berth_error *err)
{
    return routes_bad(own->text, "not a line of a route recording", err);
}

static bool word(struct str *line, struct str *out)
{
    const char *space = memchr(line->ptr, ' ', line->bytes);
    *out = (struct str){line->ptr, space != NULL ? (size_t)(space - line->ptr) : line->bytes};
    line->ptr += out->bytes + (space != NULL ? 1 : 0);
    line->bytes -= out->bytes + (space != NULL ? 1 : 0);
    return out->bytes > 0;
}

static bool numbers(struct str *line, uint64_t *out, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        if ((i > 0 && !routes_skip(line, ' ')) || !routes_number(line, &out[i])) {
            return false;
        }
    }
    return line->bytes == 0 || line->ptr[0] == ' ';
}

static bool hex32(struct str *line, uint32_t *out)
{
    uint32_t value = 0;
    if (line->bytes < 8) {
        return false;
    }
    for (int i = 0; i < 8; i++) {
        char c = line->ptr[i];
        uint32_t digit =
            c >= '0' && c <= '9' ? (uint32_t)(c - '0') : (c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10 : 16);
        if (digit > 15) {
            return false;
        }
        value = value << 4 | digit;
    }
    line->ptr += 8;
    line->bytes -= 8;
    *out = value;
    return true;
}

/* "layer INDEX MODEL_LAYER CLASS BYTES" */
static berth_status take_layer(struct own *own, struct str *line, berth_error *err)
{
    struct routes *routes = own->text->routes;
    uint64_t n[4];
    if (!numbers(line, n, 4) || n[0] >= routes->layers || n[1] >= CATALOG_LAYERS_MAX || n[2] >= SLOT_CLASSES_MAX) {
        return bad(own, err);
    }
    routes->model_layer[n[0]] = (uint32_t)n[1];
    routes->layer_class[n[0]] = (uint8_t)n[2];
    routes->layer_bytes[n[0]] = n[3];
    routes->classes = n[2] >= routes->classes ? (uint32_t)n[2] + 1 : routes->classes;
    return BERTH_OK;
}

/* "order LAYER E E E ..." */
static berth_status take_order(struct own *own, struct str *line, berth_error *err)
{
    struct routes *routes = own->text->routes;
    uint64_t layer = 0;
    if (!routes_number(line, &layer) || layer >= routes->layers) {
        return bad(own, err);
    }
    for (uint32_t i = 0; i < routes->experts; i++) {
        uint64_t expert = 0;
        if (!routes_skip(line, ' ') || !routes_number(line, &expert) || expert >= routes->experts) {
            return bad(own, err);
        }
        routes->order[layer * routes->experts + i] = (uint16_t)expert;
    }
    return BERTH_OK;
}

/* "prior LAYER HEX HEX ..." */
static berth_status take_prior(struct own *own, struct str *line, berth_error *err)
{
    struct routes *routes = own->text->routes;
    uint64_t layer = 0;
    if (!routes_number(line, &layer) || layer >= routes->layers) {
        return bad(own, err);
    }
    for (uint32_t i = 0; i < routes->experts; i++) {
        uint32_t bits = 0;
        if (!routes_skip(line, ' ') || !hex32(line, &bits)) {
            return bad(own, err);
        }
        routes->prior[layer * routes->experts + i] = f32_from_bits(bits);
    }
    return BERTH_OK;
}

/* "slots SHARED COUNT COUNT ...", one count a class */
static berth_status take_slots(struct own *own, struct str *line, berth_error *err)
{
    const struct routes *routes = own->text->routes;
    struct slot_counts *slots = &own->text->routes->slots;
    uint64_t cells = (uint64_t)routes->layers * routes->experts; /* no engine has more slots than experts */
    uint64_t shared = 0;
    *slots = (struct slot_counts){0};
    if (!routes_number(line, &shared) || shared > 1) {
        return bad(own, err);
    }
    slots->shared = shared == 1;
    for (uint32_t c = 0; routes_skip(line, ' '); c++) {
        uint64_t count = 0;
        if (c == SLOT_CLASSES_MAX || !routes_number(line, &count) || count > cells) {
            return bad(own, err);
        }
        slots->count[c] = (uint32_t)count;
        slots->total += count;
    }
    own->text->routes->has_cache = true;
    return BERTH_OK;
}

/* "v PHASE LAYER POSITION ROWS" */
static berth_status take_visit(struct own *own, struct str *line, berth_error *err)
{
    struct routes *routes = own->text->routes;
    uint64_t n[4];
    if (own->rows_left > 0 || !numbers(line, n, 4) || n[0] > 1 || n[1] >= routes->layers || n[2] > UINT32_MAX ||
        n[3] == 0 || n[3] > 1 << 20) {
        return bad(own, err);
    }
    own->step = (struct route_step){.first = routes->ids_count,
                                    .layer = (uint32_t)n[1],
                                    .position = (uint32_t)n[2],
                                    .rows = (uint32_t)n[3],
                                    .session = own->text->session,
                                    .phase = n[0] == 0 ? BERTH_PHASE_PREFILL : BERTH_PHASE_DECODE};
    own->rows_left = own->step.rows;
    routes->tokens[own->step.phase] += own->step.layer == 0 ? own->step.rows : 0;
    return BERTH_OK;
}

/* "r E[+-]HEX ..." in rank order; + was resident, - was read */
static berth_status take_row(struct own *own, struct str *line, berth_error *err)
{
    const struct routes *routes = own->text->routes;
    if (own->rows_left == 0) {
        return bad(own, err);
    }
    for (uint32_t rank = 0; rank < routes->top_k; rank++) {
        uint64_t expert = 0;
        uint32_t bits = 0;
        if ((rank > 0 && !routes_skip(line, ' ')) || !routes_number(line, &expert) ||
            (!routes_skip(line, '+') && !routes_skip(line, '-')) || !hex32(line, &bits)) {
            return bad(own, err);
        }
        TRY(routes_add_id(own->text, expert, err));
    }
    own->rows_left--;
    return own->rows_left > 0 ? BERTH_OK : routes_add_step(own->text, &own->step, err);
}

/* "warm LAYER E E ...", "pin ...", "unpin ..." */
static berth_status take_event(struct own *own, struct str *line, enum route_event_kind kind, berth_error *err)
{
    struct routes *routes = own->text->routes;
    uint64_t layer = 0;
    if (!routes_number(line, &layer) || layer >= routes->layers || own->rows_left > 0 ||
        routes->events_count == own->text->events_cap) {
        return bad(own, err);
    }
    struct route_event event = {
        .step = routes->steps_count, .first = routes->ids_count, .layer = (uint32_t)layer, .kind = kind};
    for (; routes_skip(line, ' '); event.count++) {
        uint64_t expert = 0;
        if (!routes_number(line, &expert)) {
            return bad(own, err);
        }
        TRY(routes_add_id(own->text, expert, err));
    }
    routes->events[routes->events_count++] = event;
    return BERTH_OK;
}

static berth_status take_end(struct own *own, struct str *line, berth_error *err)
{
    struct routes *routes = own->text->routes;
    uint64_t n[4];
    if (!numbers(line, n, 4)) {
        return bad(own, err);
    }
    for (size_t phase = 0; phase < 2; phase++) {
        routes->hits[phase] += n[phase * 2];
        routes->misses[phase] += n[phase * 2 + 1];
    }
    routes->has_totals = true;
    return BERTH_OK;
}

static berth_status take_line(struct own *own, struct str line, berth_error *err)
{
    struct routes *routes = own->text->routes;
    struct str kind;
    uint64_t n[3];
    if (!word(&line, &kind) || str_is(kind, "#")) {
        return BERTH_OK;
    }
    if (str_is(kind, "shape")) {
        return numbers(&line, n, 3) ? routes_shape(own->text, n[0], n[1], n[2], err) : bad(own, err);
    }
    if (str_is(kind, "model") || str_is(kind, "policy")) {
        bool model = str_is(kind, "model");
        char *to = model ? routes->model : routes->policy;
        size_t cap = model ? sizeof routes->model : sizeof routes->policy;
        size_t bytes = line.bytes < cap - 1 ? line.bytes : cap - 1;
        memcpy(to, line.ptr, bytes);
        to[bytes] = '\0';
        return BERTH_OK;
    }
    if (routes->layers == 0) {
        return routes_bad(own->text, "the shape must come first", err);
    }
    if (str_is(kind, "r")) {
        return take_row(own, &line, err);
    }
    if (str_is(kind, "v")) {
        return take_visit(own, &line, err);
    }
    if (str_is(kind, "layer")) {
        return take_layer(own, &line, err);
    }
    if (str_is(kind, "order")) {
        return take_order(own, &line, err);
    }
    if (str_is(kind, "prior")) {
        return take_prior(own, &line, err);
    }
    if (str_is(kind, "slots")) {
        return take_slots(own, &line, err);
    }
    if (str_is(kind, "end")) {
        return take_end(own, &line, err);
    }
    if (str_is(kind, "turn") || str_is(kind, "prefetch")) {
        return BERTH_OK;
    }
    if (str_is(kind, "warm") || str_is(kind, "pin") || str_is(kind, "unpin")) {
        return take_event(own, &line,
                          str_is(kind, "warm") ? ROUTE_WARM : (str_is(kind, "pin") ? ROUTE_PIN : ROUTE_UNPIN), err);
    }
    return bad(own, err);
}

berth_status routes_read_berth(struct routes_text *text, berth_error *err)
{
    struct own own = {.text = text};
    struct str line;
    while (routes_line(text, &line)) {
        TRY(take_line(&own, line, err));
    }
    return own.rows_left == 0 ? BERTH_OK : routes_bad(text, "the recording ends within a visit", err);
}
