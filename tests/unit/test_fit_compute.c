/* SPDX-License-Identifier: MIT
 * The buffer of llama.cpp's graph against what the program printed (tests/golden/fit/compute.json, written by
 * bench/fit_peer.py --write): how far an estimate may be off, and how far all of them, so that a change shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "fit/llama_cpp.h"
#include "model/gguf.h"
#include "support/build.h"
#include "support/json_tree.h"

enum { SETTINGS = 7, FEW = 20 };
static const struct tree *root;
static unsigned char memory[1 << 20] __attribute__((aligned(4096)));

/* The header of a GGUF file with these pairs. */
static void put_pairs(struct build *file, const struct tree *pairs)
{
    const char *arch = tree_need(pairs, "arch")->text;
    uint64_t count = 1;
    for (const struct tree *at = pairs->first; at != NULL; at = at->next) {
        bool counted = at->kind == JSON_NUMBER && at->number == (double)(uint32_t)at->number;
        count += counted || at->kind == JSON_ARRAY_BEGIN ? 1 : 0;
    }
    build_head(file, 3, 0, count);
    build_key_str(file, "general.architecture", arch);
    for (const struct tree *at = pairs->first; at != NULL; at = at->next) {
        char key[128];
        snprintf(key, sizeof key, "%s.%s", arch, at->key);
        if (at->kind == JSON_NUMBER && at->number == (double)(uint32_t)at->number) {
            build_key_u32(file, key, (uint32_t)at->number);
        } else if (at->kind == JSON_ARRAY_BEGIN) {
            build_array(file, key, META_I32, at->count);
            for (const struct tree *item = at->first; item != NULL; item = item->next) {
                build_u32(file, (uint32_t)item->number);
            }
        }
    }
}

static void read_shape(const struct tree *pairs, struct shape *out)
{
    struct build file = {NULL, 0, 0};
    struct gguf_scan scan;
    struct arena arena;
    struct meta meta;
    berth_error err;
    bool complete = false;
    put_pairs(&file, pairs);
    arena_carve(&arena, memory, sizeof memory);
    gguf_scan_begin(&scan, file.bytes);
    assert_int_equal(gguf_scan_more(&scan, file.ptr, file.bytes, &complete, &err), BERTH_OK);
    assert_true(complete);
    struct meta_pair *found = ARENA_NEW(&arena, struct meta_pair, scan.pairs_count);
    assert_int_equal(gguf_parse_meta(&scan, file.ptr, found, &arena, &meta, &err), BERTH_OK);
    if (shape_read_gguf(&meta, "model.gguf", &arena, out, &err) != BERTH_OK || !out->is_known) {
        fail_msg("%s: %s%s", pairs->key, out->problem, out->is_known ? err.message : "");
    }
    build_free(&file);
}

static void read_setting(const struct tree *setting, struct llama_request *out)
{
    uint32_t value[SETTINGS] = {0};
    uint32_t count = 0;
    for (const struct tree *at = setting->first; at != NULL && count < SETTINGS; at = at->next) {
        value[count++] = (uint32_t)at->number;
    }
    assert_int_equal(count, SETTINGS);
    *out = (struct llama_request){.ctx_tokens = value[0],
                                  .ubatch_tokens = value[1],
                                  .slots = value[2],
                                  .is_unified = value[3] != 0,
                                  .no_flash_attention = value[4] == 0,
                                  .is_swa_full = value[5] != 0,
                                  .outputs = value[6],
                                  .k = cache_type_find("f16"),
                                  .v = cache_type_find("f16")};
}

struct spread {
    uint32_t runs, close;
};

static void check(const struct tree *model, const struct tree *setting, double printed, const struct shape *shape,
                  struct spread *spread)
{
    struct llama_request request;
    struct llama_report report;
    read_setting(setting, &request);
    assert_true(llama_solve(shape, &request, &report));
    double ratio = (double)report.host_compute_bytes / 1048576 / printed;
    if (printed <= FEW) {
        return;
    }
    spread->runs++;
    spread->close += ratio > 0.995 && ratio < 1.005 ? 1 : 0;
    if (ratio < 0.98 || ratio > 1.06) {
        fail_msg("%s, context %u, micro-batch %u, %u slots, %s, %u rows: %.4f of the %.2f MiB printed", model->key,
                 (unsigned)request.ctx_tokens, request.ubatch_tokens, request.slots,
                 request.no_flash_attention ? "no flash attention" : "flash attention", request.outputs, ratio,
                 printed);
    }
}

static void test_host(void **state)
{
    const struct tree *models = tree_need(root, "models");
    const struct tree *all = tree_need(root, "cpu");
    const struct tree *settings = tree_need(root, "settings");
    struct spread spread = {0};
    (void)state;
    assert_true(models->count >= 30 && models->count == all->count);
    for (const struct tree *model = models->first; model != NULL; model = model->next) {
        const struct tree *printed = tree_need(all, model->key)->first;
        struct shape shape;
        read_shape(model, &shape);
        for (const struct tree *setting = settings->first; setting != NULL; setting = setting->next) {
            assert_non_null(printed);
            check(model, setting, printed->number, &shape, &spread);
            printed = printed->next;
        }
        assert_null(printed);
    }
    assert_true(spread.runs >= 400);
    if (spread.close * 100 < spread.runs * 93) {
        fail_msg("only %u of %u within 0.5 %%", spread.close, spread.runs);
    }
}

/* Every layer on a graphics card (through Vulkan, which orders graphs anew): inputs on the host exact, the rest looser.
 * Without flash attention the driver's limits on a tensor decide, so that only the host is looked at, where it has
 * inputs alone. */
static void test_device(void **state)
{
    const struct tree *models = tree_need(root, "models");
    const struct tree *all = tree_need(root, "gpu");
    const struct tree *settings = tree_need(root, "settings");
    (void)state;
    assert_true(all->count >= 20);
    for (const struct tree *rows = all->first; rows != NULL; rows = rows->next) {
        const struct tree *printed = rows->first;
        struct shape shape;
        read_shape(tree_need(models, rows->key), &shape);
        for (const struct tree *setting = settings->first; setting != NULL; setting = setting->next) {
            struct llama_request request;
            struct llama_report report;
            assert_non_null(printed);
            double device = printed->first->number;
            double host = printed->first->next->number;
            printed = printed->next;
            read_setting(setting, &request);
            if (request.no_flash_attention) {
                continue;
            }
            request.is_device = true;
            assert_true(llama_solve(&shape, &request, &report));
            double inputs = (double)report.host_compute_bytes / 1048576;
            double ratio = (double)report.device_compute_bytes / 1048576 / device;
            if (inputs - host > 0.15 || host - inputs > 0.15 || ratio < 0.85 || ratio > 1.25) {
                fail_msg("%s, context %u, %u rows: inputs %.2f of %.2f MiB, device %.4f of %.2f MiB", rows->key,
                         (unsigned)request.ctx_tokens, request.outputs, inputs, host, ratio, device);
            }
        }
    }
}

int main(void)
{
    root = tree_read(BERTH_TESTS_DIR "/golden/fit/compute.json");
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_host), cmocka_unit_test(test_device)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
