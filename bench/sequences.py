#!/usr/bin/env python3
"""Attention to sequences: quality and speed of `din` against `deepfm` and DIN in PyTorch.

The data is drawn: an example has an item and the items before it. An item has a category and a sign,
which are not in the data. The chance of a click is the logistic function of three times the sum of
the signs of the items before it that have its category, so it depends on pairs of a kind and on a
third value, which products of two embeddings cannot express. `best` has the true chances.

Both sides train one epoch on the first 90 % in order, with mini-batches of 256, embeddings of 16,
attention 64, hidden layers 128-64, row Adagrad 0.2 and dense Adam 0.003.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
IDS, DIM, ATTENTION, HIDDEN, MINI_BATCH = 50, 16, 64, [128, 64], 256
ITEMS, CATEGORIES = 100, 10
FEATURES = {
    "din": 'columns = ["before"]\ntable = "embedding"\npooling = "none"\nids = 50\n',
    "deepfm": 'columns = ["before"]\ntable = "embedding"\npooling = "mean"\nids = 50\n',
}
SETTINGS = """
threads = {threads}
[model]
kind = "{kind}"
dim = 16
hidden = [128, 64]
attention = 64
{names}
[data]
mini_batch = 256
eval_fraction = 0.1
header = true
separator = ","
[optim.rows]
kind = "adagrad"
lr = 0.2
[optim.dense]
kind = "adam"
lr = 0.003
[[columns]]
names = ["click"]
type = "label"
[[columns]]
names = ["item"]
[[columns]]
names = ["before"]
type = "ids"
separator = " "
ids = 50
missing = "none"
namespace = "item"
[[features]]
columns = ["item"]
table = "embedding"
[[features]]
{features}
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--stepwell", type=Path, default=ROOT / "target/release/stepwell", help="our binary")
    add("--examples", type=int, default=200_000)
    add("--full", action="store_true", help="all sequences have 50 items (default: 1 to 29)")
    add("--threads", type=int, default=2)
    add("--seeds", nargs="+", type=int, default=[1])
    add("--only", choices=["din", "deepfm", "peer"])
    add("--out", type=Path, default=ROOT / "target/bench/sequences")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    kind = f"{ITEMS}-{CATEGORIES}{'-full' if options.full else ''}"
    data = options.out / f"drawn-{options.examples}-{kind}.csv"
    drawn = draw(options)
    if not data.exists():
        write(data, drawn)
    held = len(drawn["click"]) - round(len(drawn["click"]) * 0.1)
    best = auc(drawn["chance"][held:], drawn["click"][held:])
    print(f"best: AUC {best:.4f}, {drawn['lengths'].mean():.1f} items before", flush=True)
    for seed in options.seeds:
        for side in ("din", "deepfm", "peer"):
            if options.only in (None, side):
                result = (peer(options, drawn, held, seed) if side == "peer"
                          else ours(options, side, data, seed))
                print(f"{side} seed {seed}: AUC {result[0]:.4f}, {result[1]:.0f} examples/s of training",
                      flush=True)


def draw(options):
    dice = np.random.default_rng(7)
    category, sign = dice.integers(CATEGORIES, size=ITEMS), dice.choice([-1, 1], size=ITEMS)
    count = options.examples
    lengths = np.full(count, IDS) if options.full else dice.integers(1, 30, size=count)
    item, before = dice.integers(ITEMS, size=count), dice.integers(ITEMS, size=(count, IDS))
    there = np.arange(IDS) < lengths[:, None]
    same = there & (category[before] == category[item][:, None])
    chance = 1 / (1 + np.exp(-3.0 * (sign[before] * same).sum(1)))
    return {"item": item, "before": before, "lengths": lengths, "chance": chance,
            "click": (dice.random(count) < chance).astype(np.int8)}


def write(path, drawn):
    with path.open("w") as file:
        file.write("click,item,before\n")
        for click, item, before, length in zip(drawn["click"], drawn["item"], drawn["before"],
                                               drawn["lengths"]):
            file.write(f"{click},{item},{' '.join(map(str, before[:length]))}\n")


def auc(scores, clicks):
    _, at, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[at]
    positives = clicks.sum()
    above = ranks[clicks == 1].sum() - positives * (positives + 1) / 2
    return above / (positives * (len(clicks) - positives))


def ours(options, kind, data, seed):
    names = 'target = ["item"]\nsequences = ["before"]\n' if kind == "din" else ""
    settings, report = options.out / f"{kind}.toml", options.out / f"{kind}-{seed}.json"
    settings.write_text(f"seed = {seed}\n"
                        + SETTINGS.format(kind=kind, names=names, threads=options.threads,
                                          features=FEATURES[kind]))
    subprocess.run([options.stepwell, "train", settings, "--data", data, "--report", report, "-q"],
                   check=True)
    report = json.loads(report.read_text())
    return report["eval"]["auc"], report["examples_per_second"]


def peer(options, drawn, held, seed):
    """DIN in PyTorch: padded sequences and a mask; data in memory, already parsed."""
    import torch
    from torch import nn
    from torch.nn import functional as F
    torch.set_num_threads(options.threads)
    torch.manual_seed(seed)
    rows = nn.Embedding(ITEMS + 1, DIM, sparse=True)
    nn.init.uniform_(rows.weight, -0.01, 0.01)
    hidden, top = nn.Linear(4 * DIM, ATTENTION), nn.Linear(ATTENTION, 1)
    layers, width = [], 2 * DIM
    for outputs in HIDDEN:
        layers += [nn.Linear(width, outputs), nn.ReLU()]
        width = outputs
    mlp = nn.Sequential(*layers, nn.Linear(width, 1))
    dense = [p for part in (hidden, top, mlp) for p in part.parameters()]
    of_rows, of_dense = torch.optim.Adagrad(rows.parameters(), lr=0.2), torch.optim.Adam(dense, lr=0.003)
    padded = np.where(np.arange(IDS) < drawn["lengths"][:, None], drawn["before"], ITEMS)
    item, before = torch.from_numpy(drawn["item"]), torch.from_numpy(padded)
    lengths, click = torch.from_numpy(drawn["lengths"]), torch.from_numpy(drawn["click"]).float()

    def logits(at):
        # As long as the longest of the mini-batch.
        longest = int(lengths[at].max())
        ids, mask = before[at, :longest], torch.arange(longest) < lengths[at, None]
        q, s = rows(item[at]), rows(ids)
        wide = q.unsqueeze(1).expand_as(s)
        part = top(torch.sigmoid(hidden(torch.cat([wide, s, wide - s, wide * s], 2))))
        attended = (part * mask.unsqueeze(2) * s).sum(1)
        return mlp(torch.cat([attended, q], 1)).squeeze(1)

    begin = time.perf_counter()
    for start in range(0, held, MINI_BATCH):
        at = slice(start, min(start + MINI_BATCH, held))
        loss = F.binary_cross_entropy_with_logits(logits(at), click[at])
        of_rows.zero_grad(set_to_none=True)
        of_dense.zero_grad(set_to_none=True)
        loss.backward()
        of_rows.step()
        of_dense.step()
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        parts = [logits(slice(start, start + 8192)) for start in range(held, len(click), 8192)]
    return auc(torch.cat(parts).numpy(), drawn["click"][held:]), held / seconds


if __name__ == "__main__":
    sys.exit(main())
