/* SPDX-License-Identifier: MIT */
#include "common/live.h"

#include <stdio.h>
#include <string.h>

#include "common/host.h"
#include "common/sizes.h"

enum { REDRAW_MS = 200, ROWS_MIN = 6, COLUMNS_MIN = 40 };

/* Whole screen scrolls again, attributes off; the cursor stays where the text ended. */
static const char farewell[] = "\0337\033[r\0338\033[0m\n";

static void set_region(struct live *live)
{
    uint32_t rows;
    uint32_t columns;
    if (!host_terminal_size(HOST_STDERR, &rows, &columns) || (live->region && rows == live->rows)) {
        live->columns = live->region ? columns : live->columns;
        return;
    }
    fflush(stdout);
    /* A line break and back up makes sure that the cursor is not on the bottom row; then rows 1..n-1 scroll. */
    fprintf(stderr, "\n\033[A\0337\033[1;%ur\0338", rows - 1);
    fflush(stderr);
    live->rows = rows;
    live->columns = columns;
    live->region = true;
    host_set_farewell(farewell);
}

void live_begin(struct live *live, struct engine *engine, struct limit *limit, bool quiet)
{
    *live = (struct live){.engine = engine, .limit = limit};
    live->base = BERTH_STATS_INIT;
    berth_model_get_stats(engine->model, &live->base);
    live->start_ns = live->drawn_ns = host_now_ns();
    uint32_t rows;
    uint32_t columns;
    if (quiet || !host_is_terminal(HOST_STDERR) || !host_terminal_size(HOST_STDERR, &rows, &columns) ||
        rows < ROWS_MIN || columns < COLUMNS_MIN) {
        return;
    }
    live->on = true;
    live->bottom = host_is_terminal(HOST_STDOUT);
    live->columns = columns;
    if (live->bottom) {
        set_region(live);
    }
}

void live_work(struct engine *engine, const berth_stats *base, double tokens_per_s, struct limit_work *work)
{
    *work = (struct limit_work){.tokens_per_s = tokens_per_s};
    berth_stats now = BERTH_STATS_INIT;
    berth_model_get_stats(engine->model, &now);
    uint64_t tokens = now.decode_tokens - base->decode_tokens;
    if (tokens == 0) {
        return;
    }
    double per = 1 / (double)tokens;
    work->read_bytes = (double)(now.read_bytes[BERTH_PHASE_DECODE] - base->read_bytes[BERTH_PHASE_DECODE]) * per;
    work->macs = (double)(now.macs - base->macs) * per;
    double mean = (double)berth_session_length(engine->session) - (double)tokens / 2;
    work->memory_bytes = limit_memory_bytes(&engine->plan, mean);
}

static void draw(struct live *live, uint64_t now_ns)
{
    berth_stats now = BERTH_STATS_INIT;
    berth_model_get_stats(live->engine->model, &now);
    uint64_t tokens = now.decode_tokens - live->base.decode_tokens;
    double seconds = (double)(now_ns - live->start_ns) * 1e-9;
    uint64_t hits = now.hits[BERTH_PHASE_DECODE] - live->base.hits[BERTH_PHASE_DECODE];
    uint64_t visits = hits + now.misses[BERTH_PHASE_DECODE] - live->base.misses[BERTH_PHASE_DECODE];
    double bytes = (double)(now.read_bytes[BERTH_PHASE_DECODE] - live->base.read_bytes[BERTH_PHASE_DECODE]);
    double per_s = (double)tokens / seconds;
    char line[192];
    char rate[FORMAT_MAX];
    size_t used = 0;
    int more = snprintf(line, sizeof line, "%u tokens  %.2f tok/s", live->tokens, per_s);
    used += more > 0 ? (size_t)more : 0;
    if (visits > 0) {
        more = snprintf(line + used, sizeof line - used, "  hits %.1f %%  disk %s", 100 * (double)hits / (double)visits,
                        rate_format(bytes / seconds, rate));
        used += more > 0 ? (size_t)more : 0;
    }
    struct limit_work work;
    struct limit_share share;
    limit_observe_reads(live->limit, bytes / seconds);
    live_work(live->engine, &live->base, per_s, &work);
    limit_of(live->limit, &work, false, &share);
    if (share.binding != NULL) {
        snprintf(line + used, sizeof line - used, "  %.0f %% of the %s limit", 100 * share.share, share.binding);
    }
    if (strlen(line) >= live->columns) {
        line[live->columns - 1] = '\0';
    }
    if (live->bottom) {
        fprintf(stderr, "\0337\033[%u;1H\033[7m\033[K%s\033[0m\0338", live->rows, line);
    } else {
        fprintf(stderr, "\r\033[K%s", line);
    }
    fflush(stderr);
}

void live_token(struct live *live)
{
    live->tokens++;
    uint64_t now = host_now_ns();
    if (!live->on || now - live->drawn_ns < (uint64_t)REDRAW_MS * 1000000u) {
        return;
    }
    live->drawn_ns = now;
    if (live->bottom) {
        set_region(live);
    }
    draw(live, now);
}

void live_end(struct live *live)
{
    if (!live->on) {
        return;
    }
    if (live->bottom) {
        fflush(stdout);
        fprintf(stderr, "\0337\033[%u;1H\033[K\033[r\0338", live->rows);
    } else {
        fputs("\r\033[K", stderr);
    }
    fflush(stderr);
    host_set_farewell(NULL);
    live->on = false;
}
