#!/usr/bin/env python3
"""Finding items: recall and speed of `two_tower` against two towers in PyTorch.

The data is drawn: users and items have tastes, which are not in the data. A user picks an item with
a chance proportional to exp(3 cos(tastes)) times how popular the item is (1 / rank^0.7). Every
example is such a pick. Recall counts the picks of the last 10 % whose item is among the ten best of
all items. `popular` ranks all items by their picks, `best` by the chances.

Both sides train one epoch on the first 90 % in order, with mini-batches of 512, each one block,
embeddings of 16, towers 64 - 16, a temperature of 0.2, row Adagrad 0.1 and dense Adam 0.003. Both
lower scores in training by ln (1 + n), where n counts an item's earlier examples, or with
`--uncorrected` neither does.
"""

import argparse
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
DIM, HIDDEN, VECTOR, MINI_BATCH, TEMPERATURE, K = 16, 64, 16, 512, 0.2, 10
USERS, ITEMS, TASTES = 2000, 1000, 6
SETTINGS = """
threads = {threads}
seed = {seed}
[model]
kind = "two_tower"
item = ["item"]
dim = 16
hidden = [64]
vector = 16
temperature = 0.2
log_q = {log_q}
[train]
blocks = 1
[data]
mini_batch = 512
eval_fraction = 0.0
header = true
separator = ","
[optim.rows]
kind = "adagrad"
lr = 0.1
[optim.dense]
kind = "adam"
lr = 0.003
[[columns]]
names = ["click"]
type = "label"
[[columns]]
names = ["user", "item"]
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--stepwell", type=Path, default=ROOT / "target/release/stepwell", help="our binary")
    add("--examples", type=int, default=400_000)
    add("--threads", type=int, default=2)
    add("--seeds", nargs="+", type=int, default=[1])
    add("--only", choices=["ours", "peer"])
    add("--uncorrected", action="store_true", help="no correction for frequent items")
    add("--out", type=Path, default=ROOT / "target/bench/towers")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    user, item, chances = draw(options.examples)
    held = len(user) - len(user) // 10
    for name, at in (("train", slice(0, held)), ("test", slice(held, None))):
        lines = [f"1,{u},{i}\n" for u, i in zip(user[at], item[at])]
        (options.out / f"{name}.csv").write_text("click,user,item\n" + "".join(lines))
    test = slice(held, None)
    counts = np.bincount(item[:held], minlength=ITEMS).astype(float)
    popular = recall(np.tile(counts, (USERS, 1)), user[test], item[test])
    best = recall(chances, user[test], item[test])
    print(f"{len(np.unique(item[test]))} items, popular {popular:.4f}, best {best:.4f}", flush=True)
    for seed in options.seeds:
        for side, run in (("ours", ours), ("peer", peer)):
            if options.only in (None, side):
                found, speed = run(options, user, item, held, seed)
                print(f"{side} seed {seed}: recall@{K} {found:.4f}, {speed:.0f} examples/s of training",
                      flush=True)


def draw(count):
    dice = np.random.default_rng(11)

    def tastes(count):
        drawn = dice.normal(size=(count, TASTES))
        return drawn / np.linalg.norm(drawn, axis=1, keepdims=True)

    popular = 1 / np.arange(1, ITEMS + 1) ** 0.7
    chances = np.exp(3 * tastes(USERS) @ tastes(ITEMS).T) * dice.permutation(popular)
    chances /= chances.sum(1, keepdims=True)
    user = dice.integers(USERS, size=count)
    sums = np.cumsum(chances, axis=1)
    item = np.array([np.searchsorted(sums[u], r) for u, r in zip(user, dice.random(count))])
    return user, np.minimum(item, ITEMS - 1), chances


def recall(scores, user, item):
    own = scores[user, item]
    above = np.array([(scores[u] > s).sum() for u, s in zip(user, own)])
    return float((above < K).mean())


def ours(options, user, item, held, seed):
    settings, report = options.out / "run.toml", options.out / "report.json"
    settings.write_text(SETTINGS.format(threads=options.threads, seed=seed,
                                        log_q="false" if options.uncorrected else "true"))
    saved = options.out / f"saved-{seed}"
    subprocess.run(["rm", "-rf", saved], check=True)
    subprocess.run([options.stepwell, "train", settings, "--data", options.out / "train.csv",
                    "--checkpoint", saved, "--report", report, "-q"], check=True, stdout=subprocess.DEVNULL)
    speed = json.loads(report.read_text())["examples_per_second"]
    subprocess.run([options.stepwell, "eval", saved, "--data", options.out / "test.csv", "--at", str(K),
                    "--report", report, "-q"], check=True, stdout=subprocess.DEVNULL)
    return json.loads(report.read_text())["recall"]["recall"], speed


def peer(options, user, item, held, seed):
    """Two towers in PyTorch: data in memory, already parsed."""
    import torch
    from torch import nn
    from torch.nn import functional as F
    torch.set_num_threads(options.threads)
    torch.manual_seed(seed)
    rows = [nn.Embedding(count, DIM, sparse=True) for count in (USERS, ITEMS)]
    for table in rows:
        nn.init.uniform_(table.weight, -0.01, 0.01)
    towers = [nn.Sequential(nn.Linear(DIM, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, VECTOR)) for _ in rows]
    of_rows = torch.optim.Adagrad([table.weight for table in rows], lr=0.1)
    of_dense = torch.optim.Adam([p for tower in towers for p in tower.parameters()], lr=0.003)
    ids = [torch.from_numpy(user), torch.from_numpy(item)]
    counts = torch.zeros(ITEMS)

    def vectors(side, of):
        return F.normalize(towers[side](rows[side](of)), dim=1)

    begin = time.perf_counter()
    for start in range(0, held, MINI_BATCH):
        at = slice(start, min(start + MINI_BATCH, held))
        u, v = vectors(0, ids[0][at]), vectors(1, ids[1][at])
        scores = u @ v.T / TEMPERATURE
        if not options.uncorrected:
            scores = scores - torch.log1p(counts[ids[1][at]])
            counts += torch.bincount(ids[1][at], minlength=ITEMS)
        same = ids[1][at].unsqueeze(0) == ids[1][at].unsqueeze(1)
        same.fill_diagonal_(False)
        loss = F.cross_entropy(scores.masked_fill(same, float("-inf")), torch.arange(len(u)))
        of_rows.zero_grad(set_to_none=True)
        of_dense.zero_grad(set_to_none=True)
        loss.backward()
        of_rows.step()
        of_dense.step()
    seconds = time.perf_counter() - begin
    with torch.no_grad():
        scores = vectors(0, torch.arange(USERS)) @ vectors(1, torch.arange(ITEMS)).T
    return recall(scores.numpy(), user[held:], item[held:]), held / seconds


if __name__ == "__main__":
    sys.exit(main())
