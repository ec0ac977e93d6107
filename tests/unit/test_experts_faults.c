/* SPDX-License-Identifier: MIT
 * Failing reads of the expert cache: the error of the right expert, and a cache that still works. */
#define _GNU_SOURCE
#include "experts_rig.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        CACHE_TEST(nth_read_failure_names_the_expert_and_leaves_a_working_cache),
        CACHE_TEST(persistent_failure_fails_every_visit_and_hangs_none),
        CACHE_TEST(the_first_expert_in_order_is_blamed),
        CACHE_TEST(truncated_file_is_an_error_not_a_wrong_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
