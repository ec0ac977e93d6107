#!/bin/sh
# SPDX-License-Identifier: MIT
# bench speed and bench kernels: every figure is there, refusals, nothing left behind.
. "$(dirname "$0")/lib.sh"
tight=$(small_budget)
model=$root/models/pocket-moe-q8_0.gguf

positive() {
    checks=$((checks + 1))
    case $(value "$1") in 0 | '' | null | -*) fail "$1 is not a positive number" ;; esac
}

go bench speed "$model" --budget "$tight" --prompt-tokens 20 -n 5 --rounds 2 --json
want_code 0
want_json
want_value passes 2
want_value prompt.tokens 20
want_value answer.tokens 5
want_value budget_bytes "$tight"
for field in prompt.tokens_per_s prompt.least answer.tokens_per_s answer.most answer.read_bytes_per_token; do
    positive "$field"
done
go bench speed "$golden/qwen3" --prompt-tokens 1 -n 2 --rounds 1
want_code 0
want_out 'median of 1 passes'
go bench speed "$model" --budget 1MiB
want_code 3
go bench speed "$model" --ctx 30 --prompt-tokens 20 -n 20
want_code 1
go bench speed "$model" --prompt-tokens 0
want_code 2
go bench speed "$work/absent.gguf"
want_code 1

go bench kernels --type q4_k --type f16 --isa ref --memory 1MiB --ms 1 --json
want_code 0
want_json
want_value kernels.# 2
want_value kernels.0.row ref
want_value kernels.1.weight_bits 4.5
positive kernels.1.decode_macs_per_s
positive kernels.0.stream_bytes_per_s
# Formats whose scales lie beside the quants.
go bench kernels --type mlx4 --type f8_e4m3 --type mxfp4_rows --isa ref --memory 1MiB --ms 1 --json
want_code 0
want_value kernels.# 3
for i in 0 1 2; do
    positive kernels.$i.decode_macs_per_s
    positive kernels.$i.stream_bytes_per_s
done
# And models of them: the rates that a run is held against are those of the type that most weights have.
for kind in olmoe-mlx4 olmoe-fp8; do
    go run "$golden/packed/$kind" --ids 1,2,3 -n 2 --ledger off --json
    want_code 0
    want_value ids.# 2
done
go bench kernels --type q4_k --memory 1MiB --ms 1
want_code 0
want_out 'Q4_K'
go bench kernels --type f64
want_code 2
go bench kernels --type q4_k --isa neon
case $(uname -m) in aarch64) want_code 0 ;; *) want_code 1 ;; esac
checks=$((checks + 1))
[ -z "$(ls "$golden/qwen3"/*.coli_usage* 2>/dev/null)" ] || fail 'a ledger was written'
finish
