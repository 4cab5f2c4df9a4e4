#!/usr/bin/env python3
"""AUC on data with named columns: ours against the same model in PyTorch, over several seeds.

`adult` is evaluated on its last fifth, `criteo-attribution` on its validation file. Models, optimizers,
rates, mini-batches and epochs are those of `examples/adult.toml` and `examples/criteo-attribution.toml`;
initial values and the order of sums differ. Needs torch and numpy, and the `zstd` command.
"""

import argparse
import csv
import io
import json
import statistics
import subprocess
import tempfile
from pathlib import Path

import numpy as np
import torch
from sides import ROOT, run, table

ADULT = ["age", "workclass", "fnlwgt", "education", "education-num", "marital-status", "occupation",
         "relationship", "race", "sex", "capital-gain", "capital-loss", "hours-per-week",
         "native-country", "income"]
ADULT_IDS = ["workclass", "education", "marital-status", "occupation", "relationship", "race", "sex",
             "native-country"]


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("data", type=Path, help="the folder that contains adult/ and criteo-attribution/")
    add("--stepwell", type=Path, default=ROOT / "target/release/stepwell", help="our binary")
    add("--seeds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    adult = ["--data", options.data / "adult/adult.data.zst"]
    folder = options.data / "criteo-attribution"
    clicks = ["--data", folder / "train.csv.zst", "--data.eval_paths", folder / "valid.csv.zst"]
    rows = []
    for name, theirs, args, model in [
            ("adult", adult_data(options.data), adult, ("wide_deep", 4, 256, 10)),
            ("criteo-attribution", click_data(folder), clicks, ("deepfm", 8, 512, 3))]:
        seeds = range(1, options.seeds + 1)
        ours = [trained(options, name, args, seed) for seed in seeds]
        peers = [peer(theirs, model, seed) for seed in seeds]
        for who, found in [("ours", ours), ("PyTorch", peers)]:
            rows.append([name, who, f"{min(found):.5f}", f"{statistics.mean(found):.5f}",
                         f"{max(found):.5f}"])
    print(table(["data", "AUC of", "least", "mean", "most"], rows))


def trained(options, name, args, seed):
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        run([options.stepwell, "train", ROOT / f"examples/{name}.toml", *args, "--seed", seed,
             "--report", report])
        return json.loads(report.read_text())["eval"]["auc"]


def rows_of(path, **options):
    text = subprocess.run(["zstd", "-dc", path], stdout=subprocess.PIPE, check=True).stdout.decode()
    return list(csv.DictReader(io.StringIO(text), skipinitialspace=True, **options))


def numbered(rows, name):
    return np.unique([row[name] for row in rows], return_inverse=True)[1]


def adult_data(folder):
    rows = [row for row in rows_of(folder / "adult/adult.data.zst", fieldnames=ADULT) if row["income"]]
    number = {name: np.array([float(row[name]) for row in rows])
              for name in ADULT if name not in [*ADULT_IDS, "income"]}
    dense = np.stack([(number["age"] - 38.58) / 13.64, (number["education-num"] - 10.08) / 2.573,
                      np.log1p(number["capital-gain"]), np.log1p(number["capital-loss"]),
                      (number["hours-per-week"] - 40.44) / 12.35], 1)
    labels = np.array([row["income"] == ">50K" for row in rows])
    return labels, dense, [numbered(rows, name) for name in ADULT_IDS], len(rows) - round(len(rows) * 0.2)


def click_data(folder):
    train = rows_of(folder / "train.csv.zst")
    rows = train + rows_of(folder / "valid.csv.zst")
    labels = np.array([row["click"] == "1" for row in rows])
    ids = [numbered(rows, name) for name in ["cat1", "cat4", "cat6", "cat8", "cat9"]]
    return labels, np.ones((len(rows), 1)), ids, len(train)


class Model(torch.nn.Module):
    def __init__(self, dense, ids, kind, dim):
        super().__init__()
        starts = np.cumsum([0] + [int(column.max()) + 1 for column in ids])
        self.starts, self.kind = torch.tensor(starts[:-1]), kind
        self.embedding = torch.nn.Embedding(int(starts[-1]), dim)
        self.wide = torch.nn.Embedding(int(starts[-1]), 1)
        torch.nn.init.uniform_(self.embedding.weight, -0.01, 0.01)
        torch.nn.init.zeros_(self.wide.weight)
        self.linear = torch.nn.Linear(dense, 1)
        widths = [dim * len(ids) + dense, 32, 16]
        hidden = [layer for inputs, outputs in zip(widths, widths[1:])
                  for layer in (torch.nn.Linear(inputs, outputs), torch.nn.ReLU())]
        self.mlp = torch.nn.Sequential(*hidden, torch.nn.Linear(widths[-1], 1))

    def forward(self, dense, ids):
        rows = ids + self.starts
        embedded = self.embedding(rows)
        logit = self.wide(rows).sum(1) + self.linear(dense)
        logit = logit + self.mlp(torch.cat([embedded.flatten(1), dense], 1))
        if self.kind == "deepfm":
            pairs = embedded.sum(1) ** 2 - (embedded ** 2).sum(1)
            logit = logit + 0.5 * pairs.sum(1, keepdim=True)
        return logit[:, 0]


def peer(data, model, seed):
    (labels, dense, ids, train), (kind, dim, batch, epochs) = data, model
    torch.manual_seed(seed)
    model = Model(dense.shape[1], ids, kind, dim)
    dense, ids = torch.tensor(dense, dtype=torch.float32), torch.tensor(np.stack(ids, 1))
    target = torch.tensor(labels, dtype=torch.float32)
    rows = torch.optim.Adagrad([model.embedding.weight, model.wide.weight], lr=0.02)
    rest = torch.optim.Adam([*model.linear.parameters(), *model.mlp.parameters()], lr=0.001)
    loss = torch.nn.BCEWithLogitsLoss()
    for _ in range(epochs):
        for start in range(0, train, batch):
            part = slice(start, min(start + batch, train))
            rows.zero_grad(), rest.zero_grad()
            loss(model(dense[part], ids[part]), target[part]).backward()
            rows.step(), rest.step()
    with torch.no_grad():
        return auc(labels[train:], model(dense[train:], ids[train:]).numpy())


def auc(labels, scores):
    """Fraction of pairs of a positive and a negative example that are ordered correctly."""
    _, places, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[places]
    positives = labels.sum()
    return (ranks[labels].sum() - positives * (positives + 1) / 2) / (positives * (~labels).sum())


if __name__ == "__main__":
    main()
