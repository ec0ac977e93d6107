/* SPDX-License-Identifier: MIT
 *
 * Source layouts of safetensors releases whose matrices are several tensors: quants, scales and biases. One row a
 * layout; a tensor that has the companions of a row becomes one entry of the directory with the shape of its values
 * (struct tensor_side), and the companions leave it. Formulas: quant/packed.h.
 */
#ifndef MODEL_LAYOUTS_H
#define MODEL_LAYOUTS_H

#include "model/checkpoint.h"

/* Rewrites checkpoint->tensors where companions are found. config_json says how many bits and which groups. */
berth_status layouts_apply(struct checkpoint *checkpoint, struct arena *scratch, berth_error *err);

/* What a tensor of this format needs beside it, for an error: ".scales"; NULL: nothing is known. */
const char *layouts_companion(enum dtype stored);

#endif
