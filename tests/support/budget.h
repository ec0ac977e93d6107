/* SPDX-License-Identifier: MIT
 * A budget in which every small model of the tests has room, whatever the build: a sanitizer's runtime alone plans 60
 * MiB, and more on a machine of many CPUs. */
#ifndef TESTS_SUPPORT_BUDGET_H
#define TESTS_SUPPORT_BUDGET_H

#define TEST_ROOMY_BYTES (256ull << 20)

#endif
