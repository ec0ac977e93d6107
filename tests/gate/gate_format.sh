# SPDX-License-Identifier: MIT
. "$(dirname "$0")/lib.sh"
"$root/tools/check-format" "$root" || {
    status=$?
    [ "$status" -eq 77 ] || exit 1
    exit 77
}
mkdir -p "$work/tree/src/base"
cp "$root/.clang-format" "$work/tree/"
printf 'int f(void)\n{\n    return 1;\n}\n' >"$work/tree/src/base/a.c"
passes "$root/tools/check-format" "$work/tree"
printf 'int f(void) {\n  return 1;\n}\n' >"$work/tree/src/base/a.c"
catches 'code should be clang-formatted' "$root/tools/check-format" "$work/tree"
catches 'no C file found' "$root/tools/check-format" "$work"
finish
