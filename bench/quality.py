#!/usr/bin/env python3
"""Quality against PyTorch: AUC and log loss on the test part of a real sample, over several seeds.

Both sides train on the first 80 % of `criteo_tb_80k` in file order and are tested on the rest; or, with
`--attribution`, on the training file of `criteo-attribution`, written in Criteo's layout with empty
fields for the columns that it lacks, and are tested on its validation file. Mini-batches are of 256, embeddings of 16, row Adagrad 0.02 from rows uniform in +-0.01 and wide weights
of zero, dense Adam 0.001. Logistic regression uses dense Adam 0.01 and two epochs. A seed changes
only initial values; the two sides draw them differently, so compare the means.

A difference is shown with its standard error over the seeds of both sides.
"""

import argparse
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

from sides import Sides, add_options, machine, mean_and_deviation, say, table, versions

SAMPLE = "criteo_tb_80k.tsv.zst"


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "target/bench/quality")
    add = parser.add_argument
    add("--data", type=Path, help=f"{SAMPLE}, compressed or not (default: the one in STEPWELL_DATA)")
    add("--attribution", action="store_true", help="criteo-attribution, from STEPWELL_DATA")
    add("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5], metavar="SEED")
    add("--threads", type=int, default=2)
    add("--rows-per-slot", type=int, default=1 << 17, help="rows per slot in the peer's tables")
    options = parser.parse_args()
    sides = Sides(options)
    if options.attribution:
        data, options.test = attribution(sides.folder)
    else:
        data, options.test = unpacked(options.data or sample(), sides.folder), 0.2
    results, last = {}, None
    for model in options.models:
        for seed in options.seeds:
            if options.only != "peer":
                report = ours(sides, model, data, seed)
                results.setdefault((model, "ours"), []).append(report["eval"])
            if options.only != "ours":
                last = peer(sides, model, data, seed)
                results.setdefault((model, "peer"), []).append(last["eval"])
    show(options, results, last)


def sample():
    folder = os.environ.get("STEPWELL_DATA")
    if not folder:
        raise SystemExit(f"give --data FILE, or set STEPWELL_DATA to the folder of {SAMPLE}")
    return Path(folder) / SAMPLE


def attribution(folder):
    """Both files as one in Criteo's layout, and the share of the second."""
    source = Path(os.environ.get("STEPWELL_DATA") or sys.exit("set STEPWELL_DATA for --attribution"))
    target, counts = folder / "attribution.tsv", []
    with target.open("w") as out:
        for part in ("train", "valid"):
            path = source / f"criteo-attribution/{part}.csv.zst"
            text = subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout
            lines = [line.split(",") for line in text.decode().splitlines()[1:]]
            out.writelines("\t".join([click, *[""] * 13, *ids, *[""] * (26 - len(ids))]) + "\n"
                           for click, *ids in lines)
            counts.append(len(lines))
    return target, counts[1] / sum(counts)


def unpacked(path, folder):
    """The sample as plain text, which both sides read."""
    if path.suffix != ".zst":
        return path
    if not shutil.which("zstd"):
        raise SystemExit(f"cannot unpack {path}: install the zstd command, or give --data FILE.tsv")
    target = folder / path.stem
    subprocess.run(["zstd", "-dqf", path, "-o", target], check=True)
    return target


def epochs_and_rate(model):
    """Epochs and the dense learning rate that suit the model on this sample."""
    return (2, 0.01) if model == "lr" else (1, 0.001)


def ours(sides, model, data, seed):
    """The report of one run of ours."""
    epochs, rate = epochs_and_rate(model)
    settings = {
        "seed": seed, "threads": sides.options.threads, "data.epochs": epochs,
        "data.mini_batch": 256, "data.eval_fraction": sides.options.test, "model.dim": 16,
        "optim.rows.kind": "adagrad", "optim.rows.lr": 0.02,
        "optim.dense.kind": "adam", "optim.dense.lr": rate,
    }
    return said(f"ours {model} seed {seed}",
                sides.ours(f"ours-{model}-{seed}", model, data, settings))


def peer(sides, model, data, seed):
    """The report of one run of the peer."""
    epochs, rate = epochs_and_rate(model)
    flags = {
        "--seed": seed, "--threads": sides.options.threads, "--epochs": epochs,
        "--mini-batch": 256, "--test-fraction": sides.options.test, "--dim": 16, "--dense-lr": rate,
        "--row-optimizer": "adagrad", "--row-lr": 0.02,
        "--rows-per-slot": sides.options.rows_per_slot,
    }
    words = [word for pair in flags.items() for word in pair]
    return said(f"peer {model} seed {seed}",
                sides.peer(f"peer-{model}-{seed}", model, data, *words))


def said(name, report):
    result = report["eval"]
    say(f"{name}: AUC {result['auc']:.5f}, log loss {result['logloss']:.5f}")
    return report


def show(options, results, peer_report):
    print(f"seeds {options.seeds}\n{versions(options, peer_report)}\n{machine()}\n")
    head = ["model", "ours, AUC", "PyTorch, AUC", "difference",
            "ours, log loss", "PyTorch, log loss", "difference"]
    print(table(head, [[model, *cells(results, model, "auc"), *cells(results, model, "logloss")]
                       for model in options.models]))


def cells(results, model, field):
    """Mean (standard deviation) of both sides, and ours minus the peer's with its standard error."""
    both = [results.get((model, side), []) for side in ("ours", "peer")]
    values = [[run[field] for run in runs] for runs in both]
    pairs = [mean_and_deviation(v) if v else None for v in values]
    shown = [f"{p[0]:.5f} ({p[1]:.5f})" if p else "" for p in pairs]
    if None in pairs:
        return [*shown, ""]
    (a, a_sd), (b, b_sd) = pairs
    error = math.sqrt(a_sd**2 / len(values[0]) + b_sd**2 / len(values[1]))
    return [*shown, f"{a - b:+.5f} ± {error:.5f}"]


if __name__ == "__main__":
    main()
