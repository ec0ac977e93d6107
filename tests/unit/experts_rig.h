/* SPDX-License-Identifier: MIT
 *
 * What the tests of the expert cache share: models in files of known bytes, an independent model of the rules in
 * cache.h (a list searched from end to end, no shared code), and visits that compare the two. Every expert's bytes are
 * checked whenever it is handed out. Nothing here looks at the clock. Include once a program, with _GNU_SOURCE defined.
 */
#ifndef UNIT_EXPERTS_RIG_H
#define UNIT_EXPERTS_RIG_H

#include <errno.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "experts/cache.h"
#include "os/thread.h"

enum { PAGE = 4096, FILES_MAX = 2, LAYERS_MAX = 8, EXPERTS_HERE_MAX = 40 };

static char folder[64];

/* ---- random numbers ------------------------------------------------------------------------------------- */

static uint64_t random_state;

static inline uint32_t random_below(uint32_t n)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (uint32_t)((random_state >> 16) % n);
}

/* ---- a model in files ----------------------------------------------------------------------------------- */

struct fake {
    const char *name;
    uint32_t layers, experts, top_k;
    uint32_t part_bytes[2][EXPERT_PARTS]; /* of even and odd layers */
    bool touching;                        /* an expert's parts lie together, experts in shuffled order */
    uint32_t files;
};

static const struct fake fakes[] = {
    {"three tensors, one class", 4, 10, 3, {{1100, 1100, 3000}, {1100, 1100, 3000}}, false, 1},
    {"two classes, two files", 5, 8, 2, {{900, 900, 5000}, {9000, 9000, 4096}}, false, 2},
    {"parts that touch, shuffled", 3, 12, 4, {{700, 700, 4100}, {700, 700, 4100}}, true, 1},
    {"no gate part", 3, 6, 2, {{0, 5000, 4096}, {0, 5000, 4096}}, false, 1},
    {"one selected of many", 3, 9, 1, {{300, 300, 300}, {8000, 300, 300}}, false, 1},
    {"one layer", 1, 16, 4, {{4096, 4096, 8192}, {4096, 4096, 8192}}, true, 1},
    {"more experts than fetches", 2, CACHE_FETCHES_MAX + 8, 3, {{400, 400, 600}, {400, 400, 600}}, true, 1},
};
enum { FAKES_COUNT = sizeof fakes / sizeof fakes[0] };

static inline unsigned char byte_at(uint32_t file, uint64_t offset)
{
    uint64_t mixed = (offset + 1) * 0x9e3779b97f4a7c15ull + file * 77777u;
    return (unsigned char)(mixed >> 56 ^ mixed >> 29);
}

struct rig {
    const struct fake *fake;
    struct catalog catalog;
    struct os_file files[FILES_MAX];
    struct io *io;
    struct cache *cache;
    struct slot_counts counts;
    void *catalog_memory, *tables_memory, *stacks_memory, *slots_memory;
    uint64_t tables_bytes;
    struct os_hooks hooks;
};

/* Places every slice; the last byte of each file is the last byte of a slice. */
static inline void place_slices(struct rig *rig, uint64_t file_bytes[FILES_MAX])
{
    const struct fake *fake = rig->fake;
    for (uint32_t f = 0; f < FILES_MAX; f++) {
        file_bytes[f] = 1000 + 17 * f;
    }
    for (uint32_t layer = 0; layer < fake->layers; layer++) {
        const uint32_t *bytes = fake->part_bytes[layer % 2];
        uint32_t file = layer % fake->files;
        uint64_t *end = &file_bytes[file];
        uint32_t cells = fake->experts * EXPERT_PARTS;
        for (uint32_t i = 0; i < cells; i++) {
            uint32_t expert = fake->touching ? (i / EXPERT_PARTS * 7 + 3) % fake->experts : i % fake->experts;
            uint32_t part = fake->touching ? (i + 2) % EXPERT_PARTS : i / fake->experts;
            if (!fake->touching && expert == 0) {
                *end += 9000; /* another tensor */
            }
            *catalog_slice(&rig->catalog, layer, expert, part) =
                (struct expert_slice){.offset = *end, .file = file, .bytes = bytes[part]};
            *end += bytes[part];
        }
    }
}

static inline void write_files(struct rig *rig, const uint64_t file_bytes[FILES_MAX])
{
    for (uint32_t f = 0; f < rig->fake->files; f++) {
        char path[128];
        snprintf(path, sizeof path, "%s/weights-%u", folder, f);
        FILE *file = fopen(path, "wb");
        assert_non_null(file);
        for (uint64_t offset = 0; offset < file_bytes[f]; offset++) {
            fputc(byte_at(f, offset), file);
        }
        fclose(file);
    }
}

static inline void *take(uint64_t bytes)
{
    size_t rounded = (bytes + PAGE) & ~(size_t)(PAGE - 1);
    void *memory = aligned_alloc(PAGE, rounded);
    assert_non_null(memory);
    memset(memory, 0, rounded);
    return memory;
}

static inline void rig_catalog(struct rig *rig, const struct fake *fake)
{
    *rig = (struct rig){.fake = fake};
    struct arena arena;
    arena_measure(&arena);
    assert_int_equal(catalog_layout(&arena, fake->layers, fake->experts, fake->top_k, &rig->catalog, NULL), BERTH_OK);
    uint64_t bytes = arena.used_bytes;
    rig->catalog_memory = take(bytes);
    arena_carve(&arena, rig->catalog_memory, bytes);
    assert_int_equal(catalog_layout(&arena, fake->layers, fake->experts, fake->top_k, &rig->catalog, NULL), BERTH_OK);
    uint64_t file_bytes[FILES_MAX];
    place_slices(rig, file_bytes);
    assert_int_equal(catalog_seal(&rig->catalog, NULL), BERTH_OK);
    write_files(rig, file_bytes);
}

static inline void layout_both(struct rig *rig, struct arena *tables, struct arena *stacks, struct arena *slots,
                               uint32_t threads, const char *engine)
{
    struct io_config config = {.files = rig->files,
                               .files_count = rig->fake->files,
                               .threads = threads,
                               .queue_max = CACHE_REQUESTS_MAX,
                               .engine = engine};
    berth_error err;
    if (io_layout(tables, stacks, &config, &rig->io, &err) != BERTH_OK ||
        cache_layout(tables, slots, &rig->catalog, &rig->counts, "lru", rig->io, &rig->cache, &err) != BERTH_OK) {
        fail_msg("%s", err.message);
    }
}

/* bytes: for the slots. Opens, measures, carves, starts. */
static inline void rig_start_engine(struct rig *rig, uint64_t bytes, uint32_t threads, bool direct, const char *engine)
{
    for (uint32_t f = 0; f < rig->fake->files; f++) {
        char path[128];
        snprintf(path, sizeof path, "%s/weights-%u", folder, f);
        assert_int_equal(os_file_open(&rig->files[f], path, direct, &rig->hooks, NULL), BERTH_OK);
    }
    assert_int_equal(catalog_slots(&rig->catalog, bytes, &rig->counts, NULL), BERTH_OK);
    struct arena measured[3];
    struct arena carved[3];
    for (int i = 0; i < 3; i++) {
        arena_measure(&measured[i]);
    }
    layout_both(rig, &measured[0], &measured[1], &measured[2], threads, engine);
    assert_null(rig->cache);
    assert_int_equal(measured[1].used_bytes, (uint64_t)threads * OS_STACK_BYTES);
    assert_int_equal(measured[2].used_bytes, rig->counts.bytes);
    arena_carve(&carved[0], rig->tables_memory = take(measured[0].used_bytes), measured[0].used_bytes);
    arena_carve(&carved[1], rig->stacks_memory = take(measured[1].used_bytes), measured[1].used_bytes);
    /* One page too much, to see whether anyone writes there. */
    rig->slots_memory = take(measured[2].used_bytes + PAGE);
    memset(rig->slots_memory, 0xaa, measured[2].used_bytes + PAGE);
    arena_carve(&carved[2], rig->slots_memory, measured[2].used_bytes);
    layout_both(rig, &carved[0], &carved[1], &carved[2], threads, engine);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(measured[i].used_bytes, carved[i].used_bytes);
    }
    assert_int_equal(io_start(rig->io, NULL), BERTH_OK);
}

static inline void rig_start(struct rig *rig, uint64_t bytes, uint32_t threads, bool direct)
{
    rig_start_engine(rig, bytes, threads, direct, NULL);
}

static inline void rig_stop(struct rig *rig)
{
    io_stop(rig->io);
    const unsigned char *past = (const unsigned char *)rig->slots_memory + rig->counts.bytes;
    for (uint32_t i = 0; i < PAGE; i++) {
        assert_int_equal(past[i], 0xaa);
    }
    for (uint32_t f = 0; f < rig->fake->files; f++) {
        os_file_close(&rig->files[f]);
    }
    free(rig->tables_memory);
    free(rig->stacks_memory);
    free(rig->slots_memory);
}

/* ---- the rules again, simply ---------------------------------------------------------------------------- */

struct entry {
    uint32_t layer, expert;
    bool kept; /* of the running visit */
};

struct simulation {
    const struct rig *rig;
    struct entry list[SLOT_CLASSES_MAX][LAYERS_MAX * EXPERTS_HERE_MAX]; /* hot to cold */
    uint32_t used[SLOT_CLASSES_MAX];
    uint64_t hits[2], misses[2], evictions;
};

static inline uint32_t pool_of(const struct rig *rig, uint32_t layer)
{
    uint32_t pool = rig->catalog.layer_class[layer];
    for (uint32_t c = 0; rig->counts.shared && c < rig->catalog.classes_count; c++) {
        pool = rig->counts.count[c] > 0 ? c : pool;
    }
    return pool;
}

static inline int find(const struct simulation *sim, uint32_t layer, uint32_t expert)
{
    uint32_t pool = pool_of(sim->rig, layer);
    for (uint32_t i = 0; i < sim->used[pool]; i++) {
        if (sim->list[pool][i].layer == layer && sim->list[pool][i].expert == expert) {
            return (int)i;
        }
    }
    return -1;
}

static inline uint32_t layer_slots(const struct simulation *sim, uint32_t layer)
{
    uint32_t n = 0;
    for (uint32_t expert = 0; expert < sim->rig->catalog.experts; expert++) {
        n += find(sim, layer, expert) >= 0 ? 1 : 0;
    }
    return n;
}

static inline void take_out(struct simulation *sim, uint32_t pool, uint32_t at)
{
    sim->used[pool]--;
    memmove(&sim->list[pool][at], &sim->list[pool][at + 1], (sim->used[pool] - at) * sizeof(struct entry));
}

static inline void put_in(struct simulation *sim, uint32_t pool, bool hot, struct entry entry)
{
    uint32_t at = hot ? 0 : sim->used[pool];
    memmove(&sim->list[pool][at + 1], &sim->list[pool][at], (sim->used[pool] - at) * sizeof(struct entry));
    sim->list[pool][at] = entry;
    sim->used[pool]++;
}

/* True when there is room for one more in the pool now. */
static inline bool make_room(struct simulation *sim, uint32_t layer)
{
    uint32_t pool = pool_of(sim->rig, layer);
    if (sim->used[pool] < sim->rig->counts.count[pool]) {
        return true;
    }
    for (uint32_t i = sim->used[pool]; i-- > 0;) {
        const struct entry *entry = &sim->list[pool][i];
        bool at_floor = !sim->rig->counts.shared && entry->layer != layer &&
                        layer_slots(sim, entry->layer) <= sim->rig->catalog.top_k;
        if (!entry->kept && !at_floor) {
            take_out(sim, pool, i);
            sim->evictions++;
            return true;
        }
    }
    return false;
}

static inline uint64_t file_place(const struct rig *rig, uint32_t layer, uint32_t expert)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
        const struct expert_slice *slice = catalog_slice(&rig->catalog, layer, expert, part);
        first = slice->bytes > 0 && slice->offset < first ? slice->offset : first;
    }
    return first;
}

/* Runs a visit on the model; order[] becomes the hand-out order. Experts are in file order already. */
static inline void simulate(struct simulation *sim, uint32_t layer, berth_phase phase, const uint16_t *sorted,
                            uint32_t count, uint16_t *order)
{
    uint32_t pool = pool_of(sim->rig, layer);
    bool hot = phase == BERTH_PHASE_DECODE;
    uint32_t hits = 0;
    for (uint32_t i = 0; i < count; i++) {
        int at = find(sim, layer, sorted[i]);
        if (at >= 0) {
            take_out(sim, pool, (uint32_t)at);
            put_in(sim, pool, true, (struct entry){layer, sorted[i], true});
            order[hits++] = sorted[i];
        }
    }
    uint32_t n = hits;
    for (uint32_t i = 0; i < count; i++) {
        bool hit = false;
        for (uint32_t j = 0; j < hits; j++) {
            hit = hit || order[j] == sorted[i];
        }
        if (!hit) {
            order[n++] = sorted[i];
        }
    }
    uint32_t given = hits;
    while (given < count && make_room(sim, layer)) {
        put_in(sim, pool, hot, (struct entry){layer, order[given++], true});
    }
    /* The rest streams through the slots of the first hits (8 slots in all) and then of the misses. */
    uint32_t victims[EXPERTS_HERE_MAX];
    uint32_t victims_count = 0;
    for (uint32_t i = 0; i < hits && given - hits + i < 8; i++) {
        victims[victims_count++] = i;
    }
    for (uint32_t i = hits; i < count; i++) {
        victims[victims_count++] = i;
    }
    for (uint32_t i = given; i < count; i++) {
        take_out(sim, pool, (uint32_t)find(sim, layer, order[victims[i - given]]));
        sim->evictions++;
        put_in(sim, pool, hot, (struct entry){layer, order[i], true});
    }
    for (uint32_t i = 0; i < sim->used[pool]; i++) {
        sim->list[pool][i].kept = false;
    }
    sim->hits[phase] += hits;
    sim->misses[phase] += count - hits;
}

/* ---- driving -------------------------------------------------------------------------------------------- */

static inline uint32_t pick_experts(const struct rig *rig, uint32_t layer, berth_phase phase, uint16_t *sorted)
{
    uint32_t most = phase == BERTH_PHASE_DECODE ? rig->catalog.top_k : rig->catalog.experts;
    uint32_t count = phase == BERTH_PHASE_DECODE && random_below(8) != 0 ? most : random_below(most + 1);
    bool chosen[EXPERTS_HERE_MAX] = {false};
    for (uint32_t i = 0; i < count;) {
        /* Small ids are popular, as in real routing. */
        uint32_t expert = random_below(1 + random_below(rig->catalog.experts));
        i += chosen[expert] ? 0 : 1;
        chosen[expert] = true;
    }
    uint32_t n = 0;
    for (uint32_t expert = 0; expert < rig->catalog.experts; expert++) {
        if (chosen[expert]) {
            uint32_t at = n++;
            for (; at > 0 && file_place(rig, layer, sorted[at - 1]) > file_place(rig, layer, expert); at--) {
                sorted[at] = sorted[at - 1];
            }
            sorted[at] = (uint16_t)expert;
        }
    }
    return count;
}

static inline void assert_expert_bytes(const struct rig *rig, uint32_t layer, const struct expert_weights *got)
{
    for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
        const struct expert_slice *slice = catalog_slice(&rig->catalog, layer, got->expert, part);
        const unsigned char *bytes = got->part[part];
        assert_int_equal(bytes == NULL, slice->bytes == 0);
        for (uint32_t i = 0; i < slice->bytes; i++) {
            if (bytes[i] != byte_at(slice->file, slice->offset + i)) {
                fail_msg("%s: layer %u expert %u part %u byte %u differs", rig->fake->name, layer, got->expert, part,
                         i);
            }
        }
    }
}

/* One visit that holds as many experts as it likes and may, and releases them in any order. */
static inline void run_visit(struct rig *rig, uint32_t layer, berth_phase phase, const uint16_t *experts,
                             uint32_t count, const uint16_t *order)
{
    berth_error err;
    if (cache_visit_begin(rig->cache, layer, phase, experts, count, &err) != BERTH_OK) {
        fail_msg("%s", err.message);
    }
    uint32_t most = rig->catalog.top_k < 2 ? 2 : rig->catalog.top_k;
    uint32_t handles[EXPERTS_HERE_MAX] = {0};
    uint32_t held = 0;
    for (uint32_t handed = 0; handed < count || held > 0;) {
        struct expert_weights got;
        bool ask = handed < count && held < most && (held == 0 || random_below(3) != 0);
        uint32_t ready = ask ? cache_visit_ready(rig->cache) : 0;
        assert_true(ready <= count - handed);
        berth_status status = ask ? cache_visit_next(rig->cache, &got, &err) : BERTH_ERR_STATE;
        if (status == BERTH_OK) {
            assert_true(order == NULL || got.expert == order[handed]);
            assert_expert_bytes(rig, layer, &got);
            handles[held++] = got.handle;
            handed++;
        } else if (status == BERTH_ERR_STATE && held > 0 && ready == 0) { /* the slot of one of ours is wanted */
            uint32_t which = random_below(held);
            cache_release(rig->cache, handles[which]);
            handles[which] = handles[--held];
        } else {
            fail_msg("%s: status %d: %s", rig->fake->name, status, err.message);
        }
    }
    struct expert_weights none;
    assert_int_equal(cache_visit_ready(rig->cache), 0);
    assert_int_equal(cache_visit_next(rig->cache, &none, NULL), BERTH_ERR_STATE);
    cache_visit_end(rig->cache);
}

static inline void assert_same_residents(const struct rig *rig, const struct simulation *sim)
{
    uint64_t used = 0;
    for (uint32_t layer = 0; layer < rig->catalog.layers; layer++) {
        for (uint32_t expert = 0; expert < rig->catalog.experts; expert++) {
            bool resident = find(sim, layer, expert) >= 0;
            used += resident ? 1 : 0;
            if (cache_peek(rig->cache, layer, expert) != resident) {
                fail_msg("%s: layer %u expert %u wanted resident = %d", rig->fake->name, layer, expert, resident);
            }
        }
    }
    struct cache_stats stats;
    cache_get_stats(rig->cache, &stats);
    assert_int_equal(stats.slots_used, used);
    assert_int_equal(stats.evictions, sim->evictions);
    for (int phase = 0; phase < 2; phase++) {
        assert_int_equal(stats.hits[phase], sim->hits[phase]);
        assert_int_equal(stats.misses[phase], sim->misses[phase]);
    }
}

static inline uint32_t residents(const struct rig *rig, uint32_t layer)
{
    uint32_t n = 0;
    for (uint32_t expert = 0; expert < rig->catalog.experts; expert++) {
        n += cache_peek(rig->cache, layer, expert) ? 1 : 0;
    }
    return n;
}

/* Random visits, layer after layer as in a model, sometimes out of turn. */
static inline void drive(struct rig *rig, uint32_t visits)
{
    static struct simulation sim;
    memset(&sim, 0, sizeof sim);
    sim.rig = rig;
    uint32_t layer = 0;
    for (uint32_t i = 0; i < visits; i++) {
        layer = random_below(6) == 0 ? random_below(rig->catalog.layers) : (layer + 1) % rig->catalog.layers;
        berth_phase phase = random_below(4) == 0 ? BERTH_PHASE_PREFILL : BERTH_PHASE_DECODE;
        uint16_t sorted[EXPERTS_HERE_MAX] = {0};
        uint16_t mixed[EXPERTS_HERE_MAX];
        uint16_t order[EXPERTS_HERE_MAX];
        uint32_t before[LAYERS_MAX];
        uint32_t count = pick_experts(rig, layer, phase, sorted);
        memcpy(mixed, sorted, sizeof mixed);
        for (uint32_t j = count; j > 1; j--) {
            uint32_t other = random_below(j);
            uint16_t swap = mixed[other];
            mixed[other] = mixed[j - 1];
            mixed[j - 1] = swap;
        }
        for (uint32_t l = 0; l < rig->catalog.layers; l++) {
            before[l] = residents(rig, l);
        }
        simulate(&sim, layer, phase, sorted, count, order);
        run_visit(rig, layer, phase, mixed, count, order);
        assert_same_residents(rig, &sim);
        for (uint32_t l = 0; l < rig->catalog.layers && !rig->counts.shared; l++) {
            uint32_t floor = before[l] < rig->catalog.top_k ? before[l] : rig->catalog.top_k;
            assert_true(l == layer || residents(rig, l) >= floor);
        }
    }
}

/* ---- tests ---------------------------------------------------------------------------------------------- */

static inline int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "./berth-cache-XXXXXX");
    random_state = 88172645463325252ull;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static inline int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static inline uint64_t smallest_slot(const struct catalog *catalog)
{
    uint64_t bytes = UINT64_MAX;
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        bytes = catalog->classes[c].slot_bytes < bytes ? catalog->classes[c].slot_bytes : bytes;
    }
    return bytes;
}

/* Reads finish in a scrambled order: each yields the processor a number of times that depends on its place. */
static inline int64_t slow_read(void *user, int fd, void *buffer, size_t bytes, uint64_t offset)
{
    (void)user;
    for (uint64_t i = 0; i < (offset / PAGE * 2654435761u >> 7) % 40; i++) {
        sched_yield();
    }
    ssize_t got = pread(fd, buffer, bytes, (off_t)offset);
    return got < 0 ? -(int64_t)errno : (int64_t)got;
}

#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)

#endif
