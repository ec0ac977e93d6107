/* SPDX-License-Identifier: MIT
 *
 * Engine row "uring": the calling thread hands pieces to an io_uring and picks up completions when it submits, asks or
 * waits; there are no reader threads. Buffers are read in place and not registered: slots are far larger than the
 * memory an ordinary user may lock, and a registered staging ring would cost a copy.
 *
 * Whatever the ring cannot do (a refused or short read, an error, injected faults) is read again in the plain way, so
 * results and error texts are those of os_file_read(). */
#include "experts/io_engine.h"
#include "os/ring.h"

/* Enough to keep a device busy while the caller computes; pieces beyond it wait in the FIFO. */
enum { RING_PIECES = 128, RING_BYTES = 64 << 20 };

struct piece {
    struct io_request *request; /* NULL: free */
    uint64_t done, bytes, wanted;
    uint64_t order; /* of pushing */
};

struct uring {
    struct io_config config;
    struct os_ring ring;
    struct io_request *first, *last; /* requests with pieces not yet taken */
    struct piece pieces[RING_PIECES];
    uint32_t free[RING_PIECES]; /* stack of free pieces */
    uint32_t free_count;
    uint64_t flying_bytes;
    uint64_t pushed; /* pieces, ever */
};

static berth_status uring_layout(struct arena *tables, struct arena *stacks, const struct io_config *config,
                                 void **state, berth_error *err)
{
    (void)stacks;
    (void)err;
    struct uring *uring = ARENA_NEW(tables, struct uring, 1);
    /* Not touched: pays for the ring, which the kernel allocates and charges to us. */
    (void)arena_take(tables, 1, os_ring_bytes(RING_PIECES), 0);
    if (uring != NULL) {
        *uring = (struct uring){.config = *config, .ring.fd = -1};
    }
    *state = uring;
    return BERTH_OK;
}

/* Injected faults live in the plain path. */
static bool has_read_hook(const struct io_config *config)
{
    for (uint32_t i = 0; i < config->files_count; i++) {
        if (config->files[i].hooks != NULL && config->files[i].hooks->read_at != NULL) {
            return true;
        }
    }
    return false;
}

static berth_status uring_start(void *state, berth_error *err)
{
    struct uring *uring = state;
    if (has_read_hook(&uring->config)) {
        return error_set(err, BERTH_ERR_UNSUPPORTED, "reads are hooked");
    }
    TRY(os_ring_open(&uring->ring, RING_PIECES, err));
    uring->first = uring->last = NULL;
    uring->flying_bytes = uring->pushed = 0;
    uring->free_count = RING_PIECES;
    for (uint32_t i = 0; i < RING_PIECES; i++) {
        uring->free[i] = RING_PIECES - 1 - i;
        uring->pieces[i].request = NULL;
    }
    return BERTH_OK;
}

/* The piece is over: `good`, or read in the plain way now. */
static void piece_finish(struct uring *uring, uint32_t index, bool good)
{
    struct piece *piece = &uring->pieces[index];
    struct io_request *request = piece->request;
    berth_error err;
    if (!good || os_file_unchanged(&uring->config.files[request->file], &err) != BERTH_OK) {
        berth_status status = io_read_piece(&uring->config, request, piece->done, piece->bytes, &err);
        if (status != BERTH_OK) {
            io_request_fail(request, status, &err);
        }
    }
    uring->flying_bytes -= piece->bytes;
    piece->request = NULL;
    uring->free[uring->free_count++] = index;
    request->pieces_left--;
}

static void collect(struct uring *uring)
{
    uint64_t tag;
    int32_t result;
    while (os_ring_pop(&uring->ring, &tag, &result)) {
        const struct piece *piece = &uring->pieces[tag];
        piece_finish(uring, (uint32_t)tag, result >= 0 && (uint64_t)result >= piece->wanted);
    }
}

/* Moves pieces from the FIFO to the ring, as far as there is room. */
static void fill(struct uring *uring)
{
    while (uring->first != NULL && uring->free_count > 0 && uring->flying_bytes < RING_BYTES) {
        struct io_request *request = uring->first;
        uint32_t index = uring->free[uring->free_count - 1];
        struct piece *piece = &uring->pieces[index];
        uint64_t done = request->taken_bytes;
        uint64_t bytes = io_piece_bytes(request, done);
        if (!os_ring_push_read(&uring->ring, &uring->config.files[request->file], request->offset + done,
                               (uint32_t)bytes, (unsigned char *)request->buffer + done, index)) {
            return;
        }
        *piece = (struct piece){.request = request,
                                .done = done,
                                .bytes = bytes,
                                .wanted = io_piece_wanted(&uring->config, request, done, bytes),
                                .order = uring->pushed++};
        uring->free_count--;
        uring->flying_bytes += bytes;
        request->taken_bytes += bytes;
        if (request->taken_bytes == request->bytes) {
            uring->first = request->next;
            uring->last = uring->first == NULL ? NULL : uring->last;
        }
    }
}

/* Sends, waits if asked to, collects. When the kernel refuses, pieces that it has not taken are read here. */
static void turn(struct uring *uring, bool wait)
{
    if (!os_ring_enter(&uring->ring, wait) && uring->ring.pushed > 0) {
        uint64_t first_unsent = uring->pushed - uring->ring.pushed;
        os_ring_take_back(&uring->ring);
        for (uint32_t i = 0; i < RING_PIECES; i++) {
            if (uring->pieces[i].request != NULL && uring->pieces[i].order >= first_unsent) {
                piece_finish(uring, i, false);
            }
        }
    }
    collect(uring);
}

static void uring_submit(void *state, struct io_request *request)
{
    struct uring *uring = state;
    if (uring->last == NULL) {
        uring->first = request;
    } else {
        uring->last->next = request;
    }
    uring->last = request;
    fill(uring);
    turn(uring, false);
}

static berth_status uring_wait(void *state, struct io_request *request)
{
    struct uring *uring = state;
    collect(uring);
    while (request->pieces_left > 0) {
        fill(uring);
        turn(uring, true);
    }
    fill(uring);
    turn(uring, false);
    return request->status;
}

static bool uring_done(void *state, const struct io_request *request)
{
    struct uring *uring = state;
    if (request->pieces_left > 0) {
        fill(uring);
        turn(uring, false);
    }
    return request->pieces_left == 0;
}

static void uring_stop(void *state)
{
    struct uring *uring = state;
    if (uring->ring.fd < 0) {
        return;
    }
    while (uring->free_count < RING_PIECES || uring->first != NULL) {
        fill(uring);
        turn(uring, true);
    }
    os_ring_close(&uring->ring);
}

const struct io_engine io_engine_uring = {.name = "uring",
                                          .direct = true,
                                          .fallback = &io_engine_pread,
                                          .layout = uring_layout,
                                          .start = uring_start,
                                          .stop = uring_stop,
                                          .submit = uring_submit,
                                          .wait = uring_wait,
                                          .done = uring_done};
