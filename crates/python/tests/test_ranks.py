"""Embeddings of several ranks: rows don't depend on the number of ranks if gradients don't, all ranks
take the same steps, and checkpoints open on other numbers of ranks. This file is also the program
that each rank runs."""

import contextlib
import datetime
import itertools
import json
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import stepwell

try:
    import torch
    from torch import distributed as dist
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

BATCH = 24
ROWS = 120
TABLES = {
    "user": stepwell.Table(4, init_range=0.5),
    "item": stepwell.Table(3, init_range=0.5, storage="bf16", admit_after=2, sketch=1),
}
FEATURES = {
    "user": "user",
    "item": "item",
    "hist": stepwell.Feature("item", pooling="sum"),
    "seq": stepwell.Feature("user", pooling=None),
}


def batches(rank, size, steps, seed=0):
    """The part of `rank` of batches that are the same for any number of ranks."""
    random = np.random.default_rng(seed)
    for _ in range(steps):
        part = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
        bags = [random.integers(0, ROWS, random.integers(0, 4)) for _ in range(BATCH)]
        seqs = [random.integers(0, ROWS, random.integers(0, 3)) for _ in range(BATCH)]
        yield {
            "user": random.integers(0, ROWS, BATCH)[part],
            "item": random.integers(0, ROWS, BATCH)[part],
            "hist": [list(bag) for bag in bags[part]],
            "seq": [list(bag) for bag in seqs[part]],
        }


def embeddings(group, dram="24KiB", **more):
    emb = stepwell.Embeddings(TABLES, FEATURES, dram=dram, group=group, **more)
    return emb, stepwell.optim.Adagrad(emb, lr=0.25)


def loss_of(x, size):
    """A loss whose gradients, and their sums, are exact: its mean over ranks is the whole's."""
    pooled = x["user"].sum() + (x["item"] * 0.5).sum() + (x["hist"] * 0.25).sum()
    seq = x["seq"]
    return (pooled + (F.embedding(seq.index, seq.rows) * 0.125).sum()) * size


def trained(emb, rows, source, size, steps=None):
    losses = 0
    for _, x in itertools.islice(emb.ahead(source), steps):
        loss_of(x, size).backward()
        rows.step()
        losses += 1
    return losses


def same_rows(group, rank, size, home):
    """Digests after training, a save and more training, with an evaluation within."""
    found = {}
    for lookahead, dram in ((0, "64MiB"), (3, "24KiB")):
        emb, rows = embeddings(group, dram, lookahead=lookahead)
        with emb:
            for step, (_, x) in enumerate(emb.ahead(batches(rank, size, 12))):
                loss_of(x, size).backward()
                rows.step()
                if step == 4:
                    for _ in emb.ahead(batches(rank, size, 3, seed=9), train=False):
                        pass
                    emb.save(f"{home}/{lookahead}")
            found[f"steps {lookahead}"] = emb.steps
            found[f"digest {lookahead}"] = emb.digest()
            ids = np.arange(20) + rank
            found[f"get {lookahead}"] = emb.get("item", ids)[20 - rank - 5 :][:5].tolist()
    return found


def resumed(group, rank, size, home):
    """The digest of a checkpoint that any number of ranks made, and after more training."""
    emb, _ = stepwell.load(f"{home}/3", group=group, dram="24KiB")
    rows = stepwell.optim.Adagrad(emb, lr=0.25)
    with emb:
        begun = emb.digest()
        rest = itertools.islice(batches(rank, size, 12), 5, None)
        trained(emb, rows, rest, size)
        return {"begun": begun, "ended": emb.digest(), "steps": emb.steps}


def by_key(group, rank, size, home):
    """Ranks read, write and export rows together; the last rank's weights count."""
    emb, rows = embeddings(group)
    with emb:
        trained(emb, rows, batches(rank, size, 2), size)
        emb.put("user", [1, 500 + rank, 1], [[5, 5, 5, 5], [rank] * 4, [rank, 7, 7, 7]])
        emb.put("item", np.arange(40), np.full((40, 3), 0.5))
        said = ""
        try:
            emb.put("user", [3, 4], [[0.0] * 4, [float("nan") if rank == 0 else 1.0] * 4])
        except Exception as error:
            said = "is not a finite number" in str(error)
        emb.export(f"{home}/out-{size}", format="npy")
        found = emb.get("user", [1, *range(500, 500 + size)])
        digest = emb.digest()
        emb.save(f"{home}/by-key")
        again = []
        # One rank has this row, and rank 0's directory is not the others'.
        emb.put("user", [7], [[1.0] * 4])
        for path in (f"{home}/by-key", f"{home}/own-{rank}"):
            try:
                emb.save(path)
            except (ValueError, OSError) as error:
                again.append(str(error))
    with stepwell.load(f"{home}/by-key")[0] as alone:
        same = alone.digest() == digest
    files = sorted(os.listdir(f"{home}/out-{size}"))
    again = ["other rows" in again[0], "share it" in again[1]]
    return {"found": found.tolist(), "same": same, "said": said, "files": files, "again": again}


def uneven(group, rank, size, home):
    """All ranks take as many steps as the one with the fewest batches."""
    emb, rows = embeddings(group)
    with emb:
        ended = trained(emb, rows, batches(rank, size, 9 - 3 * rank), size)
        more = trained(emb, rows, batches(rank, size, 2), size)
        return {"steps": [ended, more, emb.steps], "digest": emb.digest()}


def failing(group, rank, size, home):
    """An error of one rank's loader ends all loops after the same step."""

    def source():
        yield from batches(rank, size, 4)
        if rank == 1:
            raise OSError("gone")
        yield from batches(rank, size, 4)

    emb, rows = embeddings(group)
    with emb:
        taken = said = 0
        try:
            taken = trained(emb, rows, source(), size)
        except OSError as error:
            said, taken = str(error), emb.steps
        return {"steps": [taken, emb.steps], "said": said}


def refused(group, rank, size, home):
    """Ids that one rank can't read, and a mini-batch that one rank can't hold, end no rank."""
    emb, rows = embeddings(group, dram="8KiB")
    said = []
    short = {"user": (np.arange(4), np.array([0, 3])), "item": [1], "hist": [1], "seq": [[1]]}
    large = {name: np.arange(5000) for name in FEATURES}
    for ids in ({"user": [1.5], "item": [1], "hist": [1], "seq": [1]}, short, large):
        given = ids if rank == 0 else {name: [1] for name in FEATURES}
        if "seq" in given and ids is not short:
            given["seq"] = [[int(id)] for id in given["user"]]
        try:
            emb(given)
        except (ValueError, TypeError, RuntimeError) as error:
            said.append(str(error)[:60])
    one = {name: [1] for name in FEATURES} | {"seq": [[1]]}
    loss_of(emb(one), size).backward()
    rows.step()
    emb.digest()
    return {"said": said, "steps": [emb.steps]}


def skipped(group, rank, size, home):
    """A step that one rank's scaler skips is taken by none."""
    emb, rows = embeddings(group)
    scaler = torch.amp.GradScaler("cpu", init_scale=2.0)
    with emb:
        for step, (_, x) in enumerate(emb.ahead(batches(rank, size, 4))):
            loss = loss_of(x, size)
            if step == 2 and rank == 0:
                loss = loss * float("inf")
            scaler.scale(loss).backward()
            scaler.step(rows)
            scaler.update(2.0)
        emb.digest()
        return {"steps": emb.steps}


def beside_ddp(group, rank, size, home):
    """Rows and losses of a model under DistributedDataParallel are those of a plain model."""
    torch.manual_seed(3)
    emb = stepwell.Embeddings({"a": stepwell.Table(4, init_range=0.5)}, {"a": "a"}, group=group)
    rows = stepwell.optim.SGD(emb, lr=0.5)
    linear = nn.Linear(4, 1)
    model = linear if group is None else nn.parallel.DistributedDataParallel(linear)
    dense = torch.optim.SGD(model.parameters(), lr=0.5)
    random = np.random.default_rng(5)
    plain = None
    with emb:
        for ids, labels in [(random.integers(0, 50, BATCH), random.random(BATCH)) for _ in range(8)]:
            part = slice(rank * BATCH // size, (rank + 1) * BATCH // size)
            loss = F.mse_loss(model(emb({"a": ids[part]}))[:, 0], torch.tensor(labels[part]).float())
            dense.zero_grad()
            loss.backward()
            rows.step()
            dense.step()
        plain = emb.get("a", np.arange(50))
    return {"rows": plain.tolist(), "weights": linear.weight.tolist()}


CASES = [same_rows, resumed, by_key, uneven, failing, refused, skipped, beside_ddp]


def run(rank, size, home):
    """Runs all cases as rank `rank`; prints what they found."""
    group = None
    if size > 1:
        dist.init_process_group(
            "gloo",
            init_method=f"file://{home}/meet-{size}",
            rank=rank,
            world_size=size,
            timeout=datetime.timedelta(seconds=60),
        )
        group = dist.group.WORLD
    found = {}
    for case in CASES:
        if size > 1 or case in (same_rows, resumed, beside_ddp):
            # Ranks save and load together, each number of ranks its own.
            own = f"{home}/{size}"
            os.makedirs(own, exist_ok=True)
            found[case.__name__] = case(group, rank, size, own)
    for of in (1, 2, 3):
        if os.path.isdir(f"{home}/{of}/3") and of != size:
            found[f"from {of}"] = resumed(group, rank, size, f"{home}/{of}")
    print(json.dumps(found))
    sys.stdout.flush()
    if size > 1:
        dist.barrier()


def launched(size, home):
    """Results of the cases on each of `size` ranks."""
    ranks = [
        subprocess.Popen(
            [sys.executable, __file__, str(rank), str(size), home],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        for rank in range(size)
    ]
    with contextlib.ExitStack() as stack:
        for rank in ranks:
            stack.callback(rank.kill)
        outputs = [rank.communicate(timeout=240) for rank in ranks]
    for rank, (_, said) in zip(ranks, outputs):
        assert rank.returncode == 0, said.decode()[-4000:]
    return [json.loads(output.decode().strip().splitlines()[-1]) for output, _ in outputs]


class Several(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.home = cls.enterClassContext(tempfile.TemporaryDirectory())
        cls.found = {size: launched(size, cls.home) for size in (1, 2, 3)}

    def of(self, case):
        """Results of a case by number of ranks, the same on each of them."""
        found = {}
        for size, ranks in self.found.items():
            of_ranks = [rank.get(case) for rank in ranks]
            self.assertTrue(all(of == of_ranks[0] for of in of_ranks), (case, of_ranks))
            found[size] = of_ranks[0]
        return found

    def test_rows_do_not_depend_on_the_number_of_ranks(self):
        found = self.of("same_rows")
        self.assertEqual(found[1]["steps 0"], 12)
        self.assertEqual(found[1]["digest 0"], found[1]["digest 3"])
        self.assertEqual(found[2], found[1])
        self.assertEqual(found[3], found[1])

    def test_a_checkpoint_opens_on_another_number_of_ranks(self):
        ended = self.of("same_rows")[1]["digest 3"]
        begun = {of["begun"] for of in self.of("resumed").values()}
        self.assertEqual(len(begun), 1)
        for case in ("resumed", "from 1", "from 2"):
            for size, of in self.of(case).items():
                if of is not None:
                    self.assertEqual((of["begun"], of["ended"], of["steps"]),
                                     (*begun, ended, 12), (case, size))
        self.assertIsNotNone(self.of("from 2")[3])
        self.assertIsNotNone(self.of("from 1")[2])

    def test_rows_are_read_written_and_exported_by_all(self):
        found = self.of("by_key")
        for size in (2, 3):
            last = size - 1.0
            rows = [[last, 7, 7, 7], *([float(rank)] * 4 for rank in range(size))]
            self.assertEqual(found[size]["found"], rows)
            self.assertTrue(found[size]["same"], found[size])
            self.assertEqual(found[size]["again"], [True, True])
            self.assertTrue(any("user" in name for name in found[size]["files"]), found[size])

    def test_ranks_end_with_the_one_that_has_the_fewest_batches(self):
        found = self.of("uneven")
        self.assertEqual(found[2]["steps"], [6, 2, 8])
        self.assertEqual(found[3]["steps"], [3, 2, 5])

    def test_an_error_of_one_rank_ends_the_loop_of_all(self):
        for size in (2, 3):
            found = [rank["failing"] for rank in self.found[size]]
            self.assertEqual([of["steps"] for of in found], [[4, 4]] * size)
            self.assertEqual([of["said"] for of in found][:2], [0, "gone"])

    def test_what_one_rank_refuses_is_refused_by_all(self):
        for size in (2, 3):
            found = [rank["refused"] for rank in self.found[size]]
            self.assertEqual([of["steps"] for of in found], [[1]] * size)
            for rank, of in enumerate(found):
                kind, short, large = of["said"]
                self.assertIn("an id is float" if rank == 0 else "another rank", kind)
                self.assertIn("offsets must ascend" if rank == 0 else "another rank", short)
                self.assertIn("distinct rows", large)

    def test_a_step_that_one_scaler_skips_is_taken_by_none(self):
        found = self.of("skipped")
        self.assertEqual((found[2], found[3]), ({"steps": 3}, {"steps": 3}))

    def test_a_model_beside_ddp_is_the_plain_model(self):
        found = self.of("beside_ddp")
        for size in (2, 3):
            for name in ("rows", "weights"):
                np.testing.assert_allclose(found[size][name], found[1][name], atol=1e-5)


if __name__ == "__main__":
    run(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
