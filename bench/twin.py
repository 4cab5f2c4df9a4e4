#!/usr/bin/env python3
"""A twin of the trainer in plain f64 NumPy, compared with `stepwell train`.

It shares nothing with the trainer but the published documents: README.md, docs/checkpoint.md,
crates/ssd/FORMAT.md. It reads the TSV, computes keys and initial rows, reads checkpoints, computes
every model forward and backward by hand, and implements the optimizers, all in f64. It prints one
line per check and exits with status 1 at the first that fails.

  published   a checkpoint of step 0 has no rows and the twin's dense parameters; after one step that
              changes nothing, its rows are those of the twin's keys, with the twin's initial
              weights, bit for bit
  gradients   SGD with a checkpoint after each step: the change of weights over the rate is the
              gradient, compared with the twin's for the same weights, for every dense parameter
              and every row touched
  progress    the settings of examples/MODEL.toml, and other optimizers: log loss of every epoch,
              with each example scored before it is trained on, log loss and AUC of the evaluation
              part
  store       rows that go through tiny tiers, merges and expiry: the digest of the report,
              recomputed from the files of the checkpoint; large rows; a store with known rows, as
              one and split in two
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import xxhash

from segment_store import Store, Wrong, demand, key_shards_of, xxh3

ROOT = Path(__file__).resolve().parent.parent
MODELS = ["lr", "fm", "wide_deep", "deepfm", "dcn", "dcn_v1", "dlrm", "final_mlp", "mmoe"]
SLOTS, DENSE = 26, 13
SAMPLE = "criteo_tb_80k.tsv.zst"
FIXTURE, FIXTURE_SEGMENT = ROOT / "crates/ssd/tests/fixtures/v3", 16384

GRADIENT_OFF_MAX = 1e-6  # error of a gradient beyond the rounding of its weight to f32
GRADIENT_PART_MAX = 1e-5  # the same, relative to the largest gradient of the parameter
# The first step of Adagrad or Adam is the sign of a gradient, which may differ in f32 near zero.
LOSS_OFF_MAX = 1e-4
AUC_OFF_MAX = 2e-3
# Starts of a twin, and their relative distance from the run's weights: below f32's rounding.
STARTS, HAIR = 8, 1e-8
KINK_MIN = 1e-6  # closer to zero, a rectifier's input may have a different sign in f32


class Apart(Exception):
    """Losses that differ by more than rounding."""


# ---- published functions -------------------------------------------------------------------------

KEY_NAME = "xxh3-64(namespace, NUL, value bytes)"
INITIAL_NAME = "splitmix64 from xxh3-64 of (seed u64, 'initial', NUL, table u32, key u64)"


def key_of(column, value):
    """Key of `value`, bytes, in id column `column`, from 1."""
    return xxh3(b"C%d\0" % column + value)


def stream(seed, name):
    """Initial state of the stream of a name."""
    return xxh3(seed.to_bytes(8, "little") + name)


def uniform(states, count, reach):
    """The first `count` numbers of the stream from each state: SplitMix64, in [-reach, reach)."""
    steps = np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    z = np.array(states, np.uint64)[:, None] + steps
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    unit = ((z ^ (z >> np.uint64(31))) >> np.uint64(40)).astype(np.float32) * np.float32(2**-24)
    return (unit * np.float32(2) - np.float32(1)) * np.float32(reach)


def initial_rows(seed, table, keys, width, dim, reach):
    """Initial weights of rows: the embedding uniform, the rest zero."""
    name = b"initial\0" + table.to_bytes(4, "little")
    rows = np.zeros((len(keys), width), np.float32)
    rows[:, :dim] = uniform([stream(seed, name + key.tobytes()) for key in keys], dim, reach)
    return rows


# ---- examples ------------------------------------------------------------------------------------

class Examples:
    """The lines of a TSV: label, 13 integers, 26 ids."""

    def __init__(self, path):
        lines = [line.rstrip(b"\r\n").split(b"\t") for line in open(path, "rb")]
        demand(all(len(line) == 1 + DENSE + SLOTS for line in lines), f"{path}: columns")
        integers = [[max(int(x), 0) if x else 0 for x in line[1:1 + DENSE]] for line in lines]
        self.labels = np.array([int(line[0]) for line in lines], float)
        # Features are rounded to f32, as in the trainer.
        self.dense = np.log1p(np.array(integers, float)).astype(np.float32).astype(float)
        ids = [[key_of(n, value) for n, value in enumerate(line[1 + DENSE:], 1)] for line in lines]
        self.keys, at = np.unique(np.array(ids, np.uint64), return_inverse=True)
        self.at = at.reshape(len(lines), SLOTS)

    def __len__(self):
        return len(self.labels)


def evaluated(count, fraction):
    """Number of examples in the evaluation part, with halves rounded up (Python rounds to even)."""
    whole = math.floor(count * fraction)
    return whole + (count * fraction - whole >= 0.5)


# ---- checkpoints ---------------------------------------------------------------------------------

class Checkpoint:
    """checkpoint.json, dense.bin and the rows of table 0."""

    def __init__(self, path):
        meta, dense = (path / "checkpoint.json").read_bytes(), (path / "dense.bin").read_bytes()
        self.meta = json.loads(meta)
        rows = f"{self.meta['tables'][0]['rows']}/manifest.json"
        files = {rows: (path / rows).read_bytes(), "checkpoint.json": meta, "dense.bin": dense}
        sums = f"stepwell checkpoint 2, step {self.meta['step']}, job {self.meta['run']['job']}\n"
        for name, data in files.items():
            sums += f"{xxh3(data):016x}  {len(data)}  {name}\n"
        sums += f"{xxh3(sums.encode()):016x}  CHECKSUMS\n"
        demand((path / "CHECKSUMS").read_text() == sums, f"{path}: wrong checksums")
        lanes, at, self.dense = np.frombuffer(dense, "<f4"), 0, {}
        for section in self.meta["dense"]:
            self.dense[section["name"]] = lanes[at:at + section["count"]]
            at += section["count"]
        demand(at == len(lanes), f"{path}: dense.bin has {len(lanes)} lanes, not {at}")
        table = self.meta["tables"][0]
        config = self.meta["run"]["config"]
        # Settings that were not given are null: without `memory`, a segment has 64 MiB.
        self.store = Store(path / table["rows"], config["tiers.segment"] or 64 << 20)
        self.width = table["dim"] + table["wide"]
        demand(self.store.row_bytes == 4 * table["row_lanes"], f"{path}: bytes of a row")

    def rows(self):
        """Keys in ascending order, and the lanes of their rows."""
        return self.store.keys, self.store.lanes

    def digest(self):
        """The `model_digest` of the run's report, and the number of rows."""
        config, (keys, lanes) = self.meta["run"]["config"], self.rows()
        state = {"sgd": 0, "adagrad": self.width, "adam": 2 * self.width + 1}
        model = self.width + state[config["optim.rows.kind"]]
        if lanes.shape[1] > model:
            used = lanes[:, model].view(np.uint32).astype(int)
            after = config["rows.expire_after"]
            exists = (used > 0) & ((after == 0) | (self.meta["step"] - used < after))
            keys, lanes = keys[exists], lanes[exists]
        total, table = 0, self.meta["tables"][0]["id"].to_bytes(4, "little")
        for key, row in zip(keys, lanes[:, :model]):
            total += xxhash.xxh3_128_intdigest(table + key.tobytes() + row.tobytes())
        whole = (total % 2**128).to_bytes(16, "little")
        whole += b"".join(self.dense[name].tobytes() for name in self.dense
                          if name in ("parameters", "sum", "exp_avg", "exp_avg_sq", "step"))
        return f"{xxhash.xxh3_128_intdigest(whole):032x}", len(keys)


# ---- models --------------------------------------------------------------------------------------

class Model:
    """A dense part over embeddings v (b, 26, dim), wide weights (b, 26) and features x (b, 13).

    Parameters are in one flat vector: by layer, in the order of their creation here, with the weight
    (outputs, inputs) before the bias.
    """

    def __init__(self, config):
        self.kind, self.dim = config["model.kind"], config["model.dim"]
        self.sums = self.kind in ("lr", "fm", "wide_deep", "deepfm")
        self.is_deep = self.kind not in ("lr", "fm")
        self.has_pairs = self.kind in ("fm", "deepfm")
        if self.kind == "lr":
            self.dim = 0
        self.width = self.dim + self.sums
        self.shapes, self.count = {}, 0
        inputs, hidden = SLOTS * self.dim + DENSE, config["model.hidden"]
        if self.sums:
            self.layer("linear", DENSE, 1)
            if self.is_deep:
                self.layer("mlp_out", self.layers("mlp", inputs, hidden), 1)
        elif self.kind in ("dcn", "dcn_v1"):
            self.cross_layers = config["model.cross_layers"]
            for i in range(self.cross_layers):
                if self.kind == "dcn":
                    self.layer(f"cross{i + 1}", inputs, inputs)
                else:
                    self.place(f"cross{i + 1}", weight=(inputs,), bias=(inputs,))
            self.layer("logit", inputs + self.layers("mlp", inputs, hidden), 1)
        elif self.kind == "final_mlp":
            self.second_depth = len(config["model.second"])
            width = self.layers("mlp", inputs, hidden)
            second = self.layers("second", inputs, config["model.second"])
            self.layer("bilinear", width, second, bias=False)
            self.layer("linear", width + second, 1)
        elif self.kind == "mmoe":
            self.experts = [f"level1/expert{i + 1}/mlp" for i in range(config["model.experts"])]
            width = [self.layers(name, inputs, hidden) for name in self.experts][0]
            self.layer("label/level1/gate", inputs, len(self.experts))
            self.tower_depth = len(config["model.tower"])
            width = self.layers("label/tower", width, config["model.tower"])
            self.layer("label/logit", width, 1)
        else:
            self.bottom = [*config["model.bottom"], self.dim]
            self.layers("bottom", DENSE, self.bottom)
            self.pairs = np.tril_indices(SLOTS + 1, -1)
            inputs = self.dim + len(self.pairs[0])
            self.layer("logit", self.layers("mlp", inputs, hidden), 1)
        self.depth = len(hidden)
        self.kink = math.inf

    def layer(self, name, inputs, outputs, bias=True):
        parts = {"weight": (outputs, inputs), "bias": (outputs,)}
        self.place(name, **(parts if bias else {"weight": parts["weight"]}))

    def place(self, name, **parts):
        for part, shape in parts.items():
            self.shapes[f"{name}/{part}"] = (self.count, shape)
            self.count += math.prod(shape)

    def layers(self, name, inputs, widths):
        for i, width in enumerate(widths, 1):
            self.layer(f"{name}{i}", inputs, width)
            inputs = width
        return inputs

    def views(self, flat):
        return {name: flat[at:at + math.prod(shape)].reshape(shape)
                for name, (at, shape) in self.shapes.items()}

    def forward(self, flat, rows, x):
        """Logits (b); keeps the values that `backward` reads."""
        self.p, self.v, self.x = self.views(flat), rows[..., :self.dim], x
        whole = np.concatenate([self.v.reshape(len(x), -1), x], 1)
        if self.sums:
            z = rows[..., self.dim].sum(1) + self.linear("linear", x)[:, 0]
            if self.is_deep:
                self.deep = self.mlp("mlp", self.depth, whole)
                z = z + self.linear("mlp_out", self.deep[-1])[:, 0]
            if self.has_pairs:
                z = z + 0.5 * (self.v.sum(1)**2 - (self.v**2).sum(1)).sum(1)
            return z
        if self.kind in ("dcn", "dcn_v1"):
            self.crossed = [whole]
            for i in range(self.cross_layers):
                x_i = self.crossed[-1]
                self.crossed.append(whole * self.factor(f"cross{i + 1}", x_i) + x_i)
                if self.kind == "dcn_v1":
                    self.crossed[-1] += self.p[f"cross{i + 1}/bias"]
            self.deep = self.mlp("mlp", self.depth, whole)
            self.both = np.concatenate([self.crossed[-1], self.deep[-1]], 1)
            return self.linear("logit", self.both)[:, 0]
        if self.kind == "final_mlp":
            self.deep = self.mlp("mlp", self.depth, whole)
            self.second = self.mlp("second", self.second_depth, whole)
            self.form = self.deep[-1] @ self.p["bilinear/weight"].T
            self.both = np.concatenate([self.deep[-1], self.second[-1]], 1)
            return self.linear("linear", self.both)[:, 0] + (self.form * self.second[-1]).sum(1)
        if self.kind == "mmoe":
            self.given = [self.mlp(name, self.depth, whole) for name in self.experts]
            z = self.linear("label/level1/gate", whole)
            e = np.exp(z - z.max(1, keepdims=True))
            self.gate = e / e.sum(1, keepdims=True)
            mixed = sum(g[:, None] * given[-1] for g, given in zip(self.gate.T, self.given))
            self.tower = self.mlp("label/tower", self.tower_depth, mixed)
            return self.linear("label/logit", self.tower[-1])[:, 0]
        self.low = self.mlp("bottom", len(self.bottom), x)
        self.vectors = np.concatenate([self.low[-1][:, None], self.v], 1)
        dots = np.einsum("bid,bjd->bij", self.vectors, self.vectors)[:, *self.pairs]
        self.deep = self.mlp("mlp", self.depth, np.concatenate([self.low[-1], dots], 1))
        return self.linear("logit", self.deep[-1])[:, 0]

    def backward(self, dz):
        """Gradients of the flat vector and of the rows, from the gradients of the logits (b)."""
        flat = np.zeros(self.count)
        self.g = self.views(flat)
        d_rows, d_logit = np.zeros((len(dz), SLOTS, self.width)), dz[:, None]
        if self.sums:
            d_rows[..., self.dim] = d_logit
            self.linear_back("linear", self.x, d_logit)
            d_v = 0
            if self.is_deep:
                d_deep = self.linear_back("mlp_out", self.deep[-1], d_logit)
                d_v = self.of_embeddings(self.mlp_back("mlp", self.deep, d_deep))
            if self.has_pairs:
                d_v = d_v + d_logit[..., None] * (self.v.sum(1, keepdims=True) - self.v)
            d_rows[..., :self.dim] = d_v
        elif self.kind in ("dcn", "dcn_v1"):
            d_both = self.linear_back("logit", self.both, d_logit)
            columns = self.crossed[0].shape[1]
            d_whole = self.mlp_back("mlp", self.deep, d_both[:, columns:])
            d_x = d_both[:, :columns]
            for i in reversed(range(self.cross_layers)):
                name, x_i = f"cross{i + 1}", self.crossed[i]
                d_whole = d_whole + d_x * self.factor(name, x_i)
                if self.kind == "dcn":
                    d_x = d_x + self.linear_back(name, x_i, d_x * self.crossed[0])
                else:
                    d_dot = (d_x * self.crossed[0]).sum(1)
                    self.g[f"{name}/weight"][:] = d_dot @ x_i
                    self.g[f"{name}/bias"][:] = d_x.sum(0)
                    d_x = d_x + d_dot[:, None] * self.p[f"{name}/weight"]
            d_rows[:] = self.of_embeddings(d_whole + d_x)
        elif self.kind == "final_mlp":
            d_both = self.linear_back("linear", self.both, d_logit)
            width = self.deep[-1].shape[1]
            d_form, d_second = d_logit * self.second[-1], d_logit * self.form
            self.g["bilinear/weight"][:] = d_form.T @ self.deep[-1]
            d_deep = d_both[:, :width] + d_form @ self.p["bilinear/weight"]
            d_whole = self.mlp_back("mlp", self.deep, d_deep)
            d_whole = d_whole + self.mlp_back("second", self.second, d_both[:, width:] + d_second)
            d_rows[:] = self.of_embeddings(d_whole)
        elif self.kind == "mmoe":
            d_tower = self.linear_back("label/logit", self.tower[-1], d_logit)
            d_mixed = self.mlp_back("label/tower", self.tower, d_tower)
            d_gate = np.stack([(d_mixed * given[-1]).sum(1) for given in self.given], 1)
            d_gate = self.gate * (d_gate - (self.gate * d_gate).sum(1, keepdims=True))
            d_whole = self.linear_back("label/level1/gate", self.given[0][0], d_gate)
            for name, g, given in zip(self.experts, self.gate.T, self.given):
                d_whole = d_whole + self.mlp_back(name, given, g[:, None] * d_mixed)
            d_rows[:] = self.of_embeddings(d_whole)
        else:
            d_deep = self.linear_back("logit", self.deep[-1], d_logit)
            d_both = self.mlp_back("mlp", self.deep, d_deep)
            d_dots = np.zeros((len(dz), SLOTS + 1, SLOTS + 1))
            d_dots[:, *self.pairs] = d_both[:, self.dim:]
            d_vectors = (d_dots + d_dots.transpose(0, 2, 1)) @ self.vectors
            self.mlp_back("bottom", self.low, d_vectors[:, 0] + d_both[:, :self.dim])
            d_rows[:] = d_vectors[:, 1:]
        return flat, d_rows

    def of_embeddings(self, d_whole):
        return d_whole[:, :SLOTS * self.dim].reshape(-1, SLOTS, self.dim)

    def factor(self, name, x):
        """What a cross layer multiplies the first input by."""
        if self.kind == "dcn":
            return self.linear(name, x)
        return (x @ self.p[f"{name}/weight"])[:, None]

    def linear(self, name, x):
        return x @ self.p[f"{name}/weight"].T + self.p[f"{name}/bias"]

    def linear_back(self, name, x, dy):
        self.g[f"{name}/weight"][:] = dy.T @ x
        self.g[f"{name}/bias"][:] = dy.sum(0)
        return dy @ self.p[f"{name}/weight"]

    def mlp(self, name, depth, x):
        """The input, followed by the output of each layer."""
        given = [x]
        for i in range(depth):
            z = self.linear(f"{name}{i + 1}", given[-1])
            self.kink = min(self.kink, np.abs(z).min())
            given.append(np.maximum(z, 0))
        return given

    def mlp_back(self, name, given, dy):
        for i in reversed(range(len(given) - 1)):
            dy = self.linear_back(f"{name}{i + 1}", given[i], dy * (given[i + 1] > 0))
        return dy


def log_loss(z, y):
    """The loss of each example."""
    return np.maximum(z, 0) - z * y + np.log1p(np.exp(-np.abs(z)))


def probability(z):
    e = np.exp(-np.abs(z))
    return np.where(z < 0, e, 1) / (1 + e)


# ---- optimizers ----------------------------------------------------------------------------------

class Optimizer:
    """SGD, Adagrad or Adam over the entries of an array; each step updates the chosen ones."""

    def __init__(self, kind, rate, shape):
        self.kind, self.rate = kind, rate
        self.states = [np.zeros(shape) for _ in range({"sgd": 0, "adagrad": 1, "adam": 2}[kind])]
        # One count per entry: rows count their own steps.
        self.steps = np.zeros(shape[:1], int)

    def step(self, w, at, g):
        if self.kind == "sgd":
            w[at] -= self.rate * g
        elif self.kind == "adagrad":
            self.states[0][at] += g * g
            w[at] -= self.rate * g / (np.sqrt(self.states[0][at]) + 1e-10)
        else:
            mean, square = self.states
            self.steps[at] += 1
            t = self.steps[at].reshape(-1, *[1] * (g.ndim - 1))
            mean[at] = 0.9 * mean[at] + 0.1 * g
            square[at] = 0.999 * square[at] + 0.001 * g * g
            root = np.sqrt(square[at] / (1 - 0.999**t)) + 1e-8
            w[at] -= self.rate * mean[at] / (1 - 0.9**t) / root


# ---- the twin ------------------------------------------------------------------------------------

class Twin:
    """A model with the rows of some examples, which start from their initial values."""

    def __init__(self, config, examples, parameters):
        self.examples, self.model = examples, Model(config)
        demand(len(parameters) == self.model.count,
               f"{len(parameters)} dense parameters, but the twin has {self.model.count}")
        self.parameters = np.array(parameters, float)
        self.rows = initial_rows(config["seed"], 0, examples.keys, self.model.width,
                                 self.model.dim, config["model.init_range"]).astype(float)
        rate = lambda part: (config[f"optim.{part}.kind"], config[f"optim.{part}.lr"])
        self.of_rows = Optimizer(*rate("rows"), self.rows.shape)
        self.of_dense = Optimizer(*rate("dense"), self.parameters.shape)

    def score(self, part):
        at = self.examples.at[part]
        return self.model.forward(self.parameters, self.rows[at], self.examples.dense[part])

    def gradients(self, part):
        """Losses, gradients of the parameters, and the rows touched with their gradients."""
        z, y = self.score(part), self.examples.labels[part]
        dense, d_rows = self.model.backward((probability(z) - y) / len(y))
        touched, place = np.unique(self.examples.at[part], return_inverse=True)
        rows = np.zeros((len(touched), self.model.width))
        np.add.at(rows, place.reshape(-1), d_rows.reshape(-1, self.model.width))
        return log_loss(z, y), dense, touched, rows

    def train(self, count, size):
        """Trains one epoch over the first `count` examples; returns their log loss."""
        total = 0.0
        for part in parts(count, size):
            losses, dense, touched, rows = self.gradients(part)
            self.of_dense.step(self.parameters, slice(None), dense)
            self.of_rows.step(self.rows, touched, rows)
            total += losses.sum()
        return total / count

    def evaluate(self, first):
        """Log loss and AUC of the examples from `first` on."""
        z = np.concatenate([self.score(slice(first + p.start, first + p.stop))
                            for p in parts(len(self.examples) - first, 1024)])
        y = self.examples.labels[first:]
        return log_loss(z, y).mean(), auc(z, y)


def parts(count, size):
    return [slice(at, min(at + size, count)) for at in range(0, count, size)]


def auc(scores, labels):
    """Area under the ROC curve; equal scores share their mean rank."""
    _, group, counts = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(counts) - (counts - 1) / 2)[group]
    positive = labels.sum()
    below = ranks[labels == 1].sum() - positive * (positive + 1) / 2
    return below / (positive * (len(labels) - positive))


# ---- checks --------------------------------------------------------------------------------------

class Checks:
    def __init__(self, binary, folder, data):
        self.binary, self.folder, self.data = binary, folder, data
        self.runs = 0

    def stepwell(self, model, lines, **settings):
        """Runs on the first lines of the data; returns the report, checkpoints and examples."""
        self.runs += 1
        home = self.folder / f"run-{self.runs}"
        home.mkdir()
        data = home / "data.tsv"
        with open(self.data, "rb") as source, open(data, "wb") as target:
            target.writelines(line for line, _ in zip(source, range(lines)))
        pairs = [f"{key.replace('__', '.')}={value}" for key, value in settings.items()]
        words = [word for pair in pairs for word in ("--set", pair)]
        command = [self.binary, "train", ROOT / f"examples/{model}.toml", "--data", data, *words,
                   "--set", "checkpoint.initial=true", "--set", "checkpoint.keep=99",
                   "--checkpoint", home / "saved", "--report", home / "report.json"]
        done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
        said = (done.stderr or done.stdout).strip().splitlines()[-3:]
        demand(done.returncode == 0, f"{' '.join(map(str, command))}: {said}")
        report = json.loads((home / "report.json").read_text())
        saved = sorted((home / "saved").glob("step-*"))
        return report, [Checkpoint(path) for path in saved], Examples(data)

    def published(self):
        """Checks initial values, with rates too small to change a nonzero weight."""
        still = {"optim__rows__kind": "sgd", "optim__dense__kind": "sgd",
                 "optim__rows__lr": 1e-30, "optim__dense__lr": 1e-30}
        _, (before, after), examples = self.stepwell(
            "wide_deep", 300, data__eval_fraction=0, data__mini_batch=300, seed=7, **still)
        keys, lanes = after.rows()
        names = after.meta["key_hash"], after.meta["initial_values"]
        demand(names == (KEY_NAME, INITIAL_NAME), f"unexpected names of functions: {names}")
        demand(len(before.rows()[0]) == 0 and before.meta["step"] == 0, "rows before step 1")
        parameters = before.dense["parameters"]
        demand(np.array_equal(parameters, after.dense["parameters"]),
               "dense parameters changed at a rate of 1e-30")
        model = Model(before.meta["run"]["config"])
        for name, found in model.views(parameters).items():
            reach = 1 / math.sqrt(model.shapes[name.replace("bias", "weight")][1][1])
            mine = uniform([stream(7, b"dense/" + name.encode())], found.size, reach)
            demand(found.tobytes() == mine.tobytes(), f"different initial values of {name}")
        demand(np.array_equal(keys, examples.keys), "different keys")
        mine = initial_rows(7, 0, keys, model.width, model.dim, 0.01)
        demand(lanes[:, :model.dim].tobytes() == mine[:, :model.dim].tobytes(),
               "different initial weights of rows")
        return (f"{len(keys)} keys and the initial weights of their rows, "
                f"{len(parameters)} dense parameters: bit for bit")

    def gradients(self, model):
        # One step at a rate so high that rounding of the weights hides almost nothing; then steps
        # from trained weights, at a rate at which no model diverges.
        size = 128
        for seed in range(1, 10):
            first = self.sgd_steps(model, seed, size, size, 1024)
            later = first and self.sgd_steps(model, seed, 4 * size + 60, size, 2**-6)
            if later:
                return f"first step {first}; later {later}"
        raise Wrong("with every seed, an input of a rectifier is too close to zero")

    def sgd_steps(self, model, seed, lines, size, rate):
        """Compares every step of a run with SGD with the twin's from the same weights.

        Returns None if the sign of a rectifier's input may differ in f32.
        """
        report, saved, examples = self.stepwell(
            model, lines, data__eval_fraction=0, data__mini_batch=size, data__epochs=1,
            seed=seed, model__hidden="24,16", model__second="20,12", model__bottom="20",
            model__init_range=0.25,
            checkpoint__every=1, optim__rows__kind="sgd", optim__rows__lr=rate,
            optim__dense__kind="sgd", optim__dense__lr=rate)
        twin = Twin(report["config"], examples, saved[0].dense["parameters"])
        steps = parts(len(examples), size)
        demand(len(saved) == len(steps) + 1, f"{len(saved)} checkpoints of {len(steps)} steps")
        worst, rows = Worst(rate), 0
        for before, after, part in zip(saved, saved[1:], steps):
            # Both sides start each step from the weights of the previous checkpoint.
            twin.parameters[:] = before.dense["parameters"]
            keys, lanes = before.rows()
            twin.rows[np.searchsorted(examples.keys, keys)] = lanes
            _, dense, touched, d_rows = twin.gradients(part)
            if twin.model.kink < KINK_MIN:
                return None
            worst.add_dense(twin.model, dense, twin.parameters, after.dense["parameters"])
            keys, lanes = after.rows()
            place = np.searchsorted(keys, examples.keys[touched])
            demand(np.array_equal(keys[place % len(keys)], examples.keys[touched]),
                   "a row was touched, but is missing")
            worst.add_rows(twin.model, d_rows, twin.rows[touched], lanes[place])
            others = np.setdiff1d(np.arange(len(keys)), place, assume_unique=True)
            demand(np.array_equal(twin.rows[np.searchsorted(examples.keys, keys[others])],
                                  lanes[others]), "a row changed without being touched")
            rows += len(touched)
        return f"{twin.model.count} parameters, {rows} rows: {worst}"

    def progress(self, model, lines, **settings):
        run = self.stepwell(model, lines, **settings)
        for start in range(STARTS):
            try:
                return self.beside(start, *run)
            except Apart as why:
                apart = why
        raise Wrong(f"{apart} (from all {STARTS} starts)")

    def beside(self, start, report, saved, examples):
        """Compares a whole run with the twin's, from its weights or from a start close to them.

        If the input of a rectifier is as small as the rounding of f32, its sign is arbitrary and
        both sides are right: losses then differ by more than rounding, and by as much between
        twins with almost equal first weights. One of them must agree with the run.
        """
        config = report["config"]
        twin = Twin(config, examples, saved[0].dense["parameters"])
        if start > 0:
            hair = np.random.default_rng(start).standard_normal(len(twin.parameters))
            twin.parameters *= 1 + HAIR * hair
        tested = evaluated(len(examples), config["data.eval_fraction"])
        count = len(examples) - tested
        epochs = report["progressive_by_epoch"]
        demand([e["examples"] for e in epochs] == [count] * config["data.epochs"]
               and report["eval"]["examples"] == tested, f"not {count} and {tested} examples")
        said = []
        for epoch, measured in zip(epochs, report["eval_by_epoch"]):
            loss = twin.train(count, config["data.mini_batch"])
            test_loss, test_auc = twin.evaluate(count)
            pairs = [("log loss", loss, epoch["logloss"], LOSS_OFF_MAX),
                     ("evaluated", test_loss, measured["logloss"], LOSS_OFF_MAX),
                     ("AUC", test_auc, measured["auc"], AUC_OFF_MAX)]
            for what, mine, theirs, most in pairs:
                if not abs(mine - theirs) <= most:
                    raise Apart(f"{what} {theirs:.7f}, but the twin's is {mine:.7f}: they differ by "
                                f"more than {most}")
            said.append(", ".join(f"{what} {theirs:.6f} ({theirs - mine:+.1e})"
                                  for what, mine, theirs, _ in pairs))
        near = f" (start {start + 1}, for a rectifier near zero)" if start > 0 else ""
        return "; ".join(said) + near

    def store(self):
        """Rows that do not fit in memory: evicted, merged, expired and deleted."""
        report, saved, _ = self.stepwell(
            "deepfm", 3000, model__dim=8, model__hidden="8", data__mini_batch=64,
            data__epochs=2, tiers__dram="300KiB", tiers__segment="64KiB", tiers__space=1.5,
            rows__expire_after=20, checkpoint__every=10, pipeline__lookahead=0)
        last = saved[-1]
        digest, rows = last.digest()
        demand(report["tiers"]["disk"]["compactions"] > 0, "nothing was merged")
        demand((digest, rows) == (report["model_digest"], report["rows"]),
               f"digest {digest} of {rows} rows, but the report has {report['model_digest']} of "
               f"{report['rows']}")
        store = last.store
        demand(store.versions > len(store.keys) and store.moved > 0, "no row has several versions")
        return (f"digest of {rows} rows: {store.versions} versions in "
                f"{len(store.manifest['segments'])} segments, {store.moved} moved by merges, "
                f"{len(store.deletions)} deletions")

    def large_rows(self):
        """Rows whose page is larger than the smallest one that holds a row."""
        report, saved, _ = self.stepwell(
            "deepfm", 100, model__dim=350, model__hidden="8", data__mini_batch=50)
        last = saved[-1]
        digest, rows = last.digest()
        demand((digest, rows) == (report["model_digest"], report["rows"]), f"digest {digest}")
        store = last.store
        demand(store.page > 4096 and store.per_page > 1, f"pages of {store.page}")
        return f"digest of {rows} rows of {store.row_bytes} bytes in pages of {store.page}"

    def fixture(self):
        """A store next to the tests with known rows: deletions, merges and an expiry."""
        store = Store(FIXTURE, FIXTURE_SEGMENT)
        newest = {n: 3 if n < 10 else 1 if n < 70 else 0 for n in range(120)
                  if n < 10 or n % 10 != (3 if n < 70 else 4)}
        known = {n * 0x9E3779B97F4A7C15 % 2**64: [(31 * n + 7 * version + at) % 256
                                                  for at in range(40)]
                 for n, version in newest.items()}
        rows = dict(zip(store.keys.tolist(), store.lanes.view(np.uint8).tolist()))
        demand(rows == known, "different rows")
        demand(len(store.deletions) > 0, "no deletions")
        return f"{len(rows)} rows of {store.versions} versions, {len(store.deletions)} deletions"

    def dealt(self):
        """The same store split in two by key shards; the program must find both undamaged."""
        whole = Store(FIXTURE, FIXTURE_SEGMENT)
        shards, keys = key_shards_of(whole.keys), []
        for part in (0, 1):
            home = self.folder / f"part-{part}"
            bits = sum(1 << shard for shard in range(256) if shard % 2 == part)
            deal(whole, home, bits, int((shards % 2 == part).sum()))
            done = subprocess.run([self.binary, "store", "check", home], capture_output=True,
                                  text=True)
            demand(done.returncode == 0, f"{home}: {(done.stdout + done.stderr).strip()}")
            store = Store(home, FIXTURE_SEGMENT)
            at = np.searchsorted(whole.keys, store.keys)
            demand(np.array_equal(whole.keys[at], store.keys)
                   and store.lanes.tobytes() == whole.lanes[at].tobytes(), f"{home}: different rows")
            keys.append(len(store.keys))
        demand(sum(keys) == len(whole.keys), f"{keys} rows of {len(whole.keys)}")
        return f"{keys[0]} and {keys[1]} rows"


def deal(whole, home, bits, rows):
    """Creates a store in `home` with the key shards in `bits`, which have `rows` rows, from another's
    files. Its segment numbers are reversed: the origin's numbers determine what is newer."""
    home.mkdir()
    manifest = {**whole.manifest, "store": f"{1 + rows:032x}", "key_shards": f"{bits:064x}",
                "rows": rows, "directories": [str(home)],
                "origins": [{"store": whole.manifest["store"], "key_shards": f"{bits:064x}"}]}
    first, manifest["segments"] = manifest["next_segment"], []
    for n, named in enumerate(reversed(whole.manifest["segments"]), first):
        shutil.copyfile(whole.path / f"segment-{named['segment']:012}.rows",
                        home / f"segment-{n:012}.rows")
        manifest["segments"].append({**named, "segment": n, "origin": 0,
                                     "number": named["segment"]})
    manifest["next_segment"] = first + len(manifest["segments"])
    del manifest["checksum"]
    text = json.dumps(manifest, indent=2).removeprefix("{\n").encode()
    head = f'{{\n  "checksum": "{xxh3(text):016x}",\n'
    (home / "manifest.json").write_bytes(head.encode() + text)


class Worst:
    """The largest differences between the twin's gradients and those computed from weights in f32.

    The rate is a power of two, so `rate * g` is exact and the new weight is the f32 nearest to
    `before - rate * g`. So `(before - after) / rate` differs from g by at most half a unit in the
    last place of `after`, over the rate; that is allowed in addition to the tolerances.
    """

    def __init__(self, rate):
        self.rate = rate
        self.off, self.part = (0.0, "none"), (0.0, "none")

    def add_dense(self, model, gradient, before, after):
        views = [model.views(flat) for flat in (gradient, before, after)]
        for name in model.shapes:
            self.add(name, *(view[name] for view in views))

    def add_rows(self, model, gradient, before, after):
        halves = {"embeddings": slice(model.dim), "wide weights": slice(model.dim, None)}
        for name, columns in halves.items():
            if gradient[:, columns].size:
                self.add(name, *(rows[:, columns] for rows in (gradient, before, after)))

    def add(self, name, gradient, before, after):
        rounding = 0.5 * np.spacing(np.abs(after)).astype(float) / self.rate
        off = np.abs((before - after.astype(float)) / self.rate - gradient)
        beyond, greatest = (off - rounding).max(), np.abs(gradient).max()
        demand(beyond <= GRADIENT_OFF_MAX and beyond <= GRADIENT_PART_MAX * greatest,
               f"{name}: off by {off.max():.2e}, {beyond:.2e} beyond the rounding of weights; the "
               f"largest gradient is {greatest:.2e}")
        self.off = max(self.off, (off.max(), name))
        self.part = max(self.part, (off.max() / greatest, name))

    def __str__(self):
        (off, off_name), (part, part_name) = self.off, self.part
        return (f"off by {off:.1e} ({off_name}), by {part:.1e} of the largest of a parameter "
                f"({part_name})")


def data_file(given, folder, binary):
    """The given data, else the sample in STEPWELL_DATA, else data drawn by the program."""
    if given:
        return given
    sample = Path(os.environ.get("STEPWELL_DATA", "")) / SAMPLE
    target = folder / "sample.tsv"
    if sample.is_file() and shutil.which("zstd"):
        subprocess.run(["zstd", "-dqf", sample, "-o", target], check=True)
    else:
        subprocess.run([binary, "synth", "--out", target, "--examples", "5000", "--vocab-scale",
                        "1"], check=True, capture_output=True)
    return target


def plan(checks, lines):
    """All checks, by name."""
    yield "published", checks.published
    for model in MODELS:
        yield f"gradients {model}", lambda: checks.gradients(model)
    for model in MODELS:
        yield f"progress {model}", lambda: checks.progress(model, lines)
    rates = {"sgd": 0.1, "adagrad": 0.02, "adam": 0.002}
    for rows, dense in (("sgd", "adagrad"), ("adagrad", "sgd"), ("adam", "adagrad")):
        yield f"progress {rows} and {dense}", lambda: checks.progress(
            "deepfm", lines, model__hidden="32,16",
            optim__rows__kind=rows, optim__rows__lr=rates[rows],
            optim__dense__kind=dense, optim__dense__lr=rates[dense] / 10)
    yield "store", checks.store
    yield "store, large rows", checks.large_rows
    yield "store, fixture", checks.fixture
    yield "store, dealt out", checks.dealt


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("--stepwell", type=Path, default=ROOT / "target/release/stepwell", help="the binary")
    add("--data", type=Path, help=f"a TSV (default: {SAMPLE} in STEPWELL_DATA, else drawn)")
    add("--lines", type=int, default=4000, help="lines that `progress` reads (default: %(default)s)")
    add("--only", default="", help="run checks whose names contain this")
    add("--quick", action="store_true", help="skip the slow checks, gradients and progress")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="twin-") as folder:
        folder = Path(folder)
        data = data_file(options.data, folder, options.stepwell)
        for name, check in plan(Checks(options.stepwell, folder, data), options.lines):
            slow = name.startswith(("gradients", "progress"))
            if options.only not in name or options.quick and slow:
                continue
            begin = time.perf_counter()
            try:
                said = check()
            except Wrong as why:
                sys.exit(f"{name:<26} FAILED: {why}")
            print(f"{name:<26} {time.perf_counter() - begin:5.1f} s  {said}", flush=True)


if __name__ == "__main__":
    main()
