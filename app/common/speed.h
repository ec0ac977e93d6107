/* SPDX-License-Identifier: MIT
 * What a token of a model takes, for the speed law of berth.h. */
#ifndef APP_SPEED_H
#define APP_SPEED_H

#include "berth.h"
#include "tool.h"

void speed_work(const tool_summary *model, const berth_plan *plan, berth_speed_work *out);

#endif
