# SPDX-License-Identifier: MIT
# run on weights that are no numbers: an error where a token needs them, never text; the file says nothing of them
# before.
. "$(dirname "$0")/lib.sh"

file=$work/m/model.safetensors
# The first value of every expert's matrix of layer 0: two bytes, so written.
poison() { # poison BYTES NAME
    rm -rf "$work/m"
    cp -r "$golden/qwen3-moe" "$work/m"
    header=$(od -A n -t u4 -N 4 "$file" | tr -d ' ')
    places=$(head -c $((8 + header)) "$file" | tail -c "$header" |
        grep -o "layers\.0\.mlp\.$2\.weight\":{[^}]*data_offsets\":\[[0-9]*" | sed 's/.*\[//')
    checks=$((checks + 1))
    [ -n "$places" ] || fail "no tensor is called $2"
    for at in $places; do
        printf "$1" | dd of="$file" bs=1 seek=$((8 + header + at)) conv=notrunc 2>/dev/null
    done
}
go run "$golden/qwen3-moe" --ids 1,2,3 -n 4 --no-store --quiet
want_code 0
for what in 'experts\.[0-9]*\.down_proj' 'experts\.[0-9]*\.up_proj' gate; do
    for bytes in '\377\177' '\200\177' '\200\377'; do # NaN, infinite, infinite below zero
        poison "$bytes" "$what"
        go run "$work/m" --ids 1,2,3 -n 4 --no-store --quiet
        want_code 1
        want_no_out
        want_err "weights in the model's files are damaged, or not finite"
    done
done
finish
