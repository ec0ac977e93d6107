/* SPDX-License-Identifier: MIT
 *
 * The parts of a running model and the one function that lays them out. Planning runs it on measuring arenas, opening
 * on carving ones: the plan is the allocation. One arena a plan line.
 */
#ifndef FIT_ENGINE_H
#define FIT_ENGINE_H

#include "experts/residency.h"
#include "fit/spec.h"
#include "forward/forward.h"

/* Everything the layout depends on besides the spec. */
struct engine_dims {
    uint32_t ctx_tokens, chunk_tokens, threads, io_threads;
    berth_kv_type kv_type;
    struct slot_counts slots;
    const char *policy, *io_engine;    /* NULL: defaults */
    struct residency_config residency; /* layers, policy, slots and the model's identity are filled in here */
    uint64_t host_bytes;               /* of the caller's own struct at the start of `tables` */
    bool text_only;
};

struct engine {
    void *host; /* host_bytes, zero */
    struct trunk trunk;
    struct staging staging;
    struct catalog *catalog; /* the cache keeps this address */
    struct expert_formats *formats;
    struct forward forward;
    struct io *io;
    struct pool *pool;
    struct cache *cache;         /* NULL: dense */
    struct residency *residency; /* NULL: dense */
    struct text *text;           /* NULL: no tokenizer */
    struct os_file *files;
    uint32_t files_count;
    struct hparams *hparams; /* a copy that outlives the spec */
};

/* `lines` are all measuring or all carving. When carving, spec->scratch serves as temporary memory. */
berth_status engine_layout(struct arena lines[BERTH_LINE_COUNT], struct spec *spec, const struct engine_dims *dims,
                           struct engine *out, berth_error *err);

/* The model's own numbers of its layers with experts, [hparams.moe_layers]. */
void engine_moe_layers(const struct spec *spec, int64_t *layers);
/* Identity of the model's shape, for its ledger. */
uint64_t engine_fingerprint(const struct spec *spec);

#endif
