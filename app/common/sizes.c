/* SPDX-License-Identifier: MIT */
#include "common/sizes.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Takes a run of digits at *text; false when there is none or it does not fit. */
static bool take_digits(const char **text, uint64_t *out)
{
    const char *at = *text;
    uint64_t value = 0;
    if (!is_digit(*at)) {
        return false;
    }
    for (; is_digit(*at); at++) {
        if (u64_mul_overflows(value, 10, &value) || u64_add_overflows(value, (uint64_t)(*at - '0'), &value)) {
            return false;
        }
    }
    *text = at;
    *out = value;
    return true;
}

bool number_parse(const char *text, uint64_t *out)
{
    uint64_t value;
    if (!take_digits(&text, &value) || *text != '\0') {
        return false;
    }
    *out = value;
    return true;
}

bool real_parse(const char *text, double *out)
{
    const char *at = text + (*text == '-' ? 1 : 0);
    if (!is_digit(*at)) {
        return false;
    }
    while (is_digit(*at)) {
        at++;
    }
    if (*at == '.') {
        at++;
        if (!is_digit(*at)) {
            return false;
        }
        while (is_digit(*at)) {
            at++;
        }
    }
    if (*at == 'e' || *at == 'E') {
        at += at[1] == '-' || at[1] == '+' ? 2 : 1;
        if (!is_digit(*at)) {
            return false;
        }
        while (is_digit(*at)) {
            at++;
        }
    }
    if (*at != '\0') {
        return false;
    }
    /* The shape was checked above and the program keeps the "C" locale, so strtod() reads exactly this. */
    double value = strtod(text, NULL);
    if (!isfinite(value)) {
        return false;
    }
    *out = value;
    return true;
}

static const struct {
    const char *name;
    uint64_t bytes;
} units[] = {
    {"B", 1},
    {"KB", 1000ull},
    {"MB", 1000ull * 1000},
    {"GB", 1000ull * 1000 * 1000},
    {"TB", 1000ull * 1000 * 1000 * 1000},
    {"KiB", 1ull << 10},
    {"MiB", 1ull << 20},
    {"GiB", 1ull << 30},
    {"TiB", 1ull << 40},
};
enum { UNITS = sizeof units / sizeof units[0] };

/* At most six places: 10^6 x 2^40 still fits 64 bits, so that the fraction is exact. */
enum { PLACES_MAX = 6 };

static uint64_t fraction_bytes(const char *digits, size_t places, uint64_t unit)
{
    uint64_t value = 0;
    uint64_t scale = 1;
    for (size_t i = 0; i < places; i++) {
        value = value * 10 + (uint64_t)(digits[i] - '0');
        scale *= 10;
    }
    return value * unit / scale;
}

bool size_parse(const char *text, uint64_t *bytes)
{
    uint64_t whole;
    if (!take_digits(&text, &whole)) {
        return false;
    }
    const char *digits = NULL;
    size_t places = 0;
    if (*text == '.') {
        digits = ++text;
        while (is_digit(*text)) {
            text++;
        }
        places = (size_t)(text - digits);
        if (places == 0 || places > PLACES_MAX) {
            return false;
        }
    }
    uint64_t unit = 1;
    bool known = *text == '\0' && places == 0;
    for (size_t i = 0; i < UNITS && !known; i++) {
        if (strcmp(text, units[i].name) == 0) {
            unit = units[i].bytes;
            known = places == 0 || unit > 1; /* half a byte is nothing */
        }
    }
    uint64_t total;
    if (!known || u64_mul_overflows(whole, unit, &total)) {
        return false;
    }
    uint64_t rest = places > 0 ? fraction_bytes(digits, places, unit) : 0;
    if (u64_add_overflows(total, rest, &total)) {
        return false;
    }
    *bytes = total;
    return true;
}

static char upper(char c)
{
    return c >= 'a' && c <= 'z' ? (char)(c - 'a' + 'A') : c;
}

bool size_hint(const char *text, char *hint, size_t cap)
{
    size_t number = strspn(text, "0123456789.");
    const char *unit = text + number + strspn(text + number, " ");
    size_t length = strlen(unit);
    if (number == 0 || length == 0 || length > 3) {
        return false;
    }
    char letter = upper(unit[0]);
    if (strchr("KMGT", letter) == NULL) {
        return false;
    }
    const char *rest;
    if (length == 1) {
        rest = "iB"; /* "8G" of memory is GiB everywhere else */
    } else if (length == 2 && upper(unit[1]) == 'B') {
        rest = "B";
    } else if (upper(unit[1]) == 'I' && (length == 2 || upper(unit[2]) == 'B')) {
        rest = "iB";
    } else {
        return false;
    }
    int written = snprintf(hint, cap, "%.*s%c%s", (int)number, text, letter, rest);
    uint64_t ignored;
    return written > 0 && (size_t)written < cap && size_parse(hint, &ignored);
}

const char *size_format(uint64_t bytes, char text[FORMAT_MAX])
{
    double value = (double)bytes;
    if (bytes >= 1ull << 40) {
        snprintf(text, FORMAT_MAX, "%.2f TiB", value / 0x1p40);
    } else if (bytes >= 1ull << 30) {
        snprintf(text, FORMAT_MAX, "%.2f GiB", value / 0x1p30);
    } else if (bytes >= 1ull << 20) {
        snprintf(text, FORMAT_MAX, "%.1f MiB", value / 0x1p20);
    } else if (bytes >= 1ull << 10) {
        snprintf(text, FORMAT_MAX, "%.1f KiB", value / 0x1p10);
    } else {
        snprintf(text, FORMAT_MAX, "%llu B", (unsigned long long)bytes);
    }
    return text;
}

const char *rate_format(double bytes_per_s, char text[FORMAT_MAX])
{
    if (bytes_per_s >= 1e9) {
        snprintf(text, FORMAT_MAX, "%.2f GB/s", bytes_per_s / 1e9);
    } else if (bytes_per_s >= 1e6) {
        snprintf(text, FORMAT_MAX, "%.0f MB/s", bytes_per_s / 1e6);
    } else {
        snprintf(text, FORMAT_MAX, "%.0f kB/s", bytes_per_s / 1e3);
    }
    return text;
}

const char *time_format(double seconds, char text[FORMAT_MAX])
{
    if (!(seconds >= 0)) {
        seconds = 0;
    }
    if (seconds < 1) {
        snprintf(text, FORMAT_MAX, "%.0f ms", seconds * 1e3);
    } else if (seconds < 100) {
        snprintf(text, FORMAT_MAX, "%.1f s", seconds);
    } else if (seconds < 3600) {
        unsigned whole = (unsigned)seconds;
        snprintf(text, FORMAT_MAX, "%um %02us", whole / 60, whole % 60);
    } else if (seconds < 1e8) {
        unsigned minutes = (unsigned)(seconds / 60);
        snprintf(text, FORMAT_MAX, "%uh %02um", minutes / 60, minutes % 60);
    } else {
        snprintf(text, FORMAT_MAX, "years");
    }
    return text;
}

const char *age_format(int64_t seconds, char text[FORMAT_MAX])
{
    static const struct {
        int64_t seconds;
        const char *name;
    } spans[] = {{86400, "d"}, {3600, "h"}, {60, "min"}, {1, "s"}};
    for (size_t i = 0; i < sizeof spans / sizeof spans[0]; i++) {
        if (seconds >= spans[i].seconds) {
            snprintf(text, FORMAT_MAX, "%lld %s", (long long)(seconds / spans[i].seconds), spans[i].name);
            return text;
        }
    }
    snprintf(text, FORMAT_MAX, "now");
    return text;
}

const char *count_format(uint64_t count, char text[FORMAT_MAX])
{
    double value = (double)count;
    if (value >= 1e12) {
        snprintf(text, FORMAT_MAX, "%.2fT", value / 1e12);
    } else if (value >= 1e9) {
        snprintf(text, FORMAT_MAX, "%.1fB", value / 1e9);
    } else if (value >= 1e6) {
        snprintf(text, FORMAT_MAX, "%.1fM", value / 1e6);
    } else if (value >= 1e4) {
        snprintf(text, FORMAT_MAX, "%.1fK", value / 1e3);
    } else {
        snprintf(text, FORMAT_MAX, "%llu", (unsigned long long)count);
    }
    return text;
}
