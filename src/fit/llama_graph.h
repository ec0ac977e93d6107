/* SPDX-License-Identifier: MIT
 *
 * The graph of a micro-batch as llama.cpp v0.5.0 lays it out: which tensors there are at which time. Only what takes
 * room: an operation that can work in its input's place takes none, and weights and caches lie elsewhere.
 */
#ifndef FIT_LLAMA_GRAPH_H
#define FIT_LLAMA_GRAPH_H

#include "fit/llama_cpp.h"

/* Bytes of the buffer of the whole graph; `report` has the caches already. False: not in 64 bits. */
bool llama_graph_bytes(const struct shape *shape, const struct llama_request *request,
                       const struct llama_report *report, uint64_t *bytes);

#endif
