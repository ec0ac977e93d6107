/* SPDX-License-Identifier: MIT
 * What tensor fingerprints hash of a tensor besides its bytes. */
#ifndef FIT_FINGERPRINT_H
#define FIT_FINGERPRINT_H

#include "base/sha256.h"
#include "berth.h"

/* [name,dtype,[dims]] as compact JSON; dtype_name NULL: the item's number, else that name, for types without one. */
void fingerprint_head(struct sha256 *sha, const berth_tensor_item *item, const char *dtype_name);
/* The first line of the byte-order digest. */
#define FINGERPRINT_BYTES_LINE "berth-tensors-1\n"

#endif
