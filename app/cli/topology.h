/* SPDX-License-Identifier: MIT
 * Cores and caches of this machine, by hwloc, where it is installed. */
#ifndef CLI_TOPOLOGY_H
#define CLI_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

struct topology {
    uint32_t packages, cores, threads, numa_nodes; /* 0: unknown */
    uint64_t l2_bytes, l3_bytes;                   /* of one cache */
};

/* False: hwloc is not there, or does not answer. */
bool topology_read(struct topology *out);

#endif
