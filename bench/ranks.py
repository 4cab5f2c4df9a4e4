#!/usr/bin/env python3
"""Several ranks of one thread against as many PyTorch processes, alternately, on the same examples.

Ours is a whole run of `stepwell train` from a packed file: reading, planning and training, f32, all
rows in memory. The peers (`torch_ranks.py`) train from examples in memory, and only their steps are
timed. Mini-batches of 4096 over all ranks, 26 slots with `--rows` rows together, embeddings of 16,
row Adagrad 0.02 (row-wise in TorchRec), dense Adam 0.001.

With `--mpirun`, our ranks are processes too; the binary needs the feature `mpi`.
"""

import argparse
import json
import statistics
import sys
from pathlib import Path

import numpy as np

from sides import ROOT, machine, run, say, table

# Distinct ids by slot in a sample of Criteo.
VOCABULARY = [24777, 6440, 8356, 2567, 6273, 3, 4789, 922, 23, 21397, 9325, 13755, 9, 1084, 3270,
              48, 3, 424, 14, 26716, 16156, 23486, 7889, 5773, 38, 32]
ZIPF = 1.05


def draw(folder, examples, rows):
    """Draws examples; returns the paths of arrays for the peer and of text for our side."""
    arrays, text = folder / f"{examples}-{rows}.npz", folder / f"{examples}-{rows}.tsv"
    if text.exists():
        return arrays, text
    generator = np.random.default_rng(1)
    scale = rows / sum(VOCABULARY)
    sizes = [size if size <= 100 else round(size * scale) for size in VOCABULARY]
    numbers = generator.lognormal(1.5, 1.2, (examples, 13)).astype(np.int64)
    logit = np.full(examples, -1.5)
    ids = np.empty((examples, len(sizes)), np.int32)
    exponent = 1 - ZIPF
    for slot, size in enumerate(sizes):
        drawn = (1 + generator.random(examples) * ((size + 1) ** exponent - 1)) ** (1 / exponent)
        # Frequent ids are anywhere in the table.
        ids[:, slot] = generator.permutation(size)[np.clip(drawn, 1, size).astype(np.int64) - 1]
        logit += generator.uniform(-0.5, 0.5, size)[ids[:, slot]]
    labels = (generator.random(examples) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    dense = np.log1p(numbers).astype(np.float32)
    np.savez(arrays, ids=ids, dense=dense, labels=labels, sizes=np.array(sizes))
    part = text.with_suffix(".part")
    with open(part, "w") as out:
        for label, x, row in zip(labels.astype(np.int64).tolist(), numbers.tolist(), ids.tolist()):
            out.write("\t".join(map(str, [label, *x, *row])) + "\n")
    part.rename(text)
    return arrays, text


def ours(options, model, packed, report):
    """Examples per second of a run."""
    train = [options.stepwell, "train", ROOT / f"examples/{model}.toml", "--data", packed,
             "--data.mini_batch", options.batch, "--data.epochs", options.epochs,
             "--data.eval_fraction", 0, "--threads", 1, "--tiers.dram", "4GiB", "--report", report]
    if options.mpirun:
        launch = ["mpirun", "--oversubscribe", "--bind-to", "none", "-n", options.ranks]
        run([*launch, *train])
    else:
        run([*train, "--ranks", options.ranks])
    return json.loads(report.read_text())["examples_per_second"]


def peer(options, model, way, arrays):
    """Examples per second of the best repeat."""
    command = [options.python, ROOT / "bench/torch_ranks.py", arrays, "--model", model]
    sizes = ["--processes", options.ranks, "--batch", options.batch, "--way", way]
    return max(json.loads(run([*command, *sizes]).splitlines()[-1])["rates"])


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--stepwell", type=Path, default=ROOT / "target/release/stepwell", help="our binary")
    add("--python", default=sys.executable, help="a Python with PyTorch and TorchRec")
    add("--models", nargs="+", default=["deepfm", "dlrm"])
    add("--ways", nargs="*", default=["torchrec", "pipeline", "ddp"])
    add("--ranks", type=int, default=2)
    add("--rounds", type=int, default=3)
    add("--examples", type=int, default=300_000)
    add("--epochs", type=int, default=2, help="epochs on our side")
    add("--rows", type=int, default=2_000_000, help="rows of all slots together")
    add("--batch", type=int, default=4096)
    add("--mpirun", action="store_true", help="ranks as processes")
    add("--out", type=Path, default=ROOT / "target/bench/ranks", help="folder for data and reports")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    arrays, text = draw(options.out, options.examples, options.rows)
    packed = text.with_suffix(".packed")
    if not packed.exists():
        run([options.stepwell, "convert", text, "--out", packed])
    rows = []
    for model in options.models:
        rates = {way: [] for way in ["ours", *options.ways]}
        for number in range(options.rounds):
            report = options.out / f"{model}-{number}.json"
            rates["ours"].append(ours(options, model, packed, report))
            for way in options.ways:
                rates[way].append(peer(options, model, way, arrays))
            say(f"{model}: " + ", ".join(f"{way} {of[-1]:.0f}" for way, of in rates.items()))
        medians = {way: statistics.median(of) for way, of in rates.items()}
        (options.out / f"{model}.json").write_text(json.dumps(rates))
        peers = [f"{medians[way] / 1000:.1f} K ({medians['ours'] / medians[way]:.2f})"
                 for way in options.ways]
        rows.append([model, f"{medians['ours'] / 1000:.1f} K", *peers])
    print(f"{options.ranks} ranks of one thread, medians of {options.rounds}; {machine()}\n")
    print(table(["model", "ours", *(f"{way} (ours over it)" for way in options.ways)], rows))


if __name__ == "__main__":
    main()
