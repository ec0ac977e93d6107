/* SPDX-License-Identifier: MIT
 * Shortest digits by exact integers (Steele and White 1990; the fixed-size integers hold any double), so neither the
 * locale nor the C library's rounding has a say. */
#include "base/js_text.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* ---- big integers ----------------------------------------------------------------------------------- */

enum { LIMBS = 40 }; /* 1280 bits; the largest value met has 1140 */

struct big {
    uint32_t limb[LIMBS];
    int count; /* no leading zeros */
};

static void big_trim(struct big *a)
{
    while (a->count > 0 && a->limb[a->count - 1] == 0) {
        a->count--;
    }
}

static struct big big_shifted(uint64_t value, unsigned bits)
{
    struct big a = {.count = LIMBS};
    unsigned word = bits / 32;
    unsigned shift = bits % 32;
    a.limb[word] = (uint32_t)(value << shift);
    a.limb[word + 1] = (uint32_t)((value << shift) >> 32);
    a.limb[word + 2] = shift > 0 ? (uint32_t)(value >> (64 - shift)) : 0;
    big_trim(&a);
    return a;
}

static void big_times(struct big *a, uint32_t factor)
{
    uint64_t carry = 0;
    for (int i = 0; i < a->count; i++) {
        carry += (uint64_t)a->limb[i] * factor;
        a->limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry > 0) {
        a->limb[a->count++] = (uint32_t)carry;
    }
}

static int big_compare(const struct big *a, const struct big *b)
{
    if (a->count != b->count) {
        return a->count < b->count ? -1 : 1;
    }
    for (int i = a->count - 1; i >= 0; i--) {
        if (a->limb[i] != b->limb[i]) {
            return a->limb[i] < b->limb[i] ? -1 : 1;
        }
    }
    return 0;
}

static struct big big_sum(const struct big *a, const struct big *b)
{
    struct big sum = {.count = LIMBS};
    uint64_t carry = 0;
    for (int i = 0; i < LIMBS; i++) {
        carry += (uint64_t)(i < a->count ? a->limb[i] : 0) + (i < b->count ? b->limb[i] : 0);
        sum.limb[i] = (uint32_t)carry;
        carry >>= 32;
    }
    big_trim(&sum);
    return sum;
}

/* a -= b, which is not larger. */
static void big_take(struct big *a, const struct big *b)
{
    int64_t borrow = 0;
    for (int i = 0; i < a->count; i++) {
        borrow += (int64_t)a->limb[i] - (i < b->count ? b->limb[i] : 0);
        a->limb[i] = (uint32_t)borrow;
        borrow = borrow < 0 ? -1 : 0;
    }
    big_trim(a);
}

/* ---- shortest digits -------------------------------------------------------------------------------- */

/* value = rest / scale; a decimal within `below` and `above` of it (over scale) reads back as the same double. */
struct shortest {
    struct big rest, scale, below, above;
    bool even; /* the bounds themselves read back too: ties go to the even mantissa */
};

static void shortest_begin(struct shortest *s, double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint64_t mantissa = bits & 0xfffffffffffffull;
    int exponent = (int)(bits >> 52 & 0x7ff);
    bool edge = mantissa == 0 && exponent > 1; /* the next smaller double is only half as far away */
    mantissa |= exponent > 0 ? 1ull << 52 : 0;
    exponent = (exponent > 0 ? exponent : 1) - 1075;
    unsigned extra = edge ? 2 : 1;
    unsigned up = exponent > 0 ? (unsigned)exponent : 0;
    unsigned down = exponent < 0 ? (unsigned)-exponent : 0;
    s->rest = big_shifted(mantissa, up + extra);
    s->scale = big_shifted(1, down + extra);
    s->below = big_shifted(1, up);
    s->above = big_shifted(1, up + extra - 1);
    s->even = (mantissa & 1) == 0;
}

static bool above_scale(const struct shortest *s, uint32_t factor)
{
    struct big top = big_sum(&s->rest, &s->above);
    big_times(&top, factor);
    int order = big_compare(&top, &s->scale);
    return order > 0 || (order == 0 && s->even);
}

/* Scales so that the value is 0.d1d2... times 10^point. */
static int shortest_scale(struct shortest *s)
{
    int point = 0;
    while (above_scale(s, 1)) {
        big_times(&s->scale, 10);
        point++;
    }
    while (!above_scale(s, 10)) {
        big_times(&s->rest, 10);
        big_times(&s->below, 10);
        big_times(&s->above, 10);
        point--;
    }
    return point;
}

static int shortest_digits(struct shortest *s, char digits[20])
{
    int count = 0;
    for (;;) {
        big_times(&s->rest, 10);
        big_times(&s->below, 10);
        big_times(&s->above, 10);
        char digit = '0';
        while (big_compare(&s->rest, &s->scale) >= 0) {
            big_take(&s->rest, &s->scale);
            digit++;
        }
        int low_order = big_compare(&s->rest, &s->below);
        bool low = low_order < 0 || (low_order == 0 && s->even);
        bool high = above_scale(s, 1);
        if (!low && !high) {
            digits[count++] = digit;
            continue;
        }
        if (high) {
            struct big twice = s->rest;
            big_times(&twice, 2);
            int half = big_compare(&twice, &s->scale);
            digit = (char)(digit + (!low || half > 0 || (half == 0 && digit % 2 != 0) ? 1 : 0));
        }
        digits[count++] = digit;
        return count;
    }
}

/* ---- spelling --------------------------------------------------------------------------------------- */

static char *put_exponent(char *at, int exponent)
{
    *at++ = 'e';
    *at++ = exponent < 0 ? '-' : '+';
    unsigned value = (unsigned)(exponent < 0 ? -exponent : exponent);
    for (unsigned unit = value >= 100 ? 100 : value >= 10 ? 10 : 1; unit > 0; unit /= 10) {
        *at++ = (char)('0' + value / unit % 10);
    }
    return at;
}

static char *put_digits(char *at, const char *digits, int count)
{
    memcpy(at, digits, (size_t)count);
    return at + count;
}

static char *put_zeros(char *at, int count)
{
    for (; count > 0; count--) {
        *at++ = '0';
    }
    return at;
}

size_t js_number(double value, char text[JS_NUMBER_MAX])
{
    char digits[20];
    char *at = text;
    if (!(value - value == 0.0)) {
        memcpy(text, "null", 4);
        return 4;
    }
    if (value == 0.0) {
        text[0] = '0';
        return 1;
    }
    if (value < 0.0) {
        *at++ = '-';
        value = -value;
    }
    struct shortest shortest;
    shortest_begin(&shortest, value);
    int point = shortest_scale(&shortest);
    int count = shortest_digits(&shortest, digits);
    if (point > 21 || point <= -6) {
        *at++ = digits[0];
        if (count > 1) {
            *at++ = '.';
            at = put_digits(at, digits + 1, count - 1);
        }
        at = put_exponent(at, point - 1);
    } else if (point <= 0) {
        *at++ = '0';
        *at++ = '.';
        at = put_digits(put_zeros(at, -point), digits, count);
    } else if (count <= point) {
        at = put_zeros(put_digits(at, digits, count), point - count);
    } else {
        at = put_digits(at, digits, point);
        *at++ = '.';
        at = put_digits(at, digits + point, count - point);
    }
    return (size_t)(at - text);
}

void js_put(const struct js_out *out, const char *zero_terminated)
{
    out->put(out->user, zero_terminated, strlen(zero_terminated));
}

void js_put_number(const struct js_out *out, double value)
{
    char text[JS_NUMBER_MAX];
    out->put(out->user, text, js_number(value, text));
}

void js_put_bool(const struct js_out *out, int value)
{
    js_put(out, value ? "true" : "false");
}

void js_put_string(const struct js_out *out, const char *ptr, size_t bytes)
{
    static const char hex[] = "0123456789abcdef";
    static const char named[] = "\"\\\b\f\n\r\t";
    static const char letter[] = "\"\\bfnrt";
    js_put(out, "\"");
    size_t from = 0;
    for (size_t i = 0; i < bytes; i++) {
        unsigned char c = (unsigned char)ptr[i];
        if (c >= 0x20 && c != '"' && c != '\\') {
            continue;
        }
        out->put(out->user, ptr + from, i - from);
        from = i + 1;
        const char *found = c != 0 ? strchr(named, c) : NULL;
        char escape[6] = {'\\', 'u', '0', '0', hex[c >> 4], hex[c & 15]};
        if (found != NULL) {
            escape[1] = letter[found - named];
        }
        out->put(out->user, escape, found != NULL ? 2 : sizeof escape);
    }
    out->put(out->user, ptr + from, bytes - from);
    js_put(out, "\"");
}
