# SPDX-License-Identifier: MIT
# fit: verdicts, exit statuses, and that its floors are what run obeys, to the byte.
. "$(dirname "$0")/lib.sh"
model=$golden/qwen3-moe

go fit "$model" --json --budget 1GiB
want_code 0
want_json
want_no_err
want_value verdict fits
want_value plan.fits true
want_value plan.binding --budget
want_value model.family qwen3-moe
want_value plan.experts 32
sum=0
for line in trunk kv state scratch slots staging text tables threads process app; do
    sum=$((sum + $(value plan.lines.$line)))
done
checks=$((checks + 1))
[ "$sum" = "$(value plan.run_bytes)" ] || fail "the lines add up to $sum"
hard=$(value plan.hard_floor_bytes)
floor=$(value plan.floor_bytes)
full=$(value plan.full_bytes)
checks=$((checks + 1))
[ "$hard" -le "$floor" ] && [ "$floor" -le "$full" ] || fail "floors out of order: $hard $floor $full"

expect() { # BUDGET VERDICT CODE
    go fit "$model" --json --budget "$1"
    want_code "$3"
    want_json
    want_value verdict "$2"
    want_value plan.hard_floor_bytes "$hard"
}
expect $((hard - 1)) no-fit 3
expect "$hard" fits-uncached 0
expect $((floor - 1)) fits-uncached 0
expect "$floor" fits 0
expect "$full" fits 0
want_value plan.resident true

# The text says the same.
go fit "$model" --budget $((hard - 1))
want_code 3
want_out 'does not fit'
want_out "--budget $hard is the smallest that runs"
go fit "$model" --budget "$full"
want_out 'every expert stays in memory'
want_out 'hard floor'
want_out 'E experts'

# run and logits refuse one byte below it and work at it.
go run "$model" --ids 1,2,3 -n 4 --budget $((hard - 1))
want_code 3
want_no_out
want_err "$hard"
want_err "'berth fit'"
go run "$model" --ids 1,2,3 -n 4 --budget $((hard - 1)) --json
want_code 3
want_json
want_value verdict no-fit
want_value plan.hard_floor_bytes "$hard"
want_value plan.fits false
go run "$model" --ids 1,2,3 -n 4 --budget "$hard" --json
want_code 0
want_json
want_value plan.hard_floor_bytes "$hard"
want_value plan.cached false
want_err 'warning: running uncached'
checks=$((checks + 1))
[ "$(grep -c 'warning: ' "$work/err")" -eq 1 ] || fail 'the warning comes more than once'
go logits "$model" --ids 1,2,3 --hash --budget $((hard - 1))
want_code 3
go run "$model" --ids 1,2,3,4,5,6,7,8,9 --budget 1
want_code 3
go logits "$model" --ids 1,2,3 --hash --budget "$hard"
want_code 0

# Options change the plan the way they say; the largest context is one that fits.
go fit "$model" --json --kv f32
kv32=$(value plan.lines.kv)
go fit "$model" --json --kv f16
checks=$((checks + 1))
[ $(($(value plan.lines.kv) * 2)) -eq "$kv32" ] || fail "f32 keys and values are not twice f16"
go fit "$model" --json --ctx 64 --chunk 8
want_value plan.ctx 64
want_value plan.chunk 8
budget=$(value plan.hard_floor_bytes)
go fit "$model" --json --ctx 64 --chunk 8 --budget $((budget + 40000))
most=$(value plan.ctx_max)
go fit "$model" --json --ctx "$most" --chunk 8 --budget $((budget + 40000))
want_code 0
want_value plan.fits true
go fit "$model" --json --ctx $((most + 1)) --chunk 8 --budget $((budget + 40000))
want_value plan.fits false
go fit "$model" --json --ctx 100000
want_code 2

# Advice lowers the floor it claims to lower.
go fit "$model" --json --kv f32 --chunk 512 --budget 3MiB
want_code 3
count=$(value advice.#)
checks=$((checks + 1))
[ "$count" -ge 2 ] || fail "$count pieces of advice"
option=$(value advice.0.option)
lower=$(value advice.0.hard_floor_bytes)
# shellcheck disable=SC2086
go fit "$model" --json --kv f32 --chunk 512 --budget 3MiB ${option}
want_value plan.hard_floor_bytes "$lower"
# Speed: unknown without rates, the law with those that are given, other machines by name and as a matrix.
go fit "$model" --budget 1GiB
want_code 0
want_out 'Speed: unknown: memory'
go fit "$model" --budget 1GiB --json
want_value speed.decode.1.tokens_per_s null
want_value speed.memory_basis unknown
go fit "$model" --budget 1GiB --bandwidth 100 --json
want_json
want_value speed.memory_basis given
want_value speed.hit_rate.basis resident
want_value speed.machine null
want_value speed.basis 'the law alone, memory given, hits resident'
go fit "$model" --budget "$floor" --bandwidth 100 --json
want_value speed.decode.1.tokens_per_s null
go fit "$model" --budget "$floor" --bandwidth 100 --disk 1 --json
want_value speed.read_basis given
want_value speed.hit_rate.basis generic
checks=$((checks + 1))
[ "$(value speed.decode.1.tokens_per_s)" != null ] || fail 'no speed though both rates are given'
go fit "$model" --budget $((hard - 1)) --json
want_code 3
want_value speed null
go fit "$model" --machine 'M4 Pro 24GB' --json
want_code 0
want_value speed.machine 'M4 Pro 24GB'
want_value plan.binding 'memory of M4 Pro 24GB'
want_value plan.budget_bytes 22548578304
want_value speed.memory_basis table
go fit "$model" --machine 'no such thing'
want_code 2
go fit "$model" --ram 8GiB --json
want_value speed.decode.1.tokens_per_s null
want_value speed.memory_basis unknown
go fit "$model" --budget "$floor" --bandwidth 100 --disk 1 --hits 25 --json
want_code 0
want_value speed.hit_rate.rate 0.25
want_value speed.hit_rate.basis given
go fit "$model" --hits=-0
want_code 2
want_err "--hits is '-0', but a percentage from 0 to 100 is wanted"
go fit "$model" --hits 101
want_code 2
want_err 'a percentage from 0 to 100'
go fit "$model" --hits 50 --matrix
want_code 2
go fit "$model" --disk fast
want_code 2
go fit "$model" --filter rtx
want_code 2
go fit "$model" --matrix --filter 'rtx 50' --json
want_code 0
want_json
want_value engine berth
want_value matrix.0.verdict fits
want_value matrix.0.kind 'desktop gpu'
go fit "$model" --matrix
want_out 'M1 8GB'
want_out 'GeForce RTX 5090 32GB'
want_out 'EPYC'
printf 'My Box\tmine\tmemory\t64\t77\n' >"$work/machines"
go fit "$model" --matrix --filter 'my box' --machines "$work/machines" --json
want_value matrix.# 1
want_value matrix.0.machine 'My Box 64GB'

# Everything before the speed is the plan: a store changes none of it.
go fit "$model" --json --budget 1GiB
before=$(value plan.plan_bytes)
go models
go fit "$model" --json --budget 1GiB
want_value plan.plan_bytes "$before"

# Machines by whole names and parts, with and without memory, gaps and case aside; sizes are said once.
machine() { # ASKED GOT
    go fit "$model" --machine "$1" --json
    want_code 0
    want_value speed.machine "$2"
}
machine 'A100 40GB' 'A100 40GB'
machine 'a100 80 GB' 'A100 80GB SXM'
machine 'rtx4090' 'GeForce RTX 4090 24GB'
machine 'RTX-3080 10GB' 'GeForce RTX 3080 10GB'
machine 'laptop 24GB' 'GeForce RTX 5090 Laptop 24GB'
go fit "$model" --machine 'rtx 4090' --ram 48GiB --json
want_value speed.machine 'GeForce RTX 4090 with 48.00 GiB'
want_value plan.budget_bytes $((48 * 1073741824 - 749 * 1048576))
go fit "$model" --machine rtx
want_code 2
want_err 'GeForce RTX 5090'
want_err 'more'
go fit "$model" --machine 'M4 Pr0 24GB'
want_code 2
want_err "did you mean 'Apple M4 Pro'?"
go fit "$model" --machine 'M4 Pro 0GB'
want_code 2
go fit "$model" --ram 1 --json
want_code 3
want_value plan.budget_bytes 1
go fit "$model" --matrix --filter 'no such'
want_code 2
go fit "$model" --bandwidth 1e308
want_code 2
for wide in '--matrix' '--matrix --disk 3 --engine mlx --filter all'; do
    # shellcheck disable=SC2086
    go fit "$model" $wide
    checks=$((checks + 1))
    [ "$(awk 'length($0) > 80' "$work/out" | wc -l)" -eq 0 ] || fail 'lines of more than 80 columns'
done

# A request: the ceiling is the largest context that fits.
go fit "$model" --budget 1GiB --json
most=$(value plan.ctx_max)
request() { # PROMPT TOKENS RULE CODE ADMITTED GRANTED
    go fit "$model" --budget 1GiB --prompt "$1" --max-tokens "$2" --admission "$3" --json
    want_code "$4"
    want_value admission.admitted "$5"
    want_value admission.max_tokens "$6"
    go fit "$model" --budget 1GiB --prompt "$1" --max-tokens "$2" --admission "$3" --quiet
    want_code "$4"
    want_no_out
    want_no_err
}
for rule in cap reject advise; do
    request 1 $((most - 1)) $rule 0 true $((most - 1))
    request 0 0 $rule 0 true 0
done
request 1 "$most" cap 0 true $((most - 1))
request 1 "$most" reject 3 false 0
request 1 "$most" advise 0 true "$most"
request "$most" 1 cap 3 false 0
go fit "$model" --budget 1 --prompt 0 --max-tokens 0 --admission advise --json
want_code 3
want_value admission.admitted false
for wrong in '--max-tokens 5' '--admission cap' '--prompt 5 --matrix' '--prompt -1' '--prompt 5 --admission maybe'; do
    # shellcheck disable=SC2086
    go fit "$model" --budget 1GiB $wrong
    want_code 2
done

# All advice is taken to the letter: it does what it says. The largest context is the largest.
advice() { # OPTIONS
    # shellcheck disable=SC2086
    go fit "$model" --json $1
    want_code 3
    cp "$work/out" "$work/advised"
    count=$(value advice.#)
    budget=$(value plan.hard_floor_bytes)
    most=$(value plan.ctx_max)
    # shellcheck disable=SC2086
    go fit "$model" $1 --budget "$budget" --quiet
    want_code 0
    # shellcheck disable=SC2086
    go fit "$model" $1 --budget $((budget - 1)) --quiet
    want_code 3
    if [ "$most" -gt 0 ]; then
        # shellcheck disable=SC2086
        go fit "$model" $1 --ctx "$most" --quiet
        want_code 0
        # shellcheck disable=SC2086
        [ "$most" -eq 512 ] || go fit "$model" $1 --ctx $((most + 1)) --quiet
        want_code $((most == 512 ? 0 : 3))
    fi
    i=0
    while [ "$i" -lt "$count" ]; do
        option=$("$json_get" "$work/advised" "advice.$i.option")
        # shellcheck disable=SC2086
        go fit "$model" --json $1 $option
        want_value plan.hard_floor_bytes "$("$json_get" "$work/advised" "advice.$i.hard_floor_bytes")"
        want_value plan.fits "$("$json_get" "$work/advised" "advice.$i.fits")"
        i=$((i + 1))
    done
}
for options in '--ctx 512 --kv f32 --chunk 64' '--ctx 512 --kv f32' '--ctx 300 --threads 7 --policy lru'; do
    # shellcheck disable=SC2086
    go fit "$model" --json --budget 1 $options
    floor=$(value plan.hard_floor_bytes)
    for less in 1 20000 120000 2000000; do
        advice "$options --budget $((floor - less))"
    done
done
# What would help: every line says whether it is enough, none changes nothing, and all together comes only where it does
# more than each.
go fit "$model" --kv f32 --chunk 512 --budget 3MiB
want_code 3
checks=$((checks + 1))
sed -n '/^What would help/,$p' "$work/out" | tail -n +3 | tr '\n' ' ' | sed 's/  --/\n--/g' | grep . |
    grep -vE 'lowers that to .*, which (fits|is not enough)' && fail 'advice that does not say whether it is enough'
go fit "$model" --engine mlx --weights-bytes 20GB --budget 19GiB
want_code 3
want_out '--ctx 512 lowers that to 18.89 GiB, which fits'
checks=$((checks + 1))
! grep -q -e '--kv-quant' "$work/out" || fail 'advice that changes nothing'

# A machine that Berth does not run on: said in a line, and in JSON.
for machine in 'RTX 4090' 'M4 Pro'; do
    go fit "$model" --machine "$machine"
    want_code 0
    want_out 'Berth does not run there: it '
done
go fit "$model" --machine 'RTX 4090' --json
want_value machine_problem 'it computes on processors, not on graphics cards'
go fit "$model" --ram 8GiB --json
want_value machine_problem null
go fit "$model" --matrix --filter 'RTX 4090' --json
want_value matrix.0.machine_problem 'it computes on processors, not on graphics cards'

# --ctx is the context that there is: a request has no more.
go fit "$model" --budget 1GiB --ctx 64 --prompt 60 --max-tokens 100 --admission reject --json
want_code 3
want_value admission.ceiling 64
go fit "$model" --budget 1GiB --ctx 64 --prompt 60 --max-tokens 100
want_code 0
want_out 'of at most 64 tokens (--ctx); the answer is cut to 4'
go fit "$model" --engine llama.cpp --budget 1GiB --ctx 64 --prompt 60 --max-tokens 100 --admission reject --json
want_code 3
want_value admission.ceiling 64

# The environment speaks the words of the option, and is refused like it.
for word in OFF 0 no ; do
    BERTH_LEDGER=$word go fit "$model"
    want_code 2
    want_err "'$word' is not one of on, read, off"
    BERTH_LEDGER=$word go models
    want_code 2
    BERTH_LEDGER=$word go fit "$model" --ledger off -q
    want_code 0
done
BERTH_LEDGER=off

# Neither a file nor a name: one line says so, and it names what was typed.
for verb in inspect fit 'fit --engine mlx' 'fit --engine llama.cpp' 'tokenize -p x' 'run -p x'; do
    # shellcheck disable=SC2086
    go $verb no-such-model
    want_code 1
    want_err "'no-such-model' is no file, and no known model is called so"
    checks=$((checks + 1))
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail 'more than one line'
done

# A GGUF file of an architecture that nobody knows: fit names it, like run.
printf 'GGUF\003\000\000\000\000\000\000\000\000\000\000\000\001\000\000\000\000\000\000\000' >"$work/unknown.gguf"
printf '\024\000\000\000\000\000\000\000general.architecture\010\000\000\000\007\000\000\000\000\000\000\000zorblax' >>"$work/unknown.gguf"
go fit "$work/unknown.gguf"
want_code 1
want_err 'general.architecture "zorblax" is not a family this version can run'
go fit "$work/unknown.gguf" --engine llama.cpp
want_code 1
want_err 'architecture "zorblax" is not known to this version'

# A prompt longer than the context: --ctx is named where a larger one exists.
go run "$model" --ids 1,2,3,4,5,6,7,8,9 --ctx 8
want_code 1
want_err 'raise --ctx'
most=$("$berth" inspect "$model" --json | sed -n 's/.*"ctx_max": \([0-9]*\).*/\1/p')
go run "$model" --ids "$(seq -s, 1 1 $((most + 1)) | sed 's/[0-9]*/1/g')" --ctx "$most"
want_code 1
want_err "it is the model's largest"
# A size that is not sold is no machine; --ram beside the name is any.
go fit "$model" --machine 'M4 Pro 25GB'
want_code 2
want_err "'M4 Pro 25GB' is not sold; its memory is 24, 48"
go fit "$model" --machine 'RTX 4090 48GB'
want_code 2
go fit "$model" --machine 'RTX 4090' --ram 48GB -q
want_code 0
go fit "$model" --machine 'A100 40GB' -q
want_code 0

# run says the same largest context as fit, whether it fits or not.
for budget in $((hard - 20000)) $((floor + 20000)); do
    go fit "$model" --budget "$budget" --json
    most=$(value plan.ctx_max)
    go run "$model" --ids 1,2 -n 2 --budget "$budget" --json
    want_value plan.ctx_max "$most"
done
finish
