/* SPDX-License-Identifier: MIT
 * Machines: the documents' table, the chip's name, this machine, and the larger table with a user's lines. */
#define _GNU_SOURCE
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cmocka.h>

#include "os/machine.h"
#include "tool.h"

static void test_table(void **state)
{
    (void)state;
    size_t count;
    const berth_sku *skus = berth_sku_table(&count);
    uint32_t rows = 0;
    assert_int_equal(count, 15);
    for (size_t i = 0; i < count; i++) {
        assert_in_range(skus[i].ram_count, 1, BERTH_SKU_RAM_MAX);
        rows += skus[i].ram_count;
        assert_ptr_equal(berth_sku_find(skus[i].chip), &skus[i]);
    }
    assert_int_equal(rows, BERTH_SKU_ROWS);
    assert_true(berth_sku_find("  Apple   M4 Pro\n")->bandwidth_gbs == 273);
    assert_true(berth_sku_find("M1 Ultra")->bandwidth_gbs == 800);
    assert_null(berth_sku_find("M9"));
    assert_null(berth_sku_find(""));
    assert_null(berth_sku_find("Apple"));
    assert_null(berth_sku_find("m4 pro"));
}

static char root[] = "/tmp/berth_machine_XXXXXX";

static void write_proc(const char *name, const char *text)
{
    char path[128];
    snprintf(path, sizeof path, "%s/proc/%s", root, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    fputs(text, file);
    fclose(file);
}

static void test_volume(void **state)
{
    (void)state;
    struct os_volume volume;
    berth_error err;
    char line[512];
    char path[128];
    struct stat info;
    assert_int_equal(os_volume_of("", "/nowhere/at/all", &volume, &err), BERTH_ERR_NOT_FOUND);
    assert_int_equal(stat(root, &info), 0);
    snprintf(path, sizeof path, "%s/proc", root);
    assert_true(mkdir(path, 0700) == 0 || access(path, F_OK) == 0);
    snprintf(path, sizeof path, "%s/proc/self", root);
    assert_int_equal(mkdir(path, 0700), 0);
    snprintf(line, sizeof line,
             "21 1 0:20 / /proc rw - proc proc rw\n36 1 %u:%u /a /mnt/models rw,noatime shared:1 - xfs /dev/disk9 rw\n",
             major(info.st_dev), minor(info.st_dev));
    write_proc("self/mountinfo", line);
    assert_int_equal(os_volume_of(root, root, &volume, &err), BERTH_OK);
    assert_string_equal(volume.source, "/dev/disk9");
    assert_string_equal(volume.type, "xfs");
    assert_string_equal(volume.mount, "/mnt/models");
    write_proc("self/mountinfo", "21 1 0:20 / /proc rw - proc proc rw\nshort\n");
    assert_int_equal(os_volume_of(root, root, &volume, &err), BERTH_OK);
    assert_string_equal(volume.source, "");
    snprintf(path, sizeof path, "%s/proc/self/mountinfo", root);
    unlink(path);
    snprintf(path, sizeof path, "%s/proc/self", root);
    rmdir(path);
    snprintf(path, sizeof path, "%s/proc", root);
    rmdir(path);
}

static void test_fixture(void **state)
{
    (void)state;
    char path[128];
    char name[128];
    uint64_t bytes;
    berth_error err;
    snprintf(path, sizeof path, "%s/proc", root);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(os_memory_total(root, &bytes, &err), BERTH_ERR_UNSUPPORTED);
    assert_false(os_processor_name(root, name, sizeof name));
    write_proc("meminfo", "MemFree:  1 kB\nMemTotal:       24684092 kB\nBuffers: 2 kB\n");
    write_proc("cpuinfo",
               "processor\t: 0\nvendor_id\t: X\nmodel\t\t: 7\nmodel name\t: Some CPU @ 2.00GHz\nstepping\t: 1\n");
    assert_int_equal(os_memory_total(root, &bytes, &err), BERTH_OK);
    assert_int_equal(bytes, 24684092ull * 1024);
    assert_true(os_processor_name(root, name, sizeof name));
    assert_string_equal(name, "Some CPU @ 2.00GHz");
    assert_true(os_processor_name(root, name, 5));
    assert_string_equal(name, "Some");
    write_proc("meminfo", "MemTotal: 99999999999999999999 kB\n");
    assert_int_equal(os_memory_total(root, &bytes, &err), BERTH_ERR_UNSUPPORTED);
    write_proc("meminfo", "MemTotal: many kB\n");
    assert_int_equal(os_memory_total(root, &bytes, &err), BERTH_ERR_UNSUPPORTED);
}

static void test_this_machine(void **state)
{
    (void)state;
    berth_sku_chip chip;
    berth_sku_machine machine;
    berth_error err;
    uint64_t bytes;
    berth_sku_detect_chip(&chip);
    const berth_sku *sku = berth_sku_find(chip.name);
    assert_true(chip.bandwidth_gbs == (sku != NULL ? sku->bandwidth_gbs : 0));
    assert_int_equal(berth_sku_this_machine(0, &machine, &err), BERTH_OK);
    assert_int_equal(os_memory_total("", &bytes, &err), BERTH_OK);
    assert_true(machine.ram_bytes == (double)bytes);
    assert_true(machine.bandwidth_gbs == (sku != NULL ? sku->bandwidth_gbs : BERTH_FIT_DEFAULT_BANDWIDTH_GBS));
    assert_int_equal(machine.bandwidth_basis, sku != NULL ? BERTH_SKU_TABLE : BERTH_SKU_DEFAULT);
    assert_string_equal(machine.name, "this machine");
    assert_int_equal(berth_sku_this_machine(123, &machine, &err), BERTH_OK);
    assert_true(machine.bandwidth_gbs == 123);
    assert_int_equal(machine.bandwidth_basis, BERTH_SKU_GIVEN);
}

static void test_hardware(void **state)
{
    (void)state;
    size_t count;
    const tool_hardware *rows = tool_hardware_table(&count);
    size_t makers[4] = {0};
    for (size_t i = 0; i < count; i++) {
        static const char *const names[] = {"Apple", "NVIDIA", "AMD", "CPU"};
        assert_true(rows[i].bandwidth_gbs > 10 && rows[i].bandwidth_gbs < 20000);
        for (size_t k = 0; k < 4; k++) {
            makers[k] += strcmp(rows[i].vendor, names[k]) == 0 ? 1 : 0;
        }
        for (size_t k = 0; k < i; k++) {
            assert_string_not_equal(rows[i].name, rows[k].name);
        }
        if (strcmp(rows[i].name, "GeForce RTX 4090") == 0) {
            assert_true(tool_hardware_is(&rows[i], "rtx 4090"));
            assert_true(tool_hardware_is(&rows[i], "NVIDIA GeForce RTX 4090"));
            assert_false(tool_hardware_is(&rows[i], "RTX 409"));
            assert_true(tool_hardware_has(&rows[i], "nvidia"));
            assert_true(tool_hardware_has(&rows[i], "DESKTOP"));
            assert_false(tool_hardware_has(&rows[i], "laptop"));
            makers[0] += 1000;
        }
    }
    assert_true(makers[0] > 1015 && makers[1] > 40 && makers[2] > 15 && makers[3] > 15);
}

static void test_split(void **state)
{
    (void)state;
    char name[64];
    assert_true(tool_hardware_split("M4 Pro 24GB", name, sizeof name) == 24);
    assert_string_equal(name, "M4 Pro");
    assert_true(tool_hardware_split("DDR5-5600 x2  128gib", name, sizeof name) == 128);
    assert_string_equal(name, "DDR5-5600 x2");
    assert_true(tool_hardware_split("A770 16GB x", name, sizeof name) == 0);
    assert_string_equal(name, "A770 16GB x");
    assert_true(tool_hardware_split("24GB", name, sizeof name) == 0);
    assert_true(tool_hardware_split("", name, sizeof name) == 0);
    assert_true(tool_hardware_split("X 99999999999999999999GB", name, sizeof name) == 0);
}

static void test_lines(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        bool row;
        berth_status status;
    } rows[] = {
        {"# a remark\n", false, BERTH_OK},
        {"\n", false, BERTH_OK},
        {"Box\tMe\tunified\t64,128\t123.5\n", true, BERTH_OK},
        {"Box\tMe\tunified\t-\t1\r\n", true, BERTH_OK},
        {"Box\tMe\tunified\t64\n", false, BERTH_ERR_FORMAT},
        {"Box\tMe\tunified\t64\t1\tx\n", false, BERTH_ERR_FORMAT},
        {"\tMe\tunified\t64\t1\n", false, BERTH_ERR_FORMAT},
        {"Box\tMe\tunified\t64,\t1\n", false, BERTH_ERR_FORMAT},
        {"Box\tMe\tunified\t\t1\n", false, BERTH_ERR_FORMAT},
        {"Box\tMe\tunified\t1,2,3,4,5,6,7\t1\n", false, BERTH_ERR_FORMAT},
        {"Box\tMe\tunified\t-4\t1\n", false, BERTH_ERR_FORMAT},
        {"Box\tMe\tunified\t64\t0\n", false, BERTH_ERR_FORMAT},
        {"Box\tMe\tunified\t64\tnan\n", false, BERTH_ERR_FORMAT},
        {"Box\tMe\tunified\t64\t1e30\n", false, BERTH_ERR_FORMAT},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char line[128];
        tool_hardware row;
        berth_status status;
        berth_error err;
        snprintf(line, sizeof line, "%s", rows[i].line);
        assert_int_equal(tool_hardware_line(line, &row, &status, &err), rows[i].row);
        assert_int_equal(status, rows[i].status);
        if (i == 2) {
            assert_string_equal(row.name, "Box");
            assert_int_equal(row.mem_count, 2);
            assert_true(row.mem_gb[1] == 128 && row.bandwidth_gbs == 123.5);
        }
    }
}

int main(void)
{
    if (mkdtemp(root) == NULL) {
        return 1;
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_table),        cmocka_unit_test(test_volume),
                                       cmocka_unit_test(test_volume),       cmocka_unit_test(test_fixture),
                                       cmocka_unit_test(test_this_machine), cmocka_unit_test(test_hardware),
                                       cmocka_unit_test(test_split),        cmocka_unit_test(test_lines)};
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    char command[128];
    snprintf(command, sizeof command, "rm -r '%s'", root);
    return system(command) != 0 || failed != 0;
}
