# SPDX-License-Identifier: MIT
. "$(dirname "$0")/lib.sh"
"$root/tools/check-exports" "$build" "$root"

tree=$work/tree
mkdir -p "$tree/include" "$work/build/lib"
plant() { # plant SOURCE: a library beside a header that declares berth_one()
    printf '#define BERTH_API __attribute__((visibility("default")))\nBERTH_API int berth_one(void);\n' >"$tree/include/berth.h"
    printf '#include "%s"\nint hidden(void);\nint hidden(void)\n{\n    return 1;\n}\n' "$tree/include/berth.h" >"$work/a.c"
    printf '%s\n' "$1" >>"$work/a.c"
    "$cc" -std=c11 -fPIC -fvisibility=hidden -c "$work/a.c" -o "$work/a.o"
    "$cc" -shared "$work/a.o" -o "$work/build/lib/libberth.so"
    objcopy --localize-hidden "$work/a.o"
    rm -f "$work/build/lib/libberth.a"
    ar rcs "$work/build/lib/libberth.a" "$work/a.o"
}
check() {
    "$root/tools/check-exports" "$work/build" "$tree"
}
one='int berth_one(void) { return hidden(); }'
plant "$one"
passes check
plant "$one __attribute__((visibility(\"default\"))) int leak(void) { return 2; }"
catches 'the shared library exports what berth.h does not declare: leak' check
catches 'the static library exports what berth.h does not declare: leak' check
plant 'int other(void); int other(void) { return hidden(); }'
catches 'the shared library lacks what berth.h declares: berth_one' check
plant "$one"
printf 'BERTH_API int\nberth_two(void);\n' >>"$tree/include/berth.h"
catches 'not on that line' check
finish
