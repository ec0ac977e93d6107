/* SPDX-License-Identifier: MIT
 * The runner of the memory proof measures what it should, and os_process_bytes() covers what a process is charged. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#define MIB (1024ull * 1024ull)

static char folder[64];
static char text[65536]; /* the report of the last run */

static int run_capped(const char *arguments)
{
    char command[1024];
    snprintf(command, sizeof command, "'%s/run_capped' --timeout 60 --report %s/report %s", TOOLS_DIR, folder,
             arguments);
    int status = system(command);
    char path[128];
    snprintf(path, sizeof path, "%s/report", folder);
    FILE *file = fopen(path, "rb");
    size_t got = file == NULL ? 0 : fread(text, 1, sizeof text - 1, file);
    text[got] = '\0';
    if (file != NULL) {
        fclose(file);
        remove(path);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static long long value(const char *name)
{
    char key[64];
    snprintf(key, sizeof key, "\"%s\": ", name);
    const char *at = strstr(text, key);
    if (at == NULL) {
        fail_msg("no %s in: %s", name, text);
        return -1;
    }
    return strtoll(at + strlen(key), NULL, 10);
}

static void assert_between(long long got, unsigned long long low, unsigned long long high)
{
    if (got < (long long)low || got > (long long)high) {
        fail_msg("got %lld, wanted %llu to %llu: %s", got, low, high, text);
    }
}

static void touched_memory_is_the_peak(void **state)
{
    (void)state;
    assert_int_equal(run_capped("-- " TOOLS_DIR "/touch_memory 67108864"), 0);
    assert_between(value("peak_bytes"), 64 * MIB, 72 * MIB);
    assert_int_equal(value("limit_hits"), 0);
    assert_int_equal(value("rc"), 0);
    assert_int_equal(run_capped("-- " TOOLS_DIR "/touch_memory 0"), 0);
    assert_between(value("peak_bytes"), 4096, 8 * MIB);
}

static void evicted_files_are_charged_when_read_again(void **state)
{
    (void)state;
    char path[128];
    char arguments[512];
    snprintf(path, sizeof path, "%s/file", folder);
    FILE *file = fopen(path, "wb");
    for (unsigned i = 0; i < 40 * 256; i++) {
        char page[4096];
        memset(page, (int)(i & 255u), sizeof page);
        fwrite(page, 1, sizeof page, file);
    }
    fclose(file);
    snprintf(arguments, sizeof arguments, "--evict %s -- %s/touch_memory 0 %s", path, TOOLS_DIR, path);
    assert_int_equal(run_capped(arguments), 0);
    if (strstr(text, "/file\"") != NULL) {
        print_message("the file system of this folder does not evict: nothing to check\n");
        return;
    }
    assert_between(value("peak_bytes"), 40 * MIB, 48 * MIB);
    assert_between(value("end_page_cache_bytes"), 40 * MIB, 48 * MIB);
}

static void limit_kills_what_exceeds_it(void **state)
{
    (void)state;
    assert_int_equal(run_capped("--limit 33554432 -- " TOOLS_DIR "/touch_memory 67108864"), 0);
    assert_int_equal(value("signal"), 9);
    assert_between(value("oom_kills"), 1, 10);
    assert_between(value("limit_hits"), 1, 1ull << 40);
    assert_between(value("peak_bytes"), 31 * MIB, 32 * MIB);
    assert_int_equal(run_capped("--limit 100663296 -- " TOOLS_DIR "/touch_memory 67108864 - 9"), 0);
    assert_int_equal(value("signal"), 0);
    assert_int_equal(value("rc"), 9);
    assert_int_equal(value("limit_hits"), 0);
    assert_int_equal(value("oom_kills"), 0);
}

static void root_runs_it_as_an_ordinary_user(void **state)
{
    (void)state;
    char arguments[512];
    snprintf(arguments, sizeof arguments, "--user nobody --stdout %s/id -- /usr/bin/id -u", folder);
    if (geteuid() != 0) {
        assert_int_equal(run_capped(arguments), 77);
        return;
    }
    assert_int_equal(run_capped(arguments), 0);
    assert_int_equal(value("rc"), 0);
    char path[128];
    snprintf(path, sizeof path, "%s/id", folder);
    FILE *file = fopen(path, "rb");
    unsigned id = 0;
    assert_int_equal(fscanf(file, "%u", &id), 1);
    fclose(file);
    assert_int_not_equal(id, 0);
}

static void bad_usage_is_told(void **state)
{
    (void)state;
    assert_int_equal(run_capped("--limit 5x -- /bin/true 2>/dev/null"), 2);
    assert_int_equal(run_capped("--bogus 1 -- /bin/true 2>/dev/null"), 2);
    assert_int_equal(run_capped("2>/dev/null"), 2);
    assert_int_equal(run_capped("-- /no/such/program 2>/dev/null"), 2);
}

static void the_process_line_covers_the_peak(void **state)
{
    (void)state;
    const char *const sizes[] = {"0 0", "0 8", "0 200", "67108864 4", "536870912 2"};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        char arguments[512];
        snprintf(arguments, sizeof arguments, "--copies %s --stdout %s/plan -- %s/process_probe %s", folder, folder,
                 TOOLS_DIR, sizes[i]);
        assert_int_equal(run_capped(arguments), 0);
        assert_int_equal(value("rc"), 0);
        char path[128];
        snprintf(path, sizeof path, "%s/plan", folder);
        FILE *file = fopen(path, "rb");
        unsigned long long plan = 0;
        assert_int_equal(fscanf(file, "%llu", &plan), 1);
        fclose(file);
        print_message("touched, threads: %s; planned %llu, peak %lld\n", sizes[i], plan, value("peak_bytes"));
        long cpus = sysconf(_SC_NPROCESSORS_ONLN);
        assert_between(value("peak_bytes"), plan - 4 * MIB - (unsigned long long)cpus * 256 * 1024, plan);
    }
}

static int make_folder(void **state)
{
    (void)state;
    snprintf(folder, sizeof folder, "./berth-capped-XXXXXX");
    return mkdtemp(folder) == NULL ? -1 : 0;
}

static int remove_folder(void **state)
{
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    return system(command);
}

int main(void)
{
    make_folder(NULL);
    int can = run_capped("-- /bin/true"); /* prints why not */
    remove_folder(NULL);
    if (can != 0) {
        return can;
    }
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(touched_memory_is_the_peak),  cmocka_unit_test(evicted_files_are_charged_when_read_again),
        cmocka_unit_test(limit_kills_what_exceeds_it), cmocka_unit_test(root_runs_it_as_an_ordinary_user),
        cmocka_unit_test(bad_usage_is_told),           cmocka_unit_test(the_process_line_covers_the_peak),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
