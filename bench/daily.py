#!/usr/bin/env python3
"""Training day by day against one run over all days, and how fast a large table is inherited.

  python bench/daily.py [--stepwell target/release/stepwell] [--examples 65536]
  python bench/daily.py --rows 38000000 --folder /a/large/disk

Without --rows: five synthetic days whose clicks drift. Each day's model is scored on the next day,
and must have the digest and AUC of a single run over all days so far: in memory, with two ranks,
with tiny tiers, and killed in the middle of each day.

With --rows: a table of that many rows of 520 bytes (embedding and optimizer state) is trained and
saved, then `train --from` continues with one more mini-batch. Prints the bytes that the second run
wrote, the time until its first step, and both per row. Needs a disk with twice the table's bytes.
"""

import argparse
import json
import math
import random
import re
import shutil
import signal
import subprocess
import tempfile
import time
from pathlib import Path

DAYS, MINI_BATCH = 5, 256
LARGE_DIM, LARGE_IDS = 64, 24
RUN = f"""[data]
eval_fraction = 0
mini_batch = {MINI_BATCH}
[model]
kind = "deepfm"
dim = 8
hidden = [32, 16]
"""


def draw(folder, examples):
    """Clicks of users on items whose appeal drifts from day to day."""
    dice = random.Random(43)
    users, items = examples // 8, examples // 64
    taste = [dice.gauss(0, 0.7) for _ in range(users)]
    appeal = [dice.gauss(0, 1) for _ in range(items)]
    for day in range(1, DAYS + 2):
        lines = ["click,user_id,item_id,price"]
        for _ in range(examples):
            # A tenth of a day's users and items are new.
            user = int(users * (dice.random() + day / 10) / 2)
            item = int(items * (dice.random() ** 2 + day / 10) / 2)
            price = round(math.exp(dice.gauss(3, 1)), 2)
            z = taste[user] + appeal[item] - 0.3 * math.log(price) - 0.5
            click = int(dice.random() < 1 / (1 + math.exp(-z)))
            lines.append(f"{click},u{user},i{item},{price}")
        (folder / f"day_{day}.csv").write_text("\n".join(lines) + "\n")
        appeal = [0.9 * a + 0.4 * dice.gauss(0, 1) for a in appeal]
    (folder / "run.toml").write_text(RUN + """
[[columns]]
names = ["click"]
type = "label"
[[columns]]
names = ["user_id", "item_id"]
type = "id"
[[columns]]
names = ["price"]
type = "dense"
transform = "log1p"
""")


class Runs:
    def __init__(self, program, folder):
        self.program, self.folder = program, folder

    def start(self, *flags, **how):
        words = [self.program, *map(str, flags)]
        how = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, **how}
        return subprocess.Popen(words, cwd=self.folder, **how)

    def end(self, child, flags):
        said, _ = child.communicate()
        if child.returncode:
            raise SystemExit(f"stepwell {' '.join(map(str, flags))}: {said}")
        return said

    def report(self, *flags):
        flags = [*flags, "-q", "--report", "report.json"]
        self.end(self.start(*flags), flags)
        return json.loads((self.folder / "report.json").read_text())

    def killed(self, saved, flags):
        """Starts a run and kills it at its first checkpoint; returns whether it was killed in time."""
        before = set(saved.iterdir()) if saved.exists() else set()
        child = self.start(*flags, "--checkpoint.every", 50, "-q")
        while child.poll() is None:
            new = set(saved.iterdir()) - before if saved.exists() else set()
            if any(re.fullmatch(r"step-\d+", path.name) for path in new):
                child.send_signal(signal.SIGKILL)
                break
            time.sleep(0.002)
        child.communicate()
        return child.returncode == -signal.SIGKILL


def tiny(runs):
    """Flags with the least memory for rows that these mini-batches can be trained in."""
    flags = ["train", "run.toml", "--data", "day_1.csv", "--tiers.dram", "16KiB", "-q"]
    said = runs.start(*flags).communicate()[0]
    return ["--tiers.dram", re.search(r"more, at most (\d+)", said)[1], "--tiers.segment", "256KiB"]


def days(program, folder, examples):
    draw(folder, examples)
    runs = Runs(program, folder)
    ways = {"in memory": [], "2 ranks": ["--ranks.count", 2], "tiny tiers": tiny(runs), "killed": []}
    one, kills = {}, 0
    for day in range(1, DAYS + 1):
        data = [f"--data=day_{d}.csv" for d in range(1, day + 1)]
        flags = ["train", "run.toml", *data, "--checkpoint", f"one-{day}"]
        digest = runs.report(*flags)["model_digest"]
        scored = runs.report("eval", f"one-{day}", "--data", f"day_{day + 1}.csv")
        one[day] = digest, scored["eval"]["auc"]
    print(f"{DAYS} days of {examples:,} examples; AUC on the next day, of one run over all days so far")
    print("and day by day (=: same digest and AUC)\n")
    print("| day | one run | " + " | ".join(ways) + " |\n|---|---:" + "|---:" * len(ways) + "|")
    for day in range(1, DAYS + 1):
        cells = [f"{one[day][1]:.6f}"]
        for way, more in ways.items():
            saved = folder / way.replace(" ", "-")
            begin = ["run.toml"] if day == 1 else ["--from", saved]
            flags = ["train", *begin, f"--data=day_{day}.csv", "--checkpoint", saved, *more]
            if way == "killed":
                flags += ["--resume=auto"] if day == 1 else []
                kills += runs.killed(saved, flags)
            digest = runs.report(*flags)["model_digest"]
            auc = runs.report("eval", saved, "--data", f"day_{day + 1}.csv")["eval"]["auc"]
            same = (digest, auc) == one[day]
            cells.append("=" if same else f"{auc:.6f}, different model")
        print(f"| {day} | " + " | ".join(cells) + " |", flush=True)
    print(f"\nkilled after a checkpoint: {kills} of {DAYS} days")


def large(program, folder, rows):
    """Trains on ids that occur once each, so that each has its own row, and continues the run."""
    count = rows // LARGE_IDS // MINI_BATCH * MINI_BATCH
    names = [f"c{column}" for column in range(LARGE_IDS)]
    head = ",".join(["click", *names]) + "\n"

    def write(path, first, count):
        with open(path, "w") as file:
            file.write(head)
            for at in range(first, first + count):
                ids = ",".join(f"{column + LARGE_IDS * at:x}" for column in range(LARGE_IDS))
                file.write(f"{at % 5 // 4},{ids}\n")

    write(folder / "day_1.csv", 0, count)
    write(folder / "day_2.csv", count, MINI_BATCH)
    (folder / "run.toml").write_text(
        f'[data]\neval_fraction = 0\nmini_batch = {MINI_BATCH}\n[model]\nkind = "deepfm"\n'
        f'dim = {LARGE_DIM}\nhidden = [32]\n[[columns]]\nnames = ["click"]\ntype = "label"\n'
        f'[[columns]]\nnames = {json.dumps(names)}\ntype = "id"\n')
    runs = Runs(program, folder)
    place = ["--tiers.ssd", "tiers", "--tiers.dram", "512MiB", "--tiers.index", "2GiB"]
    begin = time.time()
    first = runs.report("train", "run.toml", "--data", "day_1.csv", "--checkpoint", "saved", *place)
    table = first["tiers"]["disk"]["bytes"]
    print(f"{first['rows']:,} rows, {table / 1e9:.1f} GB of files, trained in "
          f"{time.time() - begin:.0f} s", flush=True)
    subprocess.run(["sync"], check=True)
    flags = ["train", "--from", "saved", "--data", "day_2.csv", "--checkpoint", "saved", *place,
             "--threads", 2, "--metrics", "metrics.jsonl", "--no-digest", "-q",
             "--report", "report.json"]
    begin, child, written, seen = time.time(), runs.start(*flags), 0, None
    while child.poll() is None:
        try:
            text = Path(f"/proc/{child.pid}/io").read_text()
            written = int(re.search(r"^write_bytes: (\d+)", text, re.M)[1])
        except (OSError, TypeError):
            pass
        metrics = folder / "metrics.jsonl"
        if seen is None and metrics.exists() and metrics.stat().st_size > 0:
            seen = time.time() - begin, written
        time.sleep(0.01)
    runs.end(child, flags)
    ends = time.time() - begin
    at, wrote = seen or (ends, written)
    print(f"first step after {at:.2f} s, {at / first['rows'] * 1e9:.0f} ns a row; {wrote / 1e6:.1f} MB "
          f"written by then, {wrote / table:.5f} of the table; in total {ends:.2f} s, "
          f"{written / 1e6:.1f} MB")


def main():
    p = argparse.ArgumentParser(description=__doc__,
                                formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--stepwell", default="target/release/stepwell")
    p.add_argument("--examples", type=int, default=256 * MINI_BATCH, help="examples per day")
    p.add_argument("--rows", type=int)
    p.add_argument("--folder", type=Path)
    options = p.parse_args()
    program = Path(options.stepwell).resolve()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        if options.rows:
            large(program, folder, options.rows)
        else:
            days(program, folder, options.examples // MINI_BATCH * MINI_BATCH)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
