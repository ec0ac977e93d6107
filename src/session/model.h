/* SPDX-License-Identifier: MIT
 * Inside the session room: what the opaque handles of berth.h are. */
#ifndef SESSION_MODEL_H
#define SESSION_MODEL_H

#include <stdatomic.h>

#include "base/log.h"
#include "fit/plan.h"

struct berth_session {
    struct berth_model *model;
    bool live;
    bool has_logits;
    uint32_t length;
    atomic_int cancel;
};

struct berth_model {
    struct engine engine;
    berth_plan plan;
    struct berth_session session;
    struct log_sink log;
    const struct family *family; /* NULL in text mode */
    const struct kernels *kernels;
    void *region;
    uint64_t region_bytes;
    bool text_only, locked;
    enum checkpoint_format format;
    uint32_t format_version;
    char name[128];
    char policy[32];
    char text_problem[256]; /* why there is no tokenizer; "": the file has none */
    /* statistics */
    uint64_t tokens[2], ns[2]; /* by berth_phase */
    uint64_t open_ns, open_read_bytes, open_major_faults;
};

/* berth_model_open() with fault injection (tests). hooks must outlive the model. */
berth_status model_open_hooked(const char *path, const berth_model_config *config, const struct os_hooks *hooks,
                               berth_model **out, berth_error *err);

/* A config that has every field of this version, from a caller's possibly older and smaller one. NULL: defaults. */
berth_status config_complete(const berth_model_config *config, berth_model_config *out, berth_error *err);

#endif
