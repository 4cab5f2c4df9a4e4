#!/usr/bin/env python3
"""Speed against PyTorch: both sides train on one file, alternately, from the TSV to the last step.

Both use mini-batches of 4096, embeddings of 16, row Adagrad 0.02, dense Adam 0.001, 2 threads, no
evaluation, and f32. For each model, the peer's ways to read and to train rows are tried on the head
of the file, one choice after another, and the best are kept. Then both sides train on the whole
file (ours, theirs, ours, theirs), and medians are compared.

Examples per second exclude start-up: they count from opening the file to the end of the last step.
A shared machine is noisy; differences below about 10 % mean nothing.
"""

import argparse
import statistics
from pathlib import Path

from sides import Sides, add_options, machine, say, table, versions

# Choices of the peer, tried in this order; the search starts with the first of each.
CHOICES = [
    [["--rows-by", "manual"], ["--rows-by", "torch"]],
    [["--reader", "pyarrow"], ["--reader", "polars"]],
    [[], ["--parse-ahead"], ["--parse-ahead", "--train-threads", "1"]],
    [[], ["--huge-pages"]],
    [[], ["--compile", "--warm", "5"]],
]
BF16 = [[], ["--bf16"]]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "target/bench/compare")
    add = parser.add_argument
    add("--data", type=Path, help="a TSV file (default: a synthetic one)")
    add("--examples", type=int, default=2_000_000, help="examples of the synthetic file")
    add("--probe", type=int, default=400_000, help="examples per try of the peer's choices")
    add("--tries", type=int, default=2, help="runs per try; the fastest counts")
    add("--rounds", type=int, default=3, help="runs of each side on the whole file")
    add("--threads", type=int, default=2)
    add("--rows-per-slot", type=int, default=1 << 17, help="rows per slot in the peer's tables")
    add("--bf16", action="store_true", help="let the peer's dense part use bfloat16 if faster")
    options = parser.parse_args()
    sides = Sides(options)
    data = options.data or synthetic(sides.folder, options.examples)
    rows, last = [], None
    for model in options.models:
        best = search(sides, model, data) if options.only != "ours" else []
        ours, peers = turns(sides, model, data, best)
        rows.append(row(model, ours, peers, best))
        last = peers[-1] if peers else None
    print(f"{data.name}, {options.threads} threads, medians of {options.rounds} rounds")
    print(f"{versions(options, last)}\n{machine()}\n")
    print(table(["model", "ours, examples/s", "PyTorch, examples/s", "ratio",
                 "PyTorch, steps alone", "PyTorch's best options"], rows))


def synthetic(folder, examples):
    path = folder / f"clicks-{examples}.tsv"
    if not path.exists():
        import clicks
        say(f"drawing {path}")
        clicks.write(path, examples)
    return path


def search(sides, model, data):
    """Finds the peer's fastest flags for this model, one choice at a time."""
    choices = CHOICES + ([BF16] if sides.options.bf16 else [])
    best, fastest = [choice[0] for choice in choices], 0.0
    for index, choice in enumerate(choices):
        for flags in choice if index == 0 else choice[1:]:
            tried = best[:index] + [flags] + best[index + 1:]
            speed = probe(sides, model, data, sum(tried, []))
            if speed > fastest:
                best, fastest = tried, speed
    if not fastest:
        raise SystemExit(f"the peer failed on {model} with all flags")
    return sum(best, [])


def probe(sides, model, data, flags):
    """Speed of the fastest of several short runs; 0 if the flags do not work on this machine."""
    fastest, head = 0.0, ["--examples-max", sides.options.probe]
    try:
        for _ in range(sides.options.tries):
            report = peer(sides, f"probe-{model}", model, data, [*flags, *head])
            fastest = max(fastest, report["examples_per_second"])
    except SystemExit as failure:
        say(f"peer {model} {' '.join(flags)}: {failure}")
        return 0.0
    say(f"peer {model} {' '.join(flags)}: {fastest:,.0f} examples/s")
    return fastest


def turns(sides, model, data, best):
    """Reports of both sides, which run alternately."""
    ours_reports, peer_reports = [], []
    for turn in range(sides.options.rounds):
        if sides.options.only != "peer":
            ours_reports.append(ours(sides, f"ours-{model}-{turn}", model, data))
            say(f"ours {model}: {ours_reports[-1]['examples_per_second']:,.0f} examples/s")
        if sides.options.only != "ours":
            peer_reports.append(peer(sides, f"peer-{model}-{turn}", model, data, best))
            say(f"peer {model}: {peer_reports[-1]['examples_per_second']:,.0f} examples/s")
    return ours_reports, peer_reports


def ours(sides, name, model, data):
    settings = {
        "seed": 1, "threads": sides.options.threads, "data.epochs": 1,
        "data.mini_batch": 4096, "data.eval_fraction": 0.0, "model.dim": 16,
        "optim.rows.kind": "adagrad", "optim.rows.lr": 0.02,
        "optim.dense.kind": "adam", "optim.dense.lr": 0.001,
    }
    return sides.ours(name, model, data, settings)


def peer(sides, name, model, data, flags):
    same = ["--threads", sides.options.threads, "--mini-batch", 4096, "--dim", 16,
            "--rows-per-slot", sides.options.rows_per_slot, "--test-fraction", 0,
            "--row-optimizer", "adagrad", "--row-lr", 0.02, "--dense-lr", 0.001]
    return sides.peer(name, model, data, *same, *flags)


def row(model, ours_reports, peer_reports, best):
    median = lambda reports, field: statistics.median(r[field] for r in reports) if reports else 0
    mine = median(ours_reports, "examples_per_second")
    theirs = median(peer_reports, "examples_per_second")
    steps = median(peer_reports, "step_examples_per_second")
    ratio = f"{mine / theirs:.2f}" if mine and theirs else ""
    shown = [f"{speed:,.0f}" if speed else "" for speed in (mine, theirs)]
    flags = f"`{' '.join(best)}`" if best else ""
    return [model, *shown, ratio, f"{steps:,.0f}" if steps else "", flags]


if __name__ == "__main__":
    main()
