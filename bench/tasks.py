#!/usr/bin/env python3
"""Several labels: quality of `mmoe` and `ple` against `deepfm`, and MMoE and PLE in PyTorch.

The data is drawn: an example has a segment and twelve numbers x. A label's chance is the logistic
function of 3 sin(4 u·x), where u is one of two orthogonal unit vectors: in half of the segments the
first label has the first vector and the second label the second, in the others it is the other way
round. So the labels need the same features, but never the same one at a time. `best` has the true
chances.

Both sides train four epochs on the first 90 % in order, with mini-batches of 256, embeddings of 8,
hidden layers (and those of each expert) 64-32, towers of 64, row Adagrad 0.02, dense Adam 0.001.
`mmoe` has four experts, `ple` four shared ones and two of each label, in one level (`--levels`).
`deepfm` is also trained with hidden layers of 256 and 128, more parameters than `mmoe` has.
"""

import argparse
import json
import statistics
from pathlib import Path

import numpy as np
from sides import ROOT, run, table

DENSE, SEGMENTS, EPOCHS, MINI_BATCH, DIM, HIDDEN, TOWER = 12, 200, 4, 256, 8, [64, 32], 64
SHARED, OWN = {"mmoe": 4, "ple": 4}, {"mmoe": 0, "ple": 2}
SIDES = [("deepfm", "ours"), ("deepfm, 256-128", "ours"), ("mmoe", "ours"), ("mmoe", "PyTorch"),
         ("ple", "ours"), ("ple", "PyTorch")]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--stepwell", type=Path, default=ROOT / "target/release/stepwell", help="our binary")
    add("--examples", type=int, default=300_000)
    add("--levels", type=int, default=1, help="levels of experts of ple")
    add("--seeds", nargs="+", type=int, default=[1])
    add("--threads", type=int, default=1)
    add("--out", type=Path, default=ROOT / "target/bench/tasks")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    drawn = draw(options.examples)
    data = options.out / f"drawn-{options.examples}.csv"
    if not data.exists():
        write(data, drawn)
    held = options.examples - round(options.examples * 0.1)
    rows = [["best", "", *cells([[auc(drawn["chances"][held:, label], drawn["labels"][held:, label])
                                  for label in range(2)]])]]
    for model, side in SIDES:
        found = []
        for seed in options.seeds:
            found.append(ours(options, model, data, seed) if side == "ours"
                         else peer(options, model, drawn, held, seed))
            print(f"{model}, {side}, seed {seed}: AUC {found[-1][0]:.4f}, {found[-1][1]:.4f}", flush=True)
        rows.append([model, side, *cells(found)])
    print(table(["model", "side", "AUC of the first label", "of the second"], rows))


def cells(found):
    """Mean, least and greatest AUC of each label."""
    of = [[seed[label] for seed in found] for label in range(2)]
    return [f"{statistics.fmean(aucs):.4f} ({min(aucs):.4f} to {max(aucs):.4f})" for aucs in of]


def draw(count):
    dice = np.random.default_rng(1)
    x = dice.normal(size=(count, DENSE)).round(3)
    segment = dice.integers(SEGMENTS, size=count)
    u, v = np.linalg.qr(dice.normal(size=(DENSE, 2)))[0].T
    first, second = x @ u, x @ v
    swapped = segment % 2 == 1
    chances = np.stack([1 / (1 + np.exp(-3 * np.sin(4 * np.where(swapped, *pair))))
                        for pair in ((second, first), (first, second))], 1)
    return {"x": x, "segment": segment, "chances": chances,
            "labels": (dice.random((count, 2)) < chances).astype(np.int8)}


def write(path, drawn):
    with path.open("w") as file:
        file.write("buy,like,segment," + ",".join(f"x{at + 1}" for at in range(DENSE)) + "\n")
        for (buy, like), segment, x in zip(drawn["labels"], drawn["segment"], drawn["x"]):
            file.write(f"{buy},{like},s{segment}," + ",".join(map(str, x)) + "\n")


def auc(scores, labels):
    _, at, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[at]
    positives = labels.sum()
    above = ranks[labels == 1].sum() - positives * (positives + 1) / 2
    return above / (positives * (len(labels) - positives))


def ours(options, model, data, seed):
    report = options.out / f"{model}-{seed}.json"
    kind, _, hidden = model.partition(", ")
    settings = {
        "seed": seed, "threads": options.threads, "model.kind": kind, "model.dim": DIM,
        "model.hidden": hidden.replace("-", ",") or ",".join(map(str, HIDDEN)),
        "model.tower": TOWER, "model.experts": SHARED.get(kind, 1),
        "model.label_experts": OWN.get(kind) or 1, "model.levels": options.levels,
        "data.mini_batch": MINI_BATCH, "data.epochs": EPOCHS, "data.eval_fraction": 0.1,
        "columns.1.names": "buy,like", "columns.1.type": "label", "columns.2.names": "segment",
        "columns.3.names": f"x1-x{DENSE}", "columns.3.type": "dense",
    }
    pairs = [word for key, value in settings.items() for word in ("--set", f"{key}={value}")]
    run([options.stepwell, "train", "--data", data, "-q", "--report", report, *pairs])
    return [label["auc"] for label in json.loads(report.read_text())["eval"]["labels"]]


def peer(options, model, drawn, held, seed):
    import torch
    from torch import nn

    torch.manual_seed(seed)
    torch.set_num_threads(options.threads)

    def mlp(*widths):
        pairs = zip(widths, widths[1:])
        return nn.Sequential(*[layer for pair in pairs for layer in (nn.Linear(*pair), nn.ReLU())])

    class Level(nn.Module):
        """Shared experts and those of both labels, and a gate for each label; in PLE's lower levels
        also a gate over all experts."""

        def __init__(self, width, is_last):
            super().__init__()
            shared, own = SHARED[model], OWN[model]
            experts = lambda count: nn.ModuleList(mlp(width, *HIDDEN) for _ in range(count))
            self.shared, self.own = experts(shared), nn.ModuleList(experts(own) for _ in range(2))
            self.gates = nn.ModuleList(nn.Linear(width, shared + own) for _ in range(2))
            self.all = None if is_last else nn.Linear(width, shared + 2 * own)

        def forward(self, shared, labels):
            mix = lambda gate, at, experts: (gate(at).softmax(1).unsqueeze(2)
                                             * torch.stack(experts, 1)).sum(1)
            of_shared = [expert(shared) for expert in self.shared]
            of_labels = [[expert(at) for expert in own] for own, at in zip(self.own, labels)]
            mixed = [mix(gate, at, of_shared + own)
                     for gate, at, own in zip(self.gates, labels, of_labels)]
            every = of_shared + of_labels[0] + of_labels[1]
            return (None if self.all is None else mix(self.all, shared, every)), mixed

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            self.segment = nn.Embedding(SEGMENTS, DIM)
            nn.init.uniform_(self.segment.weight, -0.01, 0.01)
            levels = options.levels if model == "ple" else 1
            widths = [DIM + DENSE] + [HIDDEN[-1]] * (levels - 1)
            self.levels = nn.ModuleList(Level(width, at + 1 == levels)
                                        for at, width in enumerate(widths))
            self.towers = nn.ModuleList(nn.Sequential(mlp(HIDDEN[-1], TOWER), nn.Linear(TOWER, 1))
                                        for _ in range(2))

        def forward(self, segment, x):
            shared = torch.cat([self.segment(segment), x], 1)
            labels = [shared, shared]
            for level in self.levels:
                shared, labels = level(shared, labels)
            return torch.cat([tower(at) for tower, at in zip(self.towers, labels)], 1)

    net = Experts()
    x, segment = torch.tensor(drawn["x"], dtype=torch.float32), torch.tensor(drawn["segment"])
    labels = torch.tensor(drawn["labels"], dtype=torch.float32)
    rows = torch.optim.Adagrad(net.segment.parameters(), lr=0.02)
    rest = torch.optim.Adam([weight for name, weight in net.named_parameters()
                             if not name.startswith("segment.")], lr=0.001)
    for _ in range(EPOCHS):
        for start in range(0, held, MINI_BATCH):
            at = slice(start, min(start + MINI_BATCH, held))
            rows.zero_grad(), rest.zero_grad()
            loss = nn.functional.binary_cross_entropy_with_logits(net(segment[at], x[at]), labels[at],
                                                                  reduction="none")
            loss.sum(1).mean().backward()
            rows.step(), rest.step()
    with torch.no_grad():
        scores = net(segment[held:], x[held:]).numpy()
    return [auc(scores[:, label], drawn["labels"][held:, label]) for label in range(2)]


if __name__ == "__main__":
    main()
