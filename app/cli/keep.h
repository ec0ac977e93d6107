/* SPDX-License-Identifier: MIT
 * Keeping what a run predicted and measured. */
#ifndef CLI_KEEP_H
#define CLI_KEEP_H

#include "common/run_report.h"

/* After run_report_finish() and after the model was closed: SQLite is loaded into memory that the model gave back, so
 * that the plan holds. Failures are remarks. `kind`: "run", "chat", "bench". A conversation is one run: `turns` says
 * how many prompts its tokens came in. */
void keep_run(const struct run_report *report, const struct model_options *options, const char *kind);

#endif
