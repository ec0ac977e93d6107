/* SPDX-License-Identifier: MIT */
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>

void log_write(const struct log_sink *sink, berth_log_level level, const char *format, ...)
{
    if (sink == NULL || sink->fn == NULL) {
        return;
    }
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    sink->fn(sink->user, level, text);
}
