/* SPDX-License-Identifier: MIT */
#include "cli/topology.h"

#include <dlfcn.h>
#include <hwloc.h>
#include <stddef.h>

struct hwloc_functions {
    int (*init)(hwloc_topology_t *topology);
    int (*load)(hwloc_topology_t topology);
    void (*destroy)(hwloc_topology_t topology);
    int (*type_depth)(hwloc_topology_t topology, hwloc_obj_type_t type);
    unsigned (*width)(hwloc_topology_t topology, int depth);
    hwloc_obj_t (*object)(hwloc_topology_t topology, int depth, unsigned index);
};

static bool load_functions(struct hwloc_functions *f)
{
    static const struct {
        const char *name;
        size_t offset;
    } symbols[] = {
        {"hwloc_topology_init", offsetof(struct hwloc_functions, init)},
        {"hwloc_topology_load", offsetof(struct hwloc_functions, load)},
        {"hwloc_topology_destroy", offsetof(struct hwloc_functions, destroy)},
        {"hwloc_get_type_depth", offsetof(struct hwloc_functions, type_depth)},
        {"hwloc_get_nbobjs_by_depth", offsetof(struct hwloc_functions, width)},
        {"hwloc_get_obj_by_depth", offsetof(struct hwloc_functions, object)},
    };
    void *library = dlopen("libhwloc.so.15", RTLD_NOW | RTLD_LOCAL);
    for (size_t i = 0; library != NULL && i < sizeof symbols / sizeof symbols[0]; i++) {
        void *symbol = dlsym(library, symbols[i].name);
        if (symbol == NULL) {
            return false;
        }
        *(void **)(void *)((char *)f + symbols[i].offset) = symbol;
    }
    return library != NULL;
}

static uint32_t count_of(const struct hwloc_functions *f, hwloc_topology_t topology, hwloc_obj_type_t type)
{
    int depth = f->type_depth(topology, type);
    return depth == HWLOC_TYPE_DEPTH_UNKNOWN || depth == HWLOC_TYPE_DEPTH_MULTIPLE ? 0 : f->width(topology, depth);
}

static uint64_t cache_bytes(const struct hwloc_functions *f, hwloc_topology_t topology, hwloc_obj_type_t type)
{
    int depth = f->type_depth(topology, type);
    hwloc_obj_t cache = depth >= 0 && f->width(topology, depth) > 0 ? f->object(topology, depth, 0) : NULL;
    return cache != NULL && cache->attr != NULL ? cache->attr->cache.size : 0;
}

bool topology_read(struct topology *out)
{
    struct hwloc_functions f;
    hwloc_topology_t topology;
    if (!load_functions(&f) || f.init(&topology) != 0) {
        return false;
    }
    bool loaded = f.load(topology) == 0;
    if (loaded) {
        *out = (struct topology){
            .packages = count_of(&f, topology, HWLOC_OBJ_PACKAGE),
            .cores = count_of(&f, topology, HWLOC_OBJ_CORE),
            .threads = count_of(&f, topology, HWLOC_OBJ_PU),
            .numa_nodes = count_of(&f, topology, HWLOC_OBJ_NUMANODE),
            .l2_bytes = cache_bytes(&f, topology, HWLOC_OBJ_L2CACHE),
            .l3_bytes = cache_bytes(&f, topology, HWLOC_OBJ_L3CACHE),
        };
    }
    f.destroy(topology);
    return loaded;
}
