/* SPDX-License-Identifier: MIT
 * Best fit with a growing end: fit/llama_pack.h. */
#include "fit/llama_pack.h"

#include "base/checked.h"

static const uint64_t ENDLESS = UINT64_MAX / 4;

void pack_begin(struct pack *pack, uint64_t align)
{
    *pack = (struct pack){.hole_count = 1, .align = align};
    pack->holes[0].bytes = ENDLESS;
}

static void remove_hole(struct pack *pack, uint32_t at)
{
    for (uint32_t i = at; i + 1 < pack->hole_count; i++) {
        pack->holes[i] = pack->holes[i + 1];
    }
    pack->hole_count--;
}

uint32_t pack_take(struct pack *pack, uint64_t width, uint64_t rows, uint64_t bytes)
{
    uint64_t size;
    uint32_t best = pack->hole_count - 1;
    uint32_t tensor = 1;
    if (u64_mul_overflows(width, rows, &size) || u64_mul_overflows(size, bytes, &size) ||
        u64_round_up_overflows(size, pack->align, &size)) {
        pack->failed = true;
        return 0;
    }
    if (size == 0) {
        return 0;
    }
    for (uint32_t i = 0; i + 1 < pack->hole_count; i++) {
        bool better = best == pack->hole_count - 1 || pack->holes[i].bytes <= pack->holes[best].bytes;
        best = pack->holes[i].bytes >= size && better ? i : best;
    }
    while (tensor < PACK_TENSORS && pack->tensors[tensor].bytes > 0) {
        tensor++;
    }
    struct pack_span *hole = &pack->holes[best];
    if (tensor == PACK_TENSORS || hole->bytes < size) {
        pack->failed = true;
        return 0;
    }
    pack->tensors[tensor] = (struct pack_span){hole->offset, size};
    hole->offset += size;
    hole->bytes -= size;
    pack->peak = hole->offset > pack->peak ? hole->offset : pack->peak;
    if (hole->bytes == 0) {
        remove_hole(pack, best);
    }
    return tensor;
}

static void give_back(struct pack *pack, struct pack_span span)
{
    uint32_t at = 0;
    while (at < pack->hole_count && pack->holes[at].offset < span.offset) {
        at++;
    }
    bool joins_before = at > 0 && pack->holes[at - 1].offset + pack->holes[at - 1].bytes == span.offset;
    bool joins_after = at < pack->hole_count && span.offset + span.bytes == pack->holes[at].offset;
    if (joins_before) {
        pack->holes[at - 1].bytes += span.bytes;
        if (joins_after) {
            pack->holes[at - 1].bytes += pack->holes[at].bytes;
            remove_hole(pack, at);
        }
        return;
    }
    if (joins_after) {
        pack->holes[at].offset = span.offset;
        pack->holes[at].bytes += span.bytes;
        return;
    }
    if (pack->hole_count == PACK_HOLES) {
        pack->failed = true;
        return;
    }
    for (uint32_t i = pack->hole_count; i > at; i--) {
        pack->holes[i] = pack->holes[i - 1];
    }
    pack->holes[at] = span;
    pack->hole_count++;
}

void pack_drop(struct pack *pack, uint32_t tensor)
{
    struct pack_span span = pack->tensors[tensor];
    if (tensor > 0 && span.bytes > 0) {
        pack->tensors[tensor].bytes = 0;
        give_back(pack, span);
    }
}
