# SPDX-License-Identifier: MIT
# fit --engine llama.cpp, models that Berth cannot run, --explain, and advice that changes something.
. "$(dirname "$0")/lib.sh"

mkdir "$work/g"
cat >"$work/g/config.json" <<'EOF'
{"model_type": "gpt_oss", "num_hidden_layers": 24, "hidden_size": 2880, "num_attention_heads": 64, "num_key_value_heads": 8,
 "head_dim": 64, "intermediate_size": 2880, "vocab_size": 201088, "num_local_experts": 32, "num_experts_per_tok": 4,
 "sliding_window": 128, "max_position_embeddings": 131072, "router_jitter_noise": NaN}
EOF
model="$work/g --engine llama.cpp --weights-bytes 12GB"

# 12 full layers at 131072 cells, 12 windows of pad256(128 + 2048).
# shellcheck disable=SC2086
go fit $model --ctx 131072 --ubatch 2048 --budget 40GB --json
want_code 0
want_json
want_no_err
want_value engine llama.cpp
want_value verdict fits
want_value plan.kv_bytes $((3126 * 1048576))
want_value plan.kv.0.part full
want_value plan.kv.0.cells 131072
want_value plan.kv.1.part window
want_value plan.kv.1.cells 2304
want_value plan.kv.1.layers 12
want_value plan.output_bytes $((201088 * 4))
want_value model.parameters 20914757184
want_value model.weights.experts_by_parameters true
want_value plan.lower_bound false
# Inputs on the host of a 2026 build: 131072 + 768 cells of a mask in 32 bits, two copies of the embeddings.
# shellcheck disable=SC2086
go fit $model --ctx 131072 --offload all --build 2026 --budget 40GB --json
want_value plan.host_compute_bytes $(((131072 + 768) * 512 * 4 + 2 * 2880 * 512 * 4))
want_value plan.device true
# shellcheck disable=SC2086
go fit $model --ctx 65535 --slots 4 --kv-unified --budget 40GB --json
want_value plan.kv_bytes $((1560 * 1048576))
# shellcheck disable=SC2086
go fit $model --ctx 8192 --ubatch 128 --cache-type-k q8_0 --cache-type-v q8_0 --budget 40GB --json --explain
want_value plan.kv_bytes 110297088
checks=$((checks + 1))
[ "$(value arithmetic.#)" -eq 2 ] || fail "arithmetic is not two lines"

# It does not fit: advice lowers what it says it lowers, and nothing is advised that is so already.
# shellcheck disable=SC2086
go fit $model --ctx 131072 --swa-full --budget 13GB --json
want_code 3
want_value verdict no-fit
total=$(value plan.total_bytes)
count=$(value advice.#)
checks=$((checks + 1))
[ "$count" -ge 3 ] || fail "$count pieces of advice"
i=0
while [ "$i" -lt "$count" ]; do
    checks=$((checks + 1))
    [ "$(value advice.$i.total_bytes)" -lt "$total" ] || fail "advice $i lowers nothing"
    i=$((i + 1))
done
ctx=$(value plan.ctx_max)
# shellcheck disable=SC2086
go fit $model --ctx "$ctx" --swa-full --budget 13GB --json
want_code 0
# shellcheck disable=SC2086
go fit $model --ctx $((ctx + 256)) --swa-full --budget 13GB --json
want_code 3
# shellcheck disable=SC2086
go fit $model --cache-type-k q4_0 --cache-type-v q4_0 --ubatch 64 --ctx 512 --budget 1GB
want_code 3
want_out 'DOES NOT FIT'
checks=$((checks + 1))
! grep -q -e 'cache-type' -e 'ubatch' "$work/out" || fail "advises what is so already"
# shellcheck disable=SC2086
go fit $model --machine 'GeForce RTX 4090' --ctx 4096 --explain
want_code 0
want_out 'card memory less 749 MiB'
want_out 'beside it'
want_out 'sliding window of window 128'
want_out 'Host buffer'

# Speed: the law with what a token reads; the context costs its cache.
# shellcheck disable=SC2086
go fit $model --ctx 4096 --budget 40GB --bandwidth 60 --json
want_code 0
want_json
want_value speed.memory_basis given
want_value speed.hit_rate.basis resident
want_value speed.decode.1.context 4096
want_value speed.decode.1.binding memory
want_value speed.basis 'the law, memory given; experts by parameters'
checks=$((checks + 1))
awk "BEGIN { d = ($(value speed.decode.1.memory_s) - $(value speed.decode.0.memory_s)) * 60e9 * 0.95
             exit !(d > $(value plan.kv_bytes) - 1 && d < $(value plan.kv_bytes) + 1) }" || fail 'the cache is not read'
checks=$((checks + 1))
awk "BEGIN { exit !($(value speed.decode.1.low) < $(value speed.decode.1.tokens_per_s) &&
                    $(value speed.decode.1.tokens_per_s) < $(value speed.decode.1.high)) }" || fail 'no range'
# shellcheck disable=SC2086
go fit $model --ctx 4096 --machine 'RTX 4090' --json
want_value speed.memory_basis table
want_value speed.machine 'GeForce RTX 4090 24GB'
# shellcheck disable=SC2086
go fit $model --ctx 4096 --machine 'RTX 4090' --offload none --json
want_value speed.memory_basis unknown # of the host beside the card
want_value speed.decode.1.tokens_per_s null
# shellcheck disable=SC2086
go fit $model --ctx 4096 --budget 1GB --bandwidth 60 --json
want_code 3
want_value speed null
go fit "$work/g/config.json" --engine llama.cpp --budget 1GB --bandwidth 60
want_code 1
want_out 'unknown: say --weights-bytes'
want_out 'A LOWER BOUND: no weights are counted'
# shellcheck disable=SC2086
go fit $model --bandwidth -4
want_code 2
want_no_out

# The matrix: each machine by the same totals.
# shellcheck disable=SC2086
go fit $model --ctx 4096 --machine 'RTX 4090' --json
total=$(value plan.total_bytes)
tps=$(value speed.decode.1.tokens_per_s)
# shellcheck disable=SC2086
go fit $model --ctx 4096 --matrix --filter '4090' --json
want_code 0
want_json
want_value engine llama.cpp
want_value ctx 4096
want_value matrix.0.total_bytes "$total"
want_value matrix.0.tokens_per_s "$tps"
want_value matrix.0.verdict fits
# shellcheck disable=SC2086
go fit $model --ctx 4096 --matrix --filter 'apple m1' --json
want_value matrix.0.machine 'Apple M1 8GB'
want_value matrix.0.verdict 'too big'
want_value matrix.0.binding 'memory size'
want_value matrix.0.tokens_per_s null
# shellcheck disable=SC2086
go fit $model --matrix
want_code 0
want_out 'GeForce RTX 4090'
want_out "by llama.cpp's totals"
# shellcheck disable=SC2086
go fit $model --matrix --filter nothing-like-this
want_code 2

# The cache of a context for MTP blocks, as llama.cpp printed it (kv-038): 1024 MiB. In f16 whatever the other's type.
mkdir "$work/q"
cat >"$work/q/config.json" <<'EOF'
{"model_type": "qwen3_5_text", "num_hidden_layers": 64, "hidden_size": 5120, "num_attention_heads": 24, "num_key_value_heads": 4,
 "head_dim": 256, "max_position_embeddings": 262144, "full_attention_interval": 4, "linear_num_value_heads": 48,
 "linear_num_key_heads": 16, "linear_key_head_dim": 128, "linear_value_head_dim": 128, "linear_conv_kernel_dim": 4,
 "intermediate_size": 17408, "vocab_size": 248320, "mtp_num_hidden_layers": 1}
EOF
mtp="$work/q --engine llama.cpp --weights-bytes 17GB --ctx 262144 --budget 60GB"
# shellcheck disable=SC2086
go fit $mtp --json
want_code 0
want_value plan.draft null
total=$(value plan.total_bytes)
# shellcheck disable=SC2086
go fit $mtp --draft --json
want_code 0
want_json
want_value plan.draft.kv_bytes 1073741824
want_value plan.draft.layers 1
want_value plan.draft.cells 262144
checks=$((checks + 1))
# and a row of logits of its own
[ "$(value plan.total_bytes)" -eq $((total + 1073741824 + $(value plan.draft.compute_bytes) + 248320 * 4)) ] || fail 'the draft is not in the sum'
checks=$((checks + 1))
[ "$(value plan.draft.compute_bytes)" -gt 0 ] || fail 'no draft graph'
# shellcheck disable=SC2086
go fit $mtp --draft --cache-type-k q8_0 --cache-type-v q8_0 --json
want_value plan.draft.kv_bytes 1073741824
# shellcheck disable=SC2086
go fit $mtp --draft
want_out 'kv, draft'
# shellcheck disable=SC2086
go fit $model --draft --budget 40GB
want_code 2
want_err 'no blocks for further tokens'
want_no_out
go fit "$work/q" --draft
want_code 2
want_err '--draft goes with --engine llama.cpp'

# Wrong values.
for wrong in '--cache-type-k q3' '--build new' '--mla none' '--slots 0' '--offload some'; do
    # shellcheck disable=SC2086
    go fit $model --budget 40GB $wrong
    want_code 2
    want_no_out
done
go fit "$work/g" --slots 2
want_code 2
want_err '--slots goes with --engine llama.cpp'
# shellcheck disable=SC2086
go fit $model --kv f16
want_err '--cache-type-k'
# shellcheck disable=SC2086
go fit $model --kv-quant 4
want_err '--engine mlx'

# Hostile configurations: an error that names the key, or a labelled lower bound.
hostile() { # hostile TEXT
    printf '%s' "$1" >"$work/g/config.json"
    # shellcheck disable=SC2086
    go fit $model --budget 40GB
    checks=$((checks + 1))
    ! grep -qiE 'nan|inf | -[0-9]' "$work/out" || fail "prints NaN, Inf or a negative size"
}
hostile '{"model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": -512}'
want_code 1
want_err 'hidden_size'
want_err 'is -512'
want_err "$work/g/config.json"
hostile '{"model_type": "llama", "num_hidden_layers": 1e30, "num_attention_heads": 8, "hidden_size": 512}'
want_code 1
want_err '1e30'
hostile '{"model_type": "llama", "num_hidden_layers": 4, "num_attention_heads": NaN, "hidden_size": 512}'
want_code 1
want_err 'is NaN'
hostile '{"model_type": "llama", "num_hidden_layers": {"a": [1]}, "num_attention_heads": 8}'
want_code 1
want_err 'an object'
hostile '{}'
want_code 1
hostile '{"model_type": "brandnew", "num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512}'
want_code 1
# shellcheck disable=SC2086
go fit $model --matrix --filter 'rtx 4090' --json
want_code 1
want_value matrix.0.verdict unknown
want_value matrix.0.tokens_per_s null
hostile '{"model_type": "brandnew", "num_hidden_layers": 4, "num_attention_heads": 8, "hidden_size": 512}'
want_out 'A LOWER BOUND: model_type "brandnew"'
want_out 'UNKNOWN'
# shellcheck disable=SC2086
go fit $model --budget 40GB --json
want_code 1
want_value verdict unknown
want_value plan.lower_bound true
# shellcheck disable=SC2086
go fit $model --budget 4GB --json
want_code 3
want_value verdict no-fit

# A GGUF file of an architecture that this version cannot run.
# (berth convert cannot write one: only the header is here, by hand.)
u32() { # little-endian
    printf "\\$(printf %03o $(($1 & 255)))\\$(printf %03o $(($1 >> 8 & 255)))\\$(printf %03o $(($1 >> 16 & 255)))\\000"
}
u64() {
    u32 "$1"
    printf '\000\000\000\000'
}
text() {
    u64 ${#1}
    printf '%s' "$1"
}
pair() {
    text "$1"
    u32 4
    u32 "$2"
}
tensor() { # NAME ROW COLUMNS OFFSET: float32
    text "$1"
    u32 2
    u64 "$2"
    u64 "$3"
    u32 0
    u64 "$4"
}
header() { # LAYERS: so many of the six have a matrix, and so has a block for further tokens
    printf GGUF
    u32 3
    u64 $(($1 + 2))
    u64 9
    text general.architecture
    u32 8
    text gemma3
    pair gemma3.block_count 7 # the last is for further tokens
    pair gemma3.nextn_predict_layers 1
    pair gemma3.embedding_length 64
    pair gemma3.context_length 4096
    pair gemma3.attention.head_count 4
    pair gemma3.attention.head_count_kv 2
    pair gemma3.attention.key_length 16
    pair gemma3.attention.sliding_window 512
    tensor token_embd.weight 64 384 0
    layer=0
    while [ $layer -lt "$1" ]; do
        tensor blk.$layer.attn_q.weight 64 64 $((98304 + layer * 16384))
        layer=$((layer + 1))
    done
    tensor blk.6.attn_q.weight 64 64 $((98304 + $1 * 16384))
}
for layers in 6 1; do
    header $layers >"$work/x$layers.gguf"
    bytes=$(wc -c <"$work/x$layers.gguf")
    head -c $(((32 - bytes % 32) % 32 + 114688 + layers * 16384)) /dev/zero >>"$work/x$layers.gguf"
done
mv "$work/x6.gguf" "$work/x.gguf"
go fit "$work/x.gguf" --json --ctx 4096
want_code 1
want_json
want_value verdict cannot-run
want_value engine berth
want_value model.family gemma3
want_value plan.kv.0.layers 1
want_value plan.kv.1.layers 5
want_value plan.kv.1.cells 1024
want_value model.weights.resident_bytes $((98304 + 6 * 16384))
want_value model.weights.not_loaded_bytes 16384
go fit "$work/x.gguf" --json --ctx 4096 --budget 1GB --bandwidth 10
want_value speed.memory_basis given
want_value speed.basis 'the law, memory given'
go fit "$work/x.gguf" --matrix --filter apple --json
want_code 1
want_json
want_value engine berth
want_value rules llama.cpp
want_value matrix.0.verdict fits
go fit "$work/x.gguf" --matrix --filter apple
want_code 1
want_out 'Berth cannot run this model yet'
want_out 'Apple M1 8GB'
go fit "$work/x.gguf" --budget 1000
want_code 3
want_out 'Berth cannot run this model yet'
go fit "$work/x.gguf" --engine llama.cpp --budget 1GB
want_code 0
go fit "$work/x.gguf" --engine llama.cpp --budget 1GB --draft --json
want_code 0
want_value model.mtp_layers 1
want_value plan.draft.layers 1
want_value plan.draft.weights_bytes 16384
go fit "$work/x1.gguf" --engine llama.cpp --budget 1GB
want_code 1
want_out 'UNKNOWN'
want_out 'A LOWER BOUND: layer 1 of 6 has no tensors.'

# The engine's own arithmetic.
go fit "$golden/qwen3-moe" --budget 1GiB --explain
want_code 0
want_out 'full attention'
want_out 'kv = '
want_out 'hard floor = '
go fit "$golden/qwen3-moe" --budget 1GiB --explain --json
want_json
checks=$((checks + 1))
[ "$(value arithmetic.#)" -ge 6 ] || fail "too little arithmetic"

# At the smallest chunk and the narrowest cache nothing of the kind is advised.
go fit "$golden/qwen3-moe" --chunk 8 --ctx 16 --kv f16 --budget 1MiB
want_code 3
checks=$((checks + 1))
! grep -q -e '--chunk' -e '--kv f16' "$work/out" || fail "advises what is so already"
go run "$golden/qwen3-moe" --ids 1 --chunk 8 --budget 1MiB
want_code 3
checks=$((checks + 1))
! grep -q -e 'smaller chunk' -e ' f16 KV' "$work/err" || fail "advises what is so already"

# What is not a file, and policies that runs cannot have.
mkfifo "$work/pipe"
go fit "$work/pipe"
want_code 1
want_err 'a device, pipe or socket'
go run "$golden/qwen3-moe" --ids 1 --policy nope
want_code 2
want_err 'belady (berth replay only)'
# Sizes that are said count, also where weights lie beside the configuration; any name of it will do. A GGUF file has its
# own.
go fit "$golden/qwen3-moe" --engine llama.cpp --weights-bytes 20GB --json
want_json
checks=$((checks + 1))
[ "$(($(value model.weights.resident_bytes) + $(value model.weights.expert_bytes) + $(value model.weights.lookup_bytes)))" = 20000000000 ] ||
    fail 'the weights are not what was said'
cp "$golden/qwen3-moe/config.json" "$work/c.json"
go fit "$work/c.json" --engine llama.cpp --weights-bytes 20GB -q --budget 1TB
want_code 0
go inspect "$work/c.json"
want_code 1
want_err 'a configuration by itself'
go fit "$root/models/pocket-moe-q8_0.gguf" --engine llama.cpp --weights-bytes 20GB
want_code 2
want_err 'a GGUF file has its own'
go fit "$golden/qwen3-moe" --engine llama.cpp --experts-bytes 1MB
want_code 2
want_err '--experts-bytes goes with --weights-bytes'
finish
