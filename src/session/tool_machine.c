/* SPDX-License-Identifier: MIT
 * src/tool.h: what machine this is. */
#include <string.h>

#include "os/cpu.h"
#include "os/machine.h"
#include "os/memory.h"
#include "tool.h"

berth_status tool_machine_read(tool_machine *out, berth_error *err)
{
    memset(out, 0, sizeof *out);
    TRY(os_memory_total("", &out->ram_bytes, err));
    if (!os_processor_name("", out->cpu, sizeof out->cpu)) {
        out->cpu[0] = '\0';
    }
    os_kernel_name(out->kernel, sizeof out->kernel);
    out->cpus = os_cpu_count();
    out->cpus_online = os_cpu_online();
    return BERTH_OK;
}

berth_status tool_memory_levels(tool_memory_level_fn *fn, void *user, berth_error *err)
{
    struct os_memory_limit limit;
    return os_memory_levels("", fn, user, &limit, err);
}

berth_status tool_volume_of(const char *path, tool_volume *out, berth_error *err)
{
    struct os_volume volume;
    TRY(os_volume_of("", path, &volume, err));
    out->device = volume.device;
    memcpy(out->source, volume.source, sizeof out->source);
    memcpy(out->type, volume.type, sizeof out->type);
    memcpy(out->mount, volume.mount, sizeof out->mount);
    return BERTH_OK;
}
