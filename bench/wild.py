#!/usr/bin/env python3
"""DeepCTR-Torch's DeepFM, with its own embeddings and with Stepwell's.

The model, its training loop (`fit`) and its initial values come from DeepCTR-Torch. `original` uses
its `nn.Embedding` layers. `replaced` has the rows in `stepwell.Embeddings` instead, by `with_stepwell`
below. It is trained twice: with initial rows of its own, uniform with the same deviation, and with
those of the model that it replaces (`same rows`), which only leaves differences of rounding. Other
initial rows alone move the AUC by about 0.002, in DeepCTR-Torch's model as well.

All parameters are trained with Adagrad on all sides, without a penalty on weights. A row that a
mini-batch doesn't have doesn't change under Adagrad, so dense gradients of `nn.Embedding` and
the rows' own are the same training. A seed decides initial values and the order of examples, which
all sides share.

    pip install ./crates/python torch scikit-learn tqdm requests packaging polars pyarrow
    pip install --no-deps deepctr-torch==0.3.0
    STEPWELL_DATA=/path/to/data python bench/wild.py

The data is `criteo_tb_80k.tsv.zst` in the folder `STEPWELL_DATA`; without the variable, it is drawn
as `clicks.py` does. The first 80 % of the examples are trained, and the rest is the test part.
"""

import argparse
import contextlib
import inspect
import io
import math
import os
import statistics
from pathlib import Path

import stepwell  # before PyTorch, so that idle threads of OpenMP sleep

import numpy as np
import polars as pl
import torch
from deepctr_torch.inputs import DenseFeat, SparseFeat
from deepctr_torch.models import DeepFM
from sklearn.metrics import roc_auc_score

import clicks

SAMPLE = "criteo_tb_80k.tsv.zst"
INTEGERS = [f"I{number}" for number in range(1, 14)]
IDS = [f"C{number}" for number in range(1, 27)]
SIDES = ["original", "replaced", "same rows"]
STD = 0.0001  # DeepCTR-Torch's own default


def with_stepwell(model, dim, lr, seed, **tiers):
    """Replaces the embeddings of `model`; returns the new ones and the optimizer."""
    tables = {of: stepwell.Table(width, init_range=STD * math.sqrt(3), seed=seed)
              for of, width in (("deep", dim), ("linear", 1))}
    features = {of + name: stepwell.Feature(of, namespace=name) for of in tables for name in IDS}
    emb, x = stepwell.Embeddings(tables, features, **tiers), {}
    for of, part in (("deep", model), ("linear", model.linear_model)):
        del part.embedding_dict
        part.embedding_dict = {name: lambda _, of=of + name: x[of].unsqueeze(1) for name in IDS}

    def look_up(_, args):
        ids = {name: args[0][:, model.feature_index[name][0]].long() for name in IDS}
        x.update(emb({of + name: ids[name] for of in tables for name in IDS}))

    model.register_forward_pre_hook(look_up)
    rows = stepwell.optim.Adagrad(emb, lr=lr)
    dense = torch.optim.Adagrad(model.parameters(), lr=lr)
    dense.register_step_post_hook(lambda *_: rows.step())
    return emb, dense


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--examples", type=int, default=80_000, help="of which 80 %% are trained")
    add("--seeds", type=int, nargs="+", default=[1, 2, 3], metavar="SEED")
    add("--epochs", type=int, default=1)
    add("--batch", type=int, default=256)
    add("--dim", type=int, default=16)
    add("--lr", type=float, default=0.01)
    add("--sides", nargs="+", default=SIDES, choices=SIDES, metavar="SIDE")
    add("--memory", default="1GiB", help="of the embeddings")
    add("--dram", help="of rows in memory (default: what memory has room for)")
    add("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    print(f"with_stepwell has {lines_of_code(with_stepwell)} lines of code")
    columns, label, sizes, name = data(options.examples)
    print(f"{name}: {len(label)} examples, {sum(sizes.values())} ids")
    print("".join(f"{of:>11}" for of in ["seed", *options.sides]))
    found = {side: [] for side in options.sides}
    for seed in options.seeds:
        for side in options.sides:
            found[side].append(auc(options, side, seed, columns, label, sizes))
        show(seed, [found[side][-1] for side in options.sides])
    show("mean", [statistics.mean(found[side]) for side in options.sides])
    if len(options.seeds) > 1:
        show("deviation", [statistics.stdev(found[side]) for side in options.sides])


def show(name, aucs):
    print(f"{name:>11}" + "".join(f"{auc:11.5f}" for auc in aucs), flush=True)


def lines_of_code(of):
    """Lines of a function that are neither empty nor its description."""
    lines = (line.strip() for line in inspect.getsource(of).splitlines())
    return sum(1 for line in lines if line and not line.startswith('"""'))


def data(examples):
    """Columns by name, labels, the number of ids of each categorical column, and the data's name."""
    folder = os.environ.get("STEPWELL_DATA")
    if folder:
        frame = pl.read_csv(Path(folder) / SAMPLE, separator="\t", has_header=False,
                            infer_schema=False, n_rows=examples)
    else:
        frame = pl.from_arrow(clicks.block(np.random.default_rng(1), examples,
                                           clicks.VOCABULARY, 1.05))
    frame.columns = ["label", *INTEGERS, *IDS]
    columns = {}
    for of in INTEGERS:
        value = frame[of].cast(pl.Float32).fill_null(0).clip(0)
        columns[of] = value.log1p().to_numpy().astype(np.float32)
    for of in IDS:
        # DeepCTR-Torch needs ids that are positions in its tables, and takes them as floats.
        ids = np.unique(frame[of].fill_null("").to_numpy(), return_inverse=True)[1]
        columns[of] = ids.astype(np.float32)
    sizes = {of: int(columns[of].max()) + 1 for of in IDS}
    label = frame["label"].cast(pl.Float32).to_numpy(writable=True)
    return columns, label, sizes, SAMPLE if folder else "drawn as clicks.py does"


def auc(options, side, seed, columns, label, sizes):
    """The AUC of the test part."""
    features = [*(SparseFeat(of, sizes[of], options.dim) for of in IDS),
                *(DenseFeat(of) for of in INTEGERS)]
    model = DeepFM(features, features, l2_reg_linear=0, l2_reg_embedding=0, init_std=STD, seed=seed)
    emb = None
    if side == "original":
        optimizer = torch.optim.Adagrad(model.parameters(), lr=options.lr)
    else:
        theirs = {of + name: part.embedding_dict[name].weight.detach()
                  for of, part in (("deep", model), ("linear", model.linear_model)) for name in IDS}
        emb, optimizer = with_stepwell(model, options.dim, options.lr, seed,
                                       memory=options.memory, dram=options.dram)
        if side == "same rows":
            for name, weights in theirs.items():
                emb.put(name, np.arange(len(weights)), weights)
    model.compile(optimizer, "binary_crossentropy")
    trained = int(0.8 * len(label))
    torch.manual_seed(seed)
    with contextlib.redirect_stdout(io.StringIO()):
        model.fit({of: column[:trained] for of, column in columns.items()}, label[:trained],
                  batch_size=options.batch, epochs=options.epochs, verbose=0)
    scores = model.predict({of: column[trained:] for of, column in columns.items()},
                           options.batch)
    if emb is not None:
        emb.close()
    return roc_auc_score(label[trained:], scores)


if __name__ == "__main__":
    main()
