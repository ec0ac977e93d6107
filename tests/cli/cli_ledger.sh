# SPDX-License-Identifier: MIT
# berth usage: every part, on a ledger of known counts and on a model's own.
. "$(dirname "$0")/lib.sh"
tight=$(small_budget)
cp "$root/models/pocket-moe-q8_0.gguf" "$work/model.gguf"
model=$work/model.gguf
ledger=$work/model.gguf.coli_usage

# want_near PATH VALUE: within a billionth.
want_near() {
    checks=$((checks + 1))
    got=$(value "$1" 2>&1)
    echo "$got $2" | awk '{ d = $1 - $2; exit !(d < 1e-9 && d > -1e-9) }' || fail "$1 is $got, want $2"
}

# Two layers of four experts; 40, 30, 20, 10 and 0, 0, 8, 0.
small=$work/small
plain() {
    printf '3 0 40\n3 1 30\n3 2 20\n3 3 10\n7 2 8\n' >"$small"
}
plain
go usage show "$small" --json
want_code 0
want_json
want_value layers_count 2
want_value experts 4
want_value selections 108
want_value layers.0.layer 3
want_near layers.0.held_25 0.4
want_near layers.0.held_50 0.7
want_value layers.1.layer 7
want_value layers.1.used 1
want_near layers.1.alike 1
want_value layers.1.counts.2 8
want_value top.0.count 40
want_value top.4.layer 7
go usage show "$small" --top 2
want_code 0
want_out 'most used experts (layer:expert, selections): 3:0 40, 3:1 30'
go usage show "$small" --experts 8 --json
want_value experts 8
want_value layers.0.held_50 1
go usage show "$work/absent"
want_code 1
want_err 'absent'
printf 'not a ledger\n' >"$work/text"
go usage show "$work/text"
want_code 1
want_err 'not a usage ledger'
want_no_out

# The picture: no escape sequences unless asked for; all cells; SVG with a cell for each expert.
go usage heatmap "$small"
want_code 0
want_out '    3 *+=-|' # 1.6, 1.2, 0.8 and 0.4 times an even share
want_out '    7   @ |' # four times that
checks=$((checks + 1))
! grep -q "$(printf '\033')" "$work/out" || fail 'colour without a terminal'
go usage heatmap "$small" --colour always --width 20
checks=$((checks + 1))
grep -q "$(printf '\033')\[48;5;" "$work/out" || fail 'no colour'
go usage heatmap "$small" --svg "$work/map.svg"
want_code 0
checks=$((checks + 1))
[ "$(grep -c '<title>' "$work/map.svg")" -eq 8 ] || fail 'the SVG has not eight cells'
checks=$((checks + 1))
grep -q '<title>layer 3 expert 1: 30 of 100</title>' "$work/map.svg" || fail 'the SVG lacks layer 3 expert 1'
go usage heatmap "$small" --svg "$work/no/such/map.svg"
want_code 1

# Differences: half of layer 3's selections moved to expert 3.
printf '3 0 20\n3 1 15\n3 2 10\n3 3 55\n7 2 4\n' >"$work/other"
go usage diff "$small" "$work/other" --json
want_code 0
want_json
want_near layers.0.alike 0.55
want_value layers.0.mover 3
want_near layers.0.moved 0.45
want_value layers.0.hottest 0
want_near layers.1.alike 1
go usage diff "$small" "$work/other"
want_out '3 (+45.0 points)'

# A sum in a new file; nothing else changes.
cp "$small" "$work/before"
go usage merge "$small" "$work/other" --with "$work/other" --out "$work/sum"
want_code 0
want_out '316 selections of 5 experts'
checks=$((checks + 1))
cmp -s "$small" "$work/before" || fail 'merge changed a ledger that it read'
go usage merge "$small" "$work/other" --out "$work/sum"
want_code 1
want_err '--overwrite'
go usage merge "$small" "$work/other"
want_code 2
want_err '--out is missing'
go usage show "$work/sum" --json
want_value layers.0.counts.3 120

# Import: rows, headers and CRLF, IKU1, a damaged row, routes; the old file is kept.
printf -- '-1 8 4\r\n-2 1 99\r\n3 0 1\r\nbroken\r\n3 9 5\r\n' >"$work/headers"
go usage import "$small" "$work/headers"
want_code 0
want_err '1 malformed rows were left out, the first in line 4'
want_err '1 rows of other layers or experts'
checks=$((checks + 1))
cmp -s "$small.bak" "$work/before" || fail 'no copy of the old file'
go usage show "$small" --json
want_value layers.0.counts.0 41
printf 'IKU1\004\000\000\000\002\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\000\005\000\000\000\006\000\000\000' >"$work/table"
go usage import "$small" "$work/table"
want_code 0
go usage show "$small" --json
want_value layers.0.counts.0 46
want_value layers.0.counts.1 36
printf '{"tok":0,"layers":[[0,1],[1,0],[2,3],[3,2],[0,1],[0,1],[0,1],[2,1]]}\n' >"$work/routes.jsonl"
go usage import "$small" "$work/routes.jsonl"
want_code 0
want_err '4 selections of recorded routes'
go usage show "$small" --json
want_value layers.0.counts.3 11
want_value layers.1.counts.1 1
go usage import "$small" "$work/text"
want_code 1

# Decay and reset.
plain
go usage decay "$small" --factor 0.25
want_code 0
want_out '28 selections are left of 108'
go usage show "$small" --json
want_value layers.0.counts.3 3 # 2.5, rounded
go usage decay "$small" --factor 2
want_code 2
go usage reset "$small"
want_code 2
want_err '--yes'
go usage reset "$small" --yes
want_code 0
want_out '28 selections forgotten'
checks=$((checks + 1))
[ ! -s "$small" ] && [ -s "$small.bak" ] || fail 'reset left rows, or no copy'

# A model's own ledger: what a run recorded is what its routes say.
go usage show "$model"
want_code 1
want_err 'no ledger yet'
"$berth" run "$model" -p 'The castle' -n 12 --ledger on --record-routes "$work/routes" -q >/dev/null 2>&1
go usage show "$model" --json
want_code 0
want_value model model.gguf
want_value layers_count 8
want_value top_k 8
recorded=$(value selections)
cp "$ledger" "$work/run"
go usage import "$model" "$work/routes" --replace
want_code 0
want_out "$recorded selections"
checks=$((checks + 1))
cmp -s "$ledger" "$work/run" || fail 'routes and ledger of one run differ'

# What would be pinned is what a run pins.
policy=seed:min-history=100,full-history=1000,min-bytes=1000
go usage plan "$model" --budget "$tight"
want_code 0
want_out 'wanted 5000 or more'
go usage plan "$model" --budget "$tight" --policy $policy --json
want_code 0
want_json
bytes=$(value planned_bytes)
go usage plan "$model" --budget "$tight" --policy $policy --pins
pins=$(wc -l <"$work/out")
checks=$((checks + 1))
[ "$pins" -gt 3 ] || fail "only $pins pins"
go run "$model" --budget "$tight" --policy $policy --ledger read -v -n 1 -p a
want_err "auto-pin: $pins experts, $bytes bytes"
go usage plan "$model" --policy lru
want_code 2
want_err 'only the policy "seed" pins by itself'
go usage plan "$work/run"
want_code 2

# The same experts under another policy, from a file; a list and a file mean the same.
go usage plan "$model" --budget "$tight" --policy $policy --pins
cp "$work/out" "$work/pins"
go run "$model" --budget "$tight" --policy lru --ledger off --pin "$work/pins" -n 2 -p a --json -q
want_code 0
want_value experts.pinned_slots "$pins"
go run "$model" --budget "$tight" --policy lru --ledger off --pin "$(tr '\n' ',' <"$work/pins" | sed 's/,$//')" -n 2 -p a --json -q
want_value experts.pinned_slots "$pins"
go run "$model" --pin "$work/absent" -n 1 -p a
want_code 1
want_err 'neither LAYER:EXPERT,... nor a file'
go run "$model" --pin 9:1 -n 1 -p a
want_code 2
want_err 'got "9:1"'
printf '0:1 0:2x\n' >"$work/bad"
go run "$model" --pin "$work/bad" -n 1 -p a
want_code 2
want_err 'got "0:2x"'

# Runs keep a ledger unless told otherwise: for one run, or for all in the environment.
mkdir "$work/own"
cp "$model" "$work/own/model.gguf"
own=$work/own/model.gguf
written() {
    checks=$((checks + 1))
    [ -e "$own.coli_usage" ] && got=yes || got=no
    [ "$got" = "$1" ] || fail "a ledger was written: $got, want $1"
}
go run "$own" -n 2 -p a -q
written no # BERTH_LEDGER=off, see lib.sh
unset BERTH_LEDGER
go run "$own" -n 2 -p a -q --ledger off
written no
go run "$own" -n 2 -p a -q --ledger read
written no
go logits "$own" --ids 1,2,3 --hash
want_code 0
written no
go run "$own" -n 2 -p a -q
want_code 0
written yes
go run "$own" -n 2 -p a --json -q
checks=$((checks + 1))
[ "$(value experts.warm_experts)" -gt 0 ] || fail 'the second run was not warm'
go fit "$own" --json
fit=$(value plan.plan_bytes)
go run "$own" -n 2 -p a --json -q
want_value plan.plan_bytes "$fit"
export BERTH_LEDGER=off

# Another model's ledger is refused and stays.
printf -- '-1 8 32\n3 0 1\n' >"$ledger"
cp "$ledger" "$work/foreign"
go usage reset "$model" --yes
want_code 1
want_err 'experts of each layer: the file has 32, the model 64'
go usage import "$model" "$work/run"
want_code 1
checks=$((checks + 1))
cmp -s "$ledger" "$work/foreign" || fail 'a refused ledger was written'
go usage
want_code 2
go usage shw
want_code 2
want_err "did you mean 'show'?"
# Pins: the place of a mistake; all experts of all layers leave what a token needs; a pipe nobody writes to is given up.
printf '0:1\n# and\n0:64\n' >"$work/pins"
go run "$model" -p a -n 2 -q --ledger off --pin "$work/pins"
want_code 2
want_err 'line 3: got "0:64", wanted LAYER:EXPERT of layers with experts (0 to 7), experts 0 to 63'
for layer in 0 1 2 3 4 5 6 7; do
    seq -f "$layer:%.0f" 0 63
done >"$work/pins"
go run "$model" -p Once -n 8 -q --ledger off --budget "$tight"
cp "$work/out" "$work/unpinned"
go run "$model" -p Once -n 8 -q --ledger off --budget "$tight" --pin "$work/pins" --record-routes "$work/routes"
want_code 0
checks=$((checks + 1))
cmp -s "$work/out" "$work/unpinned" || fail 'pins changed the text'
mkfifo "$work/pipe"
said='run --pin PIPE, ended by a signal'
timeout -k 20 1 "$berth" run "$model" -p a -n 2 --ledger off --pin "$work/pipe" >"$work/out" 2>"$work/err"
code=$?
want_code 124

# fit reads the ledger that a run left beside the model.
cp "$model" "$work/own.gguf"
known=$BERTH_HOME
BERTH_HOME=$work/unknown # no runs
go fit "$work/own.gguf" --budget "$tight" --bandwidth 50 --disk 1 --json
want_value speed.hit_rate.basis generic
go run "$work/own.gguf" -p Once -n 300 -q --no-store --ledger on
want_code 0
go fit "$work/own.gguf" --budget "$tight" --bandwidth 50 --disk 1 --ledger read --json
want_value speed.hit_rate.basis ledger
go fit "$work/own.gguf" --budget "$tight" --bandwidth 50 --disk 1 --ledger off --json
want_value speed.hit_rate.basis generic
BERTH_HOME=$known

# The replay of that recording gives the engine's own counts; sizes ascend and come once.
go replay "$work/routes" --policy lru --policy next-use --json
want_code 0
hits=$(value recorded.decode_hits)
want_value sizes.0.policies.1.decode_hits "$hits"
want_value sizes.0.size 'as recorded'
if [ -w /dev/full ]; then
    "$berth" replay "$work/routes" --policy lru </dev/null >/dev/full 2>"$work/err"
    code=$?
    want_code 1
    checks=$((checks + 1))
    [ "$(wc -l <"$work/err")" -eq 1 ] || fail 'a lost output is reported more than once'
fi
go replay "$work/routes" --policy lru --csv
checks=$((checks + 1))
tail -n +3 "$work/out" | cut -d, -f2 | sort -nc -u || fail 'sizes do not ascend'

# A ledger is no recording, and replay says which it is.
go replay "$ledger"
want_code 1
want_err 'It is a usage ledger'
finish
