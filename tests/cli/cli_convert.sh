# SPDX-License-Identifier: MIT
# convert and inspect: the converted file holds the same model, and failures leave nothing behind.
. "$(dirname "$0")/lib.sh"
model=$golden/qwen3-moe
ids=1,2,3,4,5,6,7
go logits "$model" --ids $ids --hash
hash=$(cat "$work/out")

go convert "$model" "$work/a.gguf" --type bf16
want_code 0
want_err 'wrote'
want_no_out
go logits "$work/a.gguf" --ids $ids --hash
want_code 0
want_out "$hash"
go convert "$model" "$work/a.gguf" --type bf16
want_code 1
want_err 'exists already; --overwrite'
go convert "$model" "$work/a.gguf" --type q8_0 --overwrite --quiet
want_code 0
want_no_err
go inspect "$work/a.gguf" --json --meta --tensors
want_code 0
want_json
want_value format 'GGUF v3'
want_value family qwen3-moe
want_value layers 4
want_value experts 8
want_value top_k 2
want_value vocab 384
want_value types.0.type Q8_0
want_value tensors.# 51
want_value meta.0.key general.architecture
want_value meta.0.value qwen3moe
want_value files.0 "$work/a.gguf"
go inspect "$work/a.gguf"
want_out 'GGUF v3, 1 file, 51 tensors'
want_out 'family      qwen3-moe'
go inspect "$work/a.gguf" --tensors --meta
want_out 'blk.3.ffn_down_exps.weight  Q8_0  8 x 64 x 32'
want_out 'qwen3moe.block_count'
go inspect "$model" --json
want_json
want_value format safetensors
want_value parameters 297664

# Split files open from their first part, and hold the same.
go random "$work/r.gguf" --shape tiny --type f32 --seed 3 --quiet
want_code 0
go logits "$work/r.gguf" --ids 1,2,3 --hash
hash=$(cat "$work/out")
go convert "$work/r.gguf" "$work/s.gguf" --type f32 --split 64KiB --align 4096
want_code 0
want_err "wrote $work/s-00001-of-$(printf %05d "$(find "$work" -name 's-*-of-*.gguf' | wc -l)").gguf and the parts after it"
checks=$((checks + 1))
first=$(ls "$work" | grep -E '^s-00001-of-[0-9]{5}\.gguf$') || fail 'no split files'
[ "$first" != s-00001-of-00001.gguf ] || fail 'only one part'
go logits "$work/$first" --ids 1,2,3 --hash
want_code 0
want_out "$hash"

# Another split of the same name: the parts of the earlier one go when asked to overwrite, but never those that are read;
# what killed processes have left goes in any case.
: >"$work/s-00002-of-00099.gguf.tmp.999999999.0"
: >"$work/s.gguf.tmp.999999999.1"
go convert "$work/r.gguf" "$work/s.gguf" --type f32 --split 100KiB --quiet
want_code 0
checks=$((checks + 1))
[ -f "$work/$first" ] || fail 'parts of another count went unasked'
checks=$((checks + 1))
! ls "$work" | grep -q '^s.*\.tmp\.' || fail 'temporary files of a dead process stay'
go convert "$work/r.gguf" "$work/s.gguf" --type f32 --split 100KiB --quiet --overwrite
want_code 0
checks=$((checks + 1))
[ "$(ls "$work" | grep -c '^s-00001-of-')" -eq 1 ] || fail 'parts of another count stay'
second=$(ls "$work" | grep '^s-00001-of-')
go convert "$work/$second" "$work/s.gguf" --type f32 --split 200KiB --quiet --overwrite
want_code 0
checks=$((checks + 1))
[ -f "$work/$second" ] || fail 'the parts that were read are gone'

# A mix: rows of 64 values take the formats with smaller blocks, and the command says so.
go convert "$model" "$work/m.gguf" --type q4_k_m
want_code 0
want_err 'warning: '
want_err 'written in another format'
go inspect "$work/m.gguf" --tensors
want_out 'blk.0.ffn_down_exps.weight  Q5_0'
want_out 'blk.2.ffn_down_exps.weight  Q8_0'
go logits "$work/m.gguf" --ids $ids --hash
want_code 0
go convert "$work/m.gguf" "$work/mx.gguf" --type MXFP4 --quiet
want_code 0
go convert "$model" "$work/x.gguf" --type q4_k_x
want_code 2
want_err 'want one of f32, f16, bf16, q8_0'
go convert "$model" "$work/o.gguf" --type q8_0 --tensor-type blk.1.ffn_down=f16,attn=q5_1 --quiet
want_code 0
go inspect "$work/o.gguf" --tensors
want_out 'blk.1.ffn_down_exps.weight  F16'
want_out 'blk.2.ffn_down_exps.weight  Q8_0'
want_out 'blk.0.attn_q.weight         Q5_1'
go convert "$model" "$work/x.gguf" --type q8_0 --tensor-type attn=q9
want_code 2
want_err 'q9 is no format that convert writes'
go convert "$model" "$work/o.gguf" --type q8_0 --tensor-type ffn_dwon=f16,attn_q=f16 --overwrite --quiet
want_code 0
want_err 'no tensor of the result has "ffn_dwon" in its name'
go convert --type list
want_code 0
want_out q4_k_m
go convert "$work" "$work/x.gguf" --type f32
want_code 2
want_err 'name one of them'
go convert "$model" "$work/no/x.gguf" --type f32
want_code 1
head -c 3000 "$work/a.gguf" >"$work/cut.gguf"
go inspect "$work/cut.gguf"
want_code 1
want_err 'cut.gguf'
go convert "$work/cut.gguf" "$work/x.gguf" --type f32
want_code 1
checks=$((checks + 1))
! ls -a "$work" | grep -q '^\.\{0,1\}x\.gguf' || fail 'something was left behind'
go random --shape list
want_code 0
want_out tiny
go random "$work/y.gguf" --shape nonsense --type f32
want_code 1
want_err nonsense
finish
