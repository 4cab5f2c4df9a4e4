#!/usr/bin/env python3
"""Reading every format, against polars and pyarrow: rows to labels, features and hashed ids, on one
core.

The rows are those of a Criteo TSV, repeated a few times, in each format. Each reader is a separate
process, bound to one core, and they alternate; files are in the page cache. Ours is all of `stepwell
convert --threads 1`: starting, reading, parsing, hashing with XXH3, and writing the packed file.
Theirs reads the file and computes features: a label in f32, log1p of 13 numbers, a hash of 26 ids;
polars hashes for both.
"""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

from sides import ROOT, machine, run, say, table

NAMES = ["label"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)]
FORMATS = ["csv", "tsv", "jsonl", "parquet"]
WAYS = ["polars", "pyarrow"]
COLUMNS = """
[[columns]]
names = ["label"]
type = "label"
[[columns]]
names = ["I1-I13"]
type = "dense"
transform = "log1p"
[[columns]]
names = ["C1-C26"]
type = "id"
"""


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("data", type=Path, help="a Criteo TSV, plain or compressed with zstd")
    add("--times", type=int, default=5, help="repetitions of its rows")
    add("--stepwell", type=Path, default=ROOT / "target/release/stepwell", help="our binary")
    add("--python", default=sys.executable, help="a Python with polars and pyarrow")
    add("--rounds", type=int, default=3)
    add("--scratch", type=Path, default=Path("/dev/shm"), help="folder for all files")
    add("--way", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.way:
        way, form = options.way.split(",")
        print(json.dumps(theirs(way, form, options.data)))
        return
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    os.environ |= {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1"}
    folder = options.scratch / f"formats-{os.getpid()}"
    folder.mkdir()
    try:
        measure(options, folder)
    finally:
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()


def measure(options, folder):
    rows = make(options, folder)
    speeds, versions = {}, {}
    for _ in range(options.rounds):
        for form in FORMATS:
            path = folder / f"rows.{form}"
            speeds.setdefault((form, "ours"), []).append(rows / ours(options, folder, path))
            for way in WAYS:
                report = json.loads(
                    run([options.python, __file__, path, "--way", f"{way},{form}"]))
                versions |= report["versions"]
                speeds.setdefault((form, way), []).append(rows / report["seconds"])
            found = {way: speed[-1] for (of, way), speed in speeds.items() if of == form}
            say(f"{form}: " + ", ".join(f"{way} {speed:,.0f}" for way, speed in found.items()))
    print(f"{options.data.name}, {rows:,} rows, one core, medians of {options.rounds} rounds")
    print(f"{', '.join(f'{k} {v}' for k, v in versions.items())}\n{machine()}\n")
    median = {key: statistics.median(speed) for key, speed in speeds.items()}
    lines = [[form, f"{median[form, 'ours']:,.0f}",
              *(f"{median[form, way]:,.0f}" for way in WAYS),
              f"{median[form, 'ours'] / max(median[form, way] for way in WAYS):.2f}"]
             for form in FORMATS]
    print(table(["format", "ours, rows/s", *WAYS, "ours over the faster"], lines))


def make(options, folder):
    """Writes the rows in every format; returns their number."""
    import pyarrow as pa
    import pyarrow.parquet as pq
    text = options.data.read_bytes()
    if options.data.suffix == ".zst":
        text = subprocess.run(["zstd", "-dc", options.data], stdout=subprocess.PIPE,
                              check=True).stdout
    text = text.decode() * options.times
    rows = [line.split("\t") for line in text.split("\n")[:-1]]
    (folder / "columns.toml").write_text(COLUMNS)
    (folder / "rows.tsv").write_text("\t".join(NAMES) + "\n" + text)
    with open(folder / "rows.csv", "w") as file:
        file.write(",".join(NAMES) + "\n")
        file.writelines(",".join(row) + "\n" for row in rows)
    with open(folder / "rows.jsonl", "w") as file:
        for row in rows:
            values = (f'"{name}":' + (f'"{value}"' if name[0] == "C" else value)
                      for name, value in zip(NAMES, row) if value)
            file.write("{" + ",".join(values) + "}\n")
    columns = list(zip(*rows))
    arrays = [pa.array([value or None for value in column]) if name[0] == "C"
              else pa.array([int(value) if value else None for value in column], pa.int32())
              for name, column in zip(NAMES, columns)]
    pq.write_table(pa.table(arrays, names=NAMES), folder / "rows.parquet")
    return len(rows)


def ours(options, folder, path):
    out = folder / "out.packed"
    begin = time.perf_counter()
    run([options.stepwell, "convert", path, "--config", folder / "columns.toml", "--out", out,
         "--threads", 1, "--force"])
    return time.perf_counter() - begin


def theirs(way, form, path):
    import polars as pl
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.json
    import pyarrow.parquet
    pa.set_cpu_count(1)
    schema = {name: pl.String if name[0] == "C" else pl.Int32 for name in NAMES}
    types = {name: pa.string() if name[0] == "C" else pa.int32() for name in NAMES}
    delimiter = {"tsv": "\t"}.get(form, ",")
    begin = time.perf_counter()
    if (way, form) == ("polars", "jsonl"):
        frame = pl.read_ndjson(path, schema=schema)
    elif (way, form) == ("polars", "parquet"):
        frame = pl.read_parquet(path)
    elif way == "polars":
        frame = pl.read_csv(path, separator=delimiter, schema=schema, quote_char=None)
    elif form == "jsonl":
        options = pa.json.ReadOptions(use_threads=False)
        parse = pa.json.ParseOptions(explicit_schema=pa.schema(types.items()))
        frame = pa.json.read_json(path, options, parse)
    elif form == "parquet":
        frame = pa.parquet.read_table(path, use_threads=False)
    else:
        frame = pa.csv.read_csv(
            path, pa.csv.ReadOptions(use_threads=False),
            pa.csv.ParseOptions(delimiter=delimiter, quote_char=False),
            pa.csv.ConvertOptions(column_types=types, null_values=[""], strings_can_be_null=True))
    frame = frame if way == "polars" else pl.from_arrow(frame, rechunk=False)
    made = frame.lazy().select(
        pl.col("label").cast(pl.Float32),
        pl.col(NAMES[1:14]).cast(pl.Float32).clip(0).log1p().fill_null(0.0),
        pl.col(NAMES[14:]).hash()).collect()
    seconds = time.perf_counter() - begin
    assert made.width == 40 and math.isfinite(seconds)
    return {"seconds": seconds, "versions": {"polars": pl.__version__, "pyarrow": pa.__version__}}


if __name__ == "__main__":
    main()
