#!/usr/bin/env python3
"""The guided path against a grid: `schema`, `train`, `eval` as in the README, and the same with other
mini-batches and epochs at the default rates. Prints AUC on a test part that no run has seen.

  python bench/guided.py [--stepwell target/release/stepwell] [--only NAME] [--seeds 1]

Data: three real sets from the folder STEPWELL_DATA (needs the `zstd` command; without the folder,
they are skipped), and two synthetic ones of 20,000 and 1,000,000 clicks. The test part is the last
fifth of a file, or a separate file.
"""

import argparse
import json
import math
import os
import random
import subprocess
import tempfile
from pathlib import Path

BATCHES, EPOCHS = (64, 256, 1024, 4096), (1, 2, 3)
ADULT = ("age,workclass,fnlwgt,education,education_num,marital_status,occupation,relationship,race,"
         "sex,capital_gain,capital_loss,hours_per_week,native_country,income")
CRITEO = "\t".join(["label"] + [f"I{i}" for i in range(1, 14)] + [f"C{i}" for i in range(1, 27)])


def unpacked(path):
    return subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout.decode()


def cut(text, header):
    """Splits off the last fifth of the lines; both parts get the header."""
    lines = [line for line in text.splitlines() if line]
    at = len(lines) - len(lines) // 5
    return [header, *lines[:at]], [header, *lines[at:]]


def adult(data):
    return cut(unpacked(data / "adult/adult.data.zst").replace(", ", ","), ADULT)


def criteo(data):
    return cut(unpacked(data / "criteo_tb_80k.tsv.zst"), CRITEO)


def attribution(data):
    return [unpacked(data / f"criteo-attribution/{part}.csv.zst").splitlines()
            for part in ("train", "valid")]


def drawn(count):
    """Clicks by users and items of skewed popularity, price, hour, and one interaction of ids."""
    def draw(_):
        dice = random.Random(count)
        users, items = count // 20, count // 100
        taste = [dice.gauss(0, 0.7) for _ in range(users)]
        appeal = [dice.gauss(0, 0.9) for _ in range(items)]
        lines = []
        for _ in range(count):
            user, item = int(users * dice.random() ** 2), int(items * dice.random() ** 3)
            hour, price = dice.randrange(24), round(math.exp(dice.gauss(3, 1)), 2)
            z = taste[user] + appeal[item] - 0.3 * math.log(price) + 0.4 * math.sin(hour / 4)
            z += 0.8 if (user % 7 + item % 5) % 2 else -0.8
            click = int(dice.random() < 1 / (1 + math.exp(1 - z)))
            lines.append(f"{click},u{user},i{item},{hour},{price}")
        return cut("\n".join(lines), "click,user_id,item_id,hour,price")
    return draw


SETS = {"adult": adult, "criteo_tb_80k": criteo, "criteo-attribution": attribution,
        "drawn, 20,000": drawn(20_000), "drawn, 1,000,000": drawn(1_000_000)}


def auc(program, folder, flags, seed):
    saved = folder / "saved"
    subprocess.run(["rm", "-rf", saved], check=True)
    quiet = [program, "train", folder / "run.toml", "--checkpoint", saved, "-q", "--seed", str(seed)]
    subprocess.run([*quiet, *flags], check=True, cwd=folder, stdout=subprocess.DEVNULL)
    report = folder / "eval.json"
    subprocess.run([program, "eval", saved, "--data", "test" + folder.suffix, "--report", report],
                   check=True, cwd=folder, stdout=subprocess.DEVNULL)
    return json.loads(report.read_text())["eval"]["auc"]


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepwell", default="target/release/stepwell")
    p.add_argument("--only", choices=list(SETS))
    p.add_argument("--seeds", type=int, default=1)
    options = p.parse_args()
    program = Path(options.stepwell).resolve()
    print("| data | records | guided path | AUC | best of the grid | AUC | behind |")
    print("|---|---:|---|---:|---|---:|---:|")
    for name, folder, count in prepared(program, options.only):
        one(name, program, folder, count, options.seeds)


def prepared(program, only):
    """Name, folder and training records of each set, or the `only` one: `train` and `test` with the
    folder's suffix, and `run.toml` as `schema` writes it. A folder is removed after its turn."""
    data = os.environ.get("STEPWELL_DATA")
    for name, make in SETS.items():
        if only not in (None, name):
            continue
        if make in (adult, criteo, attribution) and not data:
            print(f"{name} is skipped: STEPWELL_DATA is not set")
            continue
        with tempfile.TemporaryDirectory(suffix=".tsv" if make is criteo else ".csv") as made:
            folder = Path(made)
            train, test = make(data and Path(data))
            for part, lines in (("train", train), ("test", test)):
                (folder / f"{part}{folder.suffix}").write_text("\n".join(lines) + "\n")
            schema = [program, "schema", f"train{folder.suffix}", "--out", "run.toml"]
            subprocess.run(schema, check=True, cwd=folder, stdout=subprocess.DEVNULL,
                           stderr=subprocess.DEVNULL)
            yield name, folder, len(train) - 1


def one(name, program, folder, count, seeds):
    mean = lambda flags: sum(auc(program, folder, flags, 1 + seed) for seed in range(seeds)) / seeds
    settings = (folder / "run.toml").read_text().splitlines()
    own = next((line for line in settings if line.startswith("mini_batch")), "mini_batch of train")
    guided, grid = mean([]), {}
    for batch in BATCHES:
        for epochs in EPOCHS if batch * 10 <= count + 1 else ():
            flags = ["--data.mini_batch", str(batch), "--data.epochs", str(epochs)]
            grid[batch, epochs] = mean(flags)
    (batch, epochs), best = max(grid.items(), key=lambda item: item[1])
    print(f"| {name} | {count:,} | {own} | {guided:.4f} | {batch}, {epochs} epochs | "
          f"{best:.4f} | {best - guided:.4f} |", flush=True)
    for (batch, epochs), value in grid.items():
        print(f"  {batch}, {epochs}: {value:.4f}", flush=True)


if __name__ == "__main__":
    main()
