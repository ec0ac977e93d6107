/* SPDX-License-Identifier: MIT
 *
 * The expert cache on files of known bytes: every expert's bytes at every slot count, and residency, hits, misses and
 * evictions against an independent model of the rules in cache.h (a list searched from end to end, no shared code).
 * The outcome must not depend on the number of reader threads or on how long reads take; faults must come out as the
 * error of the right expert and leave a cache that works. Nothing here looks at the clock. */
#define _GNU_SOURCE
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

static uint32_t random_below(uint32_t n)
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

static unsigned char byte_at(uint32_t file, uint64_t offset)
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
static void place_slices(struct rig *rig, uint64_t file_bytes[FILES_MAX])
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

static void write_files(struct rig *rig, const uint64_t file_bytes[FILES_MAX])
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

static void *take(uint64_t bytes)
{
    size_t rounded = (bytes + PAGE) & ~(size_t)(PAGE - 1);
    void *memory = aligned_alloc(PAGE, rounded);
    assert_non_null(memory);
    memset(memory, 0, rounded);
    return memory;
}

static void rig_catalog(struct rig *rig, const struct fake *fake)
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

static void layout_both(struct rig *rig, struct arena *tables, struct arena *stacks, struct arena *slots,
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
static void rig_start_engine(struct rig *rig, uint64_t bytes, uint32_t threads, bool direct, const char *engine)
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

static void rig_start(struct rig *rig, uint64_t bytes, uint32_t threads, bool direct)
{
    rig_start_engine(rig, bytes, threads, direct, NULL);
}

static void rig_stop(struct rig *rig)
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

static uint32_t pool_of(const struct rig *rig, uint32_t layer)
{
    uint32_t pool = rig->catalog.layer_class[layer];
    for (uint32_t c = 0; rig->counts.shared && c < rig->catalog.classes_count; c++) {
        pool = rig->counts.count[c] > 0 ? c : pool;
    }
    return pool;
}

static int find(const struct simulation *sim, uint32_t layer, uint32_t expert)
{
    uint32_t pool = pool_of(sim->rig, layer);
    for (uint32_t i = 0; i < sim->used[pool]; i++) {
        if (sim->list[pool][i].layer == layer && sim->list[pool][i].expert == expert) {
            return (int)i;
        }
    }
    return -1;
}

static uint32_t layer_slots(const struct simulation *sim, uint32_t layer)
{
    uint32_t n = 0;
    for (uint32_t expert = 0; expert < sim->rig->catalog.experts; expert++) {
        n += find(sim, layer, expert) >= 0 ? 1 : 0;
    }
    return n;
}

static void take_out(struct simulation *sim, uint32_t pool, uint32_t at)
{
    sim->used[pool]--;
    memmove(&sim->list[pool][at], &sim->list[pool][at + 1], (sim->used[pool] - at) * sizeof(struct entry));
}

static void put_in(struct simulation *sim, uint32_t pool, bool hot, struct entry entry)
{
    uint32_t at = hot ? 0 : sim->used[pool];
    memmove(&sim->list[pool][at + 1], &sim->list[pool][at], (sim->used[pool] - at) * sizeof(struct entry));
    sim->list[pool][at] = entry;
    sim->used[pool]++;
}

/* True when there is room for one more in the pool now. */
static bool make_room(struct simulation *sim, uint32_t layer)
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

static uint64_t file_place(const struct rig *rig, uint32_t layer, uint32_t expert)
{
    uint64_t first = UINT64_MAX;
    for (uint32_t part = 0; part < EXPERT_PARTS; part++) {
        const struct expert_slice *slice = catalog_slice(&rig->catalog, layer, expert, part);
        first = slice->bytes > 0 && slice->offset < first ? slice->offset : first;
    }
    return first;
}

/* Runs a visit on the model; order[] becomes the hand-out order. Experts are in file order already. */
static void simulate(struct simulation *sim, uint32_t layer, berth_phase phase, const uint16_t *sorted, uint32_t count,
                     uint16_t *order)
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

static uint32_t pick_experts(const struct rig *rig, uint32_t layer, berth_phase phase, uint16_t *sorted)
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

static void assert_expert_bytes(const struct rig *rig, uint32_t layer, const struct expert_weights *got)
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
static void run_visit(struct rig *rig, uint32_t layer, berth_phase phase, const uint16_t *experts, uint32_t count,
                      const uint16_t *order)
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

static void assert_same_residents(const struct rig *rig, const struct simulation *sim)
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

static uint32_t residents(const struct rig *rig, uint32_t layer)
{
    uint32_t n = 0;
    for (uint32_t expert = 0; expert < rig->catalog.experts; expert++) {
        n += cache_peek(rig->cache, layer, expert) ? 1 : 0;
    }
    return n;
}

/* Random visits, layer after layer as in a model, sometimes out of turn. */
static void drive(struct rig *rig, uint32_t visits)
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

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "./berth-cache-XXXXXX");
    random_state = 88172645463325252ull;
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

static uint64_t smallest_slot(const struct catalog *catalog)
{
    uint64_t bytes = UINT64_MAX;
    for (uint32_t c = 0; c < catalog->classes_count; c++) {
        bytes = catalog->classes[c].slot_bytes < bytes ? catalog->classes[c].slot_bytes : bytes;
    }
    return bytes;
}

static void every_slot_count_gives_right_bytes_and_counts(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < FAKES_COUNT; f++) {
        struct rig rig;
        rig_catalog(&rig, &fakes[f]);
        uint64_t all = catalog_all_bytes(&rig.catalog);
        uint64_t step = smallest_slot(&rig.catalog);
        uint64_t last_total = 0;
        for (uint64_t bytes = catalog_hard_floor_bytes(&rig.catalog);;
             bytes = bytes + step < all ? bytes + step : all) {
            struct slot_counts counts;
            assert_int_equal(catalog_slots(&rig.catalog, bytes, &counts, NULL), BERTH_OK);
            if (counts.total != last_total) {
                last_total = counts.total;
                rig_start(&rig, bytes, 1 + random_below(4), random_below(2) == 0);
                drive(&rig, 40);
                rig_stop(&rig);
            }
            if (bytes == all) {
                break;
            }
        }
        assert_int_equal(last_total, fakes[f].layers * fakes[f].experts);
        free(rig.catalog_memory);
    }
}

/* Reads finish in a scrambled order: each yields the processor a number of times that depends on its place. */
static int64_t slow_read(void *user, int fd, void *buffer, size_t bytes, uint64_t offset)
{
    (void)user;
    for (uint64_t i = 0; i < (offset / PAGE * 2654435761u >> 7) % 40; i++) {
        sched_yield();
    }
    ssize_t got = pread(fd, buffer, bytes, (off_t)offset);
    return got < 0 ? -(int64_t)errno : (int64_t)got;
}

static void threads_and_delays_change_nothing(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < FAKES_COUNT; f++) {
        struct cache_stats first = {0};
        for (uint32_t threads = 1; threads <= 8; threads *= 2) {
            struct rig rig;
            rig_catalog(&rig, &fakes[f]);
            if (threads > 1) {
                rig.hooks.read_at = slow_read;
            }
            random_state = 12345 + f;
            rig_start(&rig, catalog_cycle_bytes(&rig.catalog), threads, true);
            drive(&rig, 60); /* compares residency after each visit */
            struct cache_stats stats;
            cache_get_stats(rig.cache, &stats);
            stats.stall_ns[0] = stats.stall_ns[1] = stats.policy_ns = 0;
            first = threads == 1 ? stats : first;
            assert_memory_equal(&first, &stats, sizeof stats);
            rig_stop(&rig);
            free(rig.catalog_memory);
        }
    }
}

static void engines_change_nothing(void **state)
{
    (void)state;
    static const char *const engines[] = {"pread", "buffered", "uring"};
    for (uint32_t f = 0; f < FAKES_COUNT; f++) {
        struct cache_stats first = {0};
        for (uint32_t e = 0; e < 3; e++) {
            struct rig rig;
            rig_catalog(&rig, &fakes[f]);
            random_state = 777 + f;
            rig_start_engine(&rig, catalog_cycle_bytes(&rig.catalog), 3, strcmp(engines[e], "buffered") != 0,
                             engines[e]);
            if (strcmp(io_engine_name(rig.io), engines[e]) != 0 && f == 0) {
                print_message("SKIP: no \"%s\" here, it became \"%s\"\n", engines[e], io_engine_name(rig.io));
            }
            drive(&rig, 60);
            struct cache_stats stats;
            cache_get_stats(rig.cache, &stats);
            stats.stall_ns[0] = stats.stall_ns[1] = stats.policy_ns = 0;
            first = e == 0 ? stats : first;
            assert_memory_equal(&first, &stats, sizeof stats);
            rig_stop(&rig);
            free(rig.catalog_memory);
        }
    }
}

static void engine_choice_is_checked(void **state)
{
    (void)state;
    struct rig rig;
    rig_catalog(&rig, &fakes[0]);
    rig.hooks.read_at = slow_read; /* hooked reads cannot go through the ring */
    rig_start_engine(&rig, catalog_cycle_bytes(&rig.catalog), 1, true, "uring");
    assert_string_equal(io_engine_name(rig.io), "pread");
    drive(&rig, 10);
    struct arena tables;
    struct arena stacks;
    arena_measure(&tables);
    arena_measure(&stacks);
    struct io_config config = {.files = rig.files, .files_count = 1, .threads = 1, .queue_max = 8, .engine = "carrier"};
    struct io *io;
    berth_error err;
    bool direct;
    assert_int_equal(io_layout(&tables, &stacks, &config, &io, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(io_engine_direct("carrier", &direct, &err), BERTH_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "pread, uring or buffered"));
    assert_int_equal(io_engine_direct("buffered", &direct, &err), BERTH_OK);
    assert_false(direct);
    assert_int_equal(io_engine_direct(NULL, &direct, &err), BERTH_OK);
    assert_true(direct);
    config.engine = "pread";
    config.threads = 0;
    assert_int_equal(io_layout(&tables, &stacks, &config, &io, &err), BERTH_ERR_ARGUMENT);
    config.threads = IO_THREADS_MAX + 1;
    assert_int_equal(io_layout(&tables, &stacks, &config, &io, &err), BERTH_ERR_ARGUMENT);
    config.threads = IO_THREADS_MAX;
    assert_int_equal(io_layout(&tables, &stacks, &config, &io, &err), BERTH_OK);
    rig.files[0].direct = false; /* as on a file system that refuses */
    assert_int_equal(io_layout(&tables, &stacks, &config, &io, &err), BERTH_ERR_UNSUPPORTED);
    assert_non_null(strstr(err.path, "weights-0"));
    rig.files[0].direct = true;
    rig_stop(&rig);
    free(rig.catalog_memory);
}

static void read_counts_are_spans_and_slice_bytes(void **state)
{
    (void)state;
    const uint16_t experts[] = {7, 1, 4};
    for (uint32_t f = 0; f < 3; f += 2) { /* separate tensors, touching parts */
        struct rig rig;
        rig_catalog(&rig, &fakes[f]);
        rig_start(&rig, catalog_all_bytes(&rig.catalog), 2, true);
        run_visit(&rig, 1, BERTH_PHASE_DECODE, experts, 3, NULL);
        run_visit(&rig, 1, BERTH_PHASE_DECODE, experts, 3, NULL);
        struct cache_stats stats;
        cache_get_stats(rig.cache, &stats);
        const uint32_t *bytes = fakes[f].part_bytes[1];
        assert_int_equal(stats.reads[BERTH_PHASE_DECODE], fakes[f].touching ? 3 : 9);
        assert_int_equal(stats.read_bytes[BERTH_PHASE_DECODE], 3 * (bytes[0] + bytes[1] + bytes[2]));
        assert_int_equal(stats.reads[BERTH_PHASE_PREFILL], 0);
        assert_int_equal(stats.hits[BERTH_PHASE_DECODE], 3);
        assert_int_equal(stats.misses[BERTH_PHASE_DECODE], 3);
        rig_stop(&rig);
        free(rig.catalog_memory);
    }
}

/* Parts of more than one I/O piece. */
static void large_parts_are_read_in_pieces(void **state)
{
    (void)state;
    const struct fake big = {"large parts", 1, 3, 2, {{IO_PIECE_BYTES + 5, 2 * IO_PIECE_BYTES, 3}, {0, 0, 0}},
                             false,         1};
    const uint16_t experts[] = {2, 0, 1};
    for (int e = 0; e < 2; e++) {
        struct rig rig;
        rig_catalog(&rig, &big);
        rig.hooks.read_at = e == 0 ? slow_read : NULL;
        rig_start_engine(&rig, catalog_hard_floor_bytes(&rig.catalog), 3, true, e == 0 ? "pread" : "uring");
        run_visit(&rig, 0, BERTH_PHASE_PREFILL, experts, 3, NULL);
        run_visit(&rig, 0, BERTH_PHASE_DECODE, experts + 1, 2, NULL);
        rig_stop(&rig);
        free(rig.catalog_memory);
    }
}

static void prefill_enters_at_the_cold_end(void **state)
{
    (void)state;
    struct rig rig;
    rig_catalog(&rig, &fakes[5]); /* one layer of 16, top 4 */
    rig_start(&rig, 6 * catalog_all_bytes(&rig.catalog) / 16, 2, true);
    const uint16_t decode[] = {0, 1, 2, 3};
    const uint16_t prefill[] = {8, 9, 10, 11, 12};
    run_visit(&rig, 0, BERTH_PHASE_DECODE, decode, 4, NULL);
    run_visit(&rig, 0, BERTH_PHASE_PREFILL, prefill, 2, NULL);     /* fills the two free slots */
    run_visit(&rig, 0, BERTH_PHASE_PREFILL, prefill + 2, 2, NULL); /* takes those, not the older decode set */
    for (uint32_t i = 0; i < 4; i++) {
        assert_true(cache_peek(rig.cache, 0, decode[i]));
    }
    assert_false(cache_peek(rig.cache, 0, 8));
    assert_true(cache_peek(rig.cache, 0, 10));
    rig_stop(&rig);
    free(rig.catalog_memory);
}

/* ---- faults --------------------------------------------------------------------------------------------- */

struct fault {
    atomic_int countdown; /* the read that brings it to 0 fails */
    int kind; /* 0: EIO; 1: the file ends; 2: half of a page less than asked, then goes on; 3: EINTR first */
    atomic_bool persistent;
};

static int64_t faulty_read(void *user, int fd, void *buffer, size_t bytes, uint64_t offset)
{
    struct fault *fault = user;
    int left = atomic_fetch_sub(&fault->countdown, 1);
    if (left == 1 || (left < 1 && atomic_load(&fault->persistent))) {
        switch (fault->kind) {
        case 0:
            return -EIO;
        case 1:
            return 0;
        case 2:
            bytes = bytes > PAGE / 2 ? bytes - PAGE / 2 : bytes;
            break;
        default:
            return -EINTR;
        }
    }
    unsigned char *whole = aligned_alloc(PAGE, (bytes + PAGE - 1) / PAGE * PAGE); /* lengths are odd in kind 2 */
    ssize_t got = pread(fd, whole, (bytes + PAGE - 1) / PAGE * PAGE, (off_t)offset);
    int code = errno;
    size_t kept = got < 0 ? 0 : ((size_t)got < bytes ? (size_t)got : bytes);
    memcpy(buffer, whole, kept);
    free(whole);
    return got < 0 ? -(int64_t)code : (int64_t)kept;
}

static void visit_everything(struct rig *rig, uint32_t layer, berth_status wanted, struct fault *fault)
{
    uint16_t experts[EXPERTS_HERE_MAX];
    for (uint32_t i = 0; i < rig->catalog.experts; i++) {
        experts[i] = (uint16_t)i;
    }
    berth_error err;
    assert_int_equal(cache_visit_begin(rig->cache, layer, BERTH_PHASE_PREFILL, experts, rig->catalog.experts, NULL),
                     BERTH_OK);
    berth_status status = BERTH_OK;
    uint32_t handed = 0;
    bool seen[EXPERTS_HERE_MAX] = {false};
    while (handed < rig->catalog.experts && status == BERTH_OK) {
        struct expert_weights got;
        status = cache_visit_next(rig->cache, &got, &err);
        if (status == BERTH_OK) {
            assert_expert_bytes(rig, layer, &got);
            assert_false(seen[got.expert]);
            seen[got.expert] = true;
            cache_release(rig->cache, got.handle);
            handed++;
        }
    }
    if (status != wanted) {
        fail_msg("%s: status %d, wanted %d, kind %d", rig->fake->name, status, wanted, fault->kind);
    }
    if (status != BERTH_OK) {
        assert_int_equal(err.status, BERTH_ERR_IO);
        assert_int_equal(err.layer, layer);
        assert_true(err.expert >= 0 && !seen[err.expert]);
        assert_non_null(strstr(err.path, "/weights-"));
        bool inside = false;
        struct expert_place place;
        catalog_place(&rig->catalog, layer, (uint32_t)err.expert, &place);
        for (uint32_t i = 0; i < place.spans_count; i++) {
            inside = inside || (err.offset >= place.spans[i].offset &&
                                err.offset <= place.spans[i].offset + place.spans[i].bytes);
        }
        assert_true(inside);
        assert_non_null(strstr(err.message, fault->kind == 0 ? "Input/output error" : "ends too early"));
        char object[64];
        snprintf(object, sizeof object, "layer %u expert %d", layer, (int)err.expert);
        assert_string_equal(err.object, object);
        struct expert_weights got;
        berth_error again;
        assert_int_equal(cache_visit_next(rig->cache, &got, &again), BERTH_ERR_IO);
        assert_memory_equal(&err, &again, sizeof err);
        assert_false(cache_peek(rig->cache, layer, (uint32_t)err.expert));
    }
    cache_visit_end(rig->cache);
}

static void nth_read_failure_names_the_expert_and_leaves_a_working_cache(void **state)
{
    (void)state;
    for (uint32_t f = 0; f < 3; f++) {
        for (int kind = 0; kind < 4; kind++) {
            struct rig rig;
            rig_catalog(&rig, &fakes[f]);
            int reads = (int)(rig.catalog.experts * (fakes[f].touching ? 1 : 3));
            for (int nth = 1; nth <= reads + 1; nth += 1 + nth / 8) {
                struct fault fault = {.countdown = 0, .kind = kind};
                rig.hooks = (struct os_hooks){.user = &fault, .read_at = faulty_read};
                rig_start(&rig, nth % 2 == 0 ? catalog_hard_floor_bytes(&rig.catalog) : catalog_all_bytes(&rig.catalog),
                          3, true);
                atomic_store(&fault.countdown, nth);
                bool harmless = kind >= 2 || nth > reads;
                visit_everything(&rig, 0, harmless ? BERTH_OK : BERTH_ERR_IO, &fault);
                atomic_store(&fault.countdown, 0);
                visit_everything(&rig, 0, BERTH_OK, &fault);
                visit_everything(&rig, 1, BERTH_OK, &fault);
                rig_stop(&rig);
            }
            free(rig.catalog_memory);
        }
    }
}

static void persistent_failure_fails_every_visit_and_hangs_none(void **state)
{
    (void)state;
    struct rig rig;
    rig_catalog(&rig, &fakes[0]);
    struct fault fault = {.countdown = 4, .kind = 0, .persistent = true};
    rig.hooks = (struct os_hooks){.user = &fault, .read_at = faulty_read};
    rig_start(&rig, catalog_cycle_bytes(&rig.catalog), 4, true);
    for (uint32_t i = 0; i < 12; i++) {
        visit_everything(&rig, i % rig.catalog.layers, BERTH_ERR_IO, &fault);
    }
    struct cache_stats stats;
    cache_get_stats(rig.cache, &stats);
    assert_true(stats.slots_used <= 1); /* at most the one expert that came before */
    atomic_store(&fault.persistent, false);
    visit_everything(&rig, 2, BERTH_OK, &fault);
    rig_stop(&rig);
    free(rig.catalog_memory);
}

static void the_first_expert_in_order_is_blamed(void **state)
{
    (void)state;
    struct rig rig;
    rig_catalog(&rig, &fakes[0]);
    struct fault fault = {.countdown = 0, .kind = 0, .persistent = true};
    rig.hooks = (struct os_hooks){.user = &fault, .read_at = faulty_read};
    rig_start(&rig, catalog_all_bytes(&rig.catalog), 8, true);
    const uint16_t experts[] = {9, 6, 3, 8};
    struct expert_weights got;
    berth_error err;
    assert_int_equal(cache_visit_begin(rig.cache, 2, BERTH_PHASE_DECODE, experts, 4, NULL), BERTH_OK);
    assert_int_equal(cache_visit_next(rig.cache, &got, &err), BERTH_ERR_IO);
    assert_int_equal(err.expert, 3);
    /* All three parts fail; the lowest place is named. */
    assert_int_equal(err.offset, catalog_slice(&rig.catalog, 2, 3, EXPERT_GATE)->offset / PAGE * PAGE);
    cache_visit_end(rig.cache);
    rig_stop(&rig);
    free(rig.catalog_memory);
}

static void truncated_file_is_an_error_not_a_wrong_answer(void **state)
{
    (void)state;
    for (int e = 0; e < 3; e++) {
        static const char *const engines[] = {"pread", "buffered", "uring"};
        struct rig rig;
        rig_catalog(&rig, &fakes[0]);
        rig_start_engine(&rig, catalog_all_bytes(&rig.catalog), 2, e != 1, engines[e]);
        const struct expert_slice *last = catalog_slice(&rig.catalog, 3, 9, EXPERT_DOWN);
        char path[128];
        snprintf(path, sizeof path, "%s/weights-0", folder);
        assert_int_equal(truncate(path, (off_t)(last->offset + last->bytes - 1)), 0);
        const uint16_t experts[] = {9};
        struct expert_weights got;
        berth_error err;
        assert_int_equal(cache_visit_begin(rig.cache, 3, BERTH_PHASE_DECODE, experts, 1, NULL), BERTH_OK);
        assert_int_equal(cache_visit_next(rig.cache, &got, &err), BERTH_ERR_IO);
        assert_int_equal(err.expert, 9);
        assert_non_null(strstr(err.message, "ends too early"));
        cache_visit_end(rig.cache);
        rig_stop(&rig);
        free(rig.catalog_memory);
    }
}

static void visit_ended_early_leaves_right_bytes(void **state)
{
    (void)state;
    const uint32_t which[] = {2, 2, 6, 6};
    for (uint32_t f = 0; f < 4; f++) {
        struct rig rig;
        rig_catalog(&rig, &fakes[which[f]]);
        rig.hooks.read_at = f % 2 == 0 ? slow_read : NULL;
        rig_start_engine(&rig, f < 2 ? catalog_cycle_bytes(&rig.catalog) : catalog_all_bytes(&rig.catalog), 2, true,
                         f % 2 == 0 ? "pread" : "uring");
        uint16_t experts[EXPERTS_HERE_MAX];
        for (uint16_t i = 0; i < EXPERTS_HERE_MAX; i++) {
            experts[i] = i;
        }
        uint32_t n = rig.catalog.experts;
        for (uint32_t round = 0; round < 30; round++) {
            uint32_t layer = round % rig.catalog.layers;
            uint32_t next_layer = (layer + 1) % rig.catalog.layers;
            assert_int_equal(cache_visit_begin(rig.cache, layer, BERTH_PHASE_PREFILL, experts, n, NULL), BERTH_OK);
            for (uint32_t i = random_below(round == 0 ? 2 : n); i > 0; i--) {
                struct expert_weights got;
                assert_int_equal(cache_visit_next(rig.cache, &got, NULL), BERTH_OK);
                assert_expert_bytes(&rig, layer, &got);
                cache_release(rig.cache, got.handle);
            }
            cache_visit_end(rig.cache);
            /* What no read was asked for is not there; the cycle's few slots are all asked for at once. */
            assert_true(round > 0 || f < 2 || residents(&rig, layer) <= CACHE_FETCHES_MAX + 1);
            run_visit(&rig, next_layer, BERTH_PHASE_DECODE, experts + random_below(n - 4), 3, NULL);
        }
        cache_visit_end(rig.cache); /* nothing is running: no harm */
        rig_stop(&rig);
        free(rig.catalog_memory);
    }
}

static void misuse_is_refused_and_changes_nothing(void **state)
{
    (void)state;
    struct rig rig;
    berth_error err;
    rig_catalog(&rig, &fakes[0]);
    rig_start(&rig, catalog_cycle_bytes(&rig.catalog), 1, true);
    const uint16_t good[] = {1, 2, 3, 4};
    const uint16_t twice[] = {1, 2, 1};
    const uint16_t outside[] = {1, 10};
    struct expert_weights got[4];
    assert_int_equal(cache_visit_next(rig.cache, got, &err), BERTH_ERR_STATE);
    assert_int_equal(cache_visit_begin(rig.cache, 4, BERTH_PHASE_DECODE, good, 3, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(cache_visit_begin(rig.cache, 0, BERTH_PHASE_DECODE, good, 11, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(cache_visit_begin(rig.cache, 0, BERTH_PHASE_DECODE, twice, 3, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(err.expert, 1);
    assert_int_equal(cache_visit_begin(rig.cache, 0, BERTH_PHASE_DECODE, outside, 2, &err), BERTH_ERR_ARGUMENT);
    assert_int_equal(err.expert, 10);
    assert_int_equal(cache_visit_begin(rig.cache, 0, BERTH_PHASE_DECODE, good, 4, &err), BERTH_OK);
    assert_int_equal(cache_visit_begin(rig.cache, 0, BERTH_PHASE_DECODE, good, 4, &err), BERTH_ERR_STATE);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cache_visit_next(rig.cache, &got[i], &err), BERTH_OK);
    }
    assert_int_equal(cache_visit_next(rig.cache, &got[3], &err), BERTH_ERR_STATE); /* three are held: top_k */
    assert_non_null(strstr(err.message, "release"));
    cache_release(rig.cache, got[1].handle);
    assert_int_equal(cache_visit_next(rig.cache, &got[1], &err), BERTH_OK);
    for (int i = 0; i < 3; i++) {
        cache_release(rig.cache, got[i].handle);
    }
    cache_visit_end(rig.cache);
    assert_false(cache_peek(rig.cache, 4, 0));
    assert_false(cache_peek(rig.cache, 0, 10));

    struct arena tables;
    struct arena slots;
    struct cache *none;
    arena_measure(&tables);
    arena_measure(&slots);
    assert_int_equal(cache_layout(&tables, &slots, &rig.catalog, &rig.counts, "belladonna", NULL, &none, &err),
                     BERTH_ERR_ARGUMENT);
    assert_non_null(strstr(err.message, "lru"));
    struct slot_counts few = rig.counts;
    few.count[0]--;
    assert_int_equal(cache_layout(&tables, &slots, &rig.catalog, &few, NULL, NULL, &none, &err), BERTH_ERR_ARGUMENT);
    few.total--;
    assert_int_equal(cache_layout(&tables, &slots, &rig.catalog, &few, NULL, NULL, &none, &err), BERTH_ERR_ARGUMENT);
    rig_stop(&rig);
    free(rig.catalog_memory);
}

int main(void)
{
#define CACHE_TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
    const struct CMUnitTest tests[] = {
        CACHE_TEST(every_slot_count_gives_right_bytes_and_counts),
        CACHE_TEST(threads_and_delays_change_nothing),
        CACHE_TEST(engines_change_nothing),
        CACHE_TEST(engine_choice_is_checked),
        CACHE_TEST(read_counts_are_spans_and_slice_bytes),
        CACHE_TEST(large_parts_are_read_in_pieces),
        CACHE_TEST(prefill_enters_at_the_cold_end),
        CACHE_TEST(nth_read_failure_names_the_expert_and_leaves_a_working_cache),
        CACHE_TEST(persistent_failure_fails_every_visit_and_hangs_none),
        CACHE_TEST(the_first_expert_in_order_is_blamed),
        CACHE_TEST(truncated_file_is_an_error_not_a_wrong_answer),
        CACHE_TEST(visit_ended_early_leaves_right_bytes),
        CACHE_TEST(misuse_is_refused_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
