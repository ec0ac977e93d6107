/* SPDX-License-Identifier: MIT
 * The program: finds the verb and hands over. */
#include <stdio.h>
#include <string.h>

#include "berth.h"
#include "cli/verbs.h"
#include "common/host.h"
#include "common/report.h"
#include "tool.h"

static void print_help(FILE *out)
{
    fputs("Berth runs Mixture-of-Experts language models bigger than memory, inside a memory budget.\n\n"
          "Usage: berth VERB [OPTIONS]\n\n",
          out);
    for (int developer = 0; developer <= 1; developer++) {
        fputs(developer != 0 ? "\nFor development:\n" : "Verbs:\n", out);
        for (const struct verb *const *verb = verbs; *verb != NULL; verb++) {
            if ((*verb)->developer == (developer != 0)) {
                fprintf(out, "  %-10s %s\n", (*verb)->name, (*verb)->spec->summary);
            }
        }
    }
    fputs("\n'berth help VERB' shows the options of a verb, 'berth --version' the version and the kernels.\n"
          "Exit status: 0 ok, 1 failure, 2 usage, 3 the model does not fit, 130 interrupted.\n",
          out);
}

static int unknown_verb(const char *name)
{
    const char *names[32] = {"help", "version"};
    size_t count = 2;
    for (const struct verb *const *verb = verbs; *verb != NULL && count + 1 < 32; verb++) {
        names[count++] = (*verb)->name;
    }
    names[count] = NULL;
    const char *near = args_suggest(name, names);
    fprintf(stderr, "berth: unknown verb '%.80s'", name);
    if (near != NULL) {
        fprintf(stderr, "; did you mean '%s'?", near);
    }
    fputs("\nTry 'berth help'.\n", stderr);
    return EXIT_USAGE;
}

static int help(int argc, char **argv)
{
    if (argc == 0) {
        print_help(stdout);
        return EXIT_OK;
    }
    if (argc > 1) {
        fprintf(stderr, "berth help: unexpected argument '%.80s'\nTry 'berth help'.\n", argv[1]);
        return EXIT_USAGE;
    }
    const struct verb *verb = verb_find(argv[0]);
    if (verb == NULL) {
        return unknown_verb(argv[0]);
    }
    report_help(verb->spec, stdout);
    return EXIT_OK;
}

static int version(void)
{
    char kernels[96];
    tool_kernels(kernels, sizeof kernels);
    printf("berth %s\nkernels: %s\n", berth_version(), kernels);
    return EXIT_OK;
}

int main(int argc, char **argv)
{
    host_start();
    if (argc < 2) {
        print_help(stderr);
        return EXIT_USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0) {
        return report_flush("help", help(argc - 2, argv + 2));
    }
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0 || strcmp(name, "version") == 0) {
        return report_flush("version", version());
    }
    if (name[0] == '-') {
        fprintf(stderr, "berth: unknown option '%.80s'; options follow the verb\nTry 'berth help'.\n", name);
        return EXIT_USAGE;
    }
    const struct verb *verb = verb_find(name);
    if (verb == NULL) {
        return unknown_verb(name);
    }
    return report_flush(verb->name, verb->run(argc - 2, argv + 2));
}
