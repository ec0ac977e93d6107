#!/bin/sh
# SPDX-License-Identifier: MIT
# predict.sh BERTH JSON_GET ROOT WORK [THREADS] [LAYERS]: predicted against measured decode speed.
#
# Six models x three budgets (everything in memory, half of the experts, the smallest that caches), each predicted by
# `fit` twice: by the law alone, and calibrated by the one run that followed. Measured is the steady state (`bench speed`:
# forced tokens, after a pass that fills the cache). Random models route evenly, which the law cannot know: their first
# prediction is given the hit rate. The trained model is measured by `run`, which starts with an empty cache, three
# texts one after another, and its predictions are those that `run` keeps. WORK takes about LAYERS x 3 GB. A store of
# its own.
set -eu
export LC_ALL=C
berth=$1 json_get=$2 root=$3 work=$4 layers=${6:-2}
threads=${5:+--threads $5} # split on purpose
mkdir -p "$work"
HOME=$work/home
export HOME
mkdir -p "$HOME"
prompt=64
answer=${ANSWER:-48}

make() { # NAME SHAPE LAYERS TYPE
    [ -e "$work/$1.gguf" ] || "$berth" random "$work/$1.gguf" --shape "$2" --layers "$3" --type "$4" --spread -q
}
make olmoe-q8_0 olmoe-1b-7b $((2 * layers)) q8_0
make olmoe-bf16 olmoe-1b-7b "$layers" bf16
make qwen3-q4_k qwen3-30b-a3b $((2 * layers)) q4_k_m
make qwen3-q8_0 qwen3-30b-a3b "$layers" q8_0
make mixtral-q4_k mixtral-8x7b "$layers" q4_k_m
[ -e "$work/pocket.gguf" ] || cp "$root/models/pocket-moe-q8_0.gguf" "$work/pocket.gguf"

get() { # FILE PATH
    "$json_get" "$work/$1.json" "$2"
}
fit() { # MODEL BUDGET [HITS]
    "$berth" fit "$work/$1.gguf" --ctx "$ctx" --budget "$2" $threads ${3:+--hits $3} --json >"$work/fit.json"
}
row() { # MODEL BUDGET NAME WHICH PREDICTED LOW HIGH MEASURED HITS-PREDICTED HITS
    awk -v m="$1" -v b="$2" -v k="$3" -v w="$4" -v p="$5" -v lo="$6" -v hi="$7" -v s="$8" -v h="$9" -v r="${10}" 'BEGIN {
        printf "%-13s %-8s %8.1f %-6s %9.2f (%.2f to %.2f) %9.2f %+7.1f%% %s %5.1f %5.1f\n",
            m, k, b / 1048576, w, p, lo, hi, s, 100 * (p / s - 1), (s >= lo && s <= hi) ? "in" : "--", 100 * h, 100 * r }' |
        tee -a "$work/rows.txt"
}

measure_random() { # MODEL BUDGET NAME
    BERTH_HOME=$work/state-$1-$3
    export BERTH_HOME
    mkdir -p "$BERTH_HOME"
    cp "$work/machine/"* "$BERTH_HOME/"
    for which in first second; do
        fit "$1" "$2"
        # Before any run nothing says that these models route evenly, save how they were made: hits = share held.
        share=$(awk -v s="$(get fit plan.slots)" -v e="$(get fit plan.experts)" 'BEGIN { printf "%.2f", 100 * s / e }')
        [ "$which" = second ] || fit "$1" "$2" "$share"
        "$berth" bench speed "$work/$1.gguf" --ctx "$ctx" --prompt-tokens "$prompt" -n "$answer" --budget "$2" $threads \
            --json >"$work/speed-$1-$3-$which.json"
        cp "$work/fit.json" "$work/fit-$1-$3-$which.json"
        row "$1" "$2" "$3" "$which" "$(get fit speed.decode.1.tokens_per_s)" "$(get fit speed.decode.1.low)" \
            "$(get fit speed.decode.1.high)" "$(get "speed-$1-$3-$which" answer.tokens_per_s)" \
            "$(get fit speed.hit_rate.rate)" "$(get "speed-$1-$3-$which" answer.hit_rate)"
    done
}
measure_pocket() { # BUDGET NAME
    BERTH_HOME=$work/state-pocket-$2
    export BERTH_HOME
    mkdir -p "$BERTH_HOME"
    cp "$work/machine/"* "$BERTH_HOME/"
    for which in first second third; do
        case $which in
        first) text='One day a little cat' ;;
        second) text='The old man went to the' ;;
        third) text='There was a big tree and' ;;
        esac
        "$berth" run "$work/pocket.gguf" -p "$text" -n 300 --ctx "$ctx" --budget "$1" $threads --ledger off \
            >/dev/null 2>&1
        "$berth" runs --json >"$work/runs.json"
        cp "$work/runs.json" "$work/runs-pocket-$2-$which.json"
        row pocket "$1" "$2" "$which" "$(get runs runs.0.tokens_per_s.predicted)" "$(get runs runs.0.tokens_per_s_low)" \
            "$(get runs runs.0.tokens_per_s_high)" "$(get runs runs.0.tokens_per_s.measured)" \
            "$(get runs runs.0.hit_rate.predicted)" "$(get runs runs.0.hit_rate.measured)"
    done
}

: >"$work/rows.txt"
rm -rf "$work"/state-* "$work/machine"
mkdir "$work/machine"
BERTH_HOME=$work/machine "$berth" bench machine "$work/qwen3-q8_0.gguf" --again
printf '\n%-13s %-8s %8s %-6s %9s %-10s %9s %8s\n' model budget MiB '' predicted '(range)' measured off
for model in olmoe-q8_0 olmoe-bf16 qwen3-q4_k qwen3-q8_0 mixtral-q4_k pocket; do
    [ "$model" = pocket ] && ctx=512 || ctx=$((prompt + answer))
    fit "$model" 512GiB
    floor=$(get fit plan.floor_bytes)
    full=$(($(get fit plan.full_bytes) + 1048576)) # bench speed and run have buffers of their own
    for name in full half floor; do
        case $name in
        full) budget=$full ;;
        half) budget=$((floor + (full - floor) / 2)) ;;
        floor) budget=$((floor + (full - floor) / 16)) ;;
        esac
        if [ "$model" = pocket ]; then
            measure_pocket "$budget" "$name"
        else
            measure_random "$model" "$budget" "$name"
        fi
    done
done
awk '{ off = $9 + 0; for (i = 1; i <= NF; i++) if ($i ~ /%$/) off = $i + 0; w = $4; n[w]++; ok[w] += off <= 20 && off >= -20
    for (i = 1; i <= NF; i++) inside[w] += $i == "in" }
    END { for (w in n) printf "%s: %d of %d within 20 %%, %d inside the range\n", w, ok[w], n[w], inside[w] }' "$work/rows.txt"
