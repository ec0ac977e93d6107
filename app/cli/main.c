/* SPDX-License-Identifier: MIT
 * The program: finds the verb and hands over. */
#include <stdio.h>
#include <string.h>

#include "berth.h"
#include "cli/verbs.h"
#include "common/host.h"
#include "common/report.h"
#include "store/find.h"
#include "tool.h"

static const char *summary_of(const struct verb_entry *entry)
{
    return entry->verb != NULL ? entry->verb->spec->summary : entry->summary;
}

static void print_list(const char *group, bool developer, FILE *out)
{
    for (const struct verb_entry *entry = verb_entries; entry->name != NULL; entry++) {
        bool member = group == NULL ? entry->group == NULL : entry->group != NULL && strcmp(entry->group, group) == 0;
        bool hidden = entry->verb != NULL && entry->verb->developer;
        bool empty = entry->verb == NULL && !verb_group_has_parts(entry->name);
        if (member && hidden == developer && !empty) {
            fprintf(out, "  %-11s  ", entry->name);
            report_wrap(out, 15, 15, summary_of(entry));
        }
    }
}

static void print_help(FILE *out)
{
    fputs("Berth runs Mixture-of-Experts language models bigger than memory, inside a\nmemory budget.\n\n"
          "Usage: berth VERB [OPTIONS]\n\nVerbs:\n",
          out);
    print_list(NULL, false, out);
    fputs("\nFor development:\n", out);
    print_list(NULL, true, out);
    fputs("\n'berth help VERB' shows the options of a verb, 'berth --version' the version and\nthe kernels.\n"
          "Exit status: 0 ok, 1 failure, 2 usage, 3 the model does not fit,\n130 interrupted.\n",
          out);
}

static void print_group(const struct verb_entry *group, FILE *out)
{
    fprintf(out, "Usage: berth %s PART [OPTIONS]\n\n%s\n\nParts:\n", group->name, group->summary);
    print_list(group->name, false, out);
    print_list(group->name, true, out);
    fprintf(out, "\n'berth help %s PART' shows the options of a part.\n", group->name);
}

/* group NULL: among the verbs and groups. */
static int unknown_name(const char *group, const char *name)
{
    const char *names[48] = {"help", "version"};
    size_t count = group == NULL ? 2 : 0;
    for (const struct verb_entry *entry = verb_entries; entry->name != NULL && count + 1 < 48; entry++) {
        if (group == NULL ? entry->group == NULL : entry->group != NULL && strcmp(entry->group, group) == 0) {
            names[count++] = entry->name;
        }
    }
    names[count] = NULL;
    const char *near = args_suggest(name, names);
    if (group == NULL) {
        near = near != NULL && strcmp(near, name) == 0 ? NULL : near;
        fprintf(stderr, "berth: unknown verb '%.80s'", name);
    } else {
        fprintf(stderr, "berth %s: no part '%.80s'", group, name);
    }
    if (near != NULL) {
        fprintf(stderr, "; did you mean '%s'?", near);
    }
    fprintf(stderr, "\nTry 'berth help%s%s'.\n", group != NULL ? " " : "", group != NULL ? group : "");
    return EXIT_USAGE;
}

/* Finds the verb or part that argv names and how many words that took. Otherwise *verb is NULL and the answer, help of
 * a group or a usage error, has been printed. */
static int find_verb(int argc, char **argv, bool want_help, const struct verb **verb, int *words)
{
    *verb = NULL;
    const struct verb_entry *entry = verb_find(NULL, argv[0]);
    if (entry == NULL || (entry->verb == NULL && !verb_group_has_parts(entry->name))) {
        return unknown_name(NULL, argv[0]);
    }
    *words = 1;
    if (entry->verb == NULL) {
        bool asked = want_help ? argc == 1 : argc > 1 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0);
        if (asked || argc == 1) {
            print_group(entry, asked ? stdout : stderr);
            return asked ? EXIT_OK : EXIT_USAGE;
        }
        const struct verb_entry *part = verb_find(entry->name, argv[1]);
        if (part == NULL) {
            return unknown_name(entry->name, argv[1]);
        }
        entry = part;
        *words = 2;
    }
    *verb = entry->verb;
    return EXIT_OK;
}

static int help(int argc, char **argv)
{
    if (argc == 0) {
        print_help(stdout);
        return EXIT_OK;
    }
    if (argc == 1 && strcmp(argv[0], "help") == 0) {
        fputs("Usage: berth help [VERB [PART]]\n\nShow the verbs, or the options of one.\n", stdout);
        return EXIT_OK;
    }
    if (argc == 1 && strcmp(argv[0], "version") == 0) {
        fputs("Usage: berth version\n\nShow the version, and the kernel rows that this processor runs.\n", stdout);
        return EXIT_OK;
    }
    const struct verb *verb;
    int words = 0;
    int code = find_verb(argc, argv, true, &verb, &words);
    if (verb == NULL) {
        return code;
    }
    if (argc > words) {
        fprintf(stderr, "berth help: unexpected argument '%.80s'\nTry 'berth help'.\n", argv[words]);
        return EXIT_USAGE;
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

/* One MODEL a command line; what it was resolved to lives as long as the program. */
static int resolve_model(const char *verb, const char **path)
{
    static char found[HOST_PATH_MAX];
    return models_resolve(verb, path, found, sizeof found, &report_looked_up);
}

int main(int argc, char **argv)
{
    host_start();
    report_resolve_model = resolve_model;
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
    const struct verb *verb;
    int words = 0;
    int code = find_verb(argc - 1, argv + 1, false, &verb, &words);
    return report_flush(name, verb == NULL ? code : verb->run(argc - 1 - words, argv + 1 + words));
}
