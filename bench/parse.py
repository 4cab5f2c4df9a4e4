#!/usr/bin/env python3
"""Parsing against polars and pyarrow: Criteo TSV to labels, features and hashed ids, on one core.

Each parser is a separate process, bound to one core, and they alternate; the file is in the page
cache. Ours is all of `stepwell convert --threads 1`: starting, reading, parsing, hashing with XXH3,
and writing the packed file. Theirs only reads and parses pieces of 8 MiB, from the first to the
last, as `torch_ctr.py` does; with hashing, ids become row numbers.
"""

import argparse
import json
import os
import statistics
import sys
import time
from pathlib import Path

from sides import ROOT, machine, run, say, table

DENSE, SLOTS = 13, 26
COLUMNS = ["y"] + [f"I{i}" for i in range(DENSE)] + [f"C{i}" for i in range(SLOTS)]
WAYS = ["pyarrow", "polars", "pyarrow, hashed", "polars, hashed"]
PIECE = 8 << 20


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("data", type=Path, help="a TSV file, such as the one that compare.py writes to target/bench/compare")
    add("--stepwell", type=Path, default=ROOT / "target/release/stepwell", help="our binary")
    add("--python", default=sys.executable, help="a Python with polars and pyarrow")
    add("--rounds", type=int, default=3)
    add("--scratch", type=Path, default=Path("/dev/shm"), help="folder for the packed file")
    add("--way", choices=WAYS, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        print(json.dumps(theirs(options.way, options.data)))
        return
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    lines = sum(piece.count(b"\n") for piece in pieces(options.data))
    speeds, versions = {way: [] for way in ["ours", *WAYS]}, {}
    for _ in range(options.rounds):
        speeds["ours"].append(lines / ours(options))
        for way in WAYS:
            report = json.loads(run([options.python, __file__, options.data, "--way", way]))
            versions |= report["versions"]
            speeds[way].append(lines / report["seconds"])
        say(", ".join(f"{way} {speed[-1]:,.0f}" for way, speed in speeds.items()))
    best = statistics.median(speeds["ours"])
    print(f"{options.data.name}, {lines:,} lines, one core, medians of {options.rounds} rounds")
    print(f"{', '.join(f'{k} {v}' for k, v in versions.items())}\n{machine()}\n")
    rows = [[way, f"{statistics.median(speed):,.0f}", f"{best / statistics.median(speed):.2f}"]
            for way, speed in speeds.items()]
    print(table(["way", "lines/s", "ours over it"], rows))


def ours(options):
    out = options.scratch / f"parse-{os.getpid()}.packed"
    try:
        begin = time.perf_counter()
        run([options.stepwell, "convert", options.data, "--out", out, "--threads", 1])
        return time.perf_counter() - begin
    finally:
        out.unlink(missing_ok=True)


def pieces(path):
    """Yields the file as byte strings of whole lines."""
    with open(path, "rb", buffering=0) as file:
        rest = b""
        while block := file.read(PIECE):
            cut = block.rfind(b"\n") + 1
            yield rest + block[:cut]
            rest = block[cut:]
        if rest:
            yield rest


def theirs(way, path):
    import polars as pl
    import pyarrow as pa
    import pyarrow.csv

    def by_polars(piece):
        schema = {c: pl.String if c[0] == "C" else pl.Int32 for c in COLUMNS}
        return pl.read_csv(piece, separator="\t", has_header=False, schema=schema, quote_char=None)

    def by_pyarrow(piece):
        types = {c: pa.string() if c[0] == "C" else pa.int32() for c in COLUMNS}
        return pa.csv.read_csv(
            pa.BufferReader(piece),
            pa.csv.ReadOptions(column_names=COLUMNS, use_threads=False),
            pa.csv.ParseOptions(delimiter="\t", quote_char=False),
            pa.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True))

    reader, hashed = way.split(",")[0], way.endswith("hashed")
    parse = {"polars": by_polars, "pyarrow": by_pyarrow}[reader]
    pa.set_cpu_count(1)
    begin = time.perf_counter()
    for piece in pieces(path):
        frame = parse(piece)
        if hashed:
            frame = frame if reader == "polars" else pl.from_arrow(frame, rechunk=False)
            frame.lazy().select(
                pl.col("y").cast(pl.Float32),
                pl.col(COLUMNS[1:1 + DENSE]).cast(pl.Float32).clip(0).log1p().fill_null(0.0),
                pl.col(COLUMNS[1 + DENSE:]).hash()).collect()
    seconds = time.perf_counter() - begin
    return {"seconds": seconds, "versions": {"polars": pl.__version__, "pyarrow": pa.__version__}}


if __name__ == "__main__":
    main()
