# SPDX-License-Identifier: MIT
# Usage errors, help and version.
. "$(dirname "$0")/lib.sh"

go
want_code 2
want_err 'Usage: berth VERB'
want_no_out

for word in help --help -h; do
    go $word
    want_code 0
    want_out 'Usage: berth VERB'
    want_no_err
done
for verb in fit run chat inspect tokenize logits convert; do
    "$berth" help | grep -q "^  $verb " || fail "help does not list $verb"
    go help $verb
    want_code 0
    want_out "Usage: berth $verb "
    cp "$work/out" "$work/help"
    go $verb --help
    want_code 0
    want_no_err
    checks=$((checks + 1))
    cmp -s "$work/help" "$work/out" || fail "'help $verb' and '$verb --help' differ"
    checks=$((checks + 1))
    ! awk 'length($0) > 120' "$work/out" | grep -q . || fail "a help line is longer than 120 columns"
    go $verb
    want_code 2
    want_err "Try 'berth help $verb'."
    go $verb --no-such-option
    want_code 2
    want_err "unknown option '--no-such-option'"
    want_no_out
done

go --version
want_code 0
want_out 'berth 0.'
want_out 'kernels: '
want_out ' ref'

go rnu
want_code 2
want_err "unknown verb 'rnu'; did you mean 'run'?"
go tokenise x
want_code 2
want_err "did you mean 'tokenize'?"
go zzzzzz
want_code 2
want_err "unknown verb 'zzzzzz'"
go --budget 1GiB
want_code 2
want_err 'options follow the verb'
go help nothing
want_code 2
go help fit run
want_code 2

go fit model --budgt 1GiB
want_code 2
want_err "unknown option '--budgt'; did you mean '--budget'?"
go fit model extra
want_code 2
want_err "unexpected argument 'extra'"
go fit model --ctx
want_code 2
want_err '--ctx needs a value (N)'
go fit model --ctx 12x
want_code 2
want_err "--ctx: '12x' is not a whole number"
go fit model --ctx -3
want_code 2
want_err '--ctx: -3 is out of range, want 1 to'
go fit model --ctx 0
want_code 2
want_err '--ctx: 0 is out of range'
go fit model --ctx=99999999999999999999
want_code 2
go fit model --kv q8
want_code 2
want_err "--kv: 'q8' is not one of f16, f32"
go fit model --json=yes
want_code 2
want_err '--json takes no value'
go run model -p x --temp warm
want_code 2
want_err "--temp: 'warm' is not a number"
go run model -p x --temp -1
want_code 2
want_err 'out of range'
go run model -p x --top-p 1.5
want_code 2
go run model -p x --ids 1
want_code 2
want_err 'exclude each other'
go run model --ids 1 --chat
want_code 2
go run model -p x --system y
want_code 2
want_err '--system needs --chat'
go run model -p x --stop ''
want_code 2
for list in '' , 1, ,1 1,,2 a 1,b -1 4294967296 '1;2'; do
    go run model --ids "$list"
    want_code 2
    want_err '--ids: '
done
go logits model
want_code 2
go logits model --ids 1
want_code 2
want_err 'nothing to do'
go convert in
want_code 2
want_err 'OUT is missing'
go convert in out
want_code 2
want_err '--type is missing'

if "$berth" --version | grep -q avx2; then
    go run "$golden/qwen3-moe" --ids 1 --isa neon
    want_code 2
    want_err '--isa neon: this processor'
    want_no_out
fi
go run "$golden/qwen3-moe" --ids 1,9999999
want_code 2
want_err 'outside the vocabulary'
checks=$((checks + 1))
grep -q 'tok/s' "$work/err" && fail 'a refused prompt got a summary'

# A file that is not there is a failure, not a usage error.
for verb in fit 'run -p x' chat inspect 'tokenize -p x' 'logits --hash --ids 1'; do
    go ${verb} "$work/absent.gguf"
    want_code 1
    want_err 'absent.gguf'
    want_no_out
done
finish
