/* SPDX-License-Identifier: MIT */
#include "common/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "common/host.h"
#include "common/sizes.h"

enum { REDRAW_MS = 100, FIRST_DRAW_MS = 200, PLAIN_LINE_MS = 10000 };

void progress_begin(struct progress *progress, bool quiet)
{
    *progress = (struct progress){.quiet = quiet, .terminal = host_is_terminal(HOST_STDERR)};
}

static void amount_text(uint64_t amount, enum progress_unit unit, char text[FORMAT_MAX])
{
    if (unit == PROGRESS_BYTES) {
        size_format(amount, text);
    } else {
        snprintf(text, FORMAT_MAX, "%" PRIu64, amount);
    }
}

static void draw(const struct progress *progress, uint64_t done, uint64_t total, double seconds)
{
    char done_text[FORMAT_MAX];
    char total_text[FORMAT_MAX];
    char rate[FORMAT_MAX];
    char left[FORMAT_MAX];
    double moved = (double)(done - progress->first_done);
    double per_s = seconds > 0 ? moved / seconds : 0;
    amount_text(done, progress->unit, done_text);
    if (progress->unit == PROGRESS_BYTES) {
        rate_format(per_s, rate);
    } else {
        snprintf(rate, sizeof rate, "%.1f tok/s", per_s);
    }
    fprintf(stderr, "%s%s: %s", progress->terminal ? "\r\033[K" : "berth: ", progress->what, done_text);
    if (total > 0) {
        amount_text(total, progress->unit, total_text);
        fprintf(stderr, " of %s (%.0f %%)", total_text, 100 * (double)done / (double)total);
    }
    if (per_s > 0 && seconds > 0.2) {
        fprintf(stderr, ", %s", rate);
        if (total > done) {
            fprintf(stderr, ", %s left", time_format((double)(total - done) / per_s, left));
        }
    }
    if (!progress->terminal) {
        fputc('\n', stderr);
    }
    fflush(stderr);
}

void progress_update(struct progress *progress, const char *what, uint64_t done, uint64_t total,
                     enum progress_unit unit)
{
    if (progress->quiet) {
        return;
    }
    uint64_t now = host_now_ns();
    if (strncmp(progress->what, what, sizeof progress->what - 1) != 0 || done < progress->first_done) {
        snprintf(progress->what, sizeof progress->what, "%s", what);
        progress->start_ns = now;
        progress->drawn_ns = now;
        progress->first_done = done;
        progress->unit = unit;
    }
    uint64_t wait_ms = !progress->terminal ? PLAIN_LINE_MS : progress->drawn ? REDRAW_MS : FIRST_DRAW_MS;
    if (now - progress->drawn_ns < wait_ms * 1000000u) {
        return;
    }
    progress->drawn_ns = now;
    progress->drawn = progress->terminal;
    draw(progress, done < total || total == 0 ? done : total, total, (double)(now - progress->start_ns) * 1e-9);
}

void progress_end(struct progress *progress)
{
    if (progress->drawn) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        progress->drawn = false;
    }
    progress->what[0] = '\0';
}
