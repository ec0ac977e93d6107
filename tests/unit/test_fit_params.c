/* SPDX-License-Identifier: MIT
 * Parameters from a configuration alone, against counts that are not ours (tests/golden/fit_params.json): transformers'
 * modules of the same configuration, tiny and real, with and without what a class has by default; and published totals.
 */
#define _GNU_SOURCE
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>

#include <cmocka.h>

#include "family/shape.h"
#include "support/json_text.h"

static unsigned char memory[1 << 20] __attribute__((aligned(4096)));

static const struct tree *cases;
static const struct tree *models;

static bool read_case(const struct tree *at, const char **name, struct shape *shape)
{
    const struct tree *model = tree_get(at, "model");
    const struct tree *config = model != NULL ? tree_need(models, model->text) : tree_need(at, "config");
    const struct json_text *text = json_text(config);
    struct arena arena;
    berth_error err = {.message = ""};
    *name = model != NULL ? model->text : tree_need(at, "name")->text;
    arena_carve(&arena, memory, sizeof memory);
    if (shape_read_json((struct str){text->ptr, text->bytes}, "config.json", &arena, shape, &err) != BERTH_OK) {
        print_error("%s: %s\n", *name, err.message);
        return false;
    }
    if (!shape->is_known) {
        print_error("%s: %s\n", *name, shape->problem);
    }
    return shape->is_known;
}

static void counts_are_exact(void **state)
{
    (void)state;
    uint32_t wrong = 0;
    uint32_t defaults = 0;
    assert_true(cases->count >= 200);
    for (const struct tree *at = cases->first; at != NULL; at = at->next) {
        static const char *const keys[] = {"total", "experts", "index"};
        const char *name;
        struct shape shape;
        struct shape_params params = {.total = 0};
        bool counted = read_case(at, &name, &shape) && shape_count_params(&shape, &params);
        const uint64_t got[] = {params.total, params.experts, params.index};
        wrong += counted ? 0 : 1;
        for (int i = 0; i < 3; i++) {
            if ((double)got[i] != tree_number(at, keys[i])) {
                print_error("%s: %s is %llu, wanted %.0f\n", name, keys[i], (unsigned long long)got[i],
                            tree_number(at, keys[i]));
                wrong++;
            }
        }
        for (int i = 0; i < SHAPE_NUMBERS; i++) {
            defaults += shape.is_default[i] ? 1 : 0;
        }
    }
    assert_true(defaults > 500); /* many of them lean on their classes */
    assert_int_equal(wrong, 0);
}

/* What is published is rounded, some of it to three digits: half a percent. Repositories hold a sparse attention's
 * indexer too. */
static void published_totals_agree(void **state)
{
    (void)state;
    uint32_t published = 0;
    for (const struct tree *at = cases->first; at != NULL; at = at->next) {
        const struct tree *total = tree_get(at, "published");
        const char *name;
        struct shape shape;
        struct shape_params params = {.total = 0};
        if (total == NULL) {
            continue;
        }
        assert_true(read_case(at, &name, &shape) && shape_count_params(&shape, &params));
        double got = (double)(params.total + params.index);
        if (fabs(got - total->number) > 0.005 * total->number) {
            fail_msg("%s: %.0f, published %.0f", name, got, total->number);
        }
        published++;
    }
    assert_true(published >= 18);
}

/* Layers of full attention (or latents), of windows or chunks, and the window. */
static void kinds_are_the_class_s(void **state)
{
    (void)state;
    uint32_t seen = 0;
    for (const struct tree *at = cases->first; at != NULL; at = at->next) {
        const struct tree *kinds = tree_get(at, "kinds");
        const char *name;
        struct shape shape;
        if (kinds == NULL) {
            continue;
        }
        assert_true(read_case(at, &name, &shape));
        uint32_t full = 0;
        uint32_t windowed = 0;
        uint32_t window = 0;
        for (uint32_t i = 0; i < shape.count; i++) {
            const struct shape_layer *layer = &shape.layers[i];
            bool slides = layer->cache == SHAPE_SLIDING || layer->cache == SHAPE_CHUNKED;
            full += layer->cache == SHAPE_FULL || layer->cache == SHAPE_LATENT ? 1 : 0;
            windowed += slides ? 1 : 0;
            window = slides ? layer->window : window;
        }
        const struct tree *item = kinds->first;
        if (full != item->number || windowed != item->next->number || window != item->next->next->number) {
            fail_msg("%s: %u full, %u of window %u; wanted %.0f, %.0f, %.0f", name, full, windowed, window,
                     item->number, item->next->number, item->next->next->number);
        }
        seen++;
    }
    assert_true(seen >= 60);
}

int main(void)
{
    cases = tree_read(BERTH_TESTS_DIR "/golden/fit_params.json");
    models = tree_need(tree_read(BERTH_TESTS_DIR "/golden/fit_shapes.json"), "models");
    const struct CMUnitTest tests[] = {cmocka_unit_test(counts_are_exact), cmocka_unit_test(published_totals_agree),
                                       cmocka_unit_test(kinds_are_the_class_s)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
