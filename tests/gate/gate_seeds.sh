# SPDX-License-Identifier: MIT
. "$(dirname "$0")/lib.sh"
"$root/tools/check-seeds" "$root"

tree=$work/tree
mkdir -p "$tree/docs" "$tree/include" "$tree/src" "$tree/tests/unit" "$tree/tests/golden"
cp "$root/tests/golden/fit_shapes.json" "$tree/tests/golden"
cp "$root/docs/seeds.md" "$tree/docs"
cp "$root/include/berth.h" "$tree/include"
cp -r "$root/src/." "$tree/src"
mkdir "$tree/app"
cp "$root"/tests/unit/*.c "$tree/tests/unit"
check() {
    "$root/tools/check-seeds" "$tree"
}
passes check
sed -i '/^| `skuMatrix`/d' "$tree/docs/seeds.md"
catches 'no row for skuMatrix' check
cp "$root/docs/seeds.md" "$tree/docs"
sed -i 's/`berth_kv_bytes_at`/`berth_kv_bytes_of`/' "$tree/docs/seeds.md"
catches 'berth_kv_bytes_of is in no header' check
cp "$root/docs/seeds.md" "$tree/docs"
rm "$tree/tests/unit/test_fit_machine.c"
catches 'there is no tests/unit/test_fit_machine.c' check
cp "$root/tests/unit/test_fit_machine.c" "$tree/tests/unit"
sed -i 's/berth_sku_detect_chip/berth_x/' "$tree/tests/unit/test_fit_machine.c"
catches 'does not use berth_sku_detect_chip' check
cp "$root/tests/unit/test_fit_machine.c" "$tree/tests/unit"
echo '/* gemma-3-270m */' >"$tree/src/fit/cheat.c"
catches 'an answer in the source' check
echo 'enum { CHEAT = 40894464 };' >"$tree/src/fit/cheat.c"
catches 'an answer in the source' check
echo 'static const double cheat = 30532122624;' >"$tree/src/fit/cheat.c"
catches 'an answer in the source' check
rm "$tree/src/fit/cheat.c"
echo 'static const char *const cheat = "qwen3-30b-a3b";' >"$tree/app/cheat.c"
catches 'an answer in the source' check
rm "$tree/app/cheat.c"

# The generated table of machines is what its source gives.
fresh=$("$root/tools/hardware-table")
[ "$fresh" = "$(cat "$root/src/session/hardware_rows.c")" ] || {
    echo "src/session/hardware_rows.c is stale: tools/hardware-table >src/session/hardware_rows.c"
    exit 1
}
finish
