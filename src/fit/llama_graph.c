/* SPDX-License-Identifier: MIT
 * The tensors of a graph in the order in which they come and go: fit/llama_graph.h. Every width here was held against
 * what the program lists of its own graphs. */
#include "fit/llama_graph.h"

#include "family/shape_rows.h"
#include "fit/llama_pack.h"

enum { F16 = 2, F32 = 4, I64 = 8, HOST_ALIGN = 32, DEVICE_ALIGN = 128 };

struct walk {
    struct pack pack;
    const struct shape *shape;
    const struct llama_request *request;
    uint64_t cells[LLAMA_PARTS]; /* of a stream */
    uint64_t rows;               /* of the tensors that are made now */
    uint64_t ubatch, outputs, slots;
    uint64_t hidden;
    uint64_t widest_v;
    uint32_t masks[2]; /* of full and of windowed layers */
    uint32_t indexes[2];
    uint32_t last_user[2]; /* layers */
    uint32_t residual;
    uint32_t first;     /* what enters the first layer, for embeddings of each layer */
    uint32_t per_layer; /* those */
    uint64_t index_top_k, chosen;
    uint32_t lists; /* of chosen cells */
};

static uint64_t most(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint32_t take(struct walk *walk, uint64_t width)
{
    return pack_take(&walk->pack, width, walk->rows, F32);
}

static void drop(struct walk *walk, uint32_t tensor)
{
    pack_drop(&walk->pack, tensor);
}

static bool does(const struct walk *walk, enum shape_graph what)
{
    return walk->shape->row != NULL && (walk->shape->row->graph & (uint32_t)what) != 0;
}

/* A tensor made from one that nobody reads afterwards. */
static uint32_t become(struct walk *walk, uint32_t tensor, uint64_t width)
{
    uint32_t new = take(walk, width);
    drop(walk, tensor);
    return new;
}

/* ---- attention -------------------------------------------------------------------------------------- */

static bool is_windowed(const struct shape_layer *layer)
{
    return layer->cache == SHAPE_SLIDING || layer->cache == SHAPE_CHUNKED;
}

static uint64_t cells_of(const struct walk *walk, const struct shape_layer *layer)
{
    return is_windowed(layer) ? walk->cells[LLAMA_PART_WINDOW]
                              : most(walk->cells[LLAMA_PART_FULL], walk->cells[LLAMA_PART_LATENT]);
}

/* Scores in full: one row a cell and head, then the sums, then the same heads side by side. */
static uint32_t attend_in_full(struct walk *walk, const struct shape_layer *layer, uint32_t q, uint64_t out)
{
    uint32_t scores = become(walk, q, cells_of(walk, layer) * layer->heads);
    uint32_t sums = become(walk, scores, out);
    return become(walk, sums, out);
}

/* Takes the normed input; gives what goes into the output matrix. */
static uint32_t attend(struct walk *walk, const struct shape_layer *layer, uint32_t x)
{
    bool has_own = layer->owner == (uint32_t)(layer - walk->shape->layers);
    uint64_t out = layer->k_elems > 0 ? (uint64_t)layer->v_elems * layer->q_elems / layer->k_elems : layer->q_elems;
    uint32_t both = does(walk, GRAPH_GATED) ? take(walk, 2 * (uint64_t)layer->q_elems) : 0;
    /* Seen as heads and then normed or rotated: a copy. Taking queries from beside their gate was one. */
    uint32_t q = take(walk, layer->q_elems);
    bool copies = is_windowed(layer) || !does(walk, GRAPH_NO_ROPE);
    q = copies && both == 0 ? become(walk, q, layer->q_elems) : q;
    uint32_t v = has_own ? take(walk, layer->v_elems) : 0;
    uint32_t k = has_own ? take(walk, layer->k_elems) : 0;
    drop(walk, does(walk, GRAPH_PARALLEL) ? 0 : x);
    k = has_own && copies ? become(walk, k, layer->k_elems) : k;
    drop(walk, k);
    drop(walk, v);
    uint32_t sums = walk->request->no_flash_attention ? attend_in_full(walk, layer, q, out) : become(walk, q, out);
    if (both != 0) {
        uint32_t gate = become(walk, both, layer->q_elems);
        drop(walk, sums); /* the product lies in the gate's place */
        return gate;
    }
    return sums;
}

/* Sparse attention: every cell gets a score, and the best get a mask of their own. `low`: of the queries. */
static uint32_t choose_cells(struct walk *walk, const struct shape_layer *layer, uint32_t x, uint32_t low)
{
    uint64_t cells = cells_of(walk, layer);
    uint64_t width = (uint64_t)walk->shape->number[SHAPE_INDEX_HEADS] * layer->index_elems;
    uint64_t chosen = walk->index_top_k < cells ? walk->index_top_k : cells;
    uint64_t mask_bytes = walk->request->no_flash_attention ? F32 : walk->request->build->mask_bytes;
    uint32_t q = become(walk, take(walk, width), width); /* rotated, then turned */
    drop(walk, low);
    q = become(walk, q, width);
    uint32_t weights = take(walk, walk->shape->number[SHAPE_INDEX_HEADS]);
    drop(walk, x);
    uint32_t scores = take(walk, cells);
    drop(walk, q);
    drop(walk, weights);
    uint32_t best = take(walk, chosen);
    drop(walk, scores);
    best = become(walk, best, chosen);
    uint32_t all = pack_take(&walk->pack, cells, walk->rows, mask_bytes);
    uint32_t mask = pack_take(&walk->pack, cells, walk->rows, mask_bytes);
    drop(walk, all);
    drop(walk, best);
    return mask;
}

/* In the latent space: queries' unrotated parts are taken into it, and the sums out of it. */
static uint32_t attend_latent(struct walk *walk, const struct shape_layer *layer, uint32_t x)
{
    uint64_t inside = (uint64_t)layer->heads * layer->latent_v_elems;
    uint64_t rope = layer->k_elems - layer->latent_v_elems;
    bool is_sparse = layer->index_elems > 0;
    uint32_t low = take(walk, walk->shape->number[SHAPE_Q_RANK]);
    uint32_t q = take(walk, layer->full_k_elems);
    drop(walk, is_sparse ? 0 : low);
    uint32_t absorbed = take(walk, inside);
    uint32_t rotated = take(walk, layer->heads * rope);
    drop(walk, q);
    uint32_t queries = take(walk, inside + layer->heads * rope);
    drop(walk, absorbed);
    drop(walk, rotated);
    uint32_t both = take(walk, layer->k_elems);
    drop(walk, is_sparse ? 0 : x);
    uint32_t latent = take(walk, layer->latent_v_elems);
    uint32_t key_rotated = take(walk, rope);
    drop(walk, both);
    uint32_t key = take(walk, layer->k_elems);
    drop(walk, latent);
    drop(walk, key_rotated);
    drop(walk, key);
    uint32_t mask = is_sparse ? choose_cells(walk, layer, x, low) : 0;
    uint32_t sums;
    if (walk->request->no_flash_attention) {
        uint64_t cells = cells_of(walk, layer);
        uint64_t streams = walk->request->is_unified ? 1 : walk->slots;
        uint32_t values = pack_take(&walk->pack, layer->latent_v_elems, cells * streams, F16);
        uint32_t scores = become(walk, queries, cells * layer->heads);
        drop(walk, mask);
        sums = take(walk, inside);
        drop(walk, values);
        drop(walk, scores);
    } else {
        sums = become(walk, queries, inside);
        drop(walk, mask);
    }
    uint32_t values = become(walk, sums, layer->full_v_elems);
    return become(walk, values, layer->full_v_elems);
}

/* ---- recurrent layers ------------------------------------------------------------------------------- */

static uint32_t take_states(struct walk *walk, uint64_t elems)
{
    return pack_take(&walk->pack, elems, walk->slots, F32);
}

/* A convolution's input: the positions kept and the new ones. */
static uint32_t convolve(struct walk *walk, uint32_t kept, uint32_t new, uint64_t channels, uint64_t conv_elems)
{
    uint64_t rows = channels > 0 ? walk->rows + walk->slots * conv_elems / channels : 0;
    uint32_t input = pack_take(&walk->pack, channels, rows, F32);
    drop(walk, kept);
    drop(walk, new);
    return input;
}

static uint32_t run_delta(struct walk *walk, const struct shape_layer *layer, uint32_t x)
{
    const uint32_t *n = walk->shape->number;
    uint64_t kernel = most(n[SHAPE_SSM_CONV], n[SHAPE_LINEAR_CONV]);
    uint64_t channels = kernel > 1 ? layer->conv_elems / (kernel - 1) : 0;
    uint64_t inner = most(n[SHAPE_SSM_INNER], (uint64_t)n[SHAPE_LINEAR_V_HEADS] * n[SHAPE_LINEAR_V_DIM]);
    uint64_t keys = channels > inner ? (channels - inner) / 2 : 0;
    uint64_t heads = most(most(n[SHAPE_SSM_HEADS], n[SHAPE_LINEAR_V_HEADS]), 1);
    uint32_t kept = take_states(walk, layer->conv_elems);
    uint32_t mixed = take(walk, channels);
    uint32_t input = convolve(walk, kept, mixed, channels, layer->conv_elems);
    uint32_t state = take_states(walk, layer->state_elems);
    uint32_t conv = become(walk, input, channels);
    uint32_t q = take(walk, keys);
    q = does(walk, GRAPH_REPEATS_KEYS) ? become(walk, q, inner) : q;
    uint32_t k = take(walk, keys);
    k = does(walk, GRAPH_REPEATS_KEYS) ? become(walk, k, inner) : k;
    uint32_t decay = take(walk, heads);
    uint32_t beta = take(walk, heads);
    uint64_t rows = walk->rows + (inner > 0 ? walk->slots * layer->state_elems / inner : 0);
    uint32_t out = pack_take(&walk->pack, inner, rows, F32);
    drop(walk, q);
    drop(walk, k);
    drop(walk, conv);
    drop(walk, decay);
    drop(walk, beta);
    drop(walk, state);
    uint32_t normed = become(walk, out, inner);
    uint32_t gate = take(walk, inner);
    drop(walk, x);
    drop(walk, become(walk, gate, inner));
    return normed;
}

static uint32_t run_mamba(struct walk *walk, const struct shape_layer *layer, uint32_t x)
{
    const uint32_t *n = walk->shape->number;
    uint64_t kernel = n[SHAPE_SSM_CONV];
    uint64_t channels = kernel > 1 ? layer->conv_elems / (kernel - 1) : 0;
    uint64_t state = most(n[SHAPE_SSM_STATE], 1);
    uint64_t inner = layer->state_elems / state;
    bool grouped = channels > inner; /* the second kind */
    uint32_t kept = take_states(walk, layer->conv_elems);
    uint32_t both = take(walk, channels + inner + (grouped ? n[SHAPE_SSM_HEADS] : 0));
    drop(walk, x);
    uint32_t input = convolve(walk, kept, 0, channels, layer->conv_elems);
    uint32_t conv = become(walk, input, channels);
    uint32_t small = grouped ? 0 : take(walk, n[SHAPE_SSM_HEADS] + 2 * state);
    uint32_t step = take(walk, grouped ? n[SHAPE_SSM_HEADS] : inner);
    uint64_t rows = walk->rows + (inner > 0 ? walk->slots * layer->state_elems / inner : 0);
    uint32_t out = pack_take(&walk->pack, inner, rows, F32);
    drop(walk, small);
    drop(walk, step);
    uint32_t gate = take(walk, inner);
    drop(walk, both);
    drop(walk, out); /* added where the convolution's output was */
    uint32_t gated = take(walk, inner);
    drop(walk, gate);
    drop(walk, conv);
    return gated;
}

static uint32_t run_conv(struct walk *walk, const struct shape_layer *layer, uint32_t x)
{
    uint32_t kept = take_states(walk, layer->conv_elems);
    uint32_t three = become(walk, x, 3 * walk->hidden);
    uint32_t product = take(walk, walk->hidden);
    uint32_t input = convolve(walk, kept, product, walk->hidden, layer->conv_elems);
    uint32_t conv = become(walk, input, walk->hidden);
    drop(walk, three);
    return conv;
}

/* What the shapes here do not tell apart: states beside projections of the same width. */
static uint32_t run_other(struct walk *walk, const struct shape_layer *layer, uint32_t x)
{
    uint64_t inner = most(layer->conv_elems / 3, walk->hidden);
    uint32_t kept = take_states(walk, layer->conv_elems);
    uint32_t state = take_states(walk, layer->state_elems);
    uint32_t mixed = take(walk, inner);
    uint32_t more = take(walk, inner);
    uint32_t out = take(walk, inner);
    drop(walk, x);
    drop(walk, kept);
    drop(walk, state);
    drop(walk, mixed);
    drop(walk, more);
    return out;
}

/* ---- feed-forward ----------------------------------------------------------------------------------- */

static uint32_t run_gated(struct walk *walk, uint32_t x, uint64_t width, uint64_t out)
{
    uint32_t gate = take(walk, width);
    uint32_t up = take(walk, width);
    drop(walk, x);
    uint32_t both = take(walk, width);
    drop(walk, gate);
    drop(walk, up);
    return become(walk, both, out);
}

/* x: what the router reads; it stays for experts that are shared. */
static uint32_t run_experts(struct walk *walk, const struct shape_layer *layer, uint32_t x, bool stays)
{
    const uint32_t *n = walk->shape->number;
    uint64_t top_k = most(n[SHAPE_TOP_K], 1);
    uint64_t inside = n[SHAPE_EXPERT_HIDDEN] > 0 ? n[SHAPE_EXPERT_HIDDEN] : walk->hidden;
    uint64_t width = does(walk, GRAPH_DENSE_TOO) ? n[SHAPE_EXPERT_FFN] : layer->ffn;
    bool is_biased = walk->shape->row != NULL && (walk->shape->row->flags & SHAPE_ROUTER_BIAS) != 0;
    uint32_t scores = take(walk, n[SHAPE_EXPERTS]);
    if (does(walk, GRAPH_DENSE_TOO)) {
        drop(walk, x);
        x = 0;
    }
    uint32_t biased = is_biased || does(walk, GRAPH_WEIGHS_FIRST) ? take(walk, n[SHAPE_EXPERTS]) : 0;
    uint32_t order = take(walk, n[SHAPE_EXPERTS]);
    drop(walk, biased);
    uint32_t weights = take(walk, top_k);
    drop(walk, scores);
    uint32_t own = 0;
    if (does(walk, GRAPH_DENSE_TOO)) {
        own = take(walk, walk->hidden);
    } else if (does(walk, GRAPH_WEIGHS_FIRST)) {
        own = take(walk, top_k * walk->hidden);
    }
    uint32_t gate = take(walk, top_k * width);
    uint32_t up = take(walk, top_k * width);
    drop(walk, stays ? 0 : x);
    drop(walk, own);
    uint32_t both = take(walk, top_k * width);
    drop(walk, gate);
    drop(walk, up);
    uint32_t down = take(walk, top_k * inside);
    drop(walk, both);
    drop(walk, order);
    drop(walk, weights);
    return become(walk, down, inside);
}

static uint32_t feed_forward(struct walk *walk, const struct shape_layer *layer, uint32_t x)
{
    const uint32_t *n = walk->shape->number;
    if (!layer->is_moe) {
        return run_gated(walk, x, layer->ffn, walk->hidden);
    }
    if (does(walk, GRAPH_DENSE_TOO)) {
        uint32_t routed = run_experts(walk, layer, x, false);
        uint32_t dense = run_gated(walk, take(walk, walk->hidden), layer->ffn, walk->hidden);
        drop(walk, routed);
        return dense;
    }
    uint64_t shared = most(n[SHAPE_SHARED_FFN], (uint64_t)n[SHAPE_SHARED_EXPERTS] * layer->ffn);
    if (does(walk, GRAPH_WEIGHS_FIRST) && shared == 0) {
        shared = layer->ffn;
    }
    uint32_t out = run_experts(walk, layer, x, shared > 0);
    bool is_gated = does(walk, GRAPH_SHARED_GATE); /* by a number for each token, made last */
    drop(walk, shared > 0 ? run_gated(walk, is_gated ? 0 : x, shared, walk->hidden) : 0);
    drop(walk, is_gated ? x : 0);
    return out;
}

/* ---- the whole -------------------------------------------------------------------------------------- */

static uint32_t mix(struct walk *walk, const struct shape_layer *layer, uint32_t x)
{
    if (layer->cache == SHAPE_LATENT) {
        return attend_latent(walk, layer, x);
    }
    if (layer->cache != SHAPE_NO_CACHE) {
        return attend(walk, layer, x);
    }
    switch (layer->state) {
    case SHAPE_DELTA:
        return run_delta(walk, layer, x);
    case SHAPE_MAMBA:
        return run_mamba(walk, layer, x);
    case SHAPE_CONV:
        return run_conv(walk, layer, x);
    case SHAPE_NO_STATE:
    case SHAPE_KDA:
    case SHAPE_LIGHTNING:
    case SHAPE_RWKV:
    case SHAPE_COMPRESSOR:
    default:
        return run_other(walk, layer, x);
    }
}

static void drop_masks(struct walk *walk, uint32_t i)
{
    for (int kind = 0; kind < 2; kind++) {
        if (walk->last_user[kind] == i) {
            drop(walk, walk->masks[kind]);
            drop(walk, walk->indexes[kind]);
            drop(walk, walk->lists);
            walk->lists = 0;
        }
    }
}

/* The sum of a layer's output and the residual takes the place of one of them. */
static void add_output(struct walk *walk, uint32_t out)
{
    if (does(walk, GRAPH_ONTO_RESIDUAL)) {
        drop(walk, out);
        return;
    }
    drop(walk, walk->residual == walk->first ? 0 : walk->residual);
    walk->residual = out;
}

/* Attention's input is the feed-forward's too, and both are added at the end. */
static void run_parallel(struct walk *walk, uint32_t i)
{
    const struct shape_layer *layer = &walk->shape->layers[i];
    uint32_t x = take(walk, walk->hidden);
    uint32_t mixed = attend(walk, layer, x);
    drop_masks(walk, i);
    if (i + 1 == walk->shape->count) {
        uint64_t all = walk->rows;
        walk->rows = walk->outputs;
        x = become(walk, x, walk->hidden);
        uint32_t out = run_gated(walk, x, layer->ffn, walk->hidden);
        walk->residual = become(walk, walk->residual, walk->hidden);
        drop(walk, walk->residual);
        walk->residual = out;
        walk->rows = all;
        uint32_t more = become(walk, mixed, walk->hidden);
        walk->rows = walk->outputs;
        drop(walk, become(walk, more, walk->hidden));
        return;
    }
    add_output(walk, run_gated(walk, x, layer->ffn, walk->hidden));
    drop(walk, become(walk, mixed, walk->hidden));
}

/* An embedding for each layer, added after its feed-forward; made of the first layer's input when first needed. */
static void add_per_layer(struct walk *walk, uint32_t i)
{
    uint64_t width = walk->shape->number[SHAPE_PLE_DIM];
    uint64_t all = width * walk->shape->count;
    uint32_t gate = take(walk, width);
    if (i == 0) {
        uint32_t projected = become(walk, take(walk, all), all);
        drop(walk, walk->first);
        drop(walk, walk->per_layer);
        walk->per_layer = become(walk, projected, all);
        walk->first = 0;
    }
    uint32_t out = become(walk, gate, walk->hidden);
    drop(walk, out);
    if (i + 1 == walk->shape->count) {
        drop(walk, walk->per_layer);
    }
}

static void run_layer(struct walk *walk, uint32_t i)
{
    const struct shape_layer *layer = &walk->shape->layers[i];
    uint32_t out = 0;
    if (does(walk, GRAPH_PARALLEL) && layer->cache != SHAPE_NO_CACHE && layer->cache != SHAPE_LATENT) {
        run_parallel(walk, i);
        return;
    }
    if (layer->cache != SHAPE_NO_CACHE || layer->state != SHAPE_NO_STATE) {
        uint64_t indexed = layer->index_ratio > 0 ? walk->cells[LLAMA_PART_INDEX] : 0;
        uint64_t heads = (uint64_t)walk->shape->number[SHAPE_INDEX_HEADS] * walk->request->build->index_copies;
        uint32_t scores = pack_take(&walk->pack, indexed, walk->rows, heads * F32);
        uint32_t mixed = mix(walk, layer, take(walk, walk->hidden));
        drop(walk, scores);
        drop_masks(walk, i);
        out = become(walk, mixed, walk->hidden);
    }
    if (i + 1 == walk->shape->count && !does(walk, GRAPH_LATE_ROWS)) {
        walk->rows = walk->outputs;
        out = out != 0 ? become(walk, out, walk->hidden) : 0;
        walk->residual = become(walk, walk->residual, walk->hidden);
    }
    if (out != 0 && layer->state == SHAPE_DELTA) {
        drop(walk, out); /* it was seen in another form, so that the sum takes the residual's place */
    } else if (out != 0) {
        add_output(walk, out);
    }
    if (layer->ffn > 0) {
        add_output(walk, feed_forward(walk, layer, take(walk, walk->hidden)));
    }
    if (walk->shape->number[SHAPE_PLE_DIM] > 0) {
        add_per_layer(walk, i);
    }
}

static void take_inputs(struct walk *walk)
{
    const struct shape *shape = walk->shape;
    uint64_t mask_bytes = walk->request->no_flash_attention ? F32 : walk->request->build->mask_bytes;
    for (uint32_t i = 0; i < shape->count; i++) {
        if (shape->layers[i].cache != SHAPE_NO_CACHE) {
            walk->last_user[is_windowed(&shape->layers[i])] = i;
        }
    }
    /* For callers that hand in embeddings; nothing reads it. On a device it is a margin: some of them order the graph
     * anew, which may leave a hole as large. */
    if (walk->request->build->input_copies > 1) {
        (void)take(walk, walk->hidden);
    }
    walk->index_top_k = most(shape->number[SHAPE_INDEX_TOP_K], 2048);
    for (uint32_t i = 0; i < shape->count; i++) {
        const struct shape_layer *layer = &shape->layers[i];
        if (layer->cache == SHAPE_LATENT && layer->index_elems > 0) {
            uint64_t cells = cells_of(walk, layer);
            walk->chosen += walk->index_top_k < cells ? walk->index_top_k : cells;
        }
    }
    /* A list of cells for every layer, and the indexers' own mask. */
    walk->lists = take(walk, walk->chosen);
    (void)pack_take(&walk->pack, walk->chosen > 0 ? walk->cells[LLAMA_PART_INDEX] : 0, walk->ubatch, mask_bytes);
    for (int kind = 0; kind < 2; kind++) {
        uint64_t cells = kind != 0 ? walk->cells[LLAMA_PART_WINDOW] + walk->cells[LLAMA_PART_COMPRESSED]
                                   : most(walk->cells[LLAMA_PART_FULL], walk->cells[LLAMA_PART_LATENT]);
        walk->masks[kind] = pack_take(&walk->pack, cells, walk->ubatch, mask_bytes);
        /* Values lie transposed without flash attention, and each element has its own index. */
        if (walk->request->no_flash_attention && walk->request->build->is_indexed && cells > 0) {
            walk->indexes[kind] = pack_take(&walk->pack, walk->widest_v, walk->ubatch, I64);
        }
    }
}

bool llama_graph_bytes(const struct shape *shape, const struct llama_request *request,
                       const struct llama_report *report, uint64_t *bytes)
{
    struct walk walk = {.shape = shape, .request = request, .hidden = shape->number[SHAPE_HIDDEN]};
    walk.slots = request->slots > 0 ? request->slots : 1;
    walk.ubatch = request->ubatch_tokens > 0 ? request->ubatch_tokens : 512;
    walk.outputs = request->outputs > 0 ? request->outputs : walk.slots;
    walk.outputs = walk.outputs < walk.ubatch ? walk.outputs : walk.ubatch;
    walk.rows = walk.ubatch;
    walk.last_user[0] = walk.last_user[1] = UINT32_MAX;
    for (int part = 0; part < LLAMA_PARTS; part++) {
        walk.cells[part] = report->part[part].cells / (request->is_unified ? 1 : walk.slots);
    }
    for (uint32_t i = 0; i < shape->count; i++) {
        walk.widest_v = most(walk.widest_v, shape->layers[i].cache == SHAPE_LATENT ? 0 : shape->layers[i].v_elems);
    }
    pack_begin(&walk.pack, request->is_device ? DEVICE_ALIGN : HOST_ALIGN);
    take_inputs(&walk);
    walk.residual = take(&walk, walk.hidden);
    if (shape->number[SHAPE_PLE_DIM] > 0) {
        walk.first = walk.residual;
        (void)take(&walk, walk.hidden); /* a hole that stays */
        walk.per_layer = take(&walk, (uint64_t)shape->number[SHAPE_PLE_DIM] * shape->count);
    }
    for (uint32_t i = 0; i < shape->count; i++) {
        run_layer(&walk, i);
    }
    if (does(&walk, GRAPH_LATE_ROWS)) {
        walk.rows = walk.outputs;
        walk.residual = take(&walk, walk.hidden); /* beside all rows, which are an output */
    }
    if (does(&walk, GRAPH_HIGH_LOGITS) && shape->count > 0) {
        (void)take(&walk, most(shape->number[SHAPE_TOP_K], 1) * shape->layers[0].ffn + walk.hidden);
    }
    /* A root mean square works in place, a layer norm does not. */
    bool copies = does(&walk, GRAPH_LAYER_NORM);
    uint32_t normed = copies ? become(&walk, walk.residual, walk.hidden) : walk.residual;
    /* With low-rank queries there may be a hole of a row each below them. */
    uint64_t hole = shape->number[SHAPE_Q_RANK] > 0 ? walk.hidden : 0;
    (void)become(&walk, normed, shape->number[SHAPE_VOCAB] + hole);
    *bytes = walk.pack.peak;
    return !walk.pack.failed;
}
