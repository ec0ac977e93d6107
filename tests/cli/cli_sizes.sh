# SPDX-License-Identifier: MIT
# Every size suffix, through the program: the plan must report the very number of bytes.
. "$(dirname "$0")/lib.sh"
model=$golden/qwen3-moe

budget() {
    go fit "$model" --json --budget "$1"
    checks=$((checks + 1))
    got=$(value plan.budget_bytes 2>/dev/null)
    [ "$got" = "$2" ] || fail "--budget $1 is $got bytes, want $2"
}
budget 1 1
budget 1234567 1234567
budget 5000000B 5000000
budget 7KB 7000
budget 7MB 7000000
budget 7GB 7000000000
budget 7TB 7000000000000
budget 7KiB 7168
budget 7MiB 7340032
budget 7GiB 7516192768
budget 7TiB 7696581394432
budget 1.5GiB 1610612736
budget 0.25MB 250000
budget 2.000001MiB 2097153
go fit "$model" --json --budget=7MiB
want_value plan.budget_bytes 7340032
go fit "$model" --json --budget auto
want_code 0

for bad in '' 0 -1 +1 1K 1M 8G 8g 8gb 8Gib 8gib 8GIB '8 GiB' 1.5 1. .5GiB 1e9 0x10 1PiB 1B2 1KiBB 1.1234567GiB \
    18446744073709551616 18446744073709551615KB 99999999TiB ten autox; do
    go fit "$model" --budget "$bad"
    want_code 2
    want_err '--budget: '
done
for pair in 8G:8GiB 8g:8GiB 8gb:8GB 8Gib:8GiB 8mb:8MB '8 GiB:8GiB' 1.5g:1.5GiB; do
    go fit "$model" --budget "${pair%:*}"
    want_err "did you mean '${pair#*:}'?"
done
finish
