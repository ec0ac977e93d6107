/* SPDX-License-Identifier: MIT
 * berth bench machine: what this machine is and how fast its memory, kernels and disks are; kept for fit and models. */
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "cli/topology.h"
#include "cli/verbs.h"
#include "common/host_files.h"
#include "common/json_out.h"
#include "common/report.h"
#include "common/sizes.h"
#include "common/table.h"
#include "store/machine.h"
#include "store/models.h"

struct machine_options {
    const char *path;
    bool again, json;
};

#define AT(field) offsetof(struct machine_options, field)

static const struct arg_option rows[] = {
    {.name = "again",
     .type = ARG_FLAG,
     .offset = AT(again),
     .help = "measure anew, also when the rates of this machine are\nknown"},
    {.name = "json", .type = ARG_FLAG, .offset = AT(json), .help = "print JSON"},
};
static const struct arg_group groups[] = {{"Options", rows, sizeof rows / sizeof rows[0], 0}};
static const struct arg_positional positionals[] = {{"PATH", AT(path), true}};

static const struct arg_spec spec = {
    .verb = "bench machine",
    .synopsis = "[PATH] [--again] [--json]",
    .summary = "Measure memory, kernels and disks of this machine.",
    .details = "PATH is a model, or a folder: the disk it lies on is measured (default: the disks of the models that\n"
               "'berth models' knows, else that of the state directory). In a folder without a large file 256 MiB are\n"
               "written for the measurement and removed again. The rates are kept until processor, memory, kernel or\n"
               "disk change; fit and models predict speed with them.",
    .positionals = positionals,
    .positionals_count = 1,
    .groups = groups,
    .groups_count = sizeof groups / sizeof groups[0],
};

enum { KERNELS_MAX = 40, VOLUMES_MAX = 8, LEVELS_MAX = 24, SAMPLE_BYTES = 256 << 20 };
enum { DISK_MS = 600, KERNEL_MS = 40, KERNEL_SAMPLE_BYTES = 64 << 20 };

struct level {
    char name[256];
    uint64_t limit_bytes, available_bytes;
};

struct bench_machine {
    struct machine_options options;
    struct machine_row machine;
    struct kernel_row kernels[KERNELS_MAX];
    uint32_t kernels_count;
    struct volume_row volumes[VOLUMES_MAX];
    uint32_t volumes_count;
    struct level levels[LEVELS_MAX];
    uint32_t levels_count;
    bool measured; /* just now */
    struct store *store;
};

static void on_level(void *user, const char *name, uint64_t limit_bytes, uint64_t available_bytes)
{
    struct bench_machine *b = user;
    if (b->levels_count < LEVELS_MAX) {
        struct level *level = &b->levels[b->levels_count++];
        snprintf(level->name, sizeof level->name, "%.255s", name);
        level->limit_bytes = limit_bytes;
        level->available_bytes = available_bytes;
    }
}

static uint64_t available_bytes(const struct bench_machine *b)
{
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < b->levels_count; i++) {
        least = b->levels[i].available_bytes < least ? b->levels[i].available_bytes : least;
    }
    return least;
}

/* What the seconds go into, where nobody sees a line that is redrawn either. */
static void step(const char *what, const char *path)
{
    report_note("measuring %s%s%s", what, path != NULL ? " under " : "", path != NULL ? path : "");
}

/* ---- measuring -------------------------------------------------------------------------------------- */

/* Each measurement is short: a signal is looked for between them. */
static berth_status stopped(berth_error *err)
{
    return error_set(err, BERTH_ERR_CANCELLED, "interrupted; nothing was kept");
}

static berth_status measure_memory(struct bench_machine *b, uint32_t threads, double *rate, berth_error *err)
{
    enum { ROUNDS = 3 };
    uint64_t most = available_bytes(b) / 4;
    const tool_measure want = {
        .threads = threads, .memory_bytes = SAMPLE_BYTES, .memory_max_bytes = most, .milliseconds = 5};
    for (int round = 0; round < ROUNDS; round++) {
        if (host_interrupted()) {
            return stopped(err);
        }
        tool_rates rates;
        berth_status status = tool_measure_rates(NULL, &want, &rates, err);
        if (status != BERTH_OK) {
            return status;
        }
        *rate = rates.memory_bytes_per_s > *rate ? rates.memory_bytes_per_s : *rate;
    }
    return BERTH_OK;
}

static berth_status measure_kernels(struct bench_machine *b, berth_error *err)
{
    uint64_t most = available_bytes(b) / 4;
    uint64_t sample = 2 * (uint64_t)b->machine.l3_bytes; /* a stream that no cache holds */
    sample = sample < KERNEL_SAMPLE_BYTES ? KERNEL_SAMPLE_BYTES : sample > SAMPLE_BYTES ? SAMPLE_BYTES : sample;
    const char *type;
    b->kernels_count = 0;
    for (uint32_t i = 0; (type = tool_kernel_type(BERTH_ISA_AUTO, i)) != NULL && i < KERNELS_MAX; i++) {
        if (host_interrupted()) {
            return stopped(err);
        }
        const tool_measure want = {
            .dtype = type, .memory_bytes = sample, .memory_max_bytes = most, .milliseconds = KERNEL_MS};
        tool_rates rates;
        berth_status status = tool_measure_rates(NULL, &want, &rates, err);
        if (status != BERTH_OK) {
            return status;
        }
        struct kernel_row *row = &b->kernels[b->kernels_count++];
        snprintf(row->machine, sizeof row->machine, "%s", b->machine.key);
        snprintf(row->dtype, sizeof row->dtype, "%s", rates.dtype);
        row->decode_macs = rates.gemv_macs_per_s;
        row->prefill_macs = rates.gemm_macs_per_s;
        row->stream = rates.kernel_bytes_per_s;
        row->threads = rates.threads;
    }
    return BERTH_OK;
}

static berth_status measure_file(struct bench_machine *b, const char *path, berth_error *err)
{
    tool_volume volume;
    tool_rates rates;
    tool_rates small;
    tool_measure want = {.plain_file = true, .memory_max_bytes = 80 << 20, .milliseconds = DISK_MS};
    berth_status status = tool_volume_of(path, &volume, err);
    if (status == BERTH_OK) {
        status = tool_measure_rates(path, &want, &rates, err);
    }
    want.request_bytes = SMALL_REQUEST_BYTES;
    want.milliseconds = DISK_MS / 2;
    if (status == BERTH_OK) {
        status = host_interrupted() ? stopped(err) : tool_measure_rates(path, &want, &small, err);
    }
    if (status != BERTH_OK || b->volumes_count == VOLUMES_MAX) {
        return status;
    }
    struct volume_row *row = &b->volumes[b->volumes_count++];
    *row = (struct volume_row){.at = store_now(),
                               .read_rate = rates.read_bytes_per_s,
                               .small_rate = small.read_bytes_per_s,
                               .request_bytes = 1 << 20,
                               .direct = rates.direct_io ? 1 : 0};
    snprintf(row->machine, sizeof row->machine, "%s", b->machine.key);
    snprintf(row->source, sizeof row->source, "%s", volume.source);
    snprintf(row->mount, sizeof row->mount, "%s", volume.mount);
    snprintf(row->type, sizeof row->type, "%s", volume.type);
    return BERTH_OK;
}

/* A folder: its largest file if that is large enough, else one of our own for the moment. */
static int measure_folder(struct bench_machine *b, const char *folder)
{
    char path[HOST_PATH_MAX + 64];
    berth_error err;
    step("the disk", folder);
    host_sweep_samples(folder);
    bool ours = !host_largest_file(folder, SAMPLE_BYTES / 4, path, sizeof path);
    if (ours && !host_write_sample(folder, SAMPLE_BYTES, path, sizeof path)) {
        if (host_interrupted()) {
            return host_interrupt_code();
        }
        return report_failure("bench machine", "%s: no room or no permission for a file of 256 MiB to read back",
                              folder);
    }
    berth_status status = measure_file(b, path, &err);
    if (ours) {
        host_remove_file(path);
        host_temporary_done(path);
    }
    return status == BERTH_OK ? EXIT_OK : report_error("bench machine", &err);
}

static int measure_path(struct bench_machine *b, const char *path)
{
    berth_error err;
    uint64_t bytes = 0;
    if (!host_file_size(path, &bytes)) {
        return report_failure("bench machine", "%s: no such file or folder", path);
    }
    if (bytes == 0) {
        return measure_folder(b, path);
    }
    step("the disk", path);
    return measure_file(b, path, &err) == BERTH_OK ? EXIT_OK : report_error("bench machine", &err);
}

struct disk {
    uint64_t device;
    char path[HOST_PATH_MAX];
};

/* The largest known model of each file system. */
static int measure_disks(struct bench_machine *b)
{
    struct disk disks[VOLUMES_MAX];
    uint32_t count = 0;
    char path[HOST_PATH_MAX];
    for (int64_t at = 0;
         b->store != NULL && count < VOLUMES_MAX && models_path_by_size(b->store, at, path, sizeof path); at++) {
        tool_volume volume;
        uint32_t seen = 0;
        if (tool_volume_of(path, &volume, NULL) != BERTH_OK) {
            continue;
        }
        while (seen < count && disks[seen].device != volume.device) {
            seen++;
        }
        if (seen == count) {
            disks[count].device = volume.device;
            snprintf(disks[count++].path, sizeof disks[0].path, "%s", path);
        }
    }
    if (count == 0) {
        if (!host_state_dir(path, sizeof path) || !host_make_directory(path)) {
            report_note("no folder to measure a disk in; name one");
            return EXIT_OK;
        }
        return measure_folder(b, path);
    }
    int code = EXIT_OK;
    for (uint32_t i = 0; code == EXIT_OK && i < count; i++) {
        code = measure_path(b, disks[i].path);
    }
    return code;
}

static void add_topology(struct machine_row *machine)
{
    struct topology topology;
    if (topology_read(&topology)) {
        machine->packages = topology.packages;
        machine->cores = topology.cores;
        machine->numa_nodes = topology.numa_nodes;
        machine->l2_bytes = (int64_t)topology.l2_bytes;
        machine->l3_bytes = (int64_t)topology.l3_bytes;
    }
}

/* Rates that contradict each other: one thread faster than all of them, a kernel faster than its memory, or simple
 * formats, which wait for memory alike, far apart. False: none do. */
static bool find_doubt(const struct bench_machine *b, char *text, size_t cap)
{
    static const char *const simple[] = {"Q8_0", "F16", "BF16", "F32"};
    const double most = 1.4;
    const struct kernel_row *slow = NULL;
    const struct kernel_row *fast = NULL;
    char x[FORMAT_MAX];
    char y[FORMAT_MAX];
    for (uint32_t i = 0; i < b->kernels_count; i++) {
        const struct kernel_row *row = &b->kernels[i];
        bool waits = false;
        for (size_t k = 0; k < sizeof simple / sizeof simple[0]; k++) {
            waits = waits || strcmp(row->dtype, simple[k]) == 0;
        }
        if (waits) {
            slow = slow == NULL || row->stream < slow->stream ? row : slow;
            fast = fast == NULL || row->stream > fast->stream ? row : fast;
        }
    }
    double memory = b->machine.memory_all > b->machine.memory_one ? b->machine.memory_all : b->machine.memory_one;
    if (b->machine.memory_one > most * b->machine.memory_all) {
        snprintf(text, cap, "one thread reads memory at %s and all at %s", rate_format(b->machine.memory_one, x),
                 rate_format(b->machine.memory_all, y));
        return true;
    }
    if (fast != NULL && fast->stream > most * memory) {
        snprintf(text, cap, "the %s kernel reads %s from a memory of %s", fast->dtype, rate_format(fast->stream, x),
                 rate_format(memory, y));
        return true;
    }
    if (fast != NULL && fast->stream > 2.5 * slow->stream) {
        snprintf(text, cap, "from memory %s is read at %s and %s at %s", fast->dtype, rate_format(fast->stream, x),
                 slow->dtype, rate_format(slow->stream, y));
        return true;
    }
    return false;
}

static void keep_faster(double *rate, double other)
{
    *rate = other > *rate ? other : *rate;
}

static berth_status measure_once(struct bench_machine *b, berth_error *err)
{
    step("memory", NULL);
    berth_status status = measure_memory(b, 1, &b->machine.memory_one, err);
    if (status == BERTH_OK) {
        status = measure_memory(b, (uint32_t)b->machine.cpus, &b->machine.memory_all, err);
    }
    if (status != BERTH_OK) {
        return status;
    }
    step("kernels", NULL);
    return measure_kernels(b, err);
}

/* Once more where the rates contradict each other. Whatever disturbs a measurement slows it: the faster one counts. */
static berth_status measure_again(struct bench_machine *b, berth_error *err)
{
    static struct kernel_row first[KERNELS_MAX];
    uint32_t count = b->kernels_count;
    memcpy(first, b->kernels, sizeof first);
    berth_status status = measure_once(b, err); /* the memory's rates keep the faster by themselves */
    for (uint32_t i = 0; i < count && i < b->kernels_count && status == BERTH_OK; i++) {
        keep_faster(&b->kernels[i].stream, first[i].stream);
        keep_faster(&b->kernels[i].decode_macs, first[i].decode_macs);
        keep_faster(&b->kernels[i].prefill_macs, first[i].prefill_macs);
    }
    return status;
}

static int measure(struct bench_machine *b)
{
    berth_error err;
    char doubt[160];
    b->measured = true;
    b->machine.at = store_now();
    add_topology(&b->machine);
    berth_status status = measure_once(b, &err);
    if (status == BERTH_OK && find_doubt(b, doubt, sizeof doubt)) {
        status = measure_again(b, &err);
    }
    return status == BERTH_OK ? EXIT_OK : report_error("bench machine", &err);
}

static bool keep(struct bench_machine *b)
{
    bool kept = store_do(b->store, "BEGIN IMMEDIATE", NULL) && store_put(b->store, &machine_table, &b->machine);
    for (uint32_t i = 0; kept && i < b->kernels_count; i++) {
        kept = store_put(b->store, &kernel_table, &b->kernels[i]);
    }
    for (uint32_t i = 0; kept && i < b->volumes_count; i++) {
        kept = store_put(b->store, &volume_table, &b->volumes[i]);
    }
    return kept && store_do(b->store, "COMMIT", NULL);
}

static bool take_volume(void *user, const void *row)
{
    struct bench_machine *b = user;
    if (b->volumes_count < VOLUMES_MAX) {
        b->volumes[b->volumes_count++] = *(const struct volume_row *)row;
    }
    return b->volumes_count < VOLUMES_MAX;
}

static bool take_kernel(void *user, const void *row)
{
    struct bench_machine *b = user;
    b->kernels[b->kernels_count++] = *(const struct kernel_row *)row;
    return b->kernels_count < KERNELS_MAX;
}

/* In the order that they are measured in, whatever the store's is. */
static void order_kernels(struct bench_machine *b)
{
    const char *type;
    uint32_t placed = 0;
    for (uint32_t i = 0; (type = tool_kernel_type(BERTH_ISA_AUTO, i)) != NULL; i++) {
        for (uint32_t k = placed; k < b->kernels_count; k++) {
            if (strcmp(b->kernels[k].dtype, type) == 0) {
                struct kernel_row row = b->kernels[k];
                b->kernels[k] = b->kernels[placed];
                b->kernels[placed++] = row;
                break;
            }
        }
    }
}

/* What is known of this machine; false: nothing, or not the disk asked for. */
static bool recall(struct bench_machine *b)
{
    struct machine_row machine;
    struct volume_row volume;
    if (b->store == NULL || !machine_get(b->store, b->machine.key, &machine)) {
        return false;
    }
    if (b->options.path != NULL && !machine_get_volume(b->store, machine.key, b->options.path, &volume)) {
        return false;
    }
    struct kernel_row kernel;
    if (!machine_each_kernel(b->store, machine.key, &kernel, take_kernel, b) || b->kernels_count == 0) {
        return false;
    }
    order_kernels(b);
    b->machine = machine;
    const char *const texts[2] = {machine.key, NULL};
    return store_each(b->store, &volume_table, "WHERE machine = ?1 ORDER BY mount", texts, &volume, take_volume, b);
}

/* ---- output ----------------------------------------------------------------------------------------- */

static void print_row(struct table *table, const char *name, const char *value)
{
    const char *cells[] = {name, value};
    table_row(table, cells);
}

static void print_levels(const struct bench_machine *b, struct table *table)
{
    for (uint32_t i = 0; i < b->levels_count; i++) {
        const struct level *level = &b->levels[i];
        char text[400];
        char limit[FORMAT_MAX];
        char available[FORMAT_MAX];
        bool binds = level->available_bytes == available_bytes(b);
        if (i == 0) {
            snprintf(text, sizeof text, "%s %s%s", size_format(level->available_bytes, available), level->name,
                     binds ? ", which binds" : "");
        } else {
            snprintf(text, sizeof text, "%s of %s, %s%s", size_format(level->available_bytes, available),
                     size_format(level->limit_bytes, limit), level->name, binds ? ", which binds" : "");
        }
        print_row(table, i == 0 ? "available" : "cgroup", text);
    }
}

/* The others: --json, and bench kernels. */
static bool is_common(const char *type)
{
    static const char *const common[] = {"Q4_K", "Q8_0", "BF16", "F32"};
    bool found = false;
    for (size_t i = 0; i < sizeof common / sizeof common[0]; i++) {
        found = found || strcmp(type, common[i]) == 0;
    }
    return found;
}

static void print_facts(const struct bench_machine *b, struct table *table)
{
    const struct machine_row *m = &b->machine;
    char text[512];
    char a[FORMAT_MAX];
    char c[FORMAT_MAX];
    print_row(table, "processor", m->cpu[0] != '\0' ? m->cpu : "unknown");
    snprintf(text, sizeof text, "%" PRId64 " of %" PRId64 " for this process", m->cpus, m->cpus_online);
    if (m->cores > 0) {
        size_t used = strlen(text);
        snprintf(text + used, sizeof text - used, "; packages %" PRId64 ", cores %" PRId64 ", NUMA nodes %" PRId64,
                 m->packages, m->cores, m->numa_nodes);
    }
    print_row(table, "CPUs", text);
    if (m->l2_bytes > 0 || m->l3_bytes > 0) {
        snprintf(text, sizeof text, "L2 %s, L3 %s", size_format((uint64_t)m->l2_bytes, a),
                 size_format((uint64_t)m->l3_bytes, c));
        print_row(table, "caches", text);
    }
    print_row(table, "kernel", m->kernel);
    print_row(table, "memory", size_format((uint64_t)m->ram_bytes, a));
    print_levels(b, table);
    snprintf(text, sizeof text, "%s by one thread, %s by %" PRId64, rate_format(m->memory_one, a),
             rate_format(m->memory_all, c), m->cpus);
    print_row(table, "memory rate", text);
    for (uint32_t i = 0; i < b->kernels_count; i++) {
        const struct kernel_row *k = &b->kernels[i];
        char name[32];
        if (!is_common(k->dtype)) {
            continue;
        }
        snprintf(name, sizeof name, "kernel %s", k->dtype);
        snprintf(text, sizeof text, "%s from memory; cached %.1f GMAC/s a token, %.1f a prompt",
                 rate_format(k->stream, a), k->decode_macs * 1e-9, k->prefill_macs * 1e-9);
        print_row(table, name, text);
    }
    for (uint32_t i = 0; i < b->volumes_count; i++) {
        const struct volume_row *v = &b->volumes[i];
        snprintf(text, sizeof text, "%s in requests of 1 MiB, %s of 16 KiB; %s %s at %s%s",
                 v->read_rate > 0 ? rate_format(v->read_rate, a) : "unknown",
                 v->small_rate > 0 ? rate_format(v->small_rate, c) : "unknown", v->type, v->source, v->mount,
                 v->direct != 0 ? "" : " (through the page cache)");
        print_row(table, "disk", text);
    }
}

static void print_text(const struct bench_machine *b)
{
    struct table table;
    table_begin(&table, stdout, "ll", 0);
    print_facts(b, &table);
    table_print(&table);
    print_facts(b, &table);
    if (!b->measured) {
        char age[FORMAT_MAX];
        int64_t seconds = store_now() - b->machine.at;
        printf("\nMeasured %s ago; --again repeats it.\n", time_format(seconds > 0 ? (double)seconds : 0, age));
    }
}

static void json_rates(struct json_out *json, const struct bench_machine *b)
{
    json_out_array(json, "kernels", false);
    for (uint32_t i = 0; i < b->kernels_count; i++) {
        json_out_object(json, NULL);
        json_out_string(json, "type", b->kernels[i].dtype);
        json_out_real(json, "stream_bytes_per_s", b->kernels[i].stream);
        json_out_real(json, "decode_macs_per_s", b->kernels[i].decode_macs);
        json_out_real(json, "prefill_macs_per_s", b->kernels[i].prefill_macs);
        json_out_u64(json, "threads", (uint64_t)b->kernels[i].threads);
        json_out_close(json);
    }
    json_out_close(json);
    json_out_array(json, "disks", false);
    for (uint32_t i = 0; i < b->volumes_count; i++) {
        const struct volume_row *v = &b->volumes[i];
        json_out_object(json, NULL);
        json_out_string(json, "source", v->source);
        json_out_string(json, "type", v->type);
        json_out_string(json, "mount", v->mount);
        json_out_real(json, "read_bytes_per_s", v->read_rate);
        json_out_real(json, "small_read_bytes_per_s", v->small_rate);
        json_out_u64(json, "request_bytes", (uint64_t)v->request_bytes);
        json_out_bool(json, "direct_io", v->direct != 0);
        json_out_close(json);
    }
    json_out_close(json);
}

static void print_json(const struct bench_machine *b)
{
    const struct machine_row *m = &b->machine;
    struct json_out json;
    json_out_begin(&json, stdout);
    json_out_object(&json, NULL);
    json_out_string(&json, "cpu", m->cpu);
    json_out_string(&json, "kernel", m->kernel);
    json_out_u64(&json, "ram_bytes", (uint64_t)m->ram_bytes);
    json_out_u64(&json, "cpus", (uint64_t)m->cpus);
    json_out_u64(&json, "cpus_online", (uint64_t)m->cpus_online);
    json_out_u64(&json, "packages", (uint64_t)m->packages);
    json_out_u64(&json, "cores", (uint64_t)m->cores);
    json_out_u64(&json, "numa_nodes", (uint64_t)m->numa_nodes);
    json_out_u64(&json, "l2_bytes", (uint64_t)m->l2_bytes);
    json_out_u64(&json, "l3_bytes", (uint64_t)m->l3_bytes);
    json_out_array(&json, "limits", false);
    for (uint32_t i = 0; i < b->levels_count; i++) {
        json_out_object(&json, NULL);
        json_out_string(&json, "name", b->levels[i].name);
        json_out_u64(&json, "limit_bytes", b->levels[i].limit_bytes);
        json_out_u64(&json, "available_bytes", b->levels[i].available_bytes);
        json_out_bool(&json, "binds", b->levels[i].available_bytes == available_bytes(b));
        json_out_close(&json);
    }
    json_out_close(&json);
    json_out_real(&json, "memory_bytes_per_s_one", m->memory_one);
    json_out_real(&json, "memory_bytes_per_s_all", m->memory_all);
    json_rates(&json, b);
    char doubt[160];
    json_out_bool(&json, "contradictory", find_doubt(b, doubt, sizeof doubt));
    json_out_i64(&json, "measured_at", m->at);
    json_out_bool(&json, "measured_now", b->measured);
    json_out_close(&json);
    json_out_end(&json);
}

/* ---- the verb --------------------------------------------------------------------------------------- */

static int bench(struct bench_machine *b)
{
    berth_error err;
    if (!machine_identify(&b->machine, &err) || tool_memory_levels(on_level, b, &err) != BERTH_OK) {
        return report_error("bench machine", &err);
    }
    int code = EXIT_OK;
    if (b->options.again || !recall(b)) {
        b->volumes_count = 0;
        code = measure(b);
        if (code == EXIT_OK) {
            code = b->options.path != NULL ? measure_path(b, b->options.path) : measure_disks(b);
        }
        if (code == EXIT_OK && host_interrupted()) {
            return host_interrupt_code();
        }
        if (code == EXIT_OK && b->store != NULL && !keep(b)) {
            report_note("the rates were not kept: %s", store_problem(b->store));
        }
    }
    char doubt[160];
    if (code == EXIT_OK) {
        if (b->options.json) {
            print_json(b);
        } else {
            print_text(b);
        }
        if (find_doubt(b, doubt, sizeof doubt)) {
            report_note("warning: the rates contradict each other:\n%s.\nThe machine was busy, or shares its memory; "
                        "--again measures anew.",
                        doubt);
        }
    }
    return code;
}

static int run(int argc, char **argv)
{
    struct bench_machine *b = calloc(1, sizeof *b);
    int code = EXIT_FAILED;
    if (b == NULL) {
        return report_failure("bench machine", "the system has no memory");
    }
    if (report_args(&spec, argc, argv, &b->options, &code)) {
        char problem[STORE_PROBLEM_MAX];
        b->store = store_open(true, problem);
        if (b->store == NULL) {
            report_note("the rates will not be kept: %s", problem);
        }
        host_catch_interrupts();
        code = bench(b);
        store_close(b->store);
    }
    free(b);
    return code;
}

const struct verb verb_bench_machine = {"machine", &spec, run, false};
