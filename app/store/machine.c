/* SPDX-License-Identifier: MIT */
#include "store/machine.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TEXT(type, field)                                                                 \
    {                                                                                     \
#field, STORE_TEXT, offsetof(struct type, field), sizeof((struct type *)0)->field \
    }
#define INT(type, field)                                   \
    {                                                      \
#field, STORE_INT, offsetof(struct type, field), 0 \
    }
#define REAL(type, field)                                   \
    {                                                       \
#field, STORE_REAL, offsetof(struct type, field), 0 \
    }
#define TABLE(name, columns, type)                                                 \
    {                                                                              \
        name, columns, sizeof(columns) / sizeof((columns)[0]), sizeof(struct type) \
    }

static const struct store_column machine_columns[] = {
    TEXT(machine_row, key),        INT(machine_row, at),          TEXT(machine_row, cpu),
    TEXT(machine_row, kernel),     INT(machine_row, ram_bytes),   INT(machine_row, cpus),
    INT(machine_row, cpus_online), INT(machine_row, packages),    INT(machine_row, cores),
    INT(machine_row, numa_nodes),  INT(machine_row, l2_bytes),    INT(machine_row, l3_bytes),
    REAL(machine_row, memory_one), REAL(machine_row, memory_all),
};
static const struct store_column kernel_columns[] = {
    TEXT(kernel_row, machine),      TEXT(kernel_row, dtype),  REAL(kernel_row, decode_macs),
    REAL(kernel_row, prefill_macs), REAL(kernel_row, stream), INT(kernel_row, threads),
};
static const struct store_column volume_columns[] = {
    TEXT(volume_row, machine),    TEXT(volume_row, source),
    TEXT(volume_row, mount),      TEXT(volume_row, type),
    INT(volume_row, at),          REAL(volume_row, read_rate),
    REAL(volume_row, small_rate), INT(volume_row, request_bytes),
    INT(volume_row, direct),
};

const struct store_table machine_table = TABLE("machine", machine_columns, machine_row);
const struct store_table kernel_table = TABLE("kernel_rate", kernel_columns, kernel_row);
const struct store_table volume_table = TABLE("volume", volume_columns, volume_row);

bool machine_identify(struct machine_row *row, berth_error *err)
{
    tool_machine machine;
    if (tool_machine_read(&machine, err) != BERTH_OK) {
        return false;
    }
    *row = (struct machine_row){.ram_bytes = (int64_t)machine.ram_bytes,
                                .cpus = (int64_t)machine.cpus,
                                .cpus_online = (int64_t)machine.cpus_online};
    snprintf(row->cpu, sizeof row->cpu, "%s", machine.cpu);
    snprintf(row->kernel, sizeof row->kernel, "%s", machine.kernel);
    snprintf(row->key, sizeof row->key, "%s | %" PRIu64 " | %s | %" PRIu32, machine.cpu, machine.ram_bytes,
             machine.kernel, machine.cpus);
    return true;
}

static bool first(void *user, const void *row)
{
    (void)row;
    *(bool *)user = true;
    return false;
}

bool machine_get(struct store *store, const char *key, struct machine_row *out)
{
    bool found = false;
    const char *const texts[2] = {key, NULL};
    return store_each(store, &machine_table, "WHERE key = ?1", texts, out, first, &found) && found;
}

bool machine_get_kernel(struct store *store, const char *key, const char *dtype, struct kernel_row *out)
{
    bool found = false;
    const char *const texts[2] = {key, dtype};
    return store_each(store, &kernel_table, "WHERE machine = ?1 AND dtype = ?2", texts, out, first, &found) && found;
}

bool machine_each_kernel(struct store *store, const char *key, struct kernel_row *row,
                         bool (*fn)(void *user, const void *row), void *user)
{
    const char *const texts[2] = {key, NULL};
    return store_each(store, &kernel_table, "WHERE machine = ?1 ORDER BY dtype", texts, row, fn, user);
}

bool machine_get_volume(struct store *store, const char *key, const char *path, struct volume_row *out)
{
    tool_volume volume;
    if (tool_volume_of(path, &volume, NULL) != BERTH_OK) {
        return false;
    }
    char place[sizeof volume.source + sizeof volume.mount + 1];
    snprintf(place, sizeof place, "%s\n%s", volume.source, volume.mount);
    bool found = false;
    const char *const texts[2] = {key, place};
    return store_each(store, &volume_table, "WHERE machine = ?1 AND source || char(10) || mount = ?2", texts, out,
                      first, &found) &&
           found;
}

double machine_read_rate(const struct volume_row *volume, double request_bytes)
{
    double large = (double)volume->request_bytes;
    double small = SMALL_REQUEST_BYTES;
    if (!(volume->read_rate > 0 && volume->small_rate > 0 && request_bytes > 0 && large > small)) {
        return volume->read_rate;
    }
    double large_s = large / volume->read_rate;
    double small_s = small / volume->small_rate;
    double byte_s = (large_s - small_s) / (large - small);
    double request_s = small_s - small * byte_s;
    if (byte_s <= 0 || request_s <= 0) {
        return volume->read_rate; /* small requests are no slower */
    }
    return request_bytes / (request_s + request_bytes * byte_s);
}
