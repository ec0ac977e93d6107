# SPDX-License-Identifier: MIT
# Signals: every verb ends with 128 and the signal's number, and what it was writing goes, also when they come twice.
. "$(dirname "$0")/lib.sh"
model=$root/models/pocket-moe-q8_0.gguf

# begin NAME ARGS...: in the background, reading $input.
begin() {
    said="berth $*"
    "$berth" "$@" <"$input" >"$work/out" 2>"$work/err" &
    pid=$!
}
# end WANTED: its status; what hangs is killed (137).
end() {
    (
        trap 'kill $sleeper; exit' TERM
        sleep 60 &
        sleeper=$!
        wait $sleeper
        kill -KILL "$pid"
    ) >/dev/null 2>&1 &
    guard=$!
    wait "$pid"
    code=$?
    kill "$guard" 2>/dev/null
    want_code "$1"
}
# until_there PATTERN: a file whose name fits.
until_there() {
    for _ in $(seq 1200); do
        for found in $1; do
            [ -e "$found" ] && return
        done
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.05
    done
    fail "nothing was written as $1"
}
want_none() {
    checks=$((checks + 1))
    for found in $1; do
        [ ! -e "$found" ] || fail "$found is left"
    done
}

# A line that never ends.
input=/dev/zero
begin chat "$model" --template chatml -n 3 --no-store
sleep 1
kill -TERM $pid
end 143

# Among messages that keep it busy; the pipe stays open after them.
mkfifo "$work/talk"
input=$work/talk
for signal in TERM:143 HUP:129; do
    begin chat "$model" --template chatml --drop-oldest --no-store
    exec 3>"$work/talk"
    for _ in $(seq 100); do
        seq -s ' ' 100
    done >&3
    for _ in $(seq 400); do
        [ -s "$work/out" ] && break
        sleep 0.05
    done
    sleep 0.1
    kill -"${signal%:*}" $pid
    end "${signal#*:}"
    exec 3>&-
done

# Piped lines arrive whole, whatever their lengths: too long, without a line end.
{
    head -c 200000 /dev/zero | tr '\0' x
    printf '\n/nosuch\n\n/other'
} >"$work/lines"
said='berth chat <lines'
"$berth" chat "$model" --template chatml --no-store <"$work/lines" >"$work/out" 2>"$work/err"
code=$?
want_code 0
want_err 'that line is longer than'
want_err 'unknown command /nosuch;'
want_err 'unknown command /other;'

# Twice while a file is written.
input=/dev/null
for signal in TERM:143 HUP:129; do
    begin convert "$model" "$work/o.gguf" --type q4_k_m --threads 1 --buffer 1MiB -q
    until_there "$work/o.gguf.tmp.*"
    kill -"${signal%:*}" $pid
    kill -"${signal%:*}" $pid 2>/dev/null
    sleep 0.01
    kill -"${signal%:*}" $pid 2>/dev/null
    end "${signal#*:}"
    want_none "$work/o.gguf*"
done

# A second signal ends a verb that is stuck, and takes its output along: nobody reads the pipe.
mkfifo "$work/routes"
begin logits "$golden/qwen3-moe" --ids 1,2,3 -o "$work/unfinished" --routes "$work/routes"
until_there "$work/unfinished"
kill -TERM $pid
kill -TERM $pid 2>/dev/null
end 143
want_none "$work/unfinished"

begin bench kernels --type Q8_0 --type F32 --ms 3000 --memory 4MiB
sleep 0.5
kill -TERM $pid
end 143
begin bench speed "$model" --prompt-tokens 500 -n 500 --rounds 60
sleep 1
kill -HUP $pid
end 129

# The sample of a killed measurement is swept, and is not taken for somebody's large file; ours goes with us.
mkdir "$work/disk"
truncate -s 256M "$work/disk/.berth-bench.99999999"
begin bench machine "$work/disk" --again
until_there "$work/disk/.berth-bench.$pid"
kill -TERM $pid
kill -TERM $pid 2>/dev/null
end 143
want_err 'measuring the disk'
want_none "$work/disk/.berth-bench.*"
finish
