/* SPDX-License-Identifier: MIT */
#include "support/golden.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model/json.h"

char *test_read_file(const char *path, size_t *bytes)
{
    FILE *f = fopen(path, "rb");
    CHECK(f != NULL, "cannot open %s", path);
    CHECK(fseek(f, 0, SEEK_END) == 0, "%s", path);
    long size = ftell(f);
    rewind(f);
    char *data = malloc((size_t)size + 1);
    CHECK(data != NULL && fread(data, 1, (size_t)size, f) == (size_t)size, "cannot read %s", path);
    data[size] = '\0';
    fclose(f);
    *bytes = (size_t)size;
    return data;
}

static size_t read_numbers(struct str document, const char *key, double *out, size_t cap)
{
    struct json json;
    size_t count = 0;
    CHECK(json_find(document, (const char *const[]){key, NULL}, &json), "no %s", key);
    CHECK(json.token.kind == JSON_ARRAY_BEGIN, "%s is no array", key);
    while (json_next(&json) == JSON_NUMBER) {
        CHECK(count < cap && json_token_f64(&json.token, &out[count]), "%s", key);
        count++;
    }
    return count;
}

static void read_routes(struct str document, struct golden *out)
{
    struct json json;
    CHECK(json_find(document, (const char *const[]){"routes", NULL}, &json), "no routes");
    CHECK(json.token.kind == JSON_OBJECT_BEGIN, "routes");
    while (json_next(&json) == JSON_KEY) {
        uint32_t token = 0;
        CHECK(out->route_layers < GOLDEN_LAYERS_MAX && json_next(&json) == JSON_ARRAY_BEGIN, "routes");
        while (json_next(&json) == JSON_ARRAY_BEGIN) {
            uint32_t rank = 0;
            while (json_next(&json) == JSON_NUMBER) {
                uint64_t id = 0;
                CHECK(json_token_u64(&json.token, &id) && rank < GOLDEN_TOP_K_MAX, "routes");
                out->routes[out->route_layers][token][rank++] = (uint16_t)id;
            }
            out->top_k = rank;
            token++;
        }
        CHECK(token == out->ids_count, "routes of %u tokens", token);
        out->route_layers++;
    }
}

void golden_read(const char *folder, struct golden *out)
{
    char path[1024];
    size_t bytes = 0;
    double numbers[GOLDEN_IDS_MAX];
    memset(out, 0, sizeof *out);
    snprintf(path, sizeof path, "%s/reference.json", folder);
    char *text = test_read_file(path, &bytes);
    struct str document = {text, bytes};
    out->ids_count = read_numbers(document, "input_ids", numbers, GOLDEN_IDS_MAX);
    for (size_t i = 0; i < out->ids_count; i++) {
        out->ids[i] = (int32_t)numbers[i];
    }
    out->greedy_count = read_numbers(document, "greedy", numbers, GOLDEN_IDS_MAX);
    for (size_t i = 0; i < out->greedy_count; i++) {
        out->greedy[i] = (int32_t)numbers[i];
    }
    CHECK(read_numbers(document, "greedy_margin", out->margin, GOLDEN_IDS_MAX) == out->greedy_count, "margins");
    CHECK(read_numbers(document, "logits_shape", numbers, 4) == 2 && numbers[0] == (double)out->ids_count, "shape");
    out->vocab = (uint32_t)numbers[1];
    read_routes(document, out);
    free(text);
    snprintf(path, sizeof path, "%s/logits.f32", folder);
    out->logits = (float *)(void *)test_read_file(path, &bytes);
    CHECK(bytes == out->ids_count * out->vocab * sizeof(float), "%s has %zu bytes", path, bytes);
}

void golden_free(struct golden *golden)
{
    free(golden->logits);
}
