/* SPDX-License-Identifier: MIT
 * PCRE2 knows the characters of its own Unicode version, 14 in Debian 12; the reference library's knows those of 16. So
 * that an emoji of 2022 is a symbol here too, patterns are matched on a copy of the text with older characters of the
 * same kind in the places of newer ones. */
#ifndef TEXT_UNICODE_NEW_H
#define TEXT_UNICODE_NEW_H

#include "base/str.h"

/* Writes text with its newer characters replaced, byte for byte in place, to out[text.bytes]; false when it has none
 * (nothing is written then). */
bool unicode_new_replace(struct str text, char *out);

#endif
