/* SPDX-License-Identifier: MIT
 * Numbers and strings spelled as JSON.stringify spells them (ECMA-262, Number::toString and QuoteJSONString): what
 * fingerprints hash must agree to the letter. */
#ifndef BASE_JS_TEXT_H
#define BASE_JS_TEXT_H

#include <stddef.h>

struct js_out {
    void (*put)(void *user, const void *text, size_t bytes);
    void *user;
};

enum { JS_NUMBER_MAX = 32 };

/* The shortest decimal that reads back as `value`; "null" when it is not finite. No NUL; returns the length. */
size_t js_number(double value, char text[JS_NUMBER_MAX]);

void js_put(const struct js_out *out, const char *zero_terminated);
void js_put_number(const struct js_out *out, double value);
void js_put_bool(const struct js_out *out, int value);
/* With quotes; the bytes are UTF-8. */
void js_put_string(const struct js_out *out, const char *ptr, size_t bytes);

#endif
