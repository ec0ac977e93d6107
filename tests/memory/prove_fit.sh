#!/bin/sh
# SPDX-License-Identifier: MIT
# prove_fit.sh TOOLS BERTH JSON_GET ROOT WORK [LARGE]: predicted against measured, 6 models x 3 budgets x 2 contexts.
#
# Each run is alone in a real memory cgroup without limit, files cold, and fills its context and its slots (random
# models spread their routing for that). Prints a table of predicted and measured peak and decode speed. Checked is the
# peak: never over the prediction, and where all slots were filled not under it by more than max(2 %, 8 MiB). Speeds
# are printed, not checked. LARGE: layers of the large random models (default 1). Exit 77: no usable memory cgroup.
set -eu
export LC_ALL=C
tools=$1 berth=$2 json_get=$3 root=$4 work=$5 layers=${6:-1}
mkdir -p "$work/home"
HOME=$work/home
BERTH_HOME=$work/state
export HOME BERTH_HOME
failures=0
runs=0

make() { # NAME COMMAND...: a model in the work folder, made once
    made=$work/$1.gguf
    shift
    [ -e "$made" ] || "$berth" "$@" --overwrite -q || exit 1
}
make golden-qwen3-moe convert "$root/tests/golden/qwen3-moe" "$work/golden-qwen3-moe.gguf" --type f16
make golden-olmoe convert "$root/tests/golden/olmoe" "$work/golden-olmoe.gguf" --type q8_0
make random-pocket random "$work/random-pocket.gguf" --shape pocket --type f16 --spread
make random-olmoe random "$work/random-olmoe.gguf" --shape olmoe-1b-7b --layers "$layers" --type q8_0 --spread
make random-qwen3 random "$work/random-qwen3.gguf" --shape qwen3-30b-a3b --layers "$layers" --type q8_0 --spread
[ -e "$work/pocket.gguf" ] || cp "$root/models/pocket-moe-q8_0.gguf" "$work/pocket.gguf"

ids() { # COUNT VOCABULARY
    awk -v n="$1" -v v="$2" 'BEGIN { x = 12345; for (i = 0; i < n; i++) { x = (x * 1103515245 + 12345) % 2147483648
        printf("%s%d", (i > 0 ? "," : ""), x % v) } }'
}
mib() {
    awk -v b="$1" 'BEGIN { printf "%.2f", b / 1048576 }'
}
"$berth" bench machine "$work/pocket.gguf" >"$work/machine.txt"
printf '%-17s %10s %5s %12s %12s %8s %6s %10s %10s %7s\n' model budget ctx 'peak: plan' measured over filled 'tok/s: fit' measured off

prove() { # MODEL BUDGET CTX
    model=$work/$1.gguf
    prompt=$(ids $(($3 - 24)) "$vocab")
    # Known before the run: what fit says with what earlier runs have taught.
    "$berth" fit "$model" --ctx "$3" --budget "$2" --threads 2 --json >"$work/fit.json"
    fit=$("$json_get" "$work/fit.json" speed.decode.1.tokens_per_s)
    status=0
    "$tools/run_capped" --evict "$model" --report "$work/report.json" --stdout "$work/run.json" --timeout 300 -- \
        "$berth" run "$model" --ids "$prompt" -n 24 --ctx "$3" --threads 2 --budget "$2" --json --no-store --quiet || status=$?
    [ "$status" != 77 ] || exit 77
    # The same again for the speed, and for the next prediction.
    "$berth" run "$model" --ids "$prompt" -n 24 --ctx "$3" --threads 2 --budget "$2" --json >"$work/speed.json" 2>/dev/null
    plan=$("$json_get" "$work/fit.json" plan.plan_bytes)
    again=$("$json_get" "$work/run.json" plan.plan_bytes)
    peak=$("$json_get" "$work/report.json" peak_bytes)
    slots=$("$json_get" "$work/run.json" plan.slots)
    used=$("$json_get" "$work/run.json" experts.slots_used)
    speed=$("$json_get" "$work/speed.json" timings.decode_tokens_per_s)
    full=no
    [ "$used" -ge "$slots" ] && full=yes
    off=$(awk -v f="$fit" -v s="$speed" 'BEGIN { if (f + 0 > 0 && s > 0) printf "%+.1f%%", 100 * (f / s - 1); else printf "-" }')
    "$berth" bench machine "$work/pocket.gguf" >"$work/machine.txt"
printf '%-17s %10s %5s %12s %12s %7s%% %6s %10.2f %10.2f %7s\n' "$1" "$(mib "$2")" "$3" "$(mib "$plan")" \
        "$(mib "$peak")" "$(awk -v a="$plan" -v b="$peak" 'BEGIN { printf "%+.2f", 100 * (a / b - 1) }')" "$full" \
        "$(echo "$fit" | sed 's/null/0/')" "$speed" "$off"
    room=$((peak / 50))
    [ "$room" -gt 8388608 ] || room=8388608
    runs=$((runs + 1))
    if [ "$plan" != "$again" ] || [ "$peak" -gt "$plan" ] || { [ "$full" = yes ] && [ $((plan - peak)) -gt "$room" ]; }; then
        echo "FAILED: $1 budget $2 ctx $3: plan $plan, run's plan $again, peak $peak, slots $used of $slots"
        failures=$((failures + 1))
    fi
}

for name in golden-qwen3-moe golden-olmoe pocket random-pocket random-olmoe random-qwen3; do
    "$berth" inspect "$work/$name.gguf" --json >"$work/inspect.json"
    vocab=$("$json_get" "$work/inspect.json" vocab)
    most=$("$json_get" "$work/inspect.json" ctx_max)
    for ctx in 96 384; do
        [ "$ctx" -le "$most" ] || ctx=$most
        "$berth" fit "$work/$name.gguf" --ctx "$ctx" --threads 2 --budget 64GiB --json >"$work/all.json"
        floor=$("$json_get" "$work/all.json" plan.floor_bytes)
        full=$("$json_get" "$work/all.json" plan.full_bytes)
        for budget in "$floor" $((floor + (full - floor) / 2)) "$full"; do
            prove "$name" "$budget" "$ctx"
        done
    done
done
echo "$runs runs, $failures failures"
[ "$failures" -eq 0 ]
