#!/usr/bin/env python3
"""Default learning rates against tuned ones: the guided path of `guided.py`, model by model, and the
same at a grid of rates for rows and for the dense part. Prints AUC on a test part that no run has
seen; the best of the grid is chosen on that part, so it is an upper bound of what tuning gives.

  python bench/rates.py [--stepwell target/release/stepwell] [--only NAME] [--models lr deepfm]

Data is that of `guided.py`: three real sets from the folder STEPWELL_DATA, and two synthetic ones.
"""

import argparse
from pathlib import Path

from guided import SETS, auc, prepared

MODELS = ["lr", "fm", "deepfm", "dcn"]
OF_ROWS, OF_DENSE = (0.01, 0.03, 0.1, 0.3), (0.0003, 0.001, 0.003, 0.01, 0.03)


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepwell", default="target/release/stepwell")
    p.add_argument("--only", choices=list(SETS))
    p.add_argument("--models", nargs="+", default=MODELS, metavar="MODEL")
    options = p.parse_args()
    program = Path(options.stepwell).resolve()
    print("| data | model | AUC | best of the grid: rows, dense part | AUC | behind |")
    print("|---|---|---:|---|---:|---:|")
    for name, folder, _ in prepared(program, options.only):
        for model in options.models:
            one(name, model, program, folder)


def one(name, model, program, folder):
    kind, grid = ["--model.kind", model], {}
    untuned = auc(program, folder, kind, 1)
    for rows in OF_ROWS:
        for dense in OF_DENSE:
            flags = [*kind, "--optim.rows.lr", str(rows), "--optim.dense.lr", str(dense)]
            grid[rows, dense] = auc(program, folder, flags, 1)
    (rows, dense), best = max(grid.items(), key=lambda item: item[1])
    print(f"| {name} | {model} | {untuned:.4f} | {rows}, {dense} | {best:.4f} | "
          f"{best - untuned:.4f} |", flush=True)


if __name__ == "__main__":
    main()
