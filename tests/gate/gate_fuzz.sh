# SPDX-License-Identifier: MIT
# The fuzz driver finds a planted fault by mutation and keeps the input that shows it; without one it passes.
. "$(dirname "$0")/lib.sh"
mkdir "$work/corpus"
printf 'abcd' >"$work/corpus/seed"
plant() { # plant CONDITION
    printf '#include <stdint.h>\n#include <stdlib.h>\nint LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);\n' >"$work/a.c"
    printf 'int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)\n{\n' >>"$work/a.c"
    printf '    if (bytes >= 4 && %s) {\n        abort();\n    }\n    return 0;\n}\n' "$1" >>"$work/a.c"
    "$cc" -std=c11 -D_POSIX_C_SOURCE=200809L "$work/a.c" "$root/tests/fuzz/driver.c" -o "$work/fuzz_planted"
}
cd "$work"
plant "data[0] == 'a' && data[0] == 'b'"
passes "$work/fuzz_planted" "$work/corpus" --mutations 50000
plant "data[0] == 'a' && data[3] == 'e'"
catches 'the input is in crash-fuzz_planted' "$work/fuzz_planted" "$work/corpus" --mutations 50000
[ "$(head -c 1 "$work/crash-fuzz_planted")" = a ]
mkdir "$work/empty"
catches 'no corpus' "$work/fuzz_planted" "$work/empty"
finish
