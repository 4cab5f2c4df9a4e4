#!/usr/bin/env python3
"""AUC against FuxiCTR: `deepfm`, `dcn` and `final_mlp` with the recipe of its benchmarks (BARS), over
several seeds.

Both sides read the same categorical columns (numbers in buckets of their squared logarithm, rare
values as one), train on 80 % of the records in file order, evaluate each epoch on the next 10 %,
lower the rate tenfold when AUC does not improve, end after two such evaluations, and are tested on
the last 10 % with their best model. Embeddings of 16, hidden layers 400, 400, 400 with dropout
0.2, Adam 0.001 for all parameters, L2 of 1e-5 on embeddings, mini-batches of 256.

FuxiCTR's package has the layers and the training loop; the models below are put together from them
as in its model zoo. Its L2 and its Adam change all rows in every step, ours only those of the
mini-batch. Our rows may take Stepwell's default instead, Adagrad 0.02 (--rows adagrad).

  peer/bin/pip install --no-deps fuxictr==2.3.7 keras_preprocessing six h5py scikit-learn scipy \\
      joblib threadpoolctl cloudpickle narwhals tqdm pyyaml pyarrow
  STEPWELL_DATA=/path/to/data peer/bin/python bench/fuxi.py
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
from collections import Counter
from pathlib import Path

from guided import drawn, unpacked

MODELS = ["deepfm", "dcn", "final_mlp"]
DIM, HIDDEN, DROPOUT, RATE, L2, BATCH, EPOCHS = 16, [400] * 3, 0.2, 1e-3, 1e-5, 256, 20
RARE = 2


def criteo():
    lines = unpacked(Path(os.environ["STEPWELL_DATA"]) / "criteo_tb_80k.tsv.zst").splitlines()
    names = [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
    return names, [line.split("\t") for line in lines if line], names[:13]


def planted():
    train, test = drawn(200_000)(None)
    lines = train[1:] + test[1:]
    return ["user", "item", "hour", "price"], [line.split(",") for line in lines], ["price"]


SETS = {"criteo_tb_80k": criteo, "drawn, 200,000": planted}


def bucket(text):
    """The bucket of a number, as in FuxiCTR's settings for Criteo."""
    if text == "":
        return ""
    value = float(text)
    return str(int(math.log(value) ** 2)) if value > 2 else str(int(value))


def records(make):
    """Column names, and labels and values of the three parts; values too rare in the first are one."""
    names, lines, numbers = make()
    columns = list(zip(*lines))
    labels, columns = columns[0], list(columns[1:])
    count = len(lines)
    ends = [count * 8 // 10, count * 9 // 10, count]
    for at, name in enumerate(names):
        if name in numbers:
            columns[at] = [bucket(text) for text in columns[at]]
        seen = Counter(columns[at][:ends[0]])
        columns[at] = [text if seen[text] >= RARE else "rare" for text in columns[at]]
    starts = [0, *ends[:2]]
    return names, [([int(label) for label in labels[a:b]], [column[a:b] for column in columns])
                   for a, b in zip(starts, ends)]


def ours(program, folder, model, seed, rows, threads):
    """Test AUC of ours, of the best checkpoint."""
    saved = folder / "saved"
    subprocess.run(["rm", "-rf", saved], check=True)
    settings = {
        "model.kind": model, "model.dim": DIM, "model.hidden": ",".join(map(str, HIDDEN)),
        "model.second": ",".join(map(str, HIDDEN)), "model.dropout": DROPOUT, "seed": seed,
        "data.mini_batch": BATCH, "data.epochs": EPOCHS, "train.patience": 2, "threads": threads,
        "checkpoint.dir": saved, "checkpoint.best": "auc",
        "optim.rows.kind": rows, "optim.rows.lr": 0.02 if rows == "adagrad" else RATE,
        "optim.rows.l2": L2, "optim.dense.kind": "adam", "optim.dense.lr": RATE,
        "optim.rows.schedule": "plateau", "optim.rows.plateau_patience": 1,
        "optim.dense.schedule": "plateau", "optim.dense.plateau_patience": 1,
    }
    flags = [word for key, value in settings.items() for word in (f"--{key}", str(value))]
    subprocess.run([program, "train", folder / "run.toml", "-q", *flags], check=True, cwd=folder,
                   stdout=subprocess.DEVNULL)
    report = folder / "eval.json"
    subprocess.run([program, "eval", saved, "--data", "test.csv", "--report", report], check=True,
                   cwd=folder, stdout=subprocess.DEVNULL)
    return json.loads(report.read_text())["eval"]["auc"]


def write(folder, names, parts):
    for part, (labels, columns) in zip(("train", "valid", "test"), parts):
        lines = [",".join(["label", *names])]
        lines += [",".join([str(label), *values]) for label, values in zip(labels, zip(*columns))]
        (folder / f"{part}.csv").write_text("\n".join(lines) + "\n")
    (folder / "run.toml").write_text(
        '[data]\nheader = true\npaths = ["train.csv"]\neval_paths = ["valid.csv"]\n\n'
        '[[columns]]\nnames = ["label"]\ntype = "label"\n\n'
        f'[[columns]]\nnames = {json.dumps(names)}\ntype = "id"\n')


def peer(names, parts, model, seed, folder, threads):
    """Test AUC of FuxiCTR."""
    import numpy
    import torch
    numpy.Inf = numpy.inf  # The name that FuxiCTR 2.3 uses is gone from NumPy 2.
    from fuxictr.features import FeatureMap
    from fuxictr.pytorch import layers
    from fuxictr.pytorch.models import BaseModel
    from fuxictr.pytorch.torch_utils import seed_everything
    torch.set_num_threads(threads)
    seed_everything(seed)
    features, encoded = FeatureMap("bench", str(folder)), [[] for _ in parts]
    for at, name in enumerate(names):
        known = {text: 1 + number for number, text in enumerate(dict.fromkeys(parts[0][1][at]))}
        for part, (_, columns) in enumerate(parts):
            ids = [known.get(text, 0) for text in columns[at]]
            encoded[part].append(torch.tensor(ids, dtype=torch.long))
        features.features[name] = {"type": "categorical", "source": "", "vocab_size": 1 + len(known)}
    features.labels, features.num_fields = ["label"], len(names)
    features.default_emb_dim = DIM
    features.set_column_index()

    class Model(BaseModel):
        def __init__(self):
            super().__init__(features, model_id=f"{model}-{seed}", gpu=-1, monitor="AUC",
                             monitor_mode="max", early_stop_patience=2, embedding_regularizer=L2,
                             net_regularizer=0, reduce_lr_on_plateau=True, verbose=0,
                             model_root=str(folder), metrics=["AUC"])
            width = DIM * len(names)
            self.embedding_layer = layers.FeatureEmbedding(features, DIM)
            mlp = lambda outputs: layers.MLP_Block(input_dim=width, output_dim=outputs,
                                                   hidden_units=list(HIDDEN),
                                                   hidden_activations="ReLU",
                                                   dropout_rates=DROPOUT)
            if model == "deepfm":
                self.fm = layers.FactorizationMachine(features)
                self.mlp = mlp(1)
            elif model == "dcn":
                self.cross, self.mlp = layers.CrossNetV2(width, 3), mlp(None)
                self.last = torch.nn.Linear(width + HIDDEN[-1], 1)
            else:
                self.first, self.second = mlp(None), mlp(None)
                self.linear = torch.nn.Linear(2 * HIDDEN[-1], 1)
                self.form = torch.nn.Linear(HIDDEN[-1], HIDDEN[-1], bias=False)
            self.compile("adam", "binary_crossentropy", RATE)
            self.reset_parameters()
            self.model_to_device()

        def forward(self, inputs):
            x = self.get_inputs(inputs)
            embedded = self.embedding_layer(x)
            flat = embedded.flatten(start_dim=1)
            if model == "deepfm":
                z = self.fm(x, embedded) + self.mlp(flat)
            elif model == "dcn":
                z = self.last(torch.cat([self.cross(flat), self.mlp(flat)], dim=-1))
            else:
                a, b = self.first(flat), self.second(flat)
                z = self.linear(torch.cat([a, b], dim=-1))
                z = z + (self.form(a) * b).sum(dim=1, keepdim=True)
            return {"y_pred": self.output_activation(z)}

    class Batches:
        """A part in file order."""
        def __init__(self, part):
            self.labels = torch.tensor(parts[part][0])
            self.columns = encoded[part]

        def __len__(self):
            return -(-len(self.labels) // BATCH)

        def __iter__(self):
            for at in range(0, len(self.labels), BATCH):
                batch = {name: column[at:at + BATCH] for name, column in zip(names, self.columns)}
                yield {**batch, "label": self.labels[at:at + BATCH]}

    (folder / "bench").mkdir(exist_ok=True)
    made = Model()
    made.fit(Batches(0), epochs=EPOCHS, validation_data=Batches(1))
    return made.evaluate(Batches(2), metrics=["AUC"])["AUC"]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepwell", default="target/release/stepwell")
    p.add_argument("--only", choices=list(SETS))
    p.add_argument("--models", nargs="+", default=MODELS, choices=MODELS, metavar="MODEL")
    p.add_argument("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5], metavar="SEED")
    p.add_argument("--rows", default="adam", choices=["adam", "adagrad"], help="our optimizer of rows")
    p.add_argument("--side", choices=["ours", "peer"], help="run only one side")
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--folder", type=Path, default=Path("target/bench/fuxi"))
    options = p.parse_args()
    program = Path(options.stepwell).resolve()
    print("| data | model | ours, AUC | FuxiCTR, AUC | difference |")
    print("|---|---|---:|---:|---:|")
    for name, make in SETS.items():
        if options.only not in (None, name):
            continue
        if make is criteo and "STEPWELL_DATA" not in os.environ:
            print(f"{name} is skipped: STEPWELL_DATA is not set")
            continue
        names, parts = records(make)
        folder = (options.folder / make.__name__).resolve()
        folder.mkdir(parents=True, exist_ok=True)
        write(folder, names, parts)
        for model in options.models:
            one(options, program, (name, model), (names, parts), folder)


def one(options, program, title, data, folder):
    """Runs all seeds of one model, and prints a line of the table."""
    (name, model), found = title, {"ours": [], "peer": []}
    for seed in options.seeds:
        if options.side != "peer":
            found["ours"].append(ours(program, folder, model, seed, options.rows, options.threads))
        if options.side != "ours":
            found["peer"].append(peer(*data, model, seed, folder, options.threads))
        last = {side: round(values[-1], 5) for side, values in found.items() if values}
        print(f"{name} {model} seed {seed}: {last}", file=sys.stderr, flush=True)
    means = {side: statistics.fmean(values) for side, values in found.items() if values}
    spread = lambda values: statistics.stdev(values) if len(values) > 1 else 0.0
    cells = [f"{means[side]:.5f} ({spread(found[side]):.5f})" if side in means else ""
             for side in ("ours", "peer")]
    difference = f"{means['ours'] - means['peer']:+.5f}" if len(means) == 2 else ""
    print(f"| {name} | {model} | {cells[0]} | {cells[1]} | {difference} |", flush=True)


if __name__ == "__main__":
    main()
