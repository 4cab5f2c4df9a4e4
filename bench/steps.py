#!/usr/bin/env python3
"""Only training steps, against PyTorch: forward, backward and optimizers, every row in memory.

Both sides draw their mini-batches before the clock starts, from the same distribution: 26 slots
with vocabularies in the proportions of a real sample, Zipf 1.05, row Adagrad 0.02, dense Adam 0.001,
dim 16, hidden 512-256-128, mini-batches of 4096. They alternate for each model and number of
threads; the peer runs with sparse tensors, with rows by sort and scatter, and with torch.compile,
and the fastest counts. Ours is shown twice: the step alone, and the step followed by grouping of
ids and finding of rows, which a real run does concurrently. The fastest single steps of both sides
are compared too: on a shared machine, they say more than whole runs.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from sides import MODELS, ROOT, machine, run, say, table

WAYS = [["--rows-by", "torch"], ["--rows-by", "manual"],
        ["--rows-by", "manual", "--compile"], ["--rows-by", "manual", "--huge-pages"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--lab", type=Path, default=ROOT / "target/release/stepwell-lab", help="our binary")
    add("--python", default=sys.executable, help="a Python with PyTorch (default: this one)")
    add("--models", nargs="+", default=MODELS, choices=MODELS, metavar="MODEL")
    add("--threads", nargs="+", type=int, default=[1, 2])
    add("--steps", type=int, default=30)
    add("--rows", type=int, default=2_000_000)
    add("--ids-per-slot", type=int, default=1)
    add("--rounds", type=int, default=2, help="runs of each side; the fastest counts")
    add("--bf16", action="store_true", help="both sides multiply in bfloat16")
    add("--ways", nargs="+", type=int, default=range(len(WAYS)), help="ways of the peer, by number")
    options = parser.parse_args()
    rows, versions = [], {}
    for model in options.models:
        for threads in options.threads:
            best, whole, peer, way, fastest = 0.0, 0.0, 0.0, "", [0.0, 0.0]
            for _ in range(options.rounds):
                mine = ours(options, model, threads)
                best = max(best, mine["step_examples_per_second"])
                whole = max(whole, mine["examples_per_second"])
                fastest[0] = max(fastest[0], mine["fastest_step_examples_per_second"])
                for flags in [WAYS[number] for number in options.ways]:
                    theirs = peers(options, model, threads, flags)
                    versions |= theirs.get("versions", {})
                    fastest[1] = max(fastest[1], theirs["fastest_step_examples_per_second"])
                    if theirs["step_examples_per_second"] > peer:
                        peer, way = theirs["step_examples_per_second"], " ".join(flags)
            say(f"{model}, {threads} threads: ours {best:,.0f} ({whole:,.0f}), peer {peer:,.0f}; "
                f"fastest steps {fastest[0]:,.0f}, {fastest[1]:,.0f}")
            rows.append([f"{model}, {threads}", f"{best:,.0f}", f"{whole:,.0f}", f"{peer:,.0f}",
                         ratio(best, peer), ratio(whole, peer), f"{fastest[0]:,.0f}",
                         f"{fastest[1]:,.0f}", ratio(*fastest), way])
    print(f"{options.steps} steps, {options.rows:,} rows, {options.ids_per_slot} ids per slot, "
          f"{'bf16' if options.bf16 else 'f32'}")
    print(f"{', '.join(f'{k} {v}' for k, v in versions.items())}\n{machine()}\n")
    print(table(["model, threads", "our step", "with grouping", "PyTorch's step", "ratio",
                 "with grouping", "our fastest step", "PyTorch's", "ratio", "PyTorch's best way"],
                rows))


def ratio(above, below):
    return f"{above / below:.2f}" if below else "-"


def ours(options, model, threads):
    out = ROOT / "target/bench/steps.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    sets = ["optim.rows.kind=adagrad", "optim.rows.lr=0.02", "optim.dense.kind=adam",
            "optim.dense.lr=0.001", "data.mini_batch=4096", "model.dim=16",
            "model.hidden=512,256,128", f"model.precision={'bf16' if options.bf16 else 'f32'}"]
    run([options.lab, "bench", "cpu", "--json", out, "--models", model, "--threads", threads,
         "--steps", options.steps, "--rows", options.rows, "--ids-per-slot", options.ids_per_slot,
         "--no-limits", *(word for pair in sets for word in ("--set", pair))])
    return json.loads(out.read_text())["runs"][0]


def peers(options, model, threads, flags):
    command = [options.python, ROOT / "bench/torch_ctr.py", "--draw", options.steps,
               "--draw-rows", options.rows, "--ids-per-slot", options.ids_per_slot,
               "--model", model, "--threads", threads, *flags]
    command += ["--bf16"] if options.bf16 else []
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True,
                          env=os.environ, check=False)
    if done.returncode:
        say(f"peer {model} {' '.join(flags)}: {done.stderr.strip().splitlines()[-1:]}")
        return {"step_examples_per_second": 0.0, "fastest_step_examples_per_second": 0.0}
    return json.loads(done.stdout)


if __name__ == "__main__":
    main()
