#!/bin/sh
# SPDX-License-Identifier: MIT
# headers.sh [RUNS [FOLDER]]: how long `berth` takes to read the headers of checkpoints of 700 GB, which are made in
# FOLDER (default: a temporary one, removed) as headers in front of holes. Prints, for each command, the median, least
# and most wall time of RUNS (default 11) in milliseconds and the most memory that one took. Needs python3 for the clock.
set -eu
cd "$(dirname "$0")/.."
runs=${1:-11}
build=${BERTH_BUILD:-build/release}
folder=${2:-}
if [ -z "$folder" ]; then
    folder=$(mktemp -d)
    trap 'rm -rf "$folder"' EXIT
fi
BERTH_HOME=$folder/state
BERTH_LEDGER=off
export BERTH_HOME BERTH_LEDGER
mkdir -p "$BERTH_HOME"

for made in qwen3-moe.safetensors qwen3-moe.gguf deepseek-v3.safetensors deepseek-v3.gguf; do
    mkdir -p "$folder/$made"
    "$build/make_headers" "$folder/$made" "${made%.*}" "${made#*.}"
done
sync # a direct read of a file that is still to be written waits for that
echo "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) CPUs"

python3 - "$runs" "$build/berth" "$folder" <<'PYTHON'
import os, statistics, subprocess, sys, time

runs, berth, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3]
models = ["qwen3-moe.safetensors", "qwen3-moe.gguf/model.gguf", "deepseek-v3.safetensors", "deepseek-v3.gguf/model.gguf"]
commands = [["fit", "--budget", "64GiB"], ["fit", "--engine", "llama.cpp", "--budget", "64GiB"], ["inspect"]]
print("%-62s %6s %6s %6s %8s" % ("command", "median", "least", "most", "MB"))
for model in models:
    for verb, *options in commands:
        times, memory = [], 0
        for _ in range(runs):
            began = time.perf_counter()
            child = subprocess.Popen([berth, verb, os.path.join(folder, model), *options],
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            said = child.stderr.read()
            _, status, usage = os.wait4(child.pid, 0)
            times.append((time.perf_counter() - began) * 1000)
            memory = max(memory, usage.ru_maxrss)
            code = os.waitstatus_to_exitcode(status)
            if code not in (0, 1, 3):  # fits, cannot run or a bound, does not fit
                sys.exit("%s: exit status %d: %s" % (model, code, said.decode()))
        name = " ".join([verb, model, *options])
        print("%-62s %6.0f %6.0f %6.0f %8.0f" % (name, statistics.median(times), min(times), max(times), memory / 1024))
PYTHON
