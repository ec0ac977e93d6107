# SPDX-License-Identifier: MIT
# logits and run with token ids: files, hashes, routes and the greedy ids of the reference.
. "$(dirname "$0")/lib.sh"
model=$golden/qwen3-moe
ids=$("$json_get" "$model/reference.json" input_ids | tr -d '[]')
vocab=$("$json_get" "$model/reference.json" logits_shape.1)
count=$("$json_get" "$model/reference.json" input_ids.#)
greedy=$("$json_get" "$model/reference.json" greedy | tr -d '[]')
length=$("$json_get" "$model/reference.json" greedy.#)

go logits "$model" --ids "$ids" -o "$work/logits" --routes "$work/routes" --hash --greedy "$length"
want_code 0
checks=$((checks + 1))
[ "$(wc -c <"$work/logits")" -eq $((count * vocab * 4)) ] || fail "logits have $(wc -c <"$work/logits") bytes"
want_out "$greedy"
hash=$(head -1 "$work/out")
checks=$((checks + 1))
echo "$hash" | grep -qE '^[0-9a-f]{16}$' || fail "hash is '$hash'"
# 4 layers of routes for every evaluated token, two distinct experts each.
checks=$((checks + 1))
[ "$(wc -l <"$work/routes")" -eq $((4 * (count + length - 1))) ] || fail "$(wc -l <"$work/routes") routes"
checks=$((checks + 1))
! awk 'NF != 4 || $3 == $4 || $1 > 3 || $3 > 7 || $4 > 7' "$work/routes" | grep -q . || fail 'a route is malformed'

# The same by file, in other chunks and under another budget: the same bits.
echo "$ids" | tr , '\n' >"$work/ids"
go logits "$model" --ids-file "$work/ids" --hash --chunk 3 --json
want_code 0
want_json
want_value hash "$hash"
want_value shape.0 "$count"
want_value shape.1 "$vocab"
go fit "$model" --json --ctx "$count"
hard=$(value plan.hard_floor_bytes)
go logits "$model" --ids "$ids" --ctx "$count" --hash --budget "$hard"
want_code 0
want_out "$hash"

# run generates the same ids.
go run "$model" --ids "$ids" -n "$length" --json
want_code 0
want_json
want_value ids "[$greedy]"
want_value text null
want_value end length
want_value generated_tokens "$length"
want_value prompt_tokens "$count"
for path in timings.prefill_tokens_per_s timings.decode_tokens_per_s experts.prefill.hits experts.decode.misses \
    experts.decode.read_bytes limit.rates.read_bytes_per_s limit.share plan.lines.slots plan.plan_bytes \
    peak.resident_bytes peak.cgroup_bytes model.kernels compute.macs seed; do
    checks=$((checks + 1))
    value $path >/dev/null 2>&1 || fail "no $path"
done
checks=$((checks + 1))
[ "$(value peak.resident_bytes)" -le "$(value plan.plan_bytes)" ] || fail 'the peak is above the plan'
go run "$model" --ids "$ids" -n "$length" --quiet
want_no_err
want_out "$(echo "$greedy" | tr , ' ')"

# Sampling: a seed repeats, another one differs.
go run "$model" --ids "$ids" -n 20 --temp 1.5 --seed 7 --json
first=$(value ids)
want_value seed 7
go run "$model" --ids "$ids" -n 20 --temp 1.5 --seed 7 --json --chunk 4 --threads 1
want_value ids "$first"
go run "$model" --ids "$ids" -n 20 --temp 1.5 --seed 8 --json
checks=$((checks + 1))
[ "$(value ids)" != "$first" ] || fail 'two seeds gave the same ids'
go run "$model" --ids "$ids" -n 20 --temp 1.5 --json
one=$(value seed)
go run "$model" --ids "$ids" -n 20 --temp 1.5 --json
checks=$((checks + 1))
[ "$(value seed)" != "$one" ] || fail 'without --seed two runs had the same seed'

# Limits.
go run "$model" --ids 384 -n 1
want_code 2
want_err '384'
go run "$model" --ids 1,2,3,4,5 --ctx 4
want_code 1
want_err 'raise --ctx'
go run "$model" --ids 1,2,3 --ctx 6 -n 100 --json
want_code 0
want_value end context
want_value generated_tokens 4
go run "$model" -p text
want_code 1
want_err 'no tokenizer'
go chat "$model"
want_code 1
want_err 'no tokenizer'
go logits "$model" --ids 1 -o "$work/no/such/folder"
want_code 1
want_err 'No such file'

# An output that is the model, by whatever name, or the other output: refused before it is touched.
mkdir "$work/own"
cp "$model/config.json" "$model/model.safetensors" "$work/own"
ln "$work/own/model.safetensors" "$work/linked"
for out in "-o $work/own/model.safetensors" "--routes $work/linked"; do
    go logits "$work/own" --ids 1 --hash $out
    want_code 1
    want_err 'name another file'
done
checks=$((checks + 1))
cmp -s "$model/model.safetensors" "$work/own/model.safetensors" || fail 'the model was written to'
go logits "$work/own" --ids 1 -o "$work/twice" --routes "$work/twice"
want_code 1
want_err 'name another file'

# Weights that are NaN (the head, which lies first): an error, not token 0 for ever.
start=$((8 + $(od -An -tu8 -N8 "$model/model.safetensors")))
printf '\377\177' | dd of="$work/own/model.safetensors" bs=1 seek=$start conv=notrunc 2>/dev/null
go run "$work/own" --ids 1,2,3 -n 4
want_code 1
want_err 'not a number'

# A closed terminal is an interrupt: unfinished files go. The pipe holds the run until the signal is there.
mkfifo "$work/pipe"
"$berth" logits "$model" --ids "$ids" -o "$work/unfinished" --routes "$work/pipe" </dev/null 2>"$work/err" &
pid=$!
for _ in $(seq 100); do
    [ -e "$work/unfinished" ] && break
    sleep 0.1
done
kill -HUP $pid
cat "$work/pipe" >/dev/null &
wait $pid
code=$?
want_code 129
checks=$((checks + 1))
[ ! -e "$work/unfinished" ] || fail 'an unfinished file is left after SIGHUP'
kill $! 2>/dev/null

# A file size limit is a failed write, not a signal.
(
    ulimit -f 1
    exec "$berth" logits "$model" --ids "$ids" -o "$work/limited" </dev/null 2>"$work/err"
)
code=$?
want_code 1
want_err 'could not be written'
checks=$((checks + 1))
[ ! -e "$work/limited" ] || fail 'a file cut by its size limit is left'
if [ -w /dev/full ]; then
    go logits "$model" --ids "$ids" -o /dev/full
    want_code 1
    want_err 'No space left'
fi
finish
