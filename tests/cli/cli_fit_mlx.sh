# SPDX-License-Identifier: MIT
# fit --engine mlx: the documents' figures through the program, the machines, hostile configurations, exit statuses.
. "$(dirname "$0")/lib.sh"

# Gemma 4 26B-A4B by its public geometry: 25 sliding and 5 full layers.
mkdir "$work/m"
layers='"sliding_attention","sliding_attention","sliding_attention","sliding_attention","sliding_attention","full_attention"'
write() { # write FILE MORE
    printf '{"model_type":"gemma4","text_config":{"hidden_size":2816,"num_hidden_layers":30,"num_attention_heads":16,
"num_key_value_heads":8,"head_dim":256,"num_global_key_value_heads":2,"global_head_dim":512,"attention_k_eq_v":true,
"sliding_window":1024,"enable_moe_block":true,"num_experts":128,"top_k_experts":8,"max_position_embeddings":131072,
"final_logit_softcapping":30.0,"layer_types":[%s,%s,%s,%s,%s]%s}}' "$layers" "$layers" "$layers" "$layers" "$layers" "$2" >"$1"
}
write "$work/m/config.json" ''
sizes='--weights-bytes 17630000000 --experts-bytes 15130000000'

go fit "$work/m" --engine mlx $sizes --machine 'M4 Pro 24GB' --json
want_code 3
want_json
want_value verdict no-fit
want_value plan.schemaVersion 1
want_value plan.strategy generic-kv
want_value plan.fits false
want_value plan.contextTokens 8192
want_value plan.kvBytes 377487360
want_value plan.transientBytes 1663270912
want_value plan.totalBytes 19670758272
want_value plan.usableBytes 19327352832
want_value plan.maxSafeContext 4199
want_value machine.bandwidth_gbs 273
want_value machine.bandwidth_basis table

go fit "$work/m" --engine mlx $sizes --machine 'M4 Pro 24GB' --ctx 4199
want_code 0
want_out 'FITS'
want_out 'top 8/128 read per token'
want_out '4199  tokens'
go fit "$work/m" --engine mlx $sizes --machine 'M4 Pro 24GB' --ctx 4200 --explain
want_code 3
want_out 'DOES NOT FIT'
want_out '25 x sliding window of window 1024: 1024 positions x (2048 + 2048) elements'
want_out '5 x full attention: 4200 positions x (1024 + 1024) elements'
want_out '20480 B/token (full) x 4200 + 204800 B/token (sliding) x min(4200, window 1024)'

# A budget replaces the machine's share outright; the KV scheme moves the ceiling.
go fit "$work/m/config.json" --engine mlx $sizes --budget 19670758272 --json
want_code 0
want_value plan.usableBytes 19670758272
go fit "$work/m/config.json" --engine mlx $sizes --budget 19670758271 --json
want_code 3
go fit "$work/m" --engine mlx $sizes --kv-quant 8 --json
want_value plan.kvBytes 200540160
go fit "$work/m" --engine mlx $sizes --kv-quant config
want_code 2
want_err 'kv_config.json'
layer=0
for bits in 8 4 4 8 8 8 4 4 8 8 4 8 8 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4 4; do
    printf '%s{"layer_idx":%d,"bits":%d,"group_size":64}' "$([ $layer = 0 ] && echo '[' || echo ,)" $layer $bits
    layer=$((layer + 1))
done >"$work/m/kv_config.json"
printf ']' >>"$work/m/kv_config.json"
go fit "$work/m" --engine mlx $sizes --kv-quant config --json
want_value plan.kvBytes 135528448
want_value model.config_fingerprint c9dd67ed5a525231

# Machines.
go fit "$work/m" --engine mlx $sizes --machine 'RTX 4090' --json
want_value machine.name 'GeForce RTX 4090 24GB'
want_value machine.bandwidth_gbs 1008
go fit "$work/m" --engine mlx $sizes --machine 'RTX 4090' --bandwidth 500.5 --json
want_value machine.bandwidth_gbs 500.5
want_value machine.bandwidth_basis given
go fit "$work/m" --engine mlx $sizes --machine RTX
want_code 2
want_err 'may be'
go fit "$work/m" --engine mlx $sizes --machine 'Abacus 3'
want_code 2
want_err 'Abacus 3'
go fit "$work/m" --engine mlx $sizes --machine 'DDR5-5600 x2'
want_code 2
want_err 'memory size'
go fit "$work/m" --engine mlx $sizes --bandwidth -4
want_code 2
printf '# mine\nTest Box\tMe\tunified\t48,96\t333\n' >"$work/machines"
go fit "$work/m" --engine mlx $sizes --machines "$work/machines" --machine 'test box 96GB' --json
want_value machine.bandwidth_gbs 333
want_value machine.ram_bytes 103079215104
printf 'Test Box\tMe\n' >>"$work/machines"
go fit "$work/m" --engine mlx $sizes --machines "$work/machines" --machine 'test box'
want_code 1
want_err 'machines:3:'

# The matrix: 41 machines of the documents, or the whole table.
go fit "$work/m" --engine mlx $sizes --matrix --ctx 32768 --json
want_code 0
want_json
want_value matrix.0.machine 'M1 8GB'
want_value matrix.3.max_context 79097
want_value matrix.40.machine 'M4 Max 128GB'
go fit "$work/m" --engine mlx $sizes --matrix --filter radeon
want_code 0
want_out 'Radeon RX 7900 XTX'
checks=$((checks + 1))
grep -q NVIDIA "$work/out" && fail 'the filter let NVIDIA pass'
go fit "$work/m" --engine mlx $sizes --matrix --filter nothing-like-this
want_code 2

# Admission.
go fit "$work/m" --engine mlx $sizes --machine 'M4 Pro 24GB' --ctx 100 --prompt 4000 --max-tokens 500 --json
want_code 0
want_value admission.max_tokens 199
go fit "$work/m" --engine mlx $sizes --machine 'M4 Pro 24GB' --ctx 100 --prompt 4000 --max-tokens 500 --admission reject --json
want_code 3
want_value admission.status 400
want_value admission.code context_over_budget
go fit "$work/m" --engine mlx $sizes --machine 'M4 Pro 24GB' --ctx 100 --prompt 4000 --max-tokens 500 --admission advise --json
want_code 0
want_value admission.max_tokens 500
want_value admission.exceeds true

# A directory: file sizes, expert names, the vision sidecar on its own.
go fit "$golden/qwen3-moe" --engine mlx --ram 8GiB --json
want_code 0
want_value plan.weightsBytes "$(wc -c <"$golden/qwen3-moe/model.safetensors" | tr -d ' ')"
want_value model.experts_bytes 393216
cp -r "$golden/qwen3-moe" "$work/sidecar"
printf 123456789 >"$work/sidecar/optiq_vision.safetensors"
go fit "$work/sidecar" --engine mlx --json
want_value plan.weightsBytes "$(wc -c <"$golden/qwen3-moe/model.safetensors" | tr -d ' ')"
want_value model.sidecar_bytes 9

# Hostile configurations: an error that names the field, or a labelled lower bound; never NaN.
hostile() { # hostile MORE CODE TEXT
    write "$work/h.json" "$1"
    go fit "$work/h.json" --engine mlx $sizes --budget 1GB --json
    want_code "$2"
    [ -z "$3" ] || want_err "$3"
    checks=$((checks + 1))
    cat "$work/out" "$work/err" | grep -qiE 'nan|: -[0-9]' && fail 'a number that is none, or below zero'
}
hostile ',"head_dim":-256' 1 head_dim
hostile ',"head_dim":1e30' 1 head_dim
hostile ',"head_dim":"256"' 1 head_dim
hostile ',"head_dim":{"a":[1]}' 1 head_dim
hostile ',"num_hidden_layers":1e30' 1 num_hidden_layers
hostile ',"num_hidden_layers":null' 3 ''
want_value plan.lowerBound true
go fit "$work/h.json" --engine mlx $sizes --budget 64GB
want_code 1
want_out 'A LOWER BOUND'
go fit "$work/h.json" --engine mlx $sizes --budget 64GB --json
want_value verdict unknown
printf 'not json' >"$work/h.json"
go fit "$work/h.json" --engine mlx $sizes
want_code 1
want_err h.json
go fit "$work/m/config.json" --engine mlx
want_code 2
want_err weights-bytes
go fit "$root/models/pocket-moe-q8_0.gguf" --engine mlx
want_code 1
want_err 'config.json'
go fit "$work/m" --engine mlx --weights-bytes 10 --experts-bytes 11
want_code 2

# Directories that are incomplete or damaged: the documents' sum, and a verdict that says what it is worth.
shard() { # shard FILE TENSOR...: float32 tensors of 16 numbers
    shard_file=$1
    shift
    header=
    at=0
    for name; do
        header="$header${header:+,}\"$name\":{\"dtype\":\"F32\",\"shape\":[4,4],\"data_offsets\":[$at,$((at + 64))]}"
        at=$((at + 64))
    done
    header="{$header}"
    while [ $((${#header} % 8)) -ne 0 ]; do header="$header "; done
    {
        printf "\\$(printf '%03o' $((${#header} % 256)))\\$(printf '%03o' $((${#header} / 256)))\\0\\0\\0\\0\\0\\0"
        printf '%s' "$header"
        dd if=/dev/zero bs=64 count=$# 2>/dev/null
    } >"$shard_file"
}
sharded() { # a fresh sound pair of shards in $work/s
    rm -rf "$work/s"
    mkdir "$work/s"
    cp "$work/m/config.json" "$work/s"
    sed -i 's/"gemma4"/"unheard_of"/' "$work/s/config.json"
    shard "$work/s/a.safetensors" one two
    shard "$work/s/b.safetensors" three
    printf '{"weight_map":{"one":"a.safetensors","two":"a.safetensors","three":"b.safetensors"}}' \
        >"$work/s/model.safetensors.index.json"
}
unsound() { # unsound BYTES TEXT: what the sum is, and the reason
    go fit "$work/s" --engine mlx --budget 64GB --json
    want_code 1
    want_json
    want_value verdict unknown
    want_value plan.lowerBound true
    want_value plan.weightsBytes "$1"
    checks=$((checks + 1))
    case $(value lower_bound_because) in *"$2"*) ;; *) fail "a reason with '$2'" ;; esac
    go fit "$work/s" --engine mlx --budget 64GB
    want_code 1
    want_out 'UNKNOWN'
    want_out 'A LOWER BOUND of the weights'
}
size() { cat "$@" | wc -c | tr -d ' '; }
sharded
both=$(size "$work/s"/*.safetensors)
go fit "$work/s" --engine mlx --budget 64GB --json
want_code 0
want_value verdict fits
want_value plan.weightsBytes "$both"
ln -s nowhere "$work/s/x.safetensors" # the index does not name it
go fit "$work/s" --engine mlx --budget 64GB --json
want_code 0
cp "$work/s/a.safetensors" "$work/s/consolidated.safetensors"
go fit "$work/s" --engine mlx --budget 64GB
want_code 0
want_out '1 of them'
want_out "are not the model's"
sharded
rm "$work/s/b.safetensors"
unsound "$(size "$work/s/a.safetensors")" b.safetensors
go fit "$work/s" --engine mlx --budget 64GB --matrix
want_code 1
want_out unknown
go fit "$work/s" --engine mlx --budget 64GB --weights-bytes 1GB --json
want_code 0
ln -s nowhere "$work/s/b.safetensors"
unsound "$(size "$work/s/a.safetensors")" b.safetensors
sharded
: >"$work/s/b.safetensors"
unsound "$(size "$work/s/a.safetensors")" b.safetensors
sharded
head -c $((both - $(size "$work/s/a.safetensors") - 1)) "$work/s/b.safetensors" >"$work/s/cut"
mv "$work/s/cut" "$work/s/b.safetensors"
unsound $((both - 1)) b.safetensors
sharded
printf '\377\377\377\377\377\377\377\377{}' >"$work/s/b.safetensors"
unsound $(($(size "$work/s/a.safetensors") + 10)) b.safetensors
for map in '{"weight_map":{"one":"../a.safetensors"}}' '{"weight_map":{}}' 'no index' \
    '{"weight_map":{"one":"a.safetensors","four":"b.safetensors"}}'; do
    sharded
    printf '%s' "$map" >"$work/s/model.safetensors.index.json"
    unsound "$both" index.json
done
sharded
mkdir "$work/e"
cp "$golden/qwen3-moe/config.json" "$work/e"
printf '\002\0\0\0\0\0\0\0{}' >"$work/e/model.safetensors"
for engine in mlx llama.cpp; do
    go fit "$work/e" --engine $engine --budget 64GB --json
    want_code 1
    want_value verdict unknown
    want_value lower_bound_because 'the files hold no tensor'
done

# A number that gives no size: with the file, and the digits that it has.
write "$work/m/h.json" ',"max_position_embeddings":9007199254740993'
go fit "$work/m/h.json" --engine mlx $sizes --budget 64GB
want_code 1
want_err '9007199254740992'
want_err 'm/h.json'

# Machines of a file: kinds that there are, and a file that can be read.
for kind in unifed '' nan; do
    printf 'Test Box\tMe\t%s\t48\t333\n' "$kind" >"$work/machines"
    go fit "$work/m" --engine mlx $sizes --machines "$work/machines" --machine 'test box'
    want_code 1
    want_err 'machines:1:'
    want_err 'unified, desktop gpu'
done
go fit "$work/m" --engine mlx $sizes --machines "$work" --machine 'test box'
want_code 1
want_err 'cannot read the machines file'

# Options of the other rules are not passed over in silence.
go fit "$golden/qwen3-moe" --kv-quant 4
want_code 2
want_err 'goes with --engine mlx'
go fit "$golden/qwen3-moe" --engine mlx --kv f32
want_code 2
go fit "$golden/qwen3-moe" --engine mlx --filter apple
want_code 2
# A context above the model's own is said before the verdict that it is part of.
go fit "$golden/qwen3-moe" --engine mlx --weights-bytes 1GB --machine 'M4 Pro 24GB'
want_code 0
checks=$((checks + 1))
sed -n '/own maximum of 512 tokens/,$p' "$work/out" | grep -q 'FITS' || fail 'the verdict comes first'
# An index whose shards are all absent: what is computed is a bound; experts that these rules do not see are named.
mkdir "$work/absent"
echo '{"model_type":"qwen3_moe","num_hidden_layers":2,"hidden_size":64,"num_attention_heads":4,"num_key_value_heads":2,"head_dim":16,"vocab_size":128,"intermediate_size":64,"moe_intermediate_size":32,"num_experts":8,"num_experts_per_tok":2,"max_position_embeddings":512,"quantization":{"bits":4,"group_size":64}}' >"$work/absent/config.json"
go fit "$work/absent" --engine mlx --ctx 128 --json
want_code 0
want_value model.weights_basis computed
go fit "$work/absent" --engine mlx --ctx 128
want_out 'speed is that of a dense model'
echo '{"weight_map":{"model.norm.weight":"model-00001-of-00001.safetensors"}}' >"$work/absent/model.safetensors.index.json"
go fit "$work/absent" --engine mlx --ctx 128 --json
want_code 1
want_value verdict unknown

finish
