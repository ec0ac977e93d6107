# SPDX-License-Identifier: MIT
# berth bench policy: every policy answers alike, in processes of its own; bytes and hits repeat exactly.
. "$(dirname "$0")/lib.sh"
tight=$(small_budget)
model=$root/models/pocket-moe-q8_0.gguf
go bench policy "$model" --cold --budget "$tight" -n 6 --rounds 2 --policies next-use,lru,seed:working=16,repin=0 --json
want_code 0
want_json
want_err 'round 1 of 2: next-use'
want_err 'round 2 of 2: seed:working=16,repin=0'
want_value rounds 2
want_value same_answers true
want_value policies.0.policy next-use
want_value policies.0.ratio 1
want_value policies.2.policy seed:working=16,repin=0
for i in 0 1 2; do
    for what in hits misses read_bytes tokens; do
        want_value policies.$i.runs.1.$what "$(value policies.$i.runs.0.$what)"
    done
    checks=$((checks + 1))
    [ "$(value policies.$i.runs.0.misses)" -gt 0 ] || fail "policy $i never missed: nothing was compared"
done
# Forwards, then backwards.
checks=$((checks + 1))
[ "$(sed -n 's/.*round . of .: //p' "$work/err" | tr '\n' ' ')" = \
    'next-use lru seed:working=16,repin=0 seed:working=16,repin=0 lru next-use ' ] || fail 'not forwards, then backwards'

printf 'One line\n\nAnother line\n' >"$work/prompts"
go bench policy "$model" --cold --prompts "$work/prompts" --budget "$tight" -n 4 --rounds 1 --policies lru,lfru -q
want_code 0
want_no_err
want_out '6 answer tokens' # three evaluations after each of two prompts
want_out 'answers identical'
want_out 'recommended: --policy '
# One round says nothing about noise.
want_out 'one round does not tell speeds from noise'
go bench policy "$model" --cold --ids 5,6,7 --budget "$tight" -n 4 --rounds 1 --policies lru -q
want_code 0
want_out '3 prompt and 3 answer tokens'

go bench policy "$model" --policies nope -q
want_code 2
want_err 'unknown eviction policy, got "nope"'
go bench policy "$model" --policies ,
want_code 2
go bench policy "$model" -p a --ids 1
want_code 2
want_err 'exclude each other'
go bench policy "$model" --prompts "$work/absent"
want_code 1
go bench policy "$model" --budget 1MB -q
want_code 3
go bench policy "$model" --ctx 8 -n 64 -q
want_code 1
want_err 'raise --ctx'
go bench policy "$golden/qwen3-moe" -q --rounds 1
want_code 2
want_err 'no tokenizer'
# The ledger is read, never written.
cp "$model" "$work/model.gguf"
go bench policy "$work/model.gguf" --budget "$tight" -n 3 --rounds 1 --policies lru -q
want_code 0
checks=$((checks + 1))
[ ! -e "$work/model.gguf.coli_usage" ] || fail 'a benchmark wrote a ledger'
finish
