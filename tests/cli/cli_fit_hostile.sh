# SPDX-License-Identifier: MIT
# fit on configurations that are damaged, absurd or enormous: an error that names the file and what is wrong, or an
# answer; and no answer has a size that is none.
. "$(dirname "$0")/lib.sh"

sizes='"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4, "num_key_value_heads": 2,
 "head_dim": 16, "intermediate_size": 96, "vocab_size": 384, "max_position_embeddings": 4096'

# put NAME: the configuration of a case, from standard input.
put() {
    mkdir -p "$work/$1"
    cat >"$work/$1/config.json"
}

# with NAME MEMBERS: the sizes, and more members behind them.
with() {
    printf '{%s%s}' "$sizes" "$2" | put "$1"
}

# rejected NAME TEXT: both readers refuse it; the message has the file and the text.
rejected() {
    for engine in llama.cpp mlx; do
        go fit "$work/$1" --engine $engine --weights-bytes 1GB --ctx 256 --budget 8GB
        want_code 1
        want_no_out
        [ "$engine" = mlx ] || want_err "$2"
        [ "$engine" = mlx ] || want_err "$1/config.json"
    done
}

# answered NAME STATUS: an answer without NaN, infinity or a negative number, in both forms.
answered() {
    for form in --explain --json; do
        go fit "$work/$1" --engine llama.cpp --weights-bytes 1GB --ctx 256 --budget 8GB $form
        want_code "$2"
        checks=$((checks + 1))
        ! grep -qiE '(^|[^a-z0-9-])-[0-9]|\bnan\b|\binf(inity)?\b' "$work/out" || fail "a size that is none"
    done
    want_json
}

brackets() {
    printf '%0100000d' 0 | sed "s/0/$1/g"
}
{
    printf '{%s, "x": ' "$sizes"
    brackets '['
    brackets ']'
    printf '}'
} | put arrays
rejected arrays 'nested deeper than 64 levels'
{
    printf '{%s, "x": ' "$sizes"
    brackets '{"a":'
    printf 1
    brackets '}'
    printf '}'
} | put objects
rejected objects 'nested deeper than 64 levels'

with text ', "num_hidden_layers": "4"'
rejected text 'the string "4"'
with negative ', "head_dim": -16'
rejected negative 'is -16'
with large ', "head_dim": 1e30'
rejected large 'is 1e30'
with nan ', "head_dim": NaN'
rejected nan 'is NaN'
with infinite ', "num_key_value_heads": -Infinity'
rejected infinite 'is -Infinity'
with list ', "head_dim": [[16]]'
rejected list 'a list'
printf '' | put empty
rejected empty 'the document ends too early'
printf 'null' | put null
rejected null 'is not a JSON object'
printf '{%s, "x": ' "$sizes" | put cut
rejected cut 'ends too early'
with bytes "$(printf ', "x": "\377\376"')"
rejected bytes 'is not UTF-8'
mkdir -p "$work/folder/config.json"
rejected folder 'this is a directory'
mkdir -p "$work/giant"
{
    printf '{%s' "$sizes"
    dd if=/dev/zero bs=1000000 count=100 2>/dev/null | tr '\0' ' '
    printf '}'
} >"$work/giant/config.json"
rejected giant 'at most 4194304'
rm "$work/giant/config.json"

# One list that is too short is no answer; one that is too long leaves a lower bound.
with short ', "layer_types": ["full_attention"]'
go fit "$work/short" --engine llama.cpp --weights-bytes 1GB --budget 8GB
want_code 1
want_err 'has 1 items for 4 layers'
want_err 'short/config.json'
with long ', "layer_types": ["full_attention", "full_attention", "full_attention", "full_attention", "full_attention",
 "full_attention", "full_attention"]'
answered long 1
want_value verdict unknown
want_value lower_bound_because '"layer_types" has 7 items for 4 layers'
with unheard ', "layer_types": ["full_attention", "full_attention", "full_attention", "magnetic_attention"]'
answered unheard 1
want_value verdict unknown

# The last of equal keys wins, as for everybody; NaN where nothing reads it is harmless.
with twice ', "num_hidden_layers": 9, "num_hidden_layers": 3, "router_jitter_noise": NaN'
answered twice 0
want_value model.layers 3

# What a class fills in is marked as such: a configuration with little in it.
printf '%s' '{"model_type": "gemma3", "vision_config": {"hidden_size": 1152}, "text_config": {"model_type": "gemma3_text",
 "hidden_size": 2560, "intermediate_size": 10240, "num_hidden_layers": 34, "sliding_window": 1024}}' | put little
answered little 0
want_value model.parameters 3880263168
want_value model.defaults.num_attention_heads 8
want_value model.defaults.num_key_value_heads 4
want_value model.defaults.head_dim 256
want_value model.ctx_max 131072
go fit "$work/little" --engine llama.cpp --weights-bytes 8GB --ctx 8192 --budget 16GB --explain
want_code 0
want_out 'numbers are not in config.json: the defaults of model_type gemma3_text'
want_out 'not in config.json, so the default of gemma3_text: '
# Without a default a missing number stays an error: which file, which key, what to do.
printf '%s' '{"model_type": "gemma3_text", "hidden_size": 2560}' | put layers
go fit "$work/layers" --engine llama.cpp --weights-bytes 1GB --budget 8GB
want_code 1
want_err '"num_hidden_layers" is missing or 0'
want_err 'layers/config.json'
printf '%s' '{"model_type": "deepseek_v3", "num_hidden_layers": 2, "hidden_size": 64, "kv_lora_rank": null}' | put nulled
go fit "$work/nulled" --engine llama.cpp --weights-bytes 1GB --budget 8GB
want_code 1
want_err '"kv_lora_rank" is missing or 0'
want_err 'add it to the configuration'

# Absent, null, 0 and a list are four things: only the first asks for a class's default, and a list is no number.
moe='"model_type": "qwen3_moe", "num_hidden_layers": 4, "hidden_size": 64, "num_attention_heads": 4,
 "num_key_value_heads": 2, "head_dim": 16, "intermediate_size": 96, "moe_intermediate_size": 32, "num_experts": 8,
 "num_experts_per_tok": 2, "vocab_size": 384, "max_position_embeddings": 4096'
for key in num_hidden_layers hidden_size vocab_size head_dim num_attention_heads num_key_value_heads num_experts_per_tok \
    moe_intermediate_size; do
    for value in 0 '[4]' '"4"' -1; do
        printf '{%s, "%s": %s}' "$moe" $key "$value" | put one
        go fit "$work/one" --engine llama.cpp --weights-bytes 1GB --ctx 256 --budget 8GB
        want_code 1
        want_no_out
        want_err "\"$key\""
        want_err 'one/config.json'
    done
done
for key in hidden_size vocab_size num_attention_heads num_experts_per_tok moe_intermediate_size; do
    printf '{%s, "%s": null}' "$moe" $key | put one
    go fit "$work/one" --engine llama.cpp --weights-bytes 1GB --ctx 256 --budget 8GB
    want_code 1
    want_err "\"$key\" is missing or 0"
done
for key in max_position_embeddings num_experts kv_lora_rank sliding_window; do
    printf '{%s, "%s": [4]}' "$moe" $key | put one
    go fit "$work/one" --engine llama.cpp --weights-bytes 1GB --ctx 256 --budget 8GB
    want_code 1
    want_err "\"$key\" is a list, but a whole number"
done
printf '{%s, "num_key_value_heads": [2, 2, 2, 2], "head_dim": null}' "$moe" | put one
answered one 0
printf '{%s, "num_experts_per_tok": 500}' "$moe" | put one
go fit "$work/one" --engine llama.cpp --weights-bytes 1GB --ctx 256 --budget 8GB
want_code 1
want_err '"num_experts_per_tok" is 500, but at most the number of experts, which is 8'
printf '{%s, "num_key_value_heads": 3}' "$moe" | put one
go fit "$work/one" --engine llama.cpp --weights-bytes 1GB --ctx 256 --budget 8GB
want_code 1
want_err '"num_key_value_heads" is 3, but a divisor of the number of heads, which is 4'
# A default goes by the name that its class gives it.
printf '{%s}' "$moe" | put one
answered one 0
want_value model.defaults.decoder_sparse_step 1

# By MLX's rules: no layers is no verdict, in words either; nothing has a maximum below 0.
printf '{"model_type": "gemma3_text", "hidden_size": 2560, "max_position_embeddings": 4096}' | put bare
go fit "$work/bare" --engine mlx --weights-bytes 1GB --budget 8GB
want_code 1
want_out ': UNKNOWN'
with below ', "max_position_embeddings": -1'
go fit "$work/below" --engine mlx --weights-bytes 1GB --budget 8GB
want_code 1
want_no_out
want_err '"max_position_embeddings" is -1'
# And weights that are not there, by what the configuration says of their bits: 4 + 32 / 64.
printf '{%s, "quantization": {"group_size": 64, "bits": 4}}' "$moe" | put bits
go fit "$work/bits" --engine mlx --budget 8GB --ctx 256
want_code 0
want_out 'an estimate: parameters x 4 bits, groups of 64'
go fit "$work/bits" --engine mlx --budget 8GB --ctx 256 --json
want_code 0
want_value model.weights_basis computed
want_value model.experts_bytes 110592
go fit "$work/bits" --engine mlx --budget 8GB --ctx 256 --json --weights-bytes 1GB
want_value model.weights_basis given
go fit "$work/one" --engine mlx --budget 8GB
want_code 2
want_err 'say --weights-bytes'

# Berth's own rules need the weights; a number that cannot be is an error, not a family that does not run.
for path in "$work/one" "$work/one/config.json"; do
    go fit "$path" --budget 8GB
    want_code 1
    want_err 'a configuration without weights; say --engine mlx or llama.cpp'
done
mkdir "$work/eps"
ln -s "$root/tests/golden/qwen3-moe/model.safetensors" "$work/eps/model.safetensors"
sed 's/"rms_norm_eps": *[^,}]*/"rms_norm_eps": -1/' "$root/tests/golden/qwen3-moe/config.json" >"$work/eps/config.json"
go fit "$work/eps" --budget 8GB
want_code 1
want_no_out
want_err 'rms_norm_eps'

# Weights that the configuration counts and the files do not have: a layer, an expert.
lacking() { # lacking ENGINE NAME TEXT: the golden checkpoint with tensors of this name renamed away
    rm -rf "$work/lack"
    cp -r "$golden/qwen3-moe" "$work/lack"
    LC_ALL=C sed "s/$2/$3/g" "$golden/qwen3-moe/model.safetensors" >"$work/lack/model.safetensors"
    go fit "$work/lack" --engine "$1" --budget 64GB --json
    want_code 1
    want_json
    want_value verdict unknown
    checks=$((checks + 1))
    case $(value lower_bound_because) in *'weights are missing'*) ;; *) fail 'a reason' ;; esac
}
go fit "$golden/qwen3-moe" --engine llama.cpp --budget 64GB --json
want_code 0
for engine in llama.cpp mlx; do # what a further layer has is not loaded
    lacking $engine 'layers\.1\.' 'layers.9.'
done

# What Berth cannot run is said on standard error, too.
printf '%s' '{"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 1, "num_attention_heads": 4}' |
    put unrunnable
printf '\002\0\0\0\0\0\0\0{}' >"$work/unrunnable/model.safetensors"
go fit "$work/unrunnable" --budget 64GB
want_code 1
want_err 'cannot run this model'

finish
