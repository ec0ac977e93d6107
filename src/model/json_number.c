/* SPDX-License-Identifier: MIT
 * JSON numbers to integers and doubles: exact, whatever the locale. A double is found by dividing two integers and
 * rounding the quotient once (nearest, ties to even): in one machine word where that is enough, else with big integers
 * of a fixed size. No decimal text needs more: beyond 767 significant digits only "something non-zero follows" matters,
 * because no midpoint between two doubles has more digits than that. */
#include "base/bytes.h"
#include "base/checked.h"
#include "model/json.h"

enum {
    DIGITS_MAX = 770, /* kept exactly; the rest is one sticky digit */
    POINT_MAX = 310,  /* 10^(POINT_MAX - 1) and more is infinite */
    POINT_MIN = -330, /* below 10^POINT_MIN is zero */
    LIMBS_MAX = 120   /* 3840 bits: 10^1101 has 3658 */
};

/* The significant digits of a number: value = digits * 10^exponent, the first and the last are not zero. */
struct decimal {
    bool negative;
    const char *first, *last; /* a point may lie between them; NULL: the value is zero */
    uint64_t digits;
    int64_t exponent;
};

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* raw has passed the grammar. */
static struct decimal decimal_from(struct str raw)
{
    struct decimal d = {0};
    const char *at = raw.ptr;
    const char *end = raw.ptr + raw.bytes;
    int64_t places = 0;      /* digits after the point so far */
    int64_t last_places = 0; /* the same, at the last digit that is not zero */
    uint64_t digits = 0;
    bool point = false;
    if (at < end && *at == '-') {
        d.negative = true;
        at++;
    }
    for (; at < end && (is_digit(*at) || *at == '.'); at++) {
        if (*at == '.') {
            point = true;
            continue;
        }
        places += point ? 1 : 0;
        digits += d.first != NULL || *at != '0' ? 1u : 0u;
        if (*at != '0') {
            d.first = d.first == NULL ? at : d.first;
            d.last = at;
            d.digits = digits;
            last_places = places;
        }
    }
    if (d.first == NULL) {
        return d;
    }
    d.exponent = -last_places;
    for (const char *p = d.last + 1; last_places == 0 && p < at && *p != '.'; p++) {
        d.exponent++; /* zeros before the point */
    }
    if (at < end) {
        at++; /* e */
        bool minus = *at == '-';
        at += *at == '-' || *at == '+' ? 1 : 0;
        int64_t power = 0;
        for (; at < end; at++) {
            power = power < INT64_MAX / 16 ? power * 10 + (*at - '0') : power;
        }
        d.exponent += minus ? -power : power;
    }
    return d;
}

/* ---- integers --------------------------------------------------------------------------------------- */

static bool decimal_magnitude(const struct decimal *d, uint64_t *out)
{
    uint64_t value = 0;
    *out = 0;
    if (d->first == NULL) {
        return true;
    }
    if (d->exponent < 0 || d->exponent > 19 || d->digits > 20) {
        return false;
    }
    for (const char *p = d->first; p <= d->last; p++) {
        if (*p != '.' &&
            (u64_mul_overflows(value, 10, &value) || u64_add_overflows(value, (uint64_t)(*p - '0'), &value))) {
            return false;
        }
    }
    for (int64_t i = 0; i < d->exponent; i++) {
        if (u64_mul_overflows(value, 10, &value)) {
            return false;
        }
    }
    *out = value;
    return true;
}

/* The usual case: 1 to 19 digits and nothing else. */
static bool plain_digits(struct str raw, uint64_t *out)
{
    uint64_t value = 0;
    for (size_t i = 0; i < raw.bytes; i++) {
        if (i == 19 || !is_digit(raw.ptr[i])) {
            return false;
        }
        value = value * 10 + (uint64_t)(raw.ptr[i] - '0');
    }
    *out = value;
    return true;
}

/* NaN and Infinity are NUMBER tokens in documents that allow them, and convert to nothing. */
static bool is_decimal(const struct json_token *token)
{
    struct str raw = token->raw;
    size_t sign = raw.bytes > 1 && raw.ptr[0] == '-' ? 1 : 0;
    return token->kind == JSON_NUMBER && raw.bytes > sign && raw.ptr[sign] >= '0' && raw.ptr[sign] <= '9';
}

bool json_token_u64(const struct json_token *token, uint64_t *out)
{
    uint64_t magnitude;
    if (!is_decimal(token)) {
        return false;
    }
    if (plain_digits(token->raw, out)) {
        return true;
    }
    struct decimal d = decimal_from(token->raw);
    if (!decimal_magnitude(&d, &magnitude) || (d.negative && magnitude != 0)) {
        return false;
    }
    *out = magnitude;
    return true;
}

bool json_token_i64(const struct json_token *token, int64_t *out)
{
    uint64_t magnitude;
    if (!is_decimal(token)) {
        return false;
    }
    struct decimal d = decimal_from(token->raw);
    if (!decimal_magnitude(&d, &magnitude) || magnitude > (uint64_t)INT64_MAX + (d.negative ? 1u : 0u)) {
        return false;
    }
    if (magnitude > (uint64_t)INT64_MAX) {
        *out = INT64_MIN;
    } else {
        *out = d.negative ? -(int64_t)magnitude : (int64_t)magnitude;
    }
    return true;
}

/* ---- rounding --------------------------------------------------------------------------------------- */

/* (mantissa + something in [0, 1) that is not zero if sticky) * 2^power, the mantissa's top bit set, to the nearest
 * double's bits. Infinity on overflow. */
static uint64_t round_to_double(uint64_t mantissa, int64_t power, bool sticky)
{
    int64_t exponent = power + 63; /* value in [2^exponent, 2^(exponent + 1)) */
    if (exponent > 1023) {
        return 0x7ff0000000000000u;
    }
    int64_t drop = exponent >= -1022 ? 11 : 11 + (-1022 - exponent);
    if (drop > 64) {
        return 0; /* below half of the smallest subnormal: the top bit is under the half place */
    }
    uint64_t half = (uint64_t)1 << (drop - 1);
    uint64_t kept = drop == 64 ? 0 : mantissa >> drop;
    uint64_t rest = mantissa & (half | (half - 1));
    if (rest > half || (rest == half && (sticky || (kept & 1u) != 0))) {
        kept++;
    }
    /* kept carries the implicit bit, so it adds one to the exponent field, and two when rounding carries over. */
    uint64_t field = exponent >= -1022 ? (uint64_t)(exponent + 1022) : 0;
    return (field << 52) + kept;
}

/* ---- one word --------------------------------------------------------------------------------------- */

enum { WORD_DIGITS_MAX = 19, WORD_POWER_MAX = 27 }; /* 10^19 < 2^64, 5^27 < 2^63 */

/* w / 10^k = (w / 5^k) / 2^k, w > 0: long division that yields 64 bits of quotient. */
static uint64_t divide_by_power(uint64_t w, unsigned k)
{
    uint64_t divisor = 1;
    for (unsigned i = 0; i < k; i++) {
        divisor *= 5;
    }
    uint64_t quotient = w / divisor;
    uint64_t rest = w % divisor;
    int64_t power = -(int64_t)k;
    while (quotient >> 63 == 0) {
        rest <<= 1;
        uint64_t bit = rest >= divisor ? 1 : 0;
        rest -= bit != 0 ? divisor : 0;
        quotient = quotient << 1 | bit;
        power--;
    }
    return round_to_double(quotient, power, rest != 0);
}

/* ---- big integers ----------------------------------------------------------------------------------- */

struct big {
    uint32_t limbs[LIMBS_MAX]; /* least significant first */
    uint32_t count;            /* used; the top one is not zero */
};

static void big_multiply_add(struct big *b, uint32_t factor, uint32_t add)
{
    uint64_t carry = add;
    for (uint32_t i = 0; i < b->count; i++) {
        carry += (uint64_t)b->limbs[i] * factor;
        b->limbs[i] = (uint32_t)carry;
        carry >>= 32;
    }
    if (carry != 0 && b->count < LIMBS_MAX) {
        b->limbs[b->count++] = (uint32_t)carry;
    }
}

static void big_multiply_power(struct big *b, int64_t power_of_ten)
{
    for (; power_of_ten >= 9; power_of_ten -= 9) {
        big_multiply_add(b, 1000000000u, 0);
    }
    for (; power_of_ten > 0; power_of_ten--) {
        big_multiply_add(b, 10, 0);
    }
}

static int64_t big_bits(const struct big *b)
{
    int64_t bits = 32 * (int64_t)b->count;
    for (uint32_t top = b->limbs[b->count - 1]; top >> 31 == 0; top <<= 1) {
        bits--;
    }
    return bits;
}

static void big_shift_left(struct big *b, int64_t bits)
{
    uint32_t limbs = (uint32_t)(bits / 32);
    uint32_t rest = (uint32_t)(bits % 32);
    if (b->count + limbs + 1 > LIMBS_MAX) {
        return; /* cannot happen: see LIMBS_MAX */
    }
    b->limbs[b->count] = 0;
    for (uint32_t i = b->count + 1; i-- > 0;) {
        uint64_t pair = (uint64_t)b->limbs[i] << 32 | (i > 0 ? b->limbs[i - 1] : 0);
        b->limbs[i + limbs] = (uint32_t)(pair << rest >> 32);
    }
    memset(b->limbs, 0, limbs * sizeof b->limbs[0]);
    b->count += limbs + 1;
    while (b->count > 1 && b->limbs[b->count - 1] == 0) {
        b->count--;
    }
}

static bool big_less(const struct big *a, const struct big *b)
{
    if (a->count != b->count) {
        return a->count < b->count;
    }
    for (uint32_t i = a->count; i-- > 0;) {
        if (a->limbs[i] != b->limbs[i]) {
            return a->limbs[i] < b->limbs[i];
        }
    }
    return false;
}

static bool big_is_zero(const struct big *b)
{
    return b->count == 1 && b->limbs[0] == 0;
}

/* a >= b */
static void big_subtract(struct big *a, const struct big *b)
{
    uint64_t borrow = 0;
    for (uint32_t i = 0; i < a->count; i++) {
        uint64_t part = (uint64_t)a->limbs[i] - (i < b->count ? b->limbs[i] : 0) - borrow;
        a->limbs[i] = (uint32_t)part;
        borrow = part >> 63;
    }
    while (a->count > 1 && a->limbs[a->count - 1] == 0) {
        a->count--;
    }
}

/* above / below to double bits; both are changed. */
static uint64_t big_divide(struct big *above, struct big *below)
{
    int64_t shift = big_bits(below) - big_bits(above);
    big_shift_left(shift > 0 ? above : below, shift > 0 ? shift : -shift);
    int64_t power = -shift + 1; /* of the bit that comes next, plus one */
    uint64_t quotient = 0;
    while (quotient >> 63 == 0) { /* 64 or 65 rounds: the first bit may be 0 */
        bool bit = !big_less(above, below);
        if (bit) {
            big_subtract(above, below);
        }
        quotient = quotient << 1 | (bit ? 1u : 0u);
        big_shift_left(above, 1);
        power--;
    }
    return round_to_double(quotient, power, !big_is_zero(above));
}

static uint64_t divide_big(const struct decimal *d)
{
    struct big above = {.count = 1};
    struct big below = {.limbs = {1}, .count = 1};
    int64_t exponent = d->exponent;
    uint64_t taken = 0;
    for (const char *p = d->first; p <= d->last && taken < DIGITS_MAX; p++) {
        if (*p != '.') {
            big_multiply_add(&above, 10, (uint32_t)(*p - '0'));
            taken++;
        }
    }
    exponent += (int64_t)(d->digits - taken);
    if (taken < d->digits) {
        big_multiply_add(&above, 10, 1); /* something follows; its size cannot matter */
        exponent--;
    }
    big_multiply_power(exponent >= 0 ? &above : &below, exponent >= 0 ? exponent : -exponent);
    return big_divide(&above, &below);
}

bool json_token_f64(const struct json_token *token, double *out)
{
    if (!is_decimal(token)) {
        return false;
    }
    struct decimal d = decimal_from(token->raw);
    uint64_t bits = 0;
    int64_t point = (int64_t)d.digits + d.exponent; /* value in [10^(point - 1), 10^point) */
    if (d.first != NULL && point > POINT_MAX) {
        return false;
    }
    if (d.first != NULL && point >= POINT_MIN) {
        if (d.digits <= WORD_DIGITS_MAX && d.exponent <= 0 && d.exponent >= -WORD_POWER_MAX) {
            uint64_t w = 0;
            for (const char *p = d.first; p <= d.last; p++) {
                w = *p == '.' ? w : w * 10 + (uint64_t)(*p - '0');
            }
            bits = divide_by_power(w, (unsigned)-d.exponent);
        } else {
            bits = divide_big(&d);
        }
    }
    if (bits >= 0x7ff0000000000000u) {
        return false;
    }
    bits |= d.negative ? (uint64_t)1 << 63 : 0;
    memcpy(out, &bits, sizeof bits);
    return true;
}
