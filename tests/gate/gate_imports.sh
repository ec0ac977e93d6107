# SPDX-License-Identifier: MIT
. "$(dirname "$0")/lib.sh"
"$root/tools/check-imports" "$build" "$root"

# A library of one object, compiled as ours are.
tree=$work/tree
objects=$work/build/CMakeFiles/berth_objects.dir/src/base
mkdir -p "$objects" "$tree/tools"
plant() { # plant SOURCE
    : >"$tree/tools/imports.allow"
    printf '#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\nsize_t good(const char *s);\n' >"$work/a.c"
    printf 'static const char *const names[] = {"a", "b"};\nsize_t good(const char *s)\n{\n' >>"$work/a.c"
    printf '    return strlen(s) + strlen(names[*s & 1]);\n}\n' >>"$work/a.c"
    printf '%s\n' "$1" >>"$work/a.c"
    "$cc" -std=c11 -O2 -fPIC -fvisibility=hidden -c "$work/a.c" -o "$objects/a.c.o"
    echo "$objects/a.c.o" >"$work/build/objects.txt"
}
check() {
    "$root/tools/check-imports" "$work/build" "$tree"
}
plant ''
passes check
plant 'void f(void) { char text[8]; snprintf(text, sizeof text, "%d", 1); (void)good(text); }'
passes check
plant 'void f(int x) { printf("%d", x); }'
catches 'src/base/a.c calls printf: prints' check
plant 'void f(void) { exit(1); }'
catches 'calls exit: ends the process' check
plant 'void f(void) { abort(); }'
catches 'calls abort' check
plant 'char *f(void) { return getenv("HOME"); }'
catches 'calls getenv: reads the environment' check
plant 'void *f(size_t n) { return malloc(n); }'
catches 'calls malloc: allocates behind the plan' check
plant '#include <signal.h>
void f(void) { signal(SIGINT, SIG_IGN); }'
catches "changes the process's signals" check
plant 'void f(int *v, size_t n, int (*by)(const void *, const void *)) { qsort(v, n, 4, by); }'
catches 'calls qsort' check
plant 'int counter = 7;
int f(void) { return counter++; }'
catches 'src/base/a.c defines the mutable global counter: in .data' check
plant 'int f(void) { static int calls; return ++calls; }'
catches 'in .bss' check
plant '_Thread_local int last;
int f(void) { return last++; }'
catches 'in .tbss' check
plant 'void f(void) { abort(); }'
echo 'src/base/a.c abort because the self-test says so' >"$tree/tools/imports.allow"
passes check
plant ''
echo 'src/base/a.c abort because the self-test says so' >"$tree/tools/imports.allow"
catches 'abort is no longer needed' check
: >"$work/build/objects.txt"
catches 'configure and build first' check
finish
