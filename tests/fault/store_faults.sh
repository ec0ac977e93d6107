# SPDX-License-Identifier: MIT
# store_faults.sh BERTH JSON_GET ROOT PROBE PRELOAD: whatever has happened to the store, a run gives its answer, says at
# most one line about it, none with -q, and what was stored stays.
. "$(dirname "$0")/../cli/lib.sh"
probe=$4
preload=$5
model=$root/models/pocket-moe-q8_0.gguf
[ -r "$model" ] || skip 'the bundled model is not here'
ids=562,918,7285,262
db=$BERTH_HOME/berth.db

go run "$model" --ids $ids -n 4 -q --no-store
want_code 0
want_no_err
cp "$work/out" "$work/answer"

# check NAME [LEAST MOST]: run, fit and chat with the store as it is now; notes between LEAST and MOST (1 and 1).
check() {
    go run "$model" --ids $ids -n 4
    said="$1: $said"
    want_code 0
    checks=$((checks + 1))
    cmp -s "$work/out" "$work/answer" || fail 'another answer'
    checks=$((checks + 1))
    notes=$(grep -c '^berth: ' "$work/err")
    { [ "$notes" -ge "${2:-1}" ] && [ "$notes" -le "${3:-1}" ]; } || fail "$notes lines about the store"
    go run "$model" --ids $ids -n 4 -q
    said="$1: $said"
    want_code 0
    want_no_err
    checks=$((checks + 1))
    cmp -s "$work/out" "$work/answer" || fail 'another answer'
    go fit "$model" --budget 1GiB
    said="$1: $said"
    want_code 0
    want_out 'Verdict: fits'
    printf 'hello\n' | "$berth" chat "$model" --template chatml --seed 1 -n 4 -q >"$work/out" 2>"$work/err"
    code=$?
    said="$1: berth chat"
    want_code 0
    want_no_err
}

# refused TEXT: the verbs that are about the store say one sentence.
refused() {
    for verb in runs models; do
        go $verb
        want_code 1
        want_err "$1"
        checks=$((checks + 1))
        [ "$(wc -l <"$work/err")" -eq 1 ] || fail 'more than one line'
    done
}

count() {
    checks=$((checks + 1))
    said='store_probe count'
    code=0
    : >"$work/out"
    "$probe" count >"$work/count" 2>"$work/err"
    [ "$(head -n 1 "$work/count")" = ok ] || fail "the file is damaged: $(head -n 1 "$work/count")"
    rows=$(tail -n 1 "$work/count")
}

# Nothing wrong: a run and a chat are kept.
check sound 0 0
count
kept=$rows
checks=$((checks + 1))
[ "$kept" -eq 3 ] || fail "$kept runs kept, want 3"

# Another process holds the file for long.
"$probe" hold 60 >"$work/held" &
holder=$!
while ! grep -q held "$work/held"; do sleep 0.05; done
begin=$(date +%s)
go run "$model" --ids $ids -n 4
want_code 0
want_err 'this run was not kept'
checks=$((checks + 1))
cmp -s "$work/out" "$work/answer" || fail 'another answer'
go run "$model" --ids $ids -n 4 -q
want_code 0
want_no_err
go fit "$model" --budget 1GiB
want_code 0
checks=$((checks + 1))
[ $(($(date +%s) - begin)) -lt 30 ] || fail 'waits for ever'
kill "$holder"
wait "$holder" 2>/dev/null
count
checks=$((checks + 1))
[ "$rows" -eq "$kept" ] || fail "$rows runs, want $kept"

# Killed at any moment: what was said to be in is in.
round=0
while [ "$round" -lt 50 ]; do
    round=$((round + 1))
    count
    before=$rows
    : >"$work/added"
    "$probe" add 1000 >"$work/added" 2>"$work/err" &
    writer=$!
    sleep "0.0$((round * 7 % 10))$((round % 10))"
    kill -9 "$writer" 2>/dev/null
    wait "$writer" 2>/dev/null
    count
    checks=$((checks + 1))
    [ "$rows" -ge $((before + $(wc -l <"$work/added"))) ] ||
        fail "round $round: $before runs, $(wc -l <"$work/added") added, $rows left"
done
check killed 0 0

# Two writers at once.
count
before=$rows
"$probe" add 40 >/dev/null &
first=$!
"$probe" add 40 >/dev/null
wait "$first"
count
checks=$((checks + 1))
[ "$rows" -eq $((before + 80)) ] || fail "$((rows - before)) of 80 rows of two writers"
kept=$rows

# Disks.
if env LD_PRELOAD="$preload" "$berth" --version >/dev/null 2>"$work/err" && [ ! -s "$work/err" ]; then
    for kind in full readonly gone; do
        said="preload $kind"
        export LD_PRELOAD="$preload" FAULT_KIND=$kind FAULT_DIR="$BERTH_HOME"
        check "$kind"
        unset LD_PRELOAD FAULT_KIND FAULT_DIR
        count
        checks=$((checks + 1))
        [ "$rows" -eq "$kept" ] || fail "$kind: $rows runs, want $kept"
        # Nothing there yet.
        mv "$BERTH_HOME" "$work/aside"
        [ "$kind" = readonly ] || mkdir "$BERTH_HOME"
        export LD_PRELOAD="$preload" FAULT_KIND=$kind FAULT_DIR="$BERTH_HOME"
        check "$kind and new"
        unset LD_PRELOAD FAULT_KIND FAULT_DIR
        rm -rf "$BERTH_HOME"
        mv "$work/aside" "$BERTH_HOME"
    done
else
    echo 'not checked: this build cannot be preloaded'
fi

# Of a later version, damaged, not a file.
cp "$db" "$work/good.db"
"$probe" newer
cp "$db" "$work/newer.db"
check newer
refused 'written by a newer Berth'
checks=$((checks + 1))
cmp -s "$db" "$work/newer.db" || fail 'a newer file was changed'
head -c 3000 "$work/good.db" >"$db"
cp "$db" "$work/cut.db"
check cut
refused 'left as it is'
checks=$((checks + 1))
cmp -s "$db" "$work/cut.db" || fail 'a damaged file was changed'
{ head -c 4096 "$work/good.db"; head -c 20000 /dev/zero | tr '\0' 'x'; } >"$db"
cp "$db" "$work/cut.db"
check damaged
checks=$((checks + 1))
cmp -s "$db" "$work/cut.db" || fail 'a damaged file was changed'
rm "$db"
mkdir "$db"
check directory
refused berth.db
rmdir "$db"
mkfifo "$db"
check pipe
refused 'not a regular file'
rm "$db"
ln -s "$work/nowhere/berth.db" "$db"
check 'dangling link'
rm "$db"
cp "$work/good.db" "$db"
check 'back again' 0 0

# No home at all; a relative one is below the current directory.
(
    unset HOME BERTH_HOME
    check homeless
    refused 'HOME'
    [ "$failures" -eq 0 ] || exit 1
) || failures=$((failures + 1))
(
    cd "$work" || exit 1
    BERTH_HOME=relative/home
    check relative 0 0
    [ "$failures" -eq 0 ] && [ -f "$work/relative/home/berth.db" ]
) || failures=$((failures + 1))
finish
