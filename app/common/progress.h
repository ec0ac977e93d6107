/* SPDX-License-Identifier: MIT
 * Progress of long work on stderr: a line that is redrawn on a terminal, a plain line every ten seconds otherwise. */
#ifndef APP_PROGRESS_H
#define APP_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

enum progress_unit { PROGRESS_BYTES, PROGRESS_TOKENS };

struct progress {
    bool quiet, terminal;
    bool drawn; /* a line stands on the terminal */
    enum progress_unit unit;
    char what[48];
    uint64_t start_ns, drawn_ns;
    uint64_t first_done; /* done when this step began */
};

void progress_begin(struct progress *progress, bool quiet);
/* total 0: unknown. A new `what` starts a new step (rate and ETA count from there). */
void progress_update(struct progress *progress, const char *what, uint64_t done, uint64_t total,
                     enum progress_unit unit);
/* Takes the line away. */
void progress_end(struct progress *progress);

#endif
