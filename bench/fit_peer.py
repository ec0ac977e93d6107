#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""berth fit --engine llama.cpp against llama.cpp itself, on files of real shapes whose weights are holes.

    LLAMA_CPP_INCLUDE=DIR[:DIR] LLAMA_CPP_LIB=DIR bench/fit_peer.py BERTH [--gpu] [--write] [--keep DIR] [MODEL...]

LLAMA_CPP_INCLUDE: where llama.h and ggml.h are; LLAMA_CPP_LIB: where libllama, libggml and libggml-base are.
Models and settings are those of tests/golden/fit/compute.json; --write puts what llama.cpp printed back there, for the
unit test test_fit_compute. --gpu: every layer on the first accelerator that llama.cpp finds. Needs a C compiler.
"""
import glob
import json
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
GOLDEN = os.path.join(TOP, "tests", "golden", "fit", "compute.json")
SMALL_MIB = 20  # the spread is over buffers larger than this


def packed(value):
    """A GGUF value with its type before it."""
    if isinstance(value, bool):
        return struct.pack("<IB", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, float):
        return struct.pack("<If", 6, value)
    if isinstance(value, str):
        return struct.pack("<IQ", 8, len(value)) + value.encode()
    items = [packed(item) for item in value]
    return struct.pack("<I", 9) + items[0][:4] + struct.pack("<Q", len(items)) + b"".join(item[4:] for item in items)


def write_meta(path, pairs):
    keys = {"general.architecture": pairs["arch"], "tokenizer.ggml.model": "none"}
    keys.update({"%s.%s" % (pairs["arch"], key): value for key, value in pairs.items() if key != "arch"})
    with open(path, "wb") as out:
        out.write(b"GGUF" + struct.pack("<IQQ", 3, 0, len(keys)))
        for key, value in keys.items():
            out.write(struct.pack("<Q", len(key)) + key.encode() + packed(value))


def build(folder):
    lib = os.environ["LLAMA_CPP_LIB"]
    program = os.path.join(folder, "fit_peer")
    found = [sorted(glob.glob(os.path.join(lib, name)))[0] for name in ("libllama.*so*", "libggml.*so*", "libggml-base.so*")]
    include = ["-I" + at for at in os.environ["LLAMA_CPP_INCLUDE"].split(":")]
    subprocess.run([os.environ.get("CC", "cc"), "-O1", *include, os.path.join(TOP, "bench", "fit_peer.c"), "-o", program,
                    *found, "-Wl,-rpath," + lib, "-lm"], check=True)
    return [program, lib]


def measured(peer, path, settings, gpu):
    """What llama.cpp prints: for each setting {(what, where): MiB}."""
    lines = "".join(" ".join(map(str, one)) + "\n" for one in settings)
    out = subprocess.run(peer + ["measure", path, "999" if gpu else "0"], input=lines, capture_output=True, text=True)
    if out.returncode != 0:
        sys.exit(out.stderr)
    found = []
    for line in out.stdout.splitlines():
        sums = {}
        for what, where, mib in re.findall(r"(\w+) (\S+) ([0-9.]+) ", line):
            sums[what, where] = sums.get((what, where), 0) + float(mib)
        found.append(sums)
    return found


def estimated(berth, path, setting, gpu):
    ctx, ubatch, slots, unified, flash, full, outputs = setting
    options = ["--ctx", ctx, "--ubatch", ubatch, "--slots", slots, "--outputs", outputs, "--offload", "all" if gpu else "none"]
    options += ["--kv-unified"] * unified + ["--no-flash-attn"] * (1 - flash) + ["--swa-full"] * full
    out = subprocess.run([berth, "fit", path, "--engine", "llama.cpp", "--json", *map(str, options)], capture_output=True,
                         text=True)
    if not out.stdout:
        sys.exit(out.stderr)
    return json.loads(out.stdout)["plan"]


def split(printed):
    """(device, host) compute buffers of what was printed; a host buffer of a device bears the device's name."""
    host = sum(mib for (what, where), mib in printed.items() if what == "compute" and (where == "CPU" or where.endswith("_Host")))
    return sum(mib for (what, _), mib in printed.items() if what == "compute") - host, host


def main():
    arguments = sys.argv[1:]
    gpu, write = "--gpu" in arguments, "--write" in arguments
    keep = arguments.pop(arguments.index("--keep") + 1) if "--keep" in arguments else None
    names = [one for one in arguments if not one.startswith("--")]
    if not names:
        sys.exit(__doc__)
    berth = names.pop(0)
    with open(GOLDEN) as file:
        golden = json.load(file)
    ratios, wrong = [], 0
    with tempfile.TemporaryDirectory() as scratch:
        folder = keep or scratch
        peer = build(scratch)
        for name, pairs in golden["models"].items():
            if names and name not in names:
                continue
            path = os.path.join(folder, name + ".gguf")
            if not os.path.exists(path):
                write_meta(path + ".meta", pairs)
                subprocess.run(peer + ["make", path + ".meta", path, *golden["tensors"].get(name, [])], check=True)
            found = measured(peer, path, golden["settings"], gpu)
            rows = []
            for setting, printed in zip(golden["settings"], found):
                plan = estimated(berth, path, setting, gpu)
                device, host = split(printed)
                real = device if gpu else host
                own = plan["device_compute_bytes" if gpu else "host_compute_bytes"] / 1048576
                rows.append([round(device, 2), round(host, 2)] if gpu else round(host, 2))
                ratio = own / real if real > 0 else float("nan")
                note = ""
                for what, key in (("cache", "kv_bytes"), ("state", "state_bytes"), ("output", "output_bytes")):
                    mib = sum(value for (kind, where), value in printed.items() if kind == what and (what == "output" or where == "all"))
                    if abs(plan[key] / 1048576 - mib) > 0.0151:
                        note += "  %s %.2f, printed %.2f" % (what, plan[key] / 1048576, mib)
                        wrong += 1
                if gpu:
                    note += "  host %.2f, printed %.2f" % (plan["host_compute_bytes"] / 1048576, host)
                print("%-20s %-34s %9.2f %9.2f  %.4f%s" % (name, setting, own, real, ratio, note))
                if real > SMALL_MIB:
                    ratios.append((ratio, name, setting))
            if write:
                golden.setdefault("gpu" if gpu else "cpu", {})[name] = rows
    values = sorted(ratio for ratio, _, _ in ratios)
    print("%d runs with a buffer above %d MiB: %.4f to %.4f, median %.4f; within 0.5 %%: %d, 2 %%: %d, 5 %%: %d; more than 2 %% under: %d; "
          "caches, states, outputs that differ: %d"
          % (len(values), SMALL_MIB, values[0], values[-1], statistics.median(values), sum(abs(v - 1) <= 0.005 for v in values),
             sum(abs(v - 1) <= 0.02 for v in values), sum(abs(v - 1) <= 0.05 for v in values), sum(v < 0.98 for v in values), wrong))
    if write:
        with open(GOLDEN, "w") as file:
            file.write("{" + ",\n".join('"%s":%s' % (key, json.dumps(value) if not isinstance(value, dict) else
                       "{\n" + ",\n".join('"%s":%s' % (one, json.dumps(what, separators=(",", ":"))) for one, what in value.items()) + "}")
                       for key, value in golden.items()) + "}\n")


if __name__ == "__main__":
    main()
