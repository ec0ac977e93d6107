# SPDX-License-Identifier: MIT
. "$(dirname "$0")/lib.sh"
"$root/tools/check-seeds" "$root"

tree=$work/tree
mkdir -p "$tree/docs" "$tree/include" "$tree/src" "$tree/tests/unit"
cp "$root/docs/seeds.md" "$tree/docs"
cp "$root/include/berth.h" "$tree/include"
cp -r "$root/src/." "$tree/src"
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

# The generated table of machines is what its source gives.
mkdir -p "$tree/tools"
fresh=$("$root/tools/hardware-table")
[ "$fresh" = "$(cat "$root/src/session/hardware_rows.c")" ] || {
    echo "src/session/hardware_rows.c is stale: tools/hardware-table >src/session/hardware_rows.c"
    exit 1
}
finish
