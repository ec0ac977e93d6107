/* SPDX-License-Identifier: MIT */
#include "sample/candidates.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

double candidate_exp(double x)
{
    if (!(x > -110.0)) {
        return 0.0;
    }
    /* x = k ln 2 + r with |r| <= ln 2 / 2; ln 2 in two parts, so that k times the first is exact. */
    int k = (int)(x * 0x1.71547652b82fep+0 - 0.5);
    double r = (x - (double)k * 0x1.62e42feep-1) - (double)k * 0x1.a39ef35793c76p-33;
    static const double inverse_factorial[] = {
        1.0,          1.0,           1.0 / 2.0,      1.0 / 6.0,       1.0 / 24.0,       1.0 / 120.0,       1.0 / 720.0,
        1.0 / 5040.0, 1.0 / 40320.0, 1.0 / 362880.0, 1.0 / 3628800.0, 1.0 / 39916800.0, 1.0 / 479001600.0,
    };
    double sum = 1.0 / 6227020800.0;
    for (int i = 12; i >= 0; i--) {
        sum = sum * r + inverse_factorial[i];
    }
    uint64_t scale_bits = (uint64_t)(k + 1023) << 52;
    double scale;
    memcpy(&scale, &scale_bits, sizeof scale);
    return sum * scale;
}

static bool is_better(struct candidate a, struct candidate b)
{
    return a.value > b.value || (a.value == b.value && a.id < b.id);
}

/* Restores a heap whose root may be out of place. best_first: the best candidate belongs at the root, otherwise the
 * worst. */
static void sift_down(struct candidate *list, uint32_t count, uint32_t root, bool best_first)
{
    struct candidate moved = list[root];
    for (;;) {
        uint32_t child = 2 * root + 1;
        if (child >= count) {
            break;
        }
        if (child + 1 < count && is_better(list[child + 1], list[child]) == best_first) {
            child++;
        }
        if (is_better(list[child], moved) != best_first) {
            break;
        }
        list[root] = list[child];
        root = child;
    }
    list[root] = moved;
}

void candidates_offer(struct candidate *list, uint32_t *count, uint32_t limit, struct candidate offered)
{
    if (*count < limit) {
        list[(*count)++] = offered;
        if (*count == limit) {
            for (uint32_t root = limit / 2; root-- > 0;) {
                sift_down(list, limit, root, false);
            }
        }
    } else if (is_better(offered, list[0])) {
        list[0] = offered;
        sift_down(list, limit, 0, false);
    }
}

double candidates_weigh(struct candidate *list, uint32_t count, float temperature)
{
    float largest = list[0].value;
    for (uint32_t i = 1; i < count; i++) {
        largest = list[i].value > largest ? list[i].value : largest;
    }
    double sum = 0.0;
    for (uint32_t i = 0; i < count; i++) {
        double weight = 1.0; /* also between infinities, whose difference is not a number */
        if (list[i].value != largest) {
            weight = candidate_exp(((double)list[i].value - (double)largest) / (double)temperature);
        }
        list[i].value = (float)weight;
        sum += (double)list[i].value;
    }
    return sum;
}

uint32_t candidates_keep(struct candidate *list, uint32_t count, double mass)
{
    for (uint32_t root = count / 2; root-- > 0;) {
        sift_down(list, count, root, true);
    }
    double sum = 0.0;
    uint32_t left = count;
    do {
        struct candidate best = list[0];
        left--;
        list[0] = list[left];
        sift_down(list, left, 0, true);
        list[left] = best;
        sum += (double)best.value;
    } while (left > 0 && sum < mass);
    return count - left;
}
