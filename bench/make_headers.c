/* SPDX-License-Identifier: MIT
 * make_headers FOLDER SHAPE safetensors|gguf [files [layers [experts]]]: a checkpoint that is headers in front of
 * holes, for bench/headers.sh. Prints what it holds. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/headers.h"

int main(int argc, char **argv)
{
    struct headers_made made;
    uint32_t numbers[3] = {0, 0, 0};
    if (argc < 4 || argc > 7 || (strcmp(argv[3], "gguf") != 0 && strcmp(argv[3], "safetensors") != 0)) {
        fprintf(stderr, "usage: make_headers FOLDER SHAPE safetensors|gguf [files [layers [experts]]]\nshapes:");
        for (uint32_t i = 0; headers_shape(i) != NULL; i++) {
            fprintf(stderr, " %s", headers_shape(i));
        }
        fputc('\n', stderr);
        return 2;
    }
    for (int i = 4; i < argc; i++) {
        numbers[i - 4] = (uint32_t)strtoul(argv[i], NULL, 10);
    }
    const struct headers_request request = {.folder = argv[1],
                                            .shape = argv[2],
                                            .gguf = strcmp(argv[3], "gguf") == 0,
                                            .files = numbers[0],
                                            .layers = numbers[1],
                                            .experts = numbers[2]};
    if (!headers_make(&request, &made)) {
        fprintf(stderr, "make_headers: %s: %s\n", argv[1], strerror(errno));
        return 1;
    }
    printf("%s: %" PRIu32 " files, %" PRIu64 " GB, %" PRIu32 " tensors\n", made.path, made.files,
           made.tensor_bytes / 1000000000, made.tensors);
    return 0;
}
