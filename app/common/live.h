/* SPDX-License-Identifier: MIT
 *
 * The live line on stderr while text is generated: tok/s, hit rate, MB/s, share of the limit. Where the text itself
 * goes to the same terminal, the line stands on the bottom row, outside a scrolling region that holds the text;
 * otherwise it is one line that is redrawn.
 */
#ifndef APP_LIVE_H
#define APP_LIVE_H

#include "common/engine.h"
#include "common/limit.h"

struct live {
    bool on;
    bool bottom; /* text shares the terminal */
    bool region; /* the scrolling region is set */
    uint32_t rows, columns;
    struct engine *engine;
    struct limit *limit;
    berth_stats base; /* when generation began */
    uint64_t start_ns, drawn_ns;
    uint32_t tokens;
};

/* Off when quiet, when stderr is no terminal or when it is too small. */
void live_begin(struct live *live, struct engine *engine, struct limit *limit, bool quiet);
/* After each token. */
void live_token(struct live *live);
/* Puts the terminal right. */
void live_end(struct live *live);

/* Work of the tokens since `base`, at `tokens_per_s`. */
void live_work(struct engine *engine, const berth_stats *base, double tokens_per_s, struct limit_work *work);

#endif
