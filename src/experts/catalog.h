/* SPDX-License-Identifier: MIT
 * Where each routed expert lies in the files, and which slots can hold it. Knows bytes and ids, not families. */
#ifndef EXPERTS_CATALOG_H
#define EXPERTS_CATALOG_H

#include "memory/arena.h"

/* An expert is three matrices; where their scales (and biases) are tensors of their own, those are parts, too. */
enum {
    EXPERT_GATE = 0,
    EXPERT_UP = 1,
    EXPERT_DOWN = 2,
    EXPERT_PARTS = 3,  /* matrices */
    EXPERT_SCALES = 3, /* + EXPERT_GATE .. EXPERT_DOWN */
    EXPERT_BIASES = 6,
    EXPERT_PARTS_MAX = 9
};
enum { CATALOG_LAYERS_MAX = 4096, EXPERTS_MAX = 4096, SLOT_CLASSES_MAX = 64 };

struct expert_slice {
    uint64_t offset; /* in its file; any alignment */
    uint32_t file;
    uint32_t bytes; /* 0: the family has no such part */
};

/* Distinct sizes of the parts. A slot has room for the page-aligned span that covers each part wherever it starts,
 * so that a direct read lands in place. */
struct slot_class {
    uint32_t part_bytes[EXPERT_PARTS_MAX];
    uint64_t part_offset[EXPERT_PARTS_MAX]; /* room of each part in the slot; where it really starts: catalog_place() */
    uint64_t slot_bytes;
    uint32_t layers;  /* MoE layers of this class */
    uint32_t experts; /* experts of this class, all layers */
};

struct catalog {
    uint32_t layers;             /* MoE layers, numbered 0.. in model order ("moe layer") */
    uint32_t experts;            /* routed experts of each MoE layer */
    uint32_t top_k;              /* selected per token */
    uint32_t parts;              /* of an expert: EXPERT_PARTS or EXPERT_PARTS_MAX */
    struct expert_slice *slices; /* [layers][experts][parts] */
    uint8_t *layer_class;        /* [layers] */
    struct slot_class classes[SLOT_CLASSES_MAX];
    uint32_t classes_count;
};

/* Bytes of a class's parts, without alignment. */
uint64_t slot_class_stored_bytes(const struct slot_class *class);

/* Takes the arrays, for EXPERT_PARTS. The caller fills slices (catalog_slice) and then calls catalog_seal(). */
berth_status catalog_layout(struct arena *arena, uint32_t layers, uint32_t experts, uint32_t top_k, struct catalog *out,
                            berth_error *err);
/* The same for so many parts. */
berth_status catalog_layout_parts(struct arena *arena, uint32_t layers, uint32_t experts, uint32_t top_k,
                                  uint32_t parts, struct catalog *out, berth_error *err);
static inline struct expert_slice *catalog_slice(const struct catalog *catalog, uint32_t layer, uint32_t expert,
                                                 uint32_t part)
{
    return &catalog->slices[((uint64_t)layer * catalog->experts + expert) * catalog->parts + part];
}
/* Computes classes; refuses layers whose experts differ in size, and more than SLOT_CLASSES_MAX classes. */
berth_status catalog_seal(struct catalog *catalog, berth_error *err);

/* How one expert is read into its slot: parts whose aligned spans touch or overlap are one read. Spans are
 * page-aligned, in file order, packed in the slot, and may end up to a page past the end of the file. They fit every
 * slot of at least the class's slot_bytes. */
struct expert_span {
    uint64_t offset, bytes; /* in the file */
    uint64_t slot_offset;
    uint32_t file;
};
struct expert_place {
    struct expert_span spans[EXPERT_PARTS_MAX];
    uint32_t spans_count;
    uint64_t part_offset[EXPERT_PARTS_MAX]; /* first byte of each part in the slot */
};
void catalog_place(const struct catalog *catalog, uint32_t layer, uint32_t expert, struct expert_place *out);

/* Bytes of slots for one cycle (layers x top_k), for the neediest layer (top_k slots of the largest class; shared by
 * all), and for all experts. */
uint64_t catalog_cycle_bytes(const struct catalog *catalog);
uint64_t catalog_hard_floor_bytes(const struct catalog *catalog);
uint64_t catalog_all_bytes(const struct catalog *catalog);
/* Stored bytes: of one token's experts, and of all. */
uint64_t catalog_token_bytes(const struct catalog *catalog);
uint64_t catalog_stored_bytes(const struct catalog *catalog);

/* How many slots of each class `bytes` affords: in proportion to layers, never more than a class has experts, never
 * under the floors. More bytes never give fewer slots. */
struct slot_counts {
    uint32_t count[SLOT_CLASSES_MAX];
    uint64_t bytes; /* what they take */
    uint64_t total;
    bool shared; /* below one cycle: all slots have the largest class and every layer shares them, no per-layer floor */
};
/* BERTH_ERR_BUDGET below the hard floor. */
berth_status catalog_slots(const struct catalog *catalog, uint64_t bytes, struct slot_counts *out, berth_error *err);

#endif
