# SPDX-License-Identifier: MIT
# Text in and out with the bundled model: tokenize, prompts, stop strings, chat.
. "$(dirname "$0")/lib.sh"
model=$root/models/pocket-moe-q8_0.gguf
[ -r "$model" ] || skip 'the bundled model is not here'

# Round trips, byte for byte.
round() {
    printf '%s' "$1" >"$work/text"
    said="berth tokenize <text"
    "$berth" tokenize "$model" <"$work/text" >"$work/out" 2>"$work/err"
    code=$?
    want_code 0
    ids=$(cat "$work/out")
    go tokenize "$model" --ids "$ids"
    want_code 0
    printf '%s\n' "$1" >"$work/want"
    checks=$((checks + 1))
    cmp -s "$work/out" "$work/want" || fail "round trip of '$1'"
    go tokenize "$model" --ids "$ids" --json
    want_json
    want_value text "$1"
}
round 'The kernel scheduler'
round "tabs$(printf '\t')and  double  spaces, digits 1234567890."
round 'Grüße, 日本語, русский, emoji 😀 and a combining e\u0301'
round 'line one
line two'
round '<|im_start|>user'
go tokenize "$model" -p 'The kernel scheduler'
want_out '562,918,7285,262'
go tokenize "$model" -p 'The kernel scheduler' --json --pieces
want_json
want_value count 4
want_value ids '[562,918,7285,262]'
want_value pieces.0 The
go tokenize "$model" -p ''
want_code 0
# Special tokens: text unless asked for.
go tokenize "$model" -p '<|im_end|>' --json
checks=$((checks + 1))
[ "$(value count)" -gt 1 ] || fail 'typed markup became a control token'
go tokenize "$model" -p '<|im_end|>' --special --json
want_value count 1
want_value ids '[2]'
go tokenize "$model" --ids 2
checks=$((checks + 1))
[ "$(cat "$work/out")" = '' ] || fail 'a special token was shown'
go tokenize "$model" --ids 2 --special
want_out '<|im_end|>'
go tokenize "$model" --ids 8192
want_code 2
want_err 'no token 8192'
# A vocabulary without weights: the same file with a tensor count of 0.
head -c 1048576 "$model" >"$work/vocab.gguf"
printf '\0\0\0\0\0\0\0\0' | dd of="$work/vocab.gguf" bs=1 seek=8 conv=notrunc 2>/dev/null
go tokenize "$work/vocab.gguf" --ids 562,918
want_code 0
go run "$work/vocab.gguf" -p x
want_code 1
printf 'bad \377 bytes' >"$work/text"
"$berth" tokenize "$model" <"$work/text" >"$work/out" 2>"$work/err"
code=$?
want_code 1
want_err 'not UTF-8'

# A prompt from -p, from standard input and as ids gives the same text.
go run "$model" -p 'The kernel scheduler' -n 24
want_code 0
cp "$work/out" "$work/text1"
want_err 'memory   peak'
want_err 'ended at the length asked for (-n)'
printf 'The kernel scheduler' | "$berth" run "$model" -n 24 --quiet >"$work/out" 2>"$work/err"
code=$?
want_code 0
want_no_err
checks=$((checks + 1))
cmp -s "$work/out" "$work/text1" || fail 'standard input gives another text than -p'
for ending in '\n' '\r\n'; do # the line end that closes piped text is not part of it
    # shellcheck disable=SC2059
    printf "The kernel scheduler$ending" | "$berth" run "$model" -n 24 --quiet >"$work/out" 2>"$work/err"
    checks=$((checks + 1))
    cmp -s "$work/out" "$work/text1" || fail 'a line end at the end of standard input changed the text'
done
go run "$model" --ids 562,918,7285,262 -n 24 --json
want_json
checks=$((checks + 1))
[ "$(value text)" = "$(cat "$work/text1")" ] || fail 'ids give another text than -p'
want_value generated_tokens 24
want_value ids.# 24

# Stop strings cut before themselves, also in JSON; every one counts.
word=$(tr -s ' \n' '\n\n' <"$work/text1" | sed -n 4p)
go run "$model" -p 'The kernel scheduler' -n 24 --stop 'zzzz' --stop "$word" --json
want_code 0
want_value end stop
checks=$((checks + 1))
case "$(cat "$work/text1")" in
"$(value text)$word"*) ;;
*) fail "stopped at the wrong place for '$word'" ;;
esac

# Chat: one answer, and a conversation of lines.
go run "$model" --chat -p 'What is a compiler?' -n 40 --json
want_code 0
want_json
want_value prompt_tokens 13
answer=$(value text)
go run "$model" --chat -p 'What is a compiler?' -n 40
want_out "$(echo "$answer" | head -1)"
printf 'What is a compiler?\n' | "$berth" chat "$model" --temp 0 -n 40 >"$work/out" 2>"$work/err"
code=$?
want_code 0
checks=$((checks + 1))
[ "$(cat "$work/out")" = "$answer" ] || fail 'chat and run --chat answer differently'
go run "$model" --chat -p 'What is a compiler?' --system 'You are terse.' -n 8 --json
checks=$((checks + 1))
[ "$(value prompt_tokens)" -gt 13 ] || fail 'the system message is missing'
printf '/help\n/nonsense\nhi\n/reset\n\n/exit\nnot read\n' | "$berth" chat "$model" --temp 0 -n 5 >"$work/out" 2>"$work/err"
code=$?
want_code 0
want_err '/reset  forget'
want_err 'unknown command /nonsense'
want_err 'starts over'
# A full context is said; --drop-oldest goes on.
printf 'one two three four five six\nseven eight nine ten\neleven twelve thirteen\nfourteen\n' >"$work/lines"
"$berth" chat "$model" --temp 0 -n 10 --ctx 70 <"$work/lines" >"$work/out" 2>"$work/err"
code=$?
want_code 0
want_err 'the context is full'
want_err '/reset starts over'
"$berth" chat "$model" --temp 0 -n 10 --ctx 70 --drop-oldest <"$work/lines" >"$work/out" 2>"$work/err"
code=$?
want_code 0
want_err 'the context was full; the oldest turn'
go run "$model" --chat -p x --template alpaca
want_code 2
want_err 'chatml'

# Text that the context cannot hold.
head -c 20000 "$model" | od -An -tx1 | "$berth" run "$model" --ctx 128 >"$work/out" 2>"$work/err"
code=$?
want_code 1
want_err 'raise --ctx'
# Nor is more read than the budget can hold.
head -c 9000000 /dev/zero | tr '\0' x | "$berth" run "$model" --budget 64MiB >"$work/out" 2>"$work/err"
code=$?
want_code 1
want_err 'too many for this budget'
finish
