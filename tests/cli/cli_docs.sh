# SPDX-License-Identifier: MIT
# docs/cli.md, the manual page and the program agree, option by option and verb by verb: what help lists the parser
# knows (both read one table) and both documents name for that verb; what a document names for a verb, the verb accepts.
. "$(dirname "$0")/lib.sh"
doc=$root/docs/cli.md
man=$root/docs/man/berth.1
groups='usage bench'
verbs=$("$berth" help | sed -n 's/^  \([a-z][a-z]*\)  .*/\1/p')
code=0
: >"$work/out"
: >"$work/err"

list() {
    for verb in $verbs; do
        case " $groups " in
        *" $verb "*) "$berth" help "$verb" | sed -n "s/^  \([a-z][a-z]*\)  .*/$verb \1/p" ;;
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

# The parser knows them: it stumbles over what follows, or over a value that is none. Nothing is run.
while read -r verb option; do
    # shellcheck disable=SC2046
    go $(echo "$verb" | tr . ' ') "$option" --no-such-option --no-such-option
    checks=$((checks + 1))
    [ "$code" -eq 2 ] && ! grep -qF -e "unknown option '$option'" "$work/err" || fail 'listed, and unknown'
done <"$work/help"
while read -r verb part; do
    # shellcheck disable=SC2086
    go $verb $part --no-such-option
    want_code 2
    want_err "unknown option '--no-such-option'"
done <"$work/list"

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

# For each verb what its own places name, those of its group, and those of every verb that opens a model.
while read -r verb part; do
    name=$verb${part:+.$part}
    all=$(opens "$name" && echo '\*' || echo "$name")
    grep -E "^($name|$verb|$all) " "$work/doc" | sed "s/^[^ ]* /$name /" >>"$work/doc_for"
    grep -E "^([^:]* )?($name|$verb|$all)( [^:]*)?: " "$work/man" | sed "s/^[^:]*: /$name /" >>"$work/man_for"
    echo "$name --json" >>"$work/man_for" # said once for all verbs that report
done <"$work/list"

# none WHAT FILE: each line of FILE is a failure.
none() {
    checks=$((checks + 1))
    while read -r said; do
        fail "$1"
    done <"$2"
}
grep -vxF -f "$work/doc_for" "$work/help" >"$work/missing"
none 'docs/cli.md does not name it for this verb' "$work/missing"
grep -vxF -f "$work/man_for" "$work/help" >"$work/missing"
none 'berth.1 does not name it for this verb' "$work/missing"
checks=$((checks + $(wc -l <"$work/help")))

# Known to the verb that they are named for, or to one part of the group, or to one verb of the list.
awk '
    NR == FNR {
        group = $1
        sub(/\..*/, "", group)
        known[$1 " " $2] = known[group " " $2] = known["* " $2] = 1
        next
    }
    {
        verb = $1
        sub(/\..*/, "", verb)
        found = known[$1 " " $NF] || known[verb " " $NF] || $0 == "usage.plan --pin" # what its output is for
        for (i = 1; i < NF; i++) {
            name = $i
            sub(/:$/, "", name)
            found = found || known[name " " $NF]
        }
        if (!found) print
    }' "$work/help" "$work/doc" >"$work/unknown"
none 'docs/cli.md: the verb does not know it' "$work/unknown"
awk '
    NR == FNR {
        group = $1
        sub(/\..*/, "", group)
        known[$1 " " $2] = known[group " " $2] = known["* " $2] = 1
        next
    }
    {
        found = 0
        for (i = 1; i < NF; i++) {
            name = $i
            sub(/:$/, "", name)
            found = found || known[name " " $NF]
        }
        if (!found) print
    }' "$work/help" "$work/man" >"$work/unknown"
none 'berth.1: no verb of this list knows it' "$work/unknown"
checks=$((checks + $(wc -l <"$work/doc") + $(wc -l <"$work/man")))
finish
