#!/usr/bin/env python3
"""Theoretical limits of a GPU: the tables of docs/devices.md, from bytes, launches and operations.

Nothing runs on a GPU. With --data or STEPWELL_DATA, the ids of mini-batches are counted in the
sample, which needs the `zstd` command; all other tables use the constants from such a count. The
assumptions are at the top of this file.
"""

import argparse
import os
import subprocess
from collections import Counter
from math import gcd, pi, sqrt
from pathlib import Path

SAMPLE = "criteo_tb_80k.tsv.zst"

# From NVIDIA's data sheets: bytes of memory, bytes per second.
GPUS = {"H100": (80e9, 3.35e12), "H200": (141e9, 4.8e12)}
# Dense operations per second of both.
FLOPS = {"f32": 67e12, "TF32": 495e12, "bf16": 989e12}
# Assumed: bytes per second each way; seconds of a launch or copy, of a read from L2, and from L1.
PCIE, LAUNCH, L2, L1 = 55e9, 4e-6, 150e-9, 20e-9
# Rows per second that a host thread reads at random: docs/internals/measurements.md, "Rows in memory".
LIFTED = 14e6
SECTOR, PIECE = 32, 1 << 20

# Default settings, with Criteo's columns.
EXAMPLES, FIELDS, DENSE, DIM, BLOCKS = 4096, 26, 13, 16, 8
HIDDEN, BOTTOM, CROSSES = (512, 256, 128), (512, 256, DIM), 3
EMBEDDING = FIELDS * DIM
COLUMNS = EMBEDDING + DENSE
# Bags of a row that `rows_update` reads at once.
AT_ONCE = 8
# Counted in the sample by `count`: distinct rows of a mini-batch, and examples with its most frequent
# id.
DISTINCT, MOST_FREQUENT = 22_900, 3_600
ROWS_AN_EXAMPLE = DISTINCT / EXAMPLES
# Bytes sent up per example: for each occurrence its row, its bag and the bag's end; for each row its
# slot and the end of its bags; dense features and label.
LISTS = 12 * FIELDS + 8 * ROWS_AN_EXAMPLE + 4 * DENSE + 4


class Dense:
    """Operations, lanes of memory, parameters and launches of layers, for one example."""

    def __init__(self):
        self.flops = self.lanes = self.parameters = 0
        self.launches = 0

    def linear(self, inputs, outputs, wanted=None, rectified=True):
        """`wanted` columns of the input need a gradient (default: all)."""
        wanted = inputs if wanted is None else wanted
        self.flops += 2 * outputs * (2 * inputs + wanted)
        self.lanes += 2 * inputs + wanted + (8 if rectified else 6) * outputs
        self.parameters += outputs * (inputs + 1)
        self.launches += 5 if wanted else 4

    def mlp(self, inputs, widths, wanted=None):
        for outputs in widths:
            self.linear(inputs, outputs, wanted)
            inputs, wanted = outputs, None
        return inputs

    def cross(self, wanted):
        self.flops += 2 * COLUMNS * (2 * COLUMNS + wanted)
        self.lanes += 19 * COLUMNS
        self.parameters += COLUMNS * (COLUMNS + 1)
        self.launches += 6

    def factorization_machine(self):
        self.flops += 6 * EMBEDDING
        self.lanes += 4 * EMBEDDING
        self.launches += 2

    def interaction(self, vectors):
        pairs = vectors * (vectors - 1) // 2
        self.flops += 2 * 3 * DIM * pairs
        self.lanes += 3 * vectors * DIM + 2 * pairs
        self.launches += 2
        return pairs

    def concat(self, columns):
        self.lanes += 4 * columns
        self.launches += 2

    def bytes(self):
        """Bytes per example: of layers; and of gradients by block, their sum, and Adam."""
        return 4 * self.lanes, 4 * self.parameters * (2 * BLOCKS + 7) / EXAMPLES


def dense(model):
    of = Dense()
    if model in ("lr", "wide_deep", "deepfm"):
        of.linear(DENSE, 1, 0, rectified=False)
        of.launches += 2  # Sum of the logit, forward and backward.
    if model in ("wide_deep", "deepfm"):
        of.linear(of.mlp(COLUMNS, HIDDEN, EMBEDDING), 1, rectified=False)
    if model == "deepfm":
        of.factorization_machine()
    if model == "dcn":
        for number in range(CROSSES):
            of.cross(COLUMNS if number else EMBEDDING)
        width = COLUMNS + of.mlp(COLUMNS, HIDDEN, EMBEDDING)
        of.concat(width)
        of.linear(width, 1, rectified=False)
    if model == "dlrm":
        of.mlp(DENSE, BOTTOM, 0)
        width = DIM + of.interaction(FIELDS + 1)
        of.concat(width)
        of.linear(of.mlp(width, HIDDEN), 1, rectified=False)
    of.launches += 3  # Loss, sum over blocks, optimizer.
    return of


class Row:
    """A row of `dim` and `wide` weights, with as many lanes of Adagrad state."""

    def __init__(self, dim, wide):
        self.dim, self.weights = dim, dim + wide
        self.bytes = 2 * 4 * self.weights

    def fetched(self, asked):
        """Bytes of the sectors that contain the first `asked` bytes of a row, on average."""
        step = gcd(self.bytes, SECTOR)
        counts = [(at + asked - 1) // SECTOR + 1 for at in range(0, SECTOR, step)]
        return SECTOR * sum(counts) / len(counts)

    def read(self):
        return self.fetched(4 * self.weights)

    def whole(self):
        return self.fetched(self.bytes)


ROWS = {"lr": Row(0, 1), "wide_deep": Row(DIM, 1), "deepfm": Row(DIM, 1), "dcn": Row(DIM, 0),
        "dlrm": Row(DIM, 0)}
SHAPES = {"`lr`": ROWS["lr"], "`wide_deep`, `deepfm`": ROWS["deepfm"],
          "`dcn`, `dlrm`": ROWS["dcn"]}


def kernels(row):
    """Bytes per row, or per occurrence for rows_pool, if no cache has any of them."""
    weights, read, whole = 4 * row.weights, row.read(), row.whole()
    occurrences = EXAMPLES * FIELDS / DISTINCT
    return {
        "rows_read": read + weights + 4,
        "rows_up": row.bytes + 4 + whole,
        "rows_down": whole + 4 + row.bytes,
        "rows_step": 2 * whole + weights + 4,
        "rows_update": 2 * whole + 8 + occurrences * (weights + 4),
        "rows_pool": read + SECTOR + 8 + 4 * row.dim,
    }


def probes(load, places):
    """Probes for a key that exists, and for one that does not (Knuth, volume 3, section 6.4)."""
    if load == 1:
        return sqrt(pi * places / 8) + 1 / 3, places
    return (1 + 1 / (1 - load)) / 2, (1 + 1 / (1 - load) ** 2) / 2


def probed(count):
    """Bytes of the sectors that contain `count` consecutive keys."""
    return SECTOR * (1 + (count - 1) / (SECTOR / 8))


def two(number):
    """Formats with two significant digits."""
    digits = 1 - int(f"{number:e}".split("e")[1])
    return f"{round(number, digits):,.{max(digits, 0)}f}"


def share(number):
    """Formats a threshold, as a fraction of all rows."""
    return "never" if number > 1 else "0" if number < 0.001 else two(number)


def rate(number):
    return "-" if number > 10_000 else two(number)


def table(*rows):
    rows = [[cell if isinstance(cell, str) else two(cell) for cell in row] for row in rows]
    rule = "|".join(["---"] * len(rows[0]))
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    print("\n".join([lines[0], f"|{rule}|", *lines[1:]]), end="\n\n")


def count(path):
    """Distinct rows of mini-batches, uses of the most frequent, and new rows in the last."""
    unpack = ["zstd", "-dqc", path] if str(path).endswith(".zst") else ["cat", path]
    lines = subprocess.run(unpack, check=True, capture_output=True, text=True).stdout.splitlines()
    ids = [list(enumerate(line.split("\t")[1 + DENSE:])) for line in lines]
    found = []
    for examples in (EXAMPLES // 4, EXAMPLES, EXAMPLES * 4):
        distinct, most, seen, fresh = [], [], set(), 0.0
        for start in range(0, len(ids) - examples + 1, examples):
            of = Counter(each for example in ids[start:start + examples] for each in example)
            distinct.append(len(of))
            most.append(max(of.values()))
            fresh = len(of.keys() - seen) / len(of)
            seen |= of.keys()
        mean = sum(distinct) / len(distinct)
        found.append([f"{examples}", f"{len(distinct)}", f"{mean:.0f}",
                      mean / examples / FIELDS, mean / examples, f"{max(most)}", fresh])
    table(["examples", "mini-batches", "distinct rows", "an occurrence", "an example",
           "examples with the most frequent id", "new in the last"], *found)


def of_rows():
    sizes = [[name, f"{row.weights}", f"{row.bytes}", f"{row.read():.0f} for {4 * row.weights}",
              f"{row.whole():.0f} for {row.bytes}",
              *(capacity / row.bytes / 1e6 for capacity, _ in GPUS.values())]
             for name, row in SHAPES.items()]
    table(["rows of", "w", "R", "s", "S", *(f"M rows in an {gpu}" for gpu in GPUS)], *sizes)
    each = [kernels(row) for row in SHAPES.values()]
    table(["kernel", *SHAPES],
          *([f"`{kernel}`", *(f"{of[kernel]:.0f}: " + ", ".join(
              two(bytes_a_second / of[kernel] / 1e9) for _, bytes_a_second in GPUS.values())
              for of in each)] for kernel in each[0]))


def of_the_hash_table():
    loads = [(0.5, 0), (0.75, 0), (0.9, 0), (0.95, 0), (0.99, 0), (1, 1 << 17), (1, 1 << 24)]
    lines = []
    for load, places in loads:
        line = [f"{load}" + (f", of {places:,} places" if places else "")]
        for found, value in zip(probes(load, places), (SECTOR, 0)):
            of_key = 12 + probed(found) + value
            rates = (two(bytes_a_second / of_key / 1e9) for _, bytes_a_second in GPUS.values())
            line += [found, of_key, ", ".join(rates)]
        lines.append(line)
    head = ["bytes", "G keys/s"]
    table(["load", "probes of a hit", *head, "of a miss", *head], *lines)


def launches(model):
    """Launches and copies per step: besides the dense part, four copies, rows_pool, rows_update."""
    return 6 + dense(model).launches


class Times:
    """Seconds per example, by limit."""

    def __init__(self, model):
        of, row = dense(model), ROWS[model]
        self.rows = [2 * ROWS_AN_EXAMPLE * row.whole() / rate for _, rate in GPUS.values()]
        self.layers = [sum(of.bytes()) / rate for _, rate in GPUS.values()]
        self.products = [of.flops / rate for rate in FLOPS.values()]
        self.lists = LISTS / PCIE
        self.launches = launches(model) * LAUNCH / EXAMPLES
        # AT_ONCE bags are read at once: their numbers from L1, then their gradients, from L2 or, if
        # all of them fit, from L1.
        self.most_frequent = MOST_FREQUENT * (L1 + (L2 if row.dim else L1)) / AT_ONCE / EXAMPLES

    def all(self):
        single = [self.lists, self.launches, self.most_frequent]
        return [*self.rows, *self.layers, *self.products, *single]


def of_models():
    print(f"Lists, dense features and label: {LISTS:.0f} bytes an example.\n")
    parts = []
    for model, row in ROWS.items():
        of = dense(model)
        layers, blocks = (two(each / 1e3) if each > 10 else "0" for each in of.bytes())
        flops = two(of.flops / 1e6) if of.flops > 1e4 else "0"
        parts.append([f"`{model}`", 2 * ROWS_AN_EXAMPLE * row.whole(), flops, layers, blocks,
                      f"{of.parameters:,}", f"{launches(model)}"])
    table(["model", "bytes of rows", "M operations", "KB of layers", "KB of gradients",
           "dense parameters", "launches and copies"], *parts)
    table(["model", *(f"rows, {gpu}" for gpu in GPUS), *(f"layers, {gpu}" for gpu in GPUS), *FLOPS,
           "PCIe", "launches", "most frequent id"],
          *([f"`{model}`", *(rate(1e-6 / time) for time in Times(model).all())] for model in ROWS))


def of_missing_rows():
    lines = []
    for model, row in ROWS.items():
        times, up = Times(model), row.bytes + 8
        slow = max(times.products[0], times.launches)
        fast = max(times.products[1], times.layers[0])
        on_pcie = [share((PCIE * time - LISTS) / (ROWS_AN_EXAMPLE * up)) for time in (slow, fast)]
        one_thread = [share(LIFTED * time / ROWS_AN_EXAMPLE) for time in (slow, fast)]
        all_missing = PCIE / (LISTS + ROWS_AN_EXAMPLE * up) / 1e6
        lines.append([f"`{model}`", f"{up}", f"{row.bytes}", all_missing, *on_pcie, *one_thread])
    table(["model", "up", "down", "M examples/s at m = 1", "PCIe: f32", "TF32",
           "one thread: f32", "TF32"], *lines)
    print(f"One thread at m = 1: {two(LIFTED / ROWS_AN_EXAMPLE / 1e6)} M examples/s. One piece "
          f"at a time: {two(PIECE / (PIECE / PCIE + 3 * LAUNCH) / 1e9)} GB/s.\n")


def of_today():
    lines = []
    for model, row in ROWS.items():
        down, up = 4 * row.weights, 4 * row.weights + 4
        # The list of slots is sent up before weights arrive, and is there when the sums arrive.
        before = 3 * LAUNCH + DISTINCT * (4 + down) / PCIE
        step = before + 3 * LAUNCH + DISTINCT * down / PCIE
        flops = dense(model).flops
        products = two(flops * EXAMPLES / 1e12 * 1e3) if flops > 1e4 else "0"
        of_example = [ROWS_AN_EXAMPLE * bytes_of_row for bytes_of_row in (down, up)]
        lines.append([f"`{model}`", f"{down}", f"{up}", *of_example, before * 1e6, step * 1e6,
                      1e-6 * EXAMPLES / step, products])
    table(["model", "down, a row", "up", "down, an example", "up", "us to fetch", "us of a step",
           "M examples/s", "ms of products"], *lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, help=f"{SAMPLE}, compressed or not")
    options = parser.parse_args()
    folder = os.environ.get("STEPWELL_DATA")
    if options.data or folder:
        count(options.data or Path(folder) / SAMPLE)
    of_rows()
    of_the_hash_table()
    of_models()
    of_missing_rows()
    of_today()


if __name__ == "__main__":
    main()
