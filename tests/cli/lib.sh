# SPDX-License-Identifier: MIT
# Sourced by the cli tests: cli_NAME.sh BERTH JSON_GET ROOT. Every check names what it wanted and what it got; a test
# that checked nothing fails.
set -u
export LC_ALL=C
export BERTH_LEDGER=off # models lie in the source tree
berth=$1
json_get=$2
root=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Nothing of the user's is read or written.
HOME=$work/home
BERTH_HOME=$work/state
export HOME BERTH_HOME
unset XDG_STATE_HOME XDG_CACHE_HOME HF_HOME HF_HUB_CACHE OLLAMA_MODELS LLAMA_CACHE
mkdir -p "$HOME"
checks=0
failures=0
golden=$root/tests/golden

fail() {
    failures=$((failures + 1))
    echo "FAILED: $1"
    echo "  command: $said"
    echo "  exit $code"
    sed 's/^/  stdout: /' "$work/out" | head -20
    sed 's/^/  stderr: /' "$work/err" | head -20
}

# go ARGS...: runs berth without input; its streams are in $work/out and $work/err, its status in $code.
go() {
    said="berth $*"
    "$berth" "$@" </dev/null >"$work/out" 2>"$work/err"
    code=$?
}

# A budget for the bundled model with a cache of part of its experts. The plan counts 256 KiB for every CPU of the machine,
# so that no fixed number is small here and enough on a large server.
small_budget() {
    "$berth" fit "$root/models/pocket-moe-q8_0.gguf" --budget 1TB --json </dev/null >"$work/small"
    echo $(($("$json_get" "$work/small" plan.floor_bytes) + 5000000))
}

want_code() {
    checks=$((checks + 1))
    [ "$code" -eq "$1" ] || fail "exit status $code, want $1"
}

# want_err TEXT / want_out TEXT: a fixed string somewhere in the stream.
want_err() {
    checks=$((checks + 1))
    grep -qF -e "$1" "$work/err" || fail "stderr without: $1"
}
want_out() {
    checks=$((checks + 1))
    grep -qF -e "$1" "$work/out" || fail "stdout without: $1"
}
want_no_out() {
    checks=$((checks + 1))
    [ ! -s "$work/out" ] || fail "stdout is not empty"
}
want_no_err() {
    checks=$((checks + 1))
    [ ! -s "$work/err" ] || fail "stderr is not empty"
}

# want_json: stdout is one JSON document. want_value PATH VALUE.
want_json() {
    checks=$((checks + 1))
    "$json_get" "$work/out" >/dev/null 2>"$work/json_err" || fail "stdout is not JSON: $(cat "$work/json_err")"
}
value() {
    "$json_get" "$work/out" "$1"
}
want_value() {
    checks=$((checks + 1))
    got=$(value "$1" 2>&1)
    [ "$got" = "$2" ] || fail "$1 is $got, want $2"
}

skip() {
    echo "SKIP: $1"
    exit 77
}

finish() {
    [ "$checks" -gt 0 ] || {
        echo "FAILED: nothing was checked"
        exit 1
    }
    echo "$checks checks, $failures failures"
    [ "$failures" -eq 0 ] || exit 1
    exit 0
}
