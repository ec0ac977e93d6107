/* SPDX-License-Identifier: MIT
 * The documents' machines, and which of them this one is. */
#include <stdio.h>

#include "base/error.h"
#include "base/str.h"
#include "os/machine.h"

static const berth_sku skus[] = {
    {"M1", 68, 2, {8, 16}},
    {"M1 Pro", 200, 2, {16, 32}},
    {"M1 Max", 400, 2, {32, 64}},
    {"M1 Ultra", 800, 2, {64, 128}},
    {"M2", 100, 3, {8, 16, 24}},
    {"M2 Pro", 200, 2, {16, 32}},
    {"M2 Max", 400, 3, {32, 64, 96}},
    {"M2 Ultra", 800, 3, {64, 128, 192}},
    {"M3", 100, 3, {8, 16, 24}},
    {"M3 Pro", 150, 2, {18, 36}},
    {"M3 Max", 400, 5, {36, 48, 64, 96, 128}},
    {"M3 Ultra", 819, 3, {96, 256, 512}},
    {"M4", 120, 3, {16, 24, 32}},
    {"M4 Pro", 273, 2, {24, 48}},
    {"M4 Max", 546, 4, {36, 48, 64, 128}},
};
enum { SKUS = sizeof skus / sizeof skus[0] };

static const double gib = 1073741824.0;

const berth_sku *berth_sku_table(size_t *count)
{
    *count = SKUS;
    return skus;
}

static bool is_space(char c)
{
    return c == ' ' || (c >= '\t' && c <= '\r');
}

/* Without blanks around it and without the maker's name in front. */
static struct str chip_name(const char *text)
{
    struct str name = str_from(text);
    while (name.bytes > 0 && is_space(name.ptr[0])) {
        name = (struct str){name.ptr + 1, name.bytes - 1};
    }
    while (name.bytes > 0 && is_space(name.ptr[name.bytes - 1])) {
        name.bytes--;
    }
    if (str_starts(name, STR("Apple")) && name.bytes > 5 && is_space(name.ptr[5])) {
        size_t skip = 5;
        while (skip < name.bytes && is_space(name.ptr[skip])) {
            skip++;
        }
        name = (struct str){name.ptr + skip, name.bytes - skip};
    }
    return name;
}

const berth_sku *berth_sku_find(const char *chip)
{
    struct str name = chip_name(chip);
    for (size_t i = 0; i < SKUS; i++) {
        if (str_is(name, skus[i].chip)) {
            return &skus[i];
        }
    }
    return NULL;
}

berth_status berth_sku_matrix(const berth_fit_config *config, const berth_fit_request *request, berth_sku_row *rows,
                              berth_error *err)
{
    if (request == NULL || rows == NULL) {
        return error_set(err, BERTH_ERR_ARGUMENT, "a request and a place for %d rows are needed", BERTH_SKU_ROWS);
    }
    size_t at = 0;
    for (size_t i = 0; i < SKUS; i++) {
        for (uint32_t k = 0; k < skus[i].ram_count; k++) {
            berth_fit_request one = *request;
            berth_fit_report report;
            one.has_budget = false;
            one.budget_bytes = one.chunk_tokens = 0;
            one.machine.ram_bytes = skus[i].ram_gb[k] * gib;
            one.machine.bandwidth_gbs = skus[i].bandwidth_gbs;
            TRY(berth_fit_solve(config, &one, &report, err));
            rows[at++] = (berth_sku_row){
                .sku = skus[i].chip,
                .ram_gb = skus[i].ram_gb[k],
                .fits = report.fits,
                .max_context = report.max_safe_context,
                .decode_tps = report.predicted_decode_tps,
            };
        }
    }
    return BERTH_OK;
}

void berth_sku_detect_chip(berth_sku_chip *out)
{
    char name[sizeof out->name];
    *out = (berth_sku_chip){.bandwidth_gbs = 0};
    if (os_processor_name("", name, sizeof name)) {
        struct str chip = chip_name(name);
        memcpy(out->name, chip.ptr, chip.bytes);
        const berth_sku *sku = berth_sku_find(name);
        out->bandwidth_gbs = sku != NULL ? sku->bandwidth_gbs : 0;
    }
}

berth_status berth_sku_this_machine(double bandwidth_gbs, berth_sku_machine *out, berth_error *err)
{
    uint64_t ram;
    TRY(os_memory_total("", &ram, err));
    berth_sku_chip chip;
    berth_sku_detect_chip(&chip);
    *out = (berth_sku_machine){
        .name = "this machine",
        .ram_bytes = (double)ram,
        .bandwidth_gbs = bandwidth_gbs > 0        ? bandwidth_gbs
                         : chip.bandwidth_gbs > 0 ? chip.bandwidth_gbs
                                                  : BERTH_FIT_DEFAULT_BANDWIDTH_GBS,
        .bandwidth_basis = bandwidth_gbs > 0        ? BERTH_SKU_GIVEN
                           : chip.bandwidth_gbs > 0 ? BERTH_SKU_TABLE
                                                    : BERTH_SKU_DEFAULT,
    };
    return BERTH_OK;
}
