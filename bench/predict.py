#!/usr/bin/env python3
"""Predictions of `stepwell plan --profile` for several ranks on this machine, against measurements.

Each model is trained from one packed file by 1, 2 and 4 ranks, alternately. `plan` predicts the
others from the report of one rank. Compared are processor time of the process per example, which
other work on the machine disturbs little, and examples per second, which it disturbs a lot: medians
of all rounds, each with its own report of one rank.

`--fit` finds the cost of building and reading messages (`PerExchange` in
crates/train/src/forecast/costs.rs) from these runs, by least squares of relative errors, and shows
the resulting processor time. To test the costs, run without it and with other --cases.
If --out has reports of an earlier call, --again uses them and runs nothing.
"""

import argparse
import itertools
import json
import os
import statistics
from pathlib import Path

from sides import ROOT, machine, run, say, table

COSTS = [("key", "keys"), ("lane", "lanes"), ("message", "messages")]


def settings(options, model, batch):
    return [ROOT / f"examples/{model}.toml", "--data", options.data, "--data.mini_batch", batch,
            "--data.eval_fraction", 0, "--threads", options.threads, "--tiers.dram", "256MiB"]


def train(options, case, ranks, number):
    """The report of one run."""
    (model, epochs, batch), name = case, "-".join(map(str, (*case, ranks, number)))
    report = options.out / f"{name}.json"
    if not (options.again and report.exists()):
        others = busy() - own()
        run([options.stepwell, "train", *settings(options, model, batch), "--data.epochs", epochs,
             "--ranks", ranks, "--report", report])
        figures = json.loads(report.read_text())
        figures["others"] = (busy() - own() - others) / figures["wall_seconds"]
        report.write_text(json.dumps(figures))
    figures = json.loads(report.read_text())
    seconds = figures["processor"]["seconds"] / figures["examples"]
    say(f"{name}: {figures['examples_per_second']:.0f} examples/s, {seconds * 1e6:.3f} us of "
        f"processor time, others took {figures['others']:.2f} cores")
    return report, seconds, figures["examples_per_second"]


def busy():
    """Seconds that all processors of the machine were busy."""
    of = [int(word) for word in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return (sum(of) - of[3] - of[4]) / os.sysconf("SC_CLK_TCK")


def own():
    times = os.times()
    return times.children_user + times.children_system


def plan(options, case, ranks, profile):
    model, _, batch = case
    said = run([options.stepwell, "plan", *settings(options, model, batch), "--ranks", ranks,
                "--profile", profile, "--json"])
    return json.loads(said)["forecast"]


def solve(rows, wanted):
    """Least squares of a few unknowns, by elimination; None if the rows do not determine them."""
    count = len(rows[0])
    matrix = [[sum(row[i] * row[j] for row in rows) for j in range(count)]
              + [sum(row[i] * want for row, want in zip(rows, wanted))] for i in range(count)]
    for i in range(count):
        pivot = max(range(i, count), key=lambda j: abs(matrix[j][i]))
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        if matrix[i][i] == 0:
            return None
        matrix[i] = [value / matrix[i][i] for value in matrix[i]]
        for j in range(count):
            if j != i:
                matrix[j] = [a - matrix[j][i] * b for a, b in zip(matrix[j], matrix[i])]
    return [row[-1] for row in matrix]


def fit(cases):
    """Non-negative costs with the least sum of squared relative errors."""
    best = None
    for few in itertools.chain(*(itertools.combinations(range(3), n) for n in (1, 2, 3))):
        rows = [[features[i] / measured for i in few] for features, _, measured in cases]
        found = solve(rows, [(measured - base) / measured for _, base, measured in cases])
        if found is None or min(found) < 0:
            continue
        costs = [0.0] * 3
        for i, cost in zip(few, found):
            costs[i] = cost
        error = sum(((base + of(costs, features)) / measured - 1) ** 2
                    for features, base, measured in cases)
        if best is None or error < best[0]:
            best = error, costs
    return best[1]


def of(costs, features):
    return sum(cost * feature for cost, feature in zip(costs, features))


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    add = parser.add_argument
    add("data", type=Path, help="a packed file")
    add("--stepwell", type=Path, default=ROOT / "target/release/stepwell", help="our binary")
    add("--cases", nargs="+", default=["deepfm:4:4096", "lr:30:4096"], metavar="CASE",
        help="model:epochs:mini_batch (default: %(default)s)")
    add("--ranks", nargs="+", type=int, default=[2, 4])
    add("--threads", type=int, default=1, help="threads per rank")
    add("--rounds", type=int, default=3)
    add("--fit", action="store_true", help="fit the costs of messages again")
    add("--again", action="store_true", help="use existing reports")
    add("--out", type=Path, default=ROOT / "target/bench/predict", help="folder for reports")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    runs = {}
    cases = [(model, int(epochs), int(batch))
             for model, epochs, batch in (case.split(":") for case in options.cases)]
    for number in range(options.rounds):
        for case, ranks in itertools.product(cases, [1, *options.ranks]):
            runs.setdefault((case, ranks), []).append(train(options, case, ranks, number))
    found = []
    for (case, ranks), of_case in runs.items():
        for (profile, _, _), (_, seconds, rate) in zip(runs[case, 1], of_case):
            forecast = plan(options, case, ranks, profile)
            used = [forecast["per_exchange"][name] for name, _ in COSTS]
            features = [forecast["exchanged"][name] for _, name in COSTS]
            predicted = forecast["one_machine"]
            base = predicted["processor_seconds"] - of(used, features)
            found.append(((case, ranks), features, base, seconds, predicted, rate))
    costs = used
    if options.fit:
        costs = fit([(features, base, seconds)
                     for (_, ranks), features, base, seconds, _, _ in found if ranks > 1])
    print(", ".join(f"{name} {cost * 1e9:.3g} ns" for (name, _), cost in zip(COSTS, costs)))
    rows = []
    for (model, _, batch), ranks in runs:
        of_row = [one[1:] for one in found if one[0] == ((model, _, batch), ranks)]
        middle = lambda figure: statistics.median(figure(*one) for one in of_row)
        seconds = middle(lambda features, base, seconds, *_: seconds) * 1e6
        over = middle(lambda features, base, seconds, *_: (base + of(costs, features)) / seconds)
        rate = middle(lambda *one: one[4])
        rate_over = middle(lambda *one: one[3]["examples_per_second"] / one[4])
        rows.append([f"{model}, {batch}", ranks, f"{seconds:.2f}", f"{over:.3f}",
                     f"{rate / 1e3:.1f} K", f"{rate_over:.2f}", of_row[0][3]["bound"]])
    print(f"\n{machine()}, medians of {options.rounds}\n")
    print(table(["model, mini-batch", "ranks", "processor us/example", "predicted over it",
                 "examples/s", "predicted over it", "bound"], rows))


if __name__ == "__main__":
    main()
