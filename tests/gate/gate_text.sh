# SPDX-License-Identifier: MIT
. "$(dirname "$0")/lib.sh"
"$root/tools/check-text" "$root"

check="$root/tools/check-text"
tree=$work/tree
plant() { # plant FILE TEXT
    rm -rf "$tree"
    mkdir -p "$tree/docs" "$tree/src"
    printf 'build under /usr/include, ${prefix}/work, see work/home and ~/models\n' >"$tree/docs/a.md"
    printf 'int a;\n' >"$tree/src/a.c"
    passes "$check" "$tree"
    printf "$2" >>"$tree/$1"
}
plant docs/a.md "pip from py""pi.org\n"
catches "docs/a.md:2:pip" "$check" "$tree"
plant src/a.c "/* https://registry.npm""js.org/x */\n"
catches "package registry's host" "$check" "$tree"
plant docs/a.md "cd /wo""rk/main\n"
catches 'path of one machine' "$check" "$tree"
plant docs/a.md "x=/ho""me/someone/models\n"
catches 'path of one machine' "$check" "$tree"
plant src/a.c 'int b; \n'
catches 'trailing blanks' "$check" "$tree"
plant src/a.c '\tint b;\n'
catches 'text: tab' "$check" "$tree"
plant src/a.c 'int b;'
catches 'no newline at the end' "$check" "$tree"
finish
