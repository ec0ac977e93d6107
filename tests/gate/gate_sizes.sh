# SPDX-License-Identifier: MIT
. "$(dirname "$0")/lib.sh"
"$root/tools/check-sizes" "$root"

check="$root/tools/check-sizes"
tree=$work/tree
fresh() {
    rm -rf "$tree"
    mkdir -p "$tree/src/base" "$tree/tools"
    printf '/* SPDX-License-Identifier: MIT */\n' >"$tree/src/base/a.c"
    printf '#!/bin/sh\n# SPDX-License-Identifier: MIT\n' >"$tree/tools/tool"
    chmod +x "$tree/tools/tool"
}
lines() { # lines COUNT TEXT
    awk -v count="$1" -v text="$2" 'BEGIN { for (i = 0; i < count; i++) print text }'
}
fresh
{ printf 'int f(void)\n{\n' && lines 118 '    f();' && printf '}\n'; } >>"$tree/src/base/a.c"
lines 1078 '' >>"$tree/src/base/a.c"
passes "$check" "$tree"
echo >>"$tree/src/base/a.c"
catches 'src/base/a.c: 1201 lines' "$check" "$tree"
fresh
{ printf 'int f(void)\n{\n' && lines 119 '    f();' && printf '}\n'; } >>"$tree/src/base/a.c"
catches 'src/base/a.c:3: function of 121 lines' "$check" "$tree"
fresh
printf 'int x;\n' >"$tree/src/base/b.h"
catches 'src/base/b.h:1: want "/* SPDX' "$check" "$tree"
fresh
printf '#!/bin/sh\n' >"$tree/tools/tool"
catches 'tools/tool: no SPDX' "$check" "$tree"
catches 'no C file found' "$check" "$work"
finish
