/* SPDX-License-Identifier: MIT
 * Reads the trunk in file order: a ring of staging buffers, reads ahead in all of them while one is copied out. */
#include <math.h>

#include "base/checked.h"
#include "forward/weights.h"

berth_status staging_layout(struct arena *arena, uint64_t trunk_bytes, struct staging *out, berth_error *err)
{
    uint64_t bytes = trunk_bytes / 64 / OS_DIRECT_ALIGN * OS_DIRECT_ALIGN;
    bytes = bytes > STAGING_BUFFER_LEAST ? bytes : STAGING_BUFFER_LEAST;
    out->buffer_bytes = bytes < STAGING_BUFFER_BYTES ? bytes : STAGING_BUFFER_BYTES;
    for (int i = 0; i < STAGING_BUFFERS; i++) {
        out->buffers[i] = arena_take(arena, 1, out->buffer_bytes, OS_DIRECT_ALIGN);
    }
    return arena_check(arena, "staging", err);
}

/* A place in the list of reads: which tensor, how far. */
struct cursor {
    uint32_t read; /* place in trunk.order */
    uint64_t done_bytes;
};

/* One staging buffer in use: an aligned span of one file that covers `bytes` of one tensor. */
struct piece {
    struct io_request request;
    struct cursor at;
    uint64_t skip_bytes, bytes;
    berth_error error;
};

struct loader {
    const struct trunk_load *load;
    struct piece pieces[STAGING_BUFFERS];
    struct cursor next;
    uint64_t done_bytes;
};

static const struct trunk_read *read_at(const struct trunk *trunk, uint32_t place)
{
    return &trunk->reads[trunk->order[place]];
}

/* Starts the next piece in buffer `slot`; false when nothing is left. A piece ends on a whole block of the tensor's
 * format, so that it can be widened on its own. */
static bool start_piece(struct loader *l, uint32_t slot)
{
    const struct trunk *trunk = l->load->trunk;
    while (l->next.read < trunk->reads_count && l->next.done_bytes == read_at(trunk, l->next.read)->bytes) {
        l->next = (struct cursor){l->next.read + 1, 0};
    }
    if (l->next.read >= trunk->reads_count) {
        return false;
    }
    const struct trunk_read *read = read_at(trunk, l->next.read);
    struct piece *piece = &l->pieces[slot];
    uint64_t from = read->offset + l->next.done_bytes;
    uint64_t left = read->bytes - l->next.done_bytes;
    uint64_t start = from & ~(uint64_t)(OS_DIRECT_ALIGN - 1);
    uint64_t room = l->load->staging->buffer_bytes - (from - start);
    uint64_t block = quant_row((enum dtype)read->dtype)->block_bytes;
    uint64_t bytes = left <= room ? left : room / block * block;
    piece->at = l->next;
    piece->skip_bytes = from - start;
    piece->bytes = bytes;
    piece->request = (struct io_request){.offset = start,
                                         .bytes = from - start + bytes,
                                         .buffer = l->load->staging->buffers[slot],
                                         .file = read->file,
                                         .err = &piece->error};
    l->next.done_bytes += bytes;
    piece->error.status = BERTH_OK;
    io_submit(l->load->io, &piece->request);
    return true;
}

static void copy_piece(const struct loader *l, const struct piece *piece)
{
    const struct trunk_read *read = read_at(l->load->trunk, piece->at.read);
    const unsigned char *from = (const unsigned char *)piece->request.buffer + piece->skip_bytes;
    const struct quant_row *row = quant_row((enum dtype)read->dtype);
    if (!read->widen) {
        memcpy((unsigned char *)read->to + piece->at.done_bytes, from, piece->bytes);
        return;
    }
    size_t first = (size_t)(piece->at.done_bytes / row->block_bytes * row->block_elems);
    size_t count = (size_t)(piece->bytes / row->block_bytes * row->block_elems);
    row->dequantise(from, (float *)read->to + first, count);
}

static bool piece_is_finite(const struct piece *piece, enum dtype dtype)
{
    const unsigned char *from = (const unsigned char *)piece->request.buffer + piece->skip_bytes;
    const struct quant_row *row = quant_row(dtype);
    for (uint64_t at = 0; at < piece->bytes; at += row->block_bytes) {
        float value;
        row->dequantise(from + at, &value, 1);
        if (!isfinite(value)) {
            return false;
        }
    }
    return true;
}

static berth_status finish_piece(struct loader *l, uint32_t slot, berth_error *err)
{
    struct piece *piece = &l->pieces[slot];
    berth_status status = io_wait(l->load->io, &piece->request);
    const struct trunk_read *read = read_at(l->load->trunk, piece->at.read);
    if (status != BERTH_OK) {
        char name[TENSOR_NAME_MAX];
        family_tensor_name(l->load->family, l->load->format, (enum role)read->role, read->layer, 0, name);
        if (err != NULL) {
            *err = piece->error;
            error_at_object(err, name, strlen(name));
        }
        return status;
    }
    copy_piece(l, piece);
    if (read->scales && !piece_is_finite(piece, (enum dtype)read->dtype)) {
        char name[TENSOR_NAME_MAX];
        family_tensor_name(l->load->family, l->load->format, (enum role)read->role, read->layer, 0, name);
        error_set(err, BERTH_ERR_FORMAT, "a scale or bias of tensor %s is not finite", name);
        error_at_object(err, name, strlen(name));
        error_at_offset(err, read->offset + piece->at.done_bytes);
        return BERTH_ERR_FORMAT;
    }
    l->done_bytes += piece->bytes;
    if (l->load->progress != NULL &&
        !l->load->progress(l->load->progress_user, "trunk", l->done_bytes, l->load->trunk->stored_bytes)) {
        return error_set(err, BERTH_ERR_CANCELLED, "opening was cancelled");
    }
    return BERTH_OK;
}

berth_status trunk_load(const struct trunk_load *load, berth_error *err)
{
    struct loader l = {.load = load};
    bool busy[STAGING_BUFFERS] = {false};
    berth_status status = BERTH_OK;
    for (uint32_t slot = 0; slot < STAGING_BUFFERS; slot++) {
        busy[slot] = start_piece(&l, slot);
    }
    for (uint32_t slot = 0; busy[slot]; slot = (slot + 1) % STAGING_BUFFERS) {
        berth_status one = finish_piece(&l, slot, status == BERTH_OK ? err : NULL);
        status = status == BERTH_OK ? one : status;
        busy[slot] = status == BERTH_OK && start_piece(&l, slot);
    }
    return status;
}
