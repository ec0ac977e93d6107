# SPDX-License-Identifier: MIT
# runs and bench machine: what a run keeps, calibration, --no-store, two processes at once, rates that are kept.
. "$(dirname "$0")/lib.sh"
tight=$(small_budget)
model=$root/models/pocket-moe-q8_0.gguf
[ -r "$model" ] || skip 'the bundled model is not here'

go runs
want_code 0
want_err 'no runs are kept yet'
go run "$model" --ids 562,918,7285,262 -n 12 --no-store --quiet
want_code 0
go runs --json
want_value runs.# 0

go run "$model" --ids 562,918,7285,262 -n 12 --budget "$tight" --json
want_code 0
want_no_err
go run "$model" --ids 562,918,7285,262 -n 12 --budget 1GiB --json
want_code 0
want_json
plan=$(value plan.plan_bytes)
go runs --json
want_code 0
want_json
want_value runs.# 2
want_value runs.0.kind run
want_value runs.0.model pocket
want_value runs.0.path "$model"
want_value runs.0.peak_bytes.predicted "$plan"
want_value runs.0.resident true
want_value runs.0.this_machine true
want_value runs.0.tokens 12
want_value runs.1.budget_bytes "$tight"
want_value runs.1.resident false
want_value runs.1.ctx 1024
want_value runs.1.policy next-use
checks=$((checks + 1))
[ "$(value runs.1.peak_bytes.measured)" -le "$tight" ] || fail 'the peak is over the budget'
basis=$(value runs.0.basis)
checks=$((checks + 1))
case $basis in *'1 run of this model'* | *'1 run of other models'*) ;; *) fail "basis of the second run: $basis" ;; esac
go runs
want_out 'pocket'
want_out 'tok/s'
go runs pock --last 1 --json
want_value runs.# 1
go runs nothing-such
want_err 'no runs are kept of such a model'

# Two processes at once lose nothing.
"$berth" run "$model" --ids 1,2,3 -n 8 --quiet >/dev/null 2>&1 &
first=$!
go run "$model" --ids 1,2,3 -n 8 --quiet
wait "$first"
go runs --json
want_value runs.# 4

# Too small to hold SQLite afterwards: the plan comes first.
go run "$golden/qwen3-moe" --ids 1,2,3 -n 8 --quiet
want_code 0
go runs --json
want_value runs.# 4

# Each run of bench policy is kept too.
go bench policy "$model" --ids 562,918,7285 -n 16 --rounds 1 --policies next-use,lru --budget "$tight" --json
want_code 0
go runs --json
want_value runs.# 6
want_value runs.0.kind bench
want_value runs.0.policy lru
want_value runs.1.policy next-use

# What no run leaves behind, put there by hand, is shown as nothing.
if command -v sqlite3 >/dev/null; then
    cp "$BERTH_HOME/berth.db" "$work/kept.db"
    sqlite3 "$BERTH_HOME/berth.db" 'UPDATE run SET at = -1, threads = -1, budget = -1, ctx = -1, hit = -1'
    go runs --json
    want_code 0
    want_json
    for key in at threads budget_bytes ctx hit_rate.measured; do
        want_value runs.0.$key null
    done
    go runs
    want_code 0
    checks=$((checks + 1))
    ! grep -qE 'TiB|-100%' "$work/out" || fail 'a size or a share below zero'
    mv "$work/kept.db" "$BERTH_HOME/berth.db"
fi

# The machine: measured once, kept, measured again when asked.
go bench machine "$model" --json
want_code 0
want_json
want_value measured_now true
want_value kernels.0.type F32
want_value disks.# 1
want_value limits.0.name MemAvailable
rate=$(value memory_bytes_per_s_all)
checks=$((checks + 1))
case $rate in 0 | '') fail 'no memory rate' ;; esac
grep '"type": "[A-Z]' "$work/out" >"$work/order"
go bench machine --json
want_value measured_now false
want_value memory_bytes_per_s_all "$rate"
checks=$((checks + 1))
grep '"type": "[A-Z]' "$work/out" | cmp -s - "$work/order" || fail 'kernels come in another order when they are recalled'
go fit "$root/tests/golden/qwen3-moe" --engine mlx --json
want_value machine.bandwidth_basis measured
go fit "$root/tests/golden/qwen3-moe" --engine mlx --bandwidth 100 --json
want_value machine.bandwidth_basis given
go bench machine
want_out 'processor'
want_out '--again repeats it'
go bench machine "$work/absent"
want_code 1
go fit "$model"
want_code 0
checks=$((checks + 1))
grep -q 'tok/s (.* to .*) reading a prompt of' "$work/out" || fail 'the prompt has a speed without a range'
go bench machine --again --json
want_code 0
want_value measured_now true
checks=$((checks + 1))
[ -z "$(find "$BERTH_HOME" -name '.berth-bench*')" ] || fail 'the sample file was left behind'
checks=$((checks + 1))
case $(stat -c %a "$BERTH_HOME/berth.db") in 600) ;; *) fail 'others may read the store' ;; esac
finish
