/* SPDX-License-Identifier: MIT
 * berth bench kernels: every kernel row and weight type, against what this machine's memory gives. */
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "base/str.h"
#include "cli/verbs.h"
#include "common/host.h"
#include "common/json_out.h"
#include "common/report.h"
#include "common/sizes.h"
#include "common/table.h"
#include "tool.h"

enum { RESULTS_MAX = 256, MEMORY_DEFAULT = 256, MILLISECONDS_DEFAULT = 100, OTHERS_BYTES = 128 << 20 };

struct kernels_options {
    struct arg_texts types;
    int isa;
    uint32_t threads, milliseconds;
    uint64_t memory_bytes;
    bool json;
};

#define AT(field) offsetof(struct kernels_options, field)

static const struct arg_choice isa_choices[] = {
    {"all", BERTH_ISA_AUTO},      {"ref", BERTH_ISA_REF},   {"avx2", BERTH_ISA_AVX2},
    {"avx512", BERTH_ISA_AVX512}, {"neon", BERTH_ISA_NEON}, {NULL, 0},
};
static const struct arg_option rows[] = {
    {.name = "type",
     .type = ARG_TEXTS,
     .offset = AT(types),
     .value = "TYPE",
     .help = "a weight type, Q4_K; may be repeated (default: all)"},
    {.name = "isa",
     .type = ARG_CHOICE,
     .offset = AT(isa),
     .choices = isa_choices,
     .help = "kernel row (default: all that this machine runs, the\nreference left out)"},
    {.name = "threads", .type = ARG_U32, .offset = AT(threads), .value = "N", .help = "compute threads", .high = 256},
    {.name = "memory",
     .type = ARG_SIZE,
     .offset = AT(memory_bytes),
     .value = "SIZE",
     .help =
         "what the streams pass over (default 256MiB); larger than\nevery cache, or it is the cache that is measured",
     .low = 1 << 20},
    {.name = "ms",
     .type = ARG_U32,
     .offset = AT(milliseconds),
     .value = "N",
     .help = "about how long one kernel is measured (default 100)",
     .low = 1,
     .high = 10000},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};
static const struct arg_group groups[] = {{"Options", rows, sizeof rows / sizeof rows[0], 0}};
static const struct arg_spec spec = {
    .verb = "bench kernels",
    .synopsis = "[--type TYPE] [--isa ROW] [--threads N] [--json]",
    .summary = "Measure every kernel against the memory of this machine.",
    .details =
        "stream: weights that lie in memory, one token. token and prompt: weights that lie in the cache, one\n"
        "token and sixteen. A token waits for memory where the kernel in the cache is faster than memory brings\n"
        "weights; \"of memory\" is the stream's share of the fastest stream of all.",
    .groups = groups,
    .groups_count = sizeof groups / sizeof groups[0],
};

struct result {
    const char *row;
    tool_rates rates;
};

struct bench_kernels {
    struct kernels_options options;
    struct result results[RESULTS_MAX];
    uint32_t count;
    double plain, memory; /* bytes per second: the best plain read, the best stream of all */
};

static bool same_name(const char *a, const char *b)
{
    return str_same(str_from(a), str_from(b));
}

static bool wanted(const struct kernels_options *o, const char *type)
{
    bool any = o->types.count == 0;
    for (uint32_t i = 0; i < o->types.count; i++) {
        any = any || same_name(o->types.items[i], type);
    }
    return any;
}

/* Every type asked for has a kernel somewhere. */
static int check_types(const struct kernels_options *o)
{
    for (uint32_t t = 0; t < o->types.count; t++) {
        const char *name;
        uint32_t i = 0;
        while ((name = tool_kernel_type(BERTH_ISA_REF, i)) != NULL && !same_name(name, o->types.items[t])) {
            i++;
        }
        if (name == NULL) {
            return report_usage("bench kernels", "no kernel for the type '%.60s'", o->types.items[t]);
        }
    }
    return EXIT_OK;
}

static int measure_row(struct bench_kernels *b, const struct arg_choice *row)
{
    const char *type;
    for (uint32_t i = 0; (type = tool_kernel_type((berth_isa)row->value, i)) != NULL; i++) {
        if (!wanted(&b->options, type) || b->count == RESULTS_MAX) {
            continue;
        }
        if (host_interrupted()) {
            return host_interrupt_code();
        }
        const tool_measure want = {.dtype = type,
                                   .isa = (berth_isa)row->value,
                                   .threads = b->options.threads,
                                   .memory_bytes = b->options.memory_bytes,
                                   .memory_max_bytes = 2 * b->options.memory_bytes + OTHERS_BYTES,
                                   .milliseconds = b->options.milliseconds * 5};
        struct result *result = &b->results[b->count];
        berth_error err;
        if (tool_measure_rates(NULL, &want, &result->rates, &err) != BERTH_OK) {
            return report_error("bench kernels", &err);
        }
        result->row = row->name;
        b->count++;
        b->plain = result->rates.plain_bytes_per_s > b->plain ? result->rates.plain_bytes_per_s : b->plain;
        b->memory = result->rates.memory_bytes_per_s > b->memory ? result->rates.memory_bytes_per_s : b->memory;
    }
    return EXIT_OK;
}

static int measure(struct bench_kernels *b)
{
    int code = EXIT_OK;
    for (const struct arg_choice *row = isa_choices + 1; row->name != NULL && code == EXIT_OK; row++) {
        bool asked = b->options.isa == BERTH_ISA_AUTO ? row->value != BERTH_ISA_REF : row->value == b->options.isa;
        code = asked ? measure_row(b, row) : EXIT_OK;
    }
    if (code == EXIT_OK && host_interrupted()) { /* during the last one */
        return host_interrupt_code();
    }
    if (code == EXIT_OK && b->count == 0 && b->options.isa == BERTH_ISA_AUTO) {
        code = measure_row(b, isa_choices + 1); /* a processor with no other row */
    }
    if (code == EXIT_OK && b->count == 0) {
        code = report_failure("bench kernels", "this machine or this build cannot run that kernel row");
    }
    return code;
}

static bool waits_for_memory(const struct bench_kernels *b, const tool_rates *r)
{
    return r->gemv_macs_per_s * r->weight_bits / 8 > b->memory;
}

static void print_rows(const struct bench_kernels *b, struct table *table)
{
    static const char *const head[] = {"row",       "type",  "bits",   "stream",
                                       "of memory", "token", "prompt", "a token waits for"};
    table_row(table, head);
    for (uint32_t i = 0; i < b->count; i++) {
        const tool_rates *r = &b->results[i].rates;
        char bits[FORMAT_MAX];
        char stream[FORMAT_MAX];
        char share[FORMAT_MAX];
        char token[FORMAT_MAX];
        char prompt[FORMAT_MAX];
        snprintf(bits, sizeof bits, "%.2f", r->weight_bits);
        snprintf(share, sizeof share, "%.0f %%", b->memory > 0 ? 100 * r->kernel_bytes_per_s / b->memory : 0);
        snprintf(token, sizeof token, "%.1f GMAC/s", r->gemv_macs_per_s * 1e-9);
        snprintf(prompt, sizeof prompt, "%.1f GMAC/s", r->gemm_macs_per_s * 1e-9);
        const char *const cells[] = {b->results[i].row,
                                     r->dtype,
                                     bits,
                                     rate_format(r->kernel_bytes_per_s, stream),
                                     share,
                                     token,
                                     prompt,
                                     waits_for_memory(b, r) ? "memory" : "the kernel"};
        table_row(table, cells);
    }
}

static void print_text(const struct bench_kernels *b)
{
    struct table table;
    char plain[FORMAT_MAX];
    char memory[FORMAT_MAX];
    table_begin(&table, stdout, "llrrrrrl", 0);
    print_rows(b, &table);
    table_print(&table);
    print_rows(b, &table);
    printf("\nmemory: %s by plain reads, %s by the fastest stream\n", rate_format(b->plain, plain),
           rate_format(b->memory, memory));
}

static void print_json(const struct bench_kernels *b)
{
    struct json_out json;
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    json_out_real(&json, "plain_bytes_per_s", b->plain);
    json_out_real(&json, "memory_bytes_per_s", b->memory);
    json_out_array(&json, "kernels", false);
    for (uint32_t i = 0; i < b->count; i++) {
        const tool_rates *r = &b->results[i].rates;
        json_out_object(&json, NULL);
        json_out_string(&json, "row", b->results[i].row);
        json_out_string(&json, "type", r->dtype);
        json_out_real(&json, "weight_bits", r->weight_bits);
        json_out_real(&json, "stream_bytes_per_s", r->kernel_bytes_per_s);
        json_out_real(&json, "decode_macs_per_s", r->gemv_macs_per_s);
        json_out_real(&json, "prefill_macs_per_s", r->gemm_macs_per_s);
        json_out_bool(&json, "waits_for_memory", waits_for_memory(b, r));
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_close(&json);
    json_out_end(&json);
}

static int run(int argc, char **argv)
{
    static struct bench_kernels b;
    int code;
    b.options = (struct kernels_options){
        .isa = BERTH_ISA_AUTO, .memory_bytes = (uint64_t)MEMORY_DEFAULT << 20, .milliseconds = MILLISECONDS_DEFAULT};
    if (!report_args(&spec, argc, argv, &b.options, &code)) {
        return code;
    }
    code = check_types(&b.options);
    if (code == EXIT_OK) {
        host_catch_interrupts();
        code = measure(&b);
    }
    if (code == EXIT_OK && b.options.json) {
        print_json(&b);
    } else if (code == EXIT_OK) {
        print_text(&b);
    }
    return code;
}

const struct verb verb_bench_kernels = {"bench kernels", &spec, run, false};
