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

# A closed pipe is an error message, not a death by signal.
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
want_code 1
want_err 'standard output could not be written: Broken pipe'

# With every stream closed it still ends by itself, and touches nothing.
said='berth with no streams at all'
cp "$model/config.json" "$work/config.before"
"$berth" fit "$model" <&- >&- 2>&-
code=$?
want_code 1
checks=$((checks + 1))
cmp -s "$model/config.json" "$work/config.before" || fail 'a model file was written to'
finish
