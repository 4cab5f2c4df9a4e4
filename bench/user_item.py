#!/usr/bin/env python3
"""Clicks of users on items with decimal ids: every id has its own row, and AUC equals PyTorch's.

Most data has ids like these: users, items, categories and hours are counted from 0, so that each
feature has an id `7`, and texts have one to four bytes. The data is drawn from a known model, once
per seed: logistic, with an effect of each id and an affinity of user and item. It is written in
Criteo's format: a label, 13 empty integers, four ids and 22 columns of empty ids.

  rows   after training, there is one row per distinct (feature, id) pair of the training part,
         including the missing ids of 22 columns
  AUC    of `lr` and `deepfm` on the evaluation part is that of `torch_ctr.py`: the mean difference
         over the seeds is within two standard errors, or below 0.001

A seed determines data and initial values. Exits with status 1 if either check fails.
"""

import argparse
import math
import sys
from pathlib import Path

import numpy as np

from quality import ours, peer
from sides import Sides, add_options, machine, mean_and_deviation, table, versions

FEATURES = {"user": 2000, "item": 1000, "category": 100, "hour": 24}
INTEGERS, COLUMNS = 13, 26
CLICKS_LOGIT = -1.4
EFFECTS = {"user": 0.6, "item": 0.6, "category": 0.4, "hour": 0.4}
AFFINITY, FACETS = 0.4, 4
AUC_OFF_MAX = 0.001


def draw(path, examples, seed):
    """Writes the clicks; returns their ids (examples, features)."""
    g = np.random.default_rng(seed)
    popular = lambda n: np.minimum(n * g.random(examples)**1.5, n - 1).astype(int)
    user, item = popular(FEATURES["user"]), popular(FEATURES["item"])
    category = g.integers(FEATURES["category"], size=FEATURES["item"])[item]
    ids = np.stack([user, item, category, g.integers(FEATURES["hour"], size=examples)], 1)
    logit = np.full(examples, CLICKS_LOGIT)
    for column, (name, count) in enumerate(FEATURES.items()):
        logit += EFFECTS[name] * g.standard_normal(count)[ids[:, column]]
    taste, kind = (g.standard_normal((FEATURES[n], FACETS)) for n in ("user", "item"))
    logit += AFFINITY / math.sqrt(FACETS) * (taste[user] * kind[item]).sum(1)
    label = g.random(examples) < 1 / (1 + np.exp(-logit))
    before, behind = "\t" * INTEGERS, "\t" * (COLUMNS - len(FEATURES))
    with open(path, "w") as out:
        out.writelines(f"{y:d}{before}\t{a}\t{b}\t{c}\t{d}{behind}\n"
                       for y, (a, b, c, d) in zip(label, ids))
    return ids


def distinct(ids):
    """Number of distinct (feature, id) pairs, with the missing id of each column without a feature."""
    return sum(len(np.unique(column)) for column in ids.T) + COLUMNS - len(FEATURES)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser, "target/bench/user_item")
    parser.set_defaults(models=["lr", "deepfm"])
    add = parser.add_argument
    add("--examples", type=int, default=60_000)
    add("--seeds", nargs="+", type=int, default=[1, 2, 3, 4, 5], metavar="SEED")
    add("--threads", type=int, default=1)
    add("--rows-per-slot", type=int, default=1 << 18, help="rows per slot in the peer's tables")
    options = parser.parse_args()
    sides, results, wrong, last = Sides(options), {}, [], None
    for seed in options.seeds:
        data = sides.folder / f"clicks-{seed}.tsv"
        ids = draw(data, options.examples, seed)
        for model in options.models:
            if options.only != "peer":
                report = ours(sides, model, data, seed)
                wrong += missing_rows(model, seed, report, ids)
                results.setdefault((model, "ours"), []).append(report["eval"])
            if options.only != "ours":
                last = peer(sides, model, data, seed)
                results.setdefault((model, "peer"), []).append(last["eval"])
    lines = [line for model in options.models if (line := compared(model, results, wrong))]
    print(f"seeds {options.seeds}\n{versions(options, last)}\n{machine()}\n")
    head = ["model", "ours, AUC", "PyTorch, AUC", "difference", "log loss, difference"]
    print(table(head, lines))
    for why in wrong:
        print(f"FAILED: {why}")
    sys.exit(bool(wrong))


def missing_rows(model, seed, report, ids):
    """Reports whether ids of different features share a row."""
    trained = len(ids) - report["eval"]["examples"]
    pairs, rows = distinct(ids[:trained]), report["rows"]
    if rows == pairs:
        return []
    return [f"{model}, seed {seed}: {pairs} ids have {rows} rows, {1 - rows / pairs:.1%} have no "
            "row of their own"]


def compared(model, results, wrong):
    """A line of the table; adds to `wrong` if the sides differ by more than the seeds explain."""
    both = [results.get((model, side), []) for side in ("ours", "peer")]
    shown = ["{:.5f} ({:.5f})".format(*mean_and_deviation([run["auc"] for run in side]))
             if side else "" for side in both]
    if not all(both):
        return [model, *shown, "", ""]
    differences = [[a[field] - b[field] for a, b in zip(*both)] for field in ("auc", "logloss")]
    for seed_by_seed in differences:
        mean, deviation = mean_and_deviation(seed_by_seed)
        shown.append(f"{mean:+.5f} ± {deviation / math.sqrt(len(seed_by_seed)):.5f}")
    mean, deviation = mean_and_deviation(differences[0])
    if not abs(mean) <= max(AUC_OFF_MAX, 2 * deviation / math.sqrt(len(differences[0]))):
        wrong.append(f"{model}: AUC differs from PyTorch's by {mean:+.5f} on the same clicks")
    return [model, *shown]


if __name__ == "__main__":
    main()
