/* SPDX-License-Identifier: MIT
 * This machine in the store: what it is, its rates, and the disks that models lie on. */
#ifndef APP_STORE_MACHINE_H
#define APP_STORE_MACHINE_H

#include "store/store.h"
#include "tool.h"

enum { MACHINE_KEY_MAX = 320, SMALL_REQUEST_BYTES = 16 << 10 };

struct machine_row {
    char key[MACHINE_KEY_MAX]; /* processor, memory, kernel, CPUs: rates of another key are not ours */
    int64_t at;
    char cpu[128], kernel[128];
    int64_t ram_bytes, cpus, cpus_online;
    int64_t packages, cores, numa_nodes, l2_bytes, l3_bytes; /* 0: unknown */
    double memory_one, memory_all;                           /* bytes/s by one thread, by all */
};

struct kernel_row {
    char machine[MACHINE_KEY_MAX];
    char dtype[16];
    double decode_macs, prefill_macs; /* multiply-adds/s, weights in the cache */
    double stream;                    /* bytes/s, weights in memory, a token at a time */
    int64_t threads;                  /* that these were measured with */
};

struct volume_row {
    char machine[MACHINE_KEY_MAX];
    char source[128], mount[256], type[32];
    int64_t at;
    double read_rate;  /* bytes/s, requests of request_bytes */
    double small_rate; /* bytes/s, requests of SMALL_REQUEST_BYTES */
    int64_t request_bytes, direct;
};

extern const struct store_table machine_table, kernel_table, volume_table;

/* What identifies this machine, and the plain facts of the row. */
bool machine_identify(struct machine_row *row, berth_error *err);

/* The stored row of a key; false: none (or the store failed). */
bool machine_get(struct store *store, const char *key, struct machine_row *out);
bool machine_get_kernel(struct store *store, const char *key, const char *dtype, struct kernel_row *out);
/* Every kernel that was measured, by name; fn says whether to go on. */
bool machine_each_kernel(struct store *store, const char *key, struct kernel_row *row,
                         bool (*fn)(void *user, const void *row), void *user);
/* The volume that a path lies on, when it was measured. */
bool machine_get_volume(struct store *store, const char *key, const char *path, struct volume_row *out);

/* Bytes/s in requests of some size: each costs a time of its own and a time a byte, from the two sizes measured. */
double machine_read_rate(const struct volume_row *volume, double request_bytes);

#endif
