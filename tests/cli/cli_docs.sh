# SPDX-License-Identifier: MIT
# docs/cli.md, the manual page and the program agree, option by option and verb by verb: what help lists the parser
# knows (both read one table) and both documents name for that verb; what a document names for a verb, the verb accepts.
. "$(dirname "$0")/lib.sh"
doc=$root/docs/cli.md
man=$root/docs/man/berth.1
groups='usage bench'
verbs=$("$berth" help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
code=0
: >"$work/out"
: >"$work/err"

list() {
    for verb in $verbs; do
        case " $groups " in
        *" $verb "*) "$berth" help "$verb" | sed -n "s/^  \([a-z]*\)  .*/$verb \1/p" ;;
        *) echo "$verb" ;;
        esac
    done
}
list >"$work/list"

# "VERB --option value-or-nothing" and "VERB -o ..." as help has them; a part of a group is one word: usage.show.
while read -r verb part; do
    # shellcheck disable=SC2086
    "$berth" help $verb $part | sed -n \
        -e "s/^  -\([a-z]\), --\([a-z-]*\) *\([^ ]*\).*/$verb${part:+.$part} -\1/p" \
        -e "s/^ .\{0,5\}\(--[a-z-]*\).*/$verb${part:+.$part} \1/p"
    "$berth" help $verb $part | sed -n "s/^  -[a-z], \(--[a-z-]*\).*/$verb${part:+.$part} \1/p"
done <"$work/list" | sort -u >"$work/help"
checks=$((checks + 1))
[ "$(wc -l <"$work/help")" -gt 150 ] || fail 'help lists almost nothing'

# The parser knows them: with an option it knows the complaint is another one.
while read -r verb option; do
    # shellcheck disable=SC2046
    go $(echo "$verb" | tr . ' ') "$option"
    checks=$((checks + 1))
    ! grep -q 'unknown option' "$work/err" || fail 'listed, and unknown'
    go $(echo "$verb" | tr . ' ') "$option-x"
    checks=$((checks + 1))
    grep -q 'unknown option' "$work/err" || fail 'an unknown option is taken'
done <"$work/help"

# What the documents name, as "VERB --option": the sections of cli.md, the lists of the page. "*": every verb that opens a
# model.
awk -v groups="$groups" '
    /^## / {
        verb = substr($0, 4)
        sub(/^Options of every.*/, "*", verb)
        gsub(/ /, ".", verb)
    }
    /^### fit / { verb = "fit" }
    verb != "" {
        text = $0
        if (match(text, /^`berth [a-z]+ [a-z]+ /) && index(" " groups " ", " " substr(text, 8, index(substr(text, 8), " ") - 1) " ")) {
            split(text, word, " ")
            verb = word[2] "." word[3]
        }
        while (match(text, /(^|[^a-zA-Z0-9-])--?[a-z][a-z-]*/)) {
            option = substr(text, RSTART, RLENGTH)
            text = substr(text, RSTART + RLENGTH)
            sub(/^[^-]/, "", option)
            if (option ~ /^--[a-z]/ || option ~ /^-[a-z]$/) print verb, option
        }
    }' "$doc" | sort -u >"$work/doc"
awk '
    function strip(text) { sub(/^\.Cm /, "", text); sub(/ :$/, "", text); gsub(/ /, ".", text); return text }
    /^Options of every verb/ { verbs = "*"; next }
    /^Options of$/ { verbs = ""; gathering = 1; next }
    gathering && /^\.Cm / { verbs = verbs (verbs == "" ? "" : " ") strip($0); next }
    /^\.Cm / { last = strip($0) }
    /^also knows/ { verbs = last }
    /^\.Bl/ { gathering = 0; inside = 1 }
    /^\.El/ { inside = 0; verbs = "" }
    inside && verbs != "" && /^\.It / {
        for (i = 2; i < NF; i++) {
            if ($i == "Fl") print verbs ":", "-" $(i + 1)
        }
    }' "$man" | sort -u >"$work/man"

opens() { # VERB: it has the options of every verb that opens a model
    grep -qx "$1 --budget" "$work/help" && grep -qx "$1 --ctx" "$work/help"
}

# Named for their verb. --json is said once for all verbs that report.
while read -r verb option; do
    group=${verb%%.*}
    said="$verb $option"
    checks=$((checks + 2))
    grep -qx -e "$verb $option" -e "$group $option" "$work/doc" ||
        { opens "$verb" && grep -qx -e "\* $option" "$work/doc"; } || fail 'docs/cli.md does not name it for this verb'
    grep -qE -e "(^| )($verb|$group)( [^:]*)?: $option\$" "$work/man" || [ "$option" = --json ] ||
        { opens "$verb" && grep -qx -e "\*: $option" "$work/man"; } || fail 'berth.1 does not name it for this verb'
done <"$work/help"

# Known to the verb that they are named for.
known() { # OPTION VERBS...
    option=$1
    shift
    for verb in "$@"; do
        case $verb in
        '*') grep -qE -e "^[^ ]* $option\$" "$work/help" && return 0 ;;
        *) grep -qE -e "^$verb(\.[a-z]*)? $option\$" "$work/help" && return 0 ;;
        esac
    done
    return 1
}
while read -r verb option; do
    said="docs/cli.md: $verb $option"
    checks=$((checks + 1))
    [ "$verb $option" = 'usage.plan --pin' ] || # what its output is for
        known "$option" "$verb" || known "$option" "${verb%%.*}" || fail 'the verb does not know it'
done <"$work/doc"
set -f
while read -r line; do
    said="berth.1: $line"
    checks=$((checks + 1))
    # shellcheck disable=SC2086
    known "${line##*: }" ${line%%:*} || fail 'no verb of this list knows it'
done <"$work/man"
set +f
finish
