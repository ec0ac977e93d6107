# SPDX-License-Identifier: MIT
# Sourced by the gates: gate_NAME.sh ROOT BUILD CC BUILD_TYPE. Each gate runs its check on the project and then proves
# on planted violations that the check can fail.
set -eu
export LC_ALL=C
root=$1
build=$2
cc=$3
build_type=${4:-Release}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
planted=0

# skip REASON
skip() {
    echo "SKIP: $1"
    exit 77
}

# catches TEXT COMMAND...: the command must fail and say TEXT (a fixed string).
catches() {
    text=$1
    shift
    if "$@" >"$work/said" 2>&1; then
        echo "self-test: '$*' passed, want it to fail with: $text"
        exit 1
    fi
    if ! grep -qF "$text" "$work/said"; then
        echo "self-test: '$*' failed without saying: $text"
        sed 's/^/    /' "$work/said"
        exit 1
    fi
    planted=$((planted + 1))
}

# passes COMMAND...: the command must succeed, so that a later failure is the planted violation's.
passes() {
    if ! "$@" >"$work/said" 2>&1; then
        echo "self-test: '$*' failed before anything was planted"
        sed 's/^/    /' "$work/said"
        exit 1
    fi
}

finish() {
    echo "self-test: $planted planted violations caught"
}
