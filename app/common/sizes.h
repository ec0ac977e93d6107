/* SPDX-License-Identifier: MIT
 * Numbers and sizes as people write them: strict parsing (the whole text or nothing) and short formatting. */
#ifndef APP_SIZES_H
#define APP_SIZES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Digits only: no sign, no space, no base prefix. False also on overflow. */
bool number_parse(const char *text, uint64_t *out);
/* [-]digits[.digits][e[+-]digits], finite. */
bool real_parse(const char *text, double *out);

/* Plain bytes, or a decimal number with B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (powers of 1024), in
 * that spelling. "1.5GiB" is exact to the byte, rounded down. */
bool size_parse(const char *text, uint64_t *bytes);
/* For "8G", "8gb", "8 GiB": the spelling that was probably meant, in hint; false when there is no guess. */
bool size_hint(const char *text, char *hint, size_t cap);

enum { FORMAT_MAX = 32 };
/* "1.25 GiB", "512.0 MiB", "4.0 KiB", "17 B" */
const char *size_format(uint64_t bytes, char text[FORMAT_MAX]);
/* "1.25 GB/s", "512 MB/s" */
const char *rate_format(double bytes_per_s, char text[FORMAT_MAX]);
/* "850 ms", "12.3 s", "4m 05s", "3h 12m" */
const char *time_format(double seconds, char text[FORMAT_MAX]);
/* How long ago, in whole units: "3 min"; below a second, or in the future: "now". */
const char *age_format(int64_t seconds, char text[FORMAT_MAX]);
/* "29.1M", "30.5B", "512" */
const char *count_format(uint64_t count, char text[FORMAT_MAX]);

#endif
