# SPDX-License-Identifier: MIT
. "$(dirname "$0")/lib.sh"
"$root/tools/check-tidy" "$build" "$root" || {
    status=$?
    [ "$status" -eq 77 ] || exit 1
    exit 77
}
tree=$work/tree
mkdir -p "$tree/src/base" "$tree/build"
cp "$root/.clang-tidy" "$tree/"
plant() { # plant SOURCE
    printf '%s\n' '#include <stddef.h>' '#include <stdint.h>' "$1" >"$tree/src/base/a.c"
    printf '[\n{\n  "directory": "%s",\n  "command": "cc -std=c11 -c %s",\n  "file": "%s"\n}\n]\n' "$tree" \
        "$tree/src/base/a.c" "$tree/src/base/a.c" >"$tree/build/compile_commands.json"
}
check() {
    "$root/tools/check-tidy" "$tree/build" "$tree"
}
plant 'int f(int x) { return x + 1; }'
passes check
plant 'uint64_t f(int a, int b) { return (uint64_t)(a * b); }
size_t g(int a, int b) { size_t n = a * b; return n; }'
catches 'bugprone-implicit-widening-of-multiplication-result' check
plant 'int f(int x) { if (x) return 2; return 3; }'
catches 'readability-braces-around-statements' check
plant 'int f(int *p) { if (p == NULL) { return *p; } return 0; }'
catches 'clang-analyzer-core.NullDereference' check
plant 'int f(int x) { return sizeof(x) == 4 && x == x; }'
catches 'misc-redundant-expression' check
plant 'int f(int a, int b, int c, int d, int e, int g, int h, int i, int j) { return a + b + c + d + e + g + h + i + j; }'
catches 'readability-function-size' check
finish
