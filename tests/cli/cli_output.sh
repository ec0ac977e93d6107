# SPDX-License-Identifier: MIT
# Output that cannot be written: a full disk, a closed stream, a reader that went away.
. "$(dirname "$0")/lib.sh"
model=$golden/qwen3-moe
[ -w /dev/full ] || skip 'no /dev/full here'

for args in help 'help run' --version "fit $model" "fit $model --json" "inspect $model --tensors" \
    "logits $model --ids 1,2 --hash" "run $model --ids 1,2,3 -n 4" "run $model --ids 1,2,3 -n 4 --json"; do
    said="berth $args >/dev/full"
    : >"$work/out"
    # shellcheck disable=SC2086
    "$berth" ${args} </dev/null >/dev/full 2>"$work/err"
    code=$?
    want_code 1
    want_err 'standard output could not be written: No space left on device'
    said="berth $args >&-"
    # shellcheck disable=SC2086
    "$berth" ${args} </dev/null >&- 2>"$work/err"
    code=$?
    want_code 1
    want_err 'standard output could not be written: Bad file descriptor'
done

# A closed pipe: whoever reads has seen enough. No message; the status is what the signal would give.
said="berth inspect --tensors | (nobody)"
mkfifo "$work/pipe"
(
    exec 4<"$work/pipe"
    exec 4<&-
    : >"$work/gone"
) &
{
    while [ ! -e "$work/gone" ]; do :; done
    "$berth" inspect "$model" --tensors 2>"$work/err"
    echo $? >"$work/code"
} >"$work/pipe"
wait
code=$(cat "$work/code")
want_code 141
want_no_err

# With every stream closed it still ends by itself, and touches nothing.
said='berth with no streams at all'
cp "$model/config.json" "$work/config.before"
"$berth" fit "$model" <&- >&- 2>&-
code=$?
want_code 1
checks=$((checks + 1))
cmp -s "$model/config.json" "$work/config.before" || fail 'a model file was written to'

# One signal ends the wait for the other end of a pipe, whether it never came or has fallen silent.
waits() { # WRITER ARGS...: WRITER is what the other end does
    rm -f "$work/pipe"
    mkfifo "$work/pipe"
    writer=$1
    shift
    sh -c "$writer" >"$work/err" 2>&1 &
    other=$!
    said="berth $*"
    "$berth" "$@" </dev/null >"$work/out" 2>"$work/err" &
    reader=$!
    sleep 1
    kill -TERM "$reader"
    begin=$(date +%s)
    wait "$reader"
    code=$?
    want_code 143
    checks=$((checks + 1))
    [ $(($(date +%s) - begin)) -lt 10 ] || fail 'goes on after a signal'
    kill "$other" 2>/dev/null
    wait "$other" 2>/dev/null
}
waits "exec sleep 20" run "$golden/qwen3-moe" --ids 1,2 -n 2 --pin "$work/pipe"
waits "exec >'$work/pipe'; printf 0:1,; exec sleep 20" run "$golden/qwen3-moe" --ids 1,2 -n 2 --pin "$work/pipe"
waits "exec >'$work/pipe'; printf 1,2,; exec sleep 20" logits "$golden/qwen3-moe" --ids-file "$work/pipe" --hash
waits "exec sleep 20" logits "$golden/qwen3-moe" --ids 1,2,3 -o "$work/pipe"
# help knows itself.
go help help
want_code 0
want_out 'Usage: berth help [VERB [PART]]'
go help version
want_code 0
go help helf
want_code 2
want_err "did you mean 'help'?"
finish
