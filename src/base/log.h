/* SPDX-License-Identifier: MIT
 * Where messages go: a callback of the embedding program. Default silent; nothing here prints. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include "base/error.h"

struct log_sink {
    berth_log_fn *fn; /* NULL: silent */
    void *user;
};

void log_write(const struct log_sink *sink, berth_log_level level, const char *format, ...) BASE_PRINTF(3, 4);

#endif
