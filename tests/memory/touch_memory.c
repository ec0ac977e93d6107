/* SPDX-License-Identifier: MIT
 * What test_run_capped runs: touches ARG1 bytes of anonymous memory, reads the file ARG2 through the page cache if
 * given, and returns ARG3. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    size_t bytes = argc > 1 ? (size_t)strtoull(argv[1], NULL, 10) : 0;
    volatile unsigned char *memory = malloc(bytes + 1);
    if (memory == NULL) {
        return 3;
    }
    for (size_t i = 0; i < bytes; i += 4096) {
        memory[i] = 1;
    }
    if (argc > 2 && strcmp(argv[2], "-") != 0) {
        static char buffer[1 << 16];
        FILE *file = fopen(argv[2], "rb");
        while (file != NULL && fread(buffer, 1, sizeof buffer, file) > 0) {
        }
        if (file == NULL) {
            return 4;
        }
        fclose(file);
    }
    return argc > 3 ? atoi(argv[3]) : 0;
}
