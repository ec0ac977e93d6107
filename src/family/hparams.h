/* SPDX-License-Identifier: MIT
 * Inside the family room. */
#ifndef FAMILY_HPARAMS_H
#define FAMILY_HPARAMS_H

#include "family/family.h"

berth_status family_hparams(const struct checkpoint *checkpoint, const struct family *family, struct hparams *out,
                            berth_error *err);
/* True when some role of the family, on some layer and expert of this model, has this tensor name. */
bool family_knows(const struct family *family, const struct checkpoint *checkpoint, const struct hparams *hparams,
                  struct str name);

/* Refuses members of config.json that have another type than the reader wants. */
berth_status family_check_types(const struct checkpoint *checkpoint, berth_error *err);

#endif
