/* SPDX-License-Identifier: MIT
 * json_get FILE [PATH]: reads one JSON document with an independent reader and prints the value at a dotted path
 * ("plan.lines.kv", "ids.0", "ids.#" for a count). Strings are printed raw. Exit 1: not JSON, or no such value. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static json_t *walk(json_t *value, char *path, int *count)
{
    *count = -1;
    for (char *step = strtok(path, "."); step != NULL && value != NULL; step = strtok(NULL, ".")) {
        if (strcmp(step, "#") == 0) {
            *count = (int)(json_is_array(value) ? json_array_size(value) : json_object_size(value));
        } else if (json_is_array(value)) {
            value = json_array_get(value, strtoul(step, NULL, 10));
        } else {
            value = json_object_get(value, step);
        }
    }
    return value;
}

int main(int argc, char **argv)
{
    if (argc < 2) {
        return 2;
    }
    json_error_t error;
    json_t *root = json_load_file(argv[1], JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &error);
    if (root == NULL) {
        fprintf(stderr, "%s: line %d column %d: %s\n", argv[1], error.line, error.column, error.text);
        return 1;
    }
    int count = -1;
    json_t *value = argc > 2 ? walk(root, argv[2], &count) : root;
    if (value == NULL) {
        fprintf(stderr, "%s: no %s\n", argv[1], argv[2]);
        return 1;
    }
    if (count >= 0) {
        printf("%d\n", count);
    } else if (json_is_string(value)) {
        fwrite(json_string_value(value), 1, json_string_length(value), stdout);
        putchar('\n');
    } else if (argc > 2) {
        char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
        puts(text);
        free(text);
    }
    json_decref(root);
    return 0;
}
