# SPDX-License-Identifier: MIT
# Every verb and every option that help lists is in docs/cli.md, and nothing there is unknown to help.
. "$(dirname "$0")/lib.sh"
doc=$root/docs/cli.md
groups='usage bench'
verbs=$("$berth" help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
code=0
: >"$work/out"
: >"$work/err"
: >"$work/known"
# The parts of a group share its section.
list() {
    for verb in $verbs; do
        case " $groups " in
        *" $verb "*) "$berth" help "$verb" | sed -n "s/^  \([a-z]*\)  .*/$verb \1/p" ;;
        *) echo "$verb" ;;
        esac
    done
}
list >"$work/list"
while read -r verb part; do
    said="berth help $verb $part"
    checks=$((checks + 1))
    grep -q "^## $verb\$" "$doc" || fail "docs/cli.md has no section $verb"
    checks=$((checks + 1))
    grep -q "berth $verb${part:+ $part} " "$doc" || fail "docs/cli.md does not name berth $verb $part"
    "$berth" help $verb $part | sed -n 's/^ .\{0,5\}\(--[a-z-]*\).*/\1/p' >"$work/options"
    checks=$((checks + 1))
    [ -s "$work/options" ] || fail "$verb has no options"
    cat "$work/options" >>"$work/known"
    while read -r option; do
        checks=$((checks + 1))
        grep -qE -e "$option([^a-z-]|\$)" "$doc" || fail "docs/cli.md does not name $option"
    done <"$work/options"
done <"$work/list"
printf '%s\n' --name --version --help >>"$work/known"
grep -oE -e '--[a-z][a-z-]*' "$doc" | sort -u | while read -r option; do
    grep -qxF -e "$option" "$work/known" || echo "$option"
done >"$work/out"
said='options named in docs/cli.md'
want_no_out
finish
