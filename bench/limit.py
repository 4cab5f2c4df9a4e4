"""A table ten times as large as a control group's limit: Stepwell trains it to the end, and an
`nn.Embedding` of the same size is killed.

Each side is a process in a control group of its own, so the script must be run as root. Every id is
trained once, and every tenth a second time.

    PYTHONPATH=... python bench/limit.py --path /nvme/rows
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

V1, V2 = "/sys/fs/cgroup/memory", "/sys/fs/cgroup"


class ControlGroup:
    """A control group with a limit on memory."""

    def __init__(self, limit):
        is_v1 = os.path.isfile(f"{V1}/memory.limit_in_bytes")
        self.path = f"{V1 if is_v1 else V2}/stepwell-{os.getpid()}"
        os.mkdir(self.path)
        names = ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"]
        for name in names if is_v1 else ["memory.max"]:
            try:
                with open(f"{self.path}/{name}", "w") as file:
                    file.write(str(limit))
            except OSError:
                # Without swap accounting, there's no second limit.
                if name == names[0] or not is_v1:
                    raise

    def join(self):
        with open(f"{self.path}/cgroup.procs", "w") as file:
            file.write(str(os.getpid()))

    def remove(self):
        for _ in range(50):
            try:
                return os.rmdir(self.path)
            except OSError:
                time.sleep(0.1)


def status(name):
    """A size of this process in MiB."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith(name)) / 1024


def batches(options):
    """Ids of all rows in a fixed random order, and a tenth of them again."""
    import numpy as np
    rows = options.limit * 10 // options.row_bytes
    # A permutation by a step that has no divisor in common with the number of rows.
    step = int(rows * 0.618) | 1
    while np.gcd(step, rows) != 1:
        step += 2
    total = rows + rows // 10
    for first in range(0, total, options.batch):
        number = np.arange(first, min(first + options.batch, total), dtype=np.int64)
        yield number % rows * step % rows


def stepwell_side(options):
    import stepwell
    import torch
    model = torch.nn.Linear(options.dim, 1)
    dense = torch.optim.SGD(model.parameters(), lr=0.1)
    before = status("RssAnon")
    emb = stepwell.Embeddings({"id": stepwell.Table(options.dim)}, {"id": "id"},
                              memory=options.memory, index=options.index, path=options.path,
                              lookahead=2)
    rows = stepwell.optim.Adagrad(emb, lr=0.1)
    peak = 0
    for step, (_, x) in enumerate(emb.ahead({"id": ids} for ids in batches(options))):
        loss = (model(x) ** 2).mean()
        dense.zero_grad()
        loss.backward()
        rows.step()
        dense.step()
        if step % 20 == 0:
            peak = max(peak, status("RssAnon") - before)
    of = emb.stats()
    print(f"{of['steps']} steps, {of['rows_fit']} rows fit, {of['rows_on_disk']} on disk, "
          f"{of['bytes_on_disk'] / 2**30:.1f} GiB; the process grew by {peak:.0f} MiB, "
          f"memory = {int(options.memory) / 2**20:.0f} MiB")


def pytorch_side(options):
    import torch
    rows = options.limit * 10 // options.row_bytes
    table = torch.nn.Embedding(rows, options.dim, sparse=True)
    model = torch.nn.Linear(options.dim, 1)
    optimizer = torch.optim.Adagrad([*table.parameters(), *model.parameters()], lr=0.1)
    for ids in batches(options):
        loss = (model(table(torch.from_numpy(ids))) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("trained to the end")


SIDES = {"stepwell": stepwell_side, "pytorch": pytorch_side}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--limit", type=int, default=1536 << 20, help="bytes of the group")
    parser.add_argument("--memory", type=int, default=768 << 20)
    parser.add_argument("--index", type=int, default=400 << 20)
    parser.add_argument("--dim", type=int, default=64)
    parser.add_argument("--batch", type=int, default=65536)
    parser.add_argument("--path", help="directory for rows; by default, a temporary one")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    # Weights and sums of squares.
    options.row_bytes = 8 * options.dim
    if options.side:
        return SIDES[options.side](options)
    table = options.limit * 10 / 2**30
    print(f"limit {options.limit / 2**20:.0f} MiB, table {table:.1f} GiB")
    for side in SIDES:
        group = ControlGroup(options.limit)
        path = tempfile.mkdtemp(dir=options.path)
        begin = time.perf_counter()
        try:
            command = [sys.executable, __file__, *sys.argv[1:], "--side", side]
            child = subprocess.run([*command, "--path", path], preexec_fn=group.join,
                                   capture_output=True, text=True)
        finally:
            shutil.rmtree(path)
            group.remove()
        said = child.stdout.strip() or (child.stderr.strip().splitlines() or ["nothing"])[-1]
        ended = f"killed by signal {-child.returncode}" if child.returncode < 0 else said
        print(f"{side}: {ended} ({time.perf_counter() - begin:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
