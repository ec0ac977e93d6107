# SPDX-License-Identifier: MIT
# fingerprint: digests that do not depend on threads, files or offsets, and that change with one bit.
. "$(dirname "$0")/lib.sh"

go fingerprint "$golden/qwen3-moe" --json
want_code 0
want_json
want_no_err
all=$(value tensors)
config=$(value config)
want_value order bytes
checks=$((checks + 1))
[ ${#all} -eq 64 ] && [ ${#config} -eq 16 ] || fail "digests of ${#all} and ${#config} digits"
for threads in 1 2 7; do
    go fingerprint "$golden/qwen3-moe" --json --threads "$threads" -q
    want_value tensors "$all"
done

# By hand: SHA-256 over the first line and the digests of the tensors in order of their names.
if python3 -c 'import hashlib' 2>/dev/null; then
    cat >"$work/by_hand.py" <<'EOF'
import hashlib, json, struct, sys
data = open(sys.argv[1], 'rb').read()
size = struct.unpack('<Q', data[:8])[0]
header = json.loads(data[8:8 + size])
header.pop('__metadata__', None)
numbers = {'BF16': 12, 'F32': 10, 'F16': 9}
whole = hashlib.sha256(b'berth-tensors-1\n')
for name in sorted(header, key=lambda n: n.encode()):
    t = header[name]
    head = json.dumps([name, numbers[t['dtype']], t['shape']], separators=(',', ':')).encode()
    begin, end = t['data_offsets']
    whole.update(hashlib.sha256(head + data[8 + size + begin:8 + size + end]).digest())
print(whole.hexdigest())
EOF
    checks=$((checks + 1))
    [ "$(python3 "$work/by_hand.py" "$golden/qwen3-moe/model.safetensors")" = "$all" ] || fail "not what it is by hand"
fi

# One bit; then the bytes after the tensors' own do not count.
mkdir "$work/m"
cp "$golden/qwen3-moe/config.json" "$work/m"
cp "$golden/qwen3-moe/model.safetensors" "$work/m"
go fingerprint "$work/m" --json
want_value tensors "$all"
want_value config "$config"
size=$(wc -c <"$work/m/model.safetensors")
printf '\377' | dd of="$work/m/model.safetensors" bs=1 seek=$((size - 2)) conv=notrunc 2>/dev/null
go fingerprint "$work/m" --json
checks=$((checks + 1))
[ "$(value tensors)" != "$all" ] || fail "one byte made no difference"
want_value config "$config"

go fingerprint "$golden/qwen3-moe" --order locale --json
want_code 0
want_value order locale
checks=$((checks + 1))
[ "$(value tensors)" != "$all" ] || fail "both orders give one digest"
go fingerprint "$golden/qwen3-moe" --config
want_code 0
want_out "config   $config"
checks=$((checks + 1))
! grep -q tensors "$work/out" || fail "--config reads tensors"

# GGUF: no configuration, types without a number in the documents.
go fingerprint "$root/models/pocket-moe-q8_0.gguf" --json
want_code 0
want_value config null
checks=$((checks + 1))
[ "$(value tensors | wc -c)" -eq 65 ] || fail "no digest of a GGUF file"
go fingerprint "$root/models/pocket-moe-q8_0.gguf" --order locale
want_code 1
want_err 'Q8_0'
go fingerprint "$root/models/pocket-moe-q8_0.gguf" --config
want_code 1
go fingerprint "$work/none"
want_code 1
finish
