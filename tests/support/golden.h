/* SPDX-License-Identifier: MIT
 * Reading reference.json / logits.f32 of a golden folder. Test code: fails the program on any surprise. */
#ifndef TESTS_SUPPORT_GOLDEN_H
#define TESTS_SUPPORT_GOLDEN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { GOLDEN_IDS_MAX = 512, GOLDEN_LAYERS_MAX = 16, GOLDEN_TOP_K_MAX = 16 };

struct golden {
    int32_t ids[GOLDEN_IDS_MAX];
    size_t ids_count;
    int32_t greedy[GOLDEN_IDS_MAX];
    double margin[GOLDEN_IDS_MAX];
    size_t greedy_count;
    uint32_t vocab;
    float *logits; /* [ids_count][vocab], malloc */
    uint32_t route_layers, top_k;
    uint16_t routes[GOLDEN_LAYERS_MAX][GOLDEN_IDS_MAX][GOLDEN_TOP_K_MAX];
};

void golden_read(const char *folder, struct golden *out);
void golden_free(struct golden *golden);

/* Whole file, malloc; exits on failure. */
char *test_read_file(const char *path, size_t *bytes);

#define CHECK(condition, ...)                                                      \
    do {                                                                           \
        if (!(condition)) {                                                        \
            fprintf(stderr, "FAILED %s:%d: %s: ", __FILE__, __LINE__, #condition); \
            fprintf(stderr, __VA_ARGS__);                                          \
            fputc('\n', stderr);                                                   \
            exit(1);                                                               \
        }                                                                          \
    } while (0)

#endif
