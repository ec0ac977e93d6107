# SPDX-License-Identifier: MIT
. "$(dirname "$0")/lib.sh"
"$root/tools/check-docs" "$root"

check="$root/tools/check-docs"
tree=$work/tree
fresh() {
    rm -rf "$tree"
    mkdir -p "$tree/app/cli" "$tree/docs/man" "$tree/include"
    printf 'VERB(fit)\n' >"$tree/app/cli/verbs.def"
    printf '.Dd November 30, 2026\n.Dt BERTH 1\n.Os\n.Sh NAME\n.Nm berth\n.Nd test\n.Sh DESCRIPTION\nText.\n' >"$tree/docs/man/berth.1"
    printf '.Bl -tag -width fit\n.It Cm fit\nPlans.\n.El\n' >>"$tree/docs/man/berth.1"
    printf 'project(berth VERSION 1.2.3 LANGUAGES C)\n' >"$tree/CMakeLists.txt"
    printf '#define BERTH_VERSION_MAJOR 1\n#define BERTH_VERSION_MINOR 2\n#define BERTH_VERSION_PATCH 3\n' >"$tree/include/berth.h"
    printf 'See [the plan](docs/plan.md#part) and [a site](https://example.org/).\n' >"$tree/README.md"
    printf 'Back to [the start](../README.md).\n' >"$tree/docs/plan.md"
}
fresh
passes "$check" "$tree"
rm "$tree/docs/plan.md"
catches 'README.md: the link docs/plan.md leads nowhere' "$check" "$tree"
fresh
printf 'VERB(run)\n' >>"$tree/app/cli/verbs.def"
catches 'no entry for the verb run' "$check" "$tree"
fresh
printf '.Bl -tag -width fit\n.It Cm sing\nSings.\n.El\n' >>"$tree/docs/man/berth.1"
catches 'a verb that does not exist: sing' "$check" "$tree"
fresh
printf 'static const struct arg_option rows[] = {\n    {.name = "loud", .type = ARG_FLAG},\n};\n' >"$tree/app/cli/cmd_fit.c"
catches 'no entry for the option --loud' "$check" "$tree"
printf '.Bl -tag -width fit\n.It Fl -loud\nShouts.\n.El\n' >>"$tree/docs/man/berth.1"
passes "$check" "$tree"
fresh
printf 'project(berth VERSION 1.3.0 LANGUAGES C)\n' >"$tree/CMakeLists.txt"
catches "version '1.3.0', berth.h says '1.2.3'" "$check" "$tree"
if command -v mandoc >/dev/null 2>&1; then
    fresh
    printf '.Nonsense\n' >>"$tree/docs/man/berth.1"
    catches 'unknown macro' "$check" "$tree"
fi
finish
