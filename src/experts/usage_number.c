/* SPDX-License-Identifier: MIT
 * Numbers as the documents' reader takes them: JavaScript's Number(), with its hexadecimal, octal and binary literals,
 * exponents, signs and Infinity. */
#include <math.h>
#include <stdio.h>

#include "experts/usage_parts.h"
#include "model/json.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

static int digit_value(char c)
{
    if (is_digit(c)) {
        return c - '0';
    }
    char lower = (char)(c | 0x20);
    return lower >= 'a' && lower <= 'f' ? lower - 'a' + 10 : 99;
}

/* 0x, 0o, 0b and at least one digit; no sign. */
static bool literal(struct str field, double *out)
{
    if (field.bytes < 3 || field.ptr[0] != '0') {
        return false;
    }
    char kind = (char)(field.ptr[1] | 0x20);
    int base = kind == 'x' ? 16 : (kind == 'o' ? 8 : (kind == 'b' ? 2 : 0));
    double value = 0.0;
    for (size_t i = 2; i < field.bytes; i++) {
        int digit = digit_value(field.ptr[i]);
        if (digit >= base) {
            return false;
        }
        value = value * base + digit; /* inexact past 2^53, where no count is accepted anyway */
    }
    *out = value;
    return base != 0;
}

/* digits[.digits][e[+-]digits] or .digits...; no sign. */
static bool is_decimal(struct str text)
{
    size_t at = 0;
    size_t digits = 0;
    for (; at < text.bytes && is_digit(text.ptr[at]); at++) {
        digits++;
    }
    if (at < text.bytes && text.ptr[at] == '.') {
        for (at++; at < text.bytes && is_digit(text.ptr[at]); at++) {
            digits++;
        }
    }
    if (digits == 0) {
        return false;
    }
    if (at < text.bytes && (text.ptr[at] | 0x20) == 'e') {
        at++;
        at += at < text.bytes && (text.ptr[at] == '+' || text.ptr[at] == '-') ? 1 : 0;
        size_t first = at;
        while (at < text.bytes && is_digit(text.ptr[at])) {
            at++;
        }
        if (at == first) {
            return false;
        }
    }
    return at == text.bytes;
}

bool usage_number(struct str field, double *out)
{
    if (literal(field, out)) {
        return true;
    }
    struct str text = field;
    bool negative = text.bytes > 0 && text.ptr[0] == '-';
    if (text.bytes > 0 && (text.ptr[0] == '+' || text.ptr[0] == '-')) {
        text.ptr++;
        text.bytes--;
    }
    double value = 0.0;
    if (str_is(text, "Infinity")) {
        value = (double)INFINITY;
    } else if (!is_decimal(text)) {
        return false;
    } else {
        struct json_token token = {.kind = JSON_NUMBER, .raw = text};
        value = json_token_f64(&token, &value) ? value : (double)INFINITY;
    }
    *out = negative ? -value : value;
    return true;
}

void usage_number_text(double value, char *out, size_t cap)
{
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, cap, "%.*g", digits, value);
        double back = 0.0;
        if (usage_number(str_from(out), &back) && back == value) {
            break;
        }
    }
    if (usage_is_safe_integer(value)) {
        snprintf(out, cap, "%.0f", value);
    }
}
