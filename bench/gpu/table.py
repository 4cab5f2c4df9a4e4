#!/usr/bin/env python3
"""Prints the results of run.sh as the tables of docs/internals/measurements.md: `table.py FOLDER`."""

import csv
import json
import sys
from pathlib import Path

RUNS = ["deepfm", "deepfm_again", "dlrm", "deepfm_tenth", "deepfm_fiftieth", "deepfm_bf16"]
PEERS = ["torch_deepfm", "manual_deepfm", "compiled_deepfm", "tf32_deepfm", "bf16_deepfm",
         "torch_dlrm", "manual_dlrm", "compiled_dlrm"]


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|---" * len(head) + "|")
    for row in rows:
        print("| " + " | ".join(map(str, row)) + " |")
    print()


def last_pass(events):
    """Examples per second of the last pass, without its evaluation."""
    ends = [at for at, event in enumerate(events) if event["event"] == "epoch"]
    if len(ends) < 2:
        return float("nan")
    begin = max((e for e in events[:ends[-1]] if e["event"] != "training"),
                key=lambda e: e["seconds"])
    end = [e for e in events[:ends[-1] + 1] if e["event"] == "training"][-1]
    return (end["examples"] - begin["examples"]) / (end["seconds"] - begin["seconds"])


def runs(folder):
    rows = []
    for name in RUNS:
        report, lines = folder / f"{name}.json", folder / f"{name}.jsonl"
        if not report.exists() or not lines.exists():
            rows.append([name, "failed"])
            continue
        report = json.loads(report.read_text())
        rate = last_pass([json.loads(line) for line in lines.read_text().splitlines()])
        each = 1e6 / report["examples"]
        busy = {stage["name"]: stage["busy_seconds"] * each for stage in report["stages"]}
        device = report["tiers"]["device"]
        rows.append([name, f"{rate / 1e6:.2f}", device["fills"], device["below"], device["pooled"],
                     f"{device['seconds_waiting'] * each:.2f}",
                     ", ".join(f"{stage} {us:.2f}" for stage, us in busy.items() if us >= 0.01)])
    print("Runs: the last of three passes, M examples/s; rows moved up, rows that stayed on the "
          "host, mini-batches\npooled there; microseconds per example: waiting for the device, and "
          "of all threads of each stage.\n")
    table(["run", "M/s", "up", "below", "pooled", "waiting", "busy"], rows)


def peers(folder):
    rows = []
    for name in PEERS:
        text = (folder / f"{name}.txt").read_text() if (folder / f"{name}.txt").exists() else ""
        found = [line for line in text.splitlines() if line.startswith("{")]
        rate = json.loads(found[-1])["step_examples_per_second"] / 1e6 if found else float("nan")
        rows.append([name, f"{rate:.2f}"])
    print("PyTorch's steps only, M examples/s.\n")
    table(["way and model", "M/s"], rows)


def kernels(folder):
    figures = json.loads((folder / "hbm.json").read_text())
    copy = figures["copy_bytes_per_second"] / 1e12
    print(f"Row kernels relative to copies within the device, {copy:.2f} TB/s.\n")
    names = [kernel["kernel"] for kernel in figures["rows"][0]["kernels"]]
    table(["bytes of a row", *names],
          [[rows["row_bytes"], *(f"{kernel['over_copy']:.2f}" for kernel in rows["kernels"])]
           for rows in figures["rows"]])
    lookup = figures["lookup"]
    print(f"{lookup['step_rows']} rows of a step: {1e6 * lookup['slots_seconds']:.0f} us by slots, "
          f"{1e6 * lookup['table_seconds']:.0f} by the table.\n")
    table(["bytes of a copy", "GB/s up", "down"],
          [[way["bytes"], f"{way['up'] / 1e9:.1f}", f"{way['down'] / 1e9:.1f}"]
           for way in figures["ways"]["host"]])


def operations(folder):
    lines = (folder / "micro.txt").read_text().splitlines()
    print("Operations in plain CUDA.\n")
    table(["what", "size", "figure", "unit"], [line.split("\t") for line in lines if "\t" in line])


def profile(folder):
    """Microseconds of each kernel, from 160 launches recorded by ncu."""
    text = (folder / "ncu.txt").read_text().splitlines()
    begin = next((at for at, line in enumerate(text) if line.startswith('"ID"')), len(text))
    sums = {}
    for row in csv.DictReader(text[begin:]):
        if row["Metric Name"] != "gpu__time_duration.sum":
            continue
        scale = {"ns": 1e-3, "us": 1.0, "ms": 1e3}.get(row["Metric Unit"], float("nan"))
        name = row["Kernel Name"].split("(")[0][:60]
        count, time = sums.get(name, (0, 0.0))
        sums[name] = count + 1, time + scale * float(row["Metric Value"].replace(",", ""))
    print("160 launches of `deepfm`, by kernel.\n")
    table(["kernel", "launches", "us each", "us together"],
          [[name, count, f"{time / count:.1f}", f"{time:.0f}"]
           for name, (count, time) in sorted(sums.items(), key=lambda item: -item[1][1])])


def main():
    folder = Path(sys.argv[1])
    print((folder / "gpu.txt").read_text())
    table(["part", "status", "seconds"],
          [line.split("\t") for line in (folder / "status.tsv").read_text().splitlines()])
    for part in (kernels, operations, runs, peers, profile):
        try:
            part(folder)
        except (OSError, KeyError, ValueError, StopIteration) as error:
            print(f"{part.__name__}: {error!r}\n")


if __name__ == "__main__":
    main()
