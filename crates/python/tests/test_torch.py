"""Embeddings in PyTorch's loops: gradients are autograd's, and the usual tools work unchanged."""

import signal
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import stepwell

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error



class Clicks(torch.utils.data.Dataset):
    """Examples with a user and three other ids."""

    def __len__(self):
        return 128

    def __getitem__(self, number):
        return {"user": number % 7, "hist": torch.tensor([number, number % 5, 3])}


EXAMPLES = 32
ROWS = 200


def batches(count, seed=1):
    random = torch.Generator().manual_seed(seed)
    for _ in range(count):
        lengths = torch.randint(0, 5, (EXAMPLES,), generator=random)
        offsets = torch.cat([torch.zeros(1, dtype=torch.long), lengths.cumsum(0)])
        ids = {
            "user": torch.randint(0, ROWS, (EXAMPLES,), generator=random),
            "hist": (torch.randint(0, ROWS, (int(offsets[-1]),), generator=random), offsets),
        }
        yield {"ids": ids, "label": torch.rand(EXAMPLES, generator=random)}


def embeddings(pooling="sum", dram="64KiB", **more):
    return stepwell.Embeddings(
        {"user": stepwell.Table(4, init_range=0.5), "item": stepwell.Table(4, init_range=0.5)},
        {"user": "user", "hist": stepwell.Feature("item", pooling=pooling)},
        dram=dram,
        **more,
    )


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))


def loss_of(dense, user, hist, label):
    logits = dense(torch.cat([user, hist], 1)).squeeze(1)
    return F.binary_cross_entropy_with_logits(logits, label)


def as_parameters(emb):
    """The rows of all ids as parameters of PyTorch."""
    ids = np.arange(ROWS)
    return [nn.Parameter(torch.from_numpy(emb.get(name, ids))) for name in ("user", "hist")]


def pooled(rows, ids, mode):
    values, offsets = ids["hist"]
    hist = F.embedding_bag(values, rows[1], offsets, mode=mode, include_last_offset=True)
    return F.embedding(ids["user"], rows[0]), hist


class TorchTest(unittest.TestCase):
    def check_rows(self, emb, expected, atol=1e-5):
        for name, rows in zip(("user", "hist"), expected):
            found = emb.get(name, np.arange(ROWS))
            np.testing.assert_allclose(found, rows.detach().numpy(), atol=atol)

    def test_rows_train_as_parameters_of_pytorch(self):
        for pooling in ["sum", "mean"]:
            with embeddings(pooling) as emb:
                rows = stepwell.optim.SGD(emb, lr=0.5)
                theirs = as_parameters(emb)
                ours, other = model(), model()
                dense = torch.optim.SGD(ours.parameters(), lr=0.1)
                all_of_theirs = torch.optim.SGD(
                    [{"params": theirs, "lr": 0.5}, {"params": other.parameters(), "lr": 0.1}]
                )
                for batch, x in emb.ahead(batches(20), ids=lambda batch: batch["ids"]):
                    loss = loss_of(ours, x["user"], x["hist"], batch["label"])
                    dense.zero_grad()
                    loss.backward()
                    rows.step()
                    dense.step()
                    all_of_theirs.zero_grad()
                    expected = loss_of(other, *pooled(theirs, batch["ids"], pooling), batch["label"])
                    expected.backward()
                    all_of_theirs.step()
                    self.assertAlmostEqual(loss.item(), expected.item(), places=4)
                self.check_rows(emb, theirs)

    def test_rows_that_are_not_pooled_have_autograds_gradients(self):
        with embeddings(None) as emb:
            rows = stepwell.optim.SGD(emb, lr=0.5)
            theirs = as_parameters(emb)
            ours, other = model(), model()
            optimizer = torch.optim.SGD(theirs, lr=0.5)
            for batch, x in emb.ahead(batches(10), ids=lambda batch: batch["ids"]):
                of = x["hist"]
                hist = F.embedding_bag(
                    of.index, of.rows, of.offsets, mode="mean", include_last_offset=True
                )
                loss_of(ours, x["user"], hist, batch["label"]).backward()
                rows.step()
                optimizer.zero_grad()
                loss_of(other, *pooled(theirs, batch["ids"], "mean"), batch["label"]).backward()
                optimizer.step()
            self.check_rows(emb, theirs)

    def test_joined_embeddings_and_mixed_pooling_have_autograds_gradients(self):
        for joined in [True, False]:
            features = {"user": "user", "hist": "user"}
            if not joined:
                features["seq"] = stepwell.Feature("user", pooling=None)
            table = {"user": stepwell.Table(4, init_range=0.5)}
            with stepwell.Embeddings(table, features, dram="64KiB", joined=joined) as emb:
                rows = stepwell.optim.SGD(emb, lr=0.5)
                theirs = nn.Parameter(torch.from_numpy(emb.get("user", np.arange(ROWS))))
                ours, other = model(), model()
                optimizer = torch.optim.SGD([theirs], lr=0.5)
                for batch in batches(10):
                    ids = dict(batch["ids"])
                    if not joined:
                        ids["seq"] = ids["hist"]
                    x = emb(ids)
                    both = x if joined else torch.cat([x["user"], x["hist"]], 1)
                    logits = ours(both).squeeze(1)
                    loss = F.binary_cross_entropy_with_logits(logits, batch["label"])
                    if not joined:
                        loss = loss + x["seq"].rows[x["seq"].index].square().sum()
                    loss.backward()
                    rows.step()
                    optimizer.zero_grad()
                    expected = loss_of(other, *pooled([theirs] * 2, ids, "sum"), batch["label"])
                    if not joined:
                        expected = expected + theirs[ids["seq"][0]].square().sum()
                    expected.backward()
                    optimizer.step()
                found = emb.get("user", np.arange(ROWS))
                np.testing.assert_allclose(found, theirs.detach().numpy(), atol=1e-5)

    def test_decay_matches_pytorch(self):
        # PyTorch decays every weight in every step, so every step has every row.
        ids = torch.arange(6)
        kinds = [(name, {}) for name in ["SGD", "Adagrad", "Adam", "AdamW"]]
        for name, more in [*kinds, ("SGD", {"momentum": 0.9})]:
            table = {"a": stepwell.Table(16, init_std=0.5)}
            with stepwell.Embeddings(table, {"a": "a"}, dram="1MiB") as emb:
                rows = getattr(stepwell.optim, name)(emb, lr=0.1, weight_decay=0.05, **more)
                other = torch.nn.Parameter(torch.from_numpy(emb.get("a", ids)))
                optimizer = getattr(torch.optim, name)([other], lr=0.1, weight_decay=0.05, **more)
                for _ in range(20):
                    (emb(ids) - 0.3).square().sum().backward()
                    rows.step()
                    optimizer.zero_grad()
                    (other - 0.3).square().sum().backward()
                    optimizer.step()
                found = emb.get("a", ids)
                np.testing.assert_allclose(found, other.detach().numpy(), atol=2e-5, err_msg=name)

    def test_rows_pooled_on_a_device_train_alike(self):
        """Pooled by PyTorch, on the CPU here, and by the engine."""
        weights = torch.rand(1000, generator=torch.Generator().manual_seed(2))
        devices = [None, "cpu", *(["cuda"] if torch.cuda.is_available() else [])]
        for joined in [True, False]:
            found = []
            for device in devices:
                features = {
                    "user": "user",
                    "mean": stepwell.Feature("item", pooling="mean"),
                    "root": stepwell.Feature("item", pooling="sqrt_n"),
                    "weighed": "user",
                }
                if not joined:
                    features["seq"] = stepwell.Feature("item", pooling=None)
                table = {
                    "user": stepwell.Table(4, init_range=0.5),
                    "item": stepwell.Table(4, init_range=0.5, storage="bf16"),
                }
                with stepwell.Embeddings(
                    table, features, dram="64KiB", joined=joined, device=device
                ) as emb:
                    rows = stepwell.optim.Adagrad(emb, lr=0.1)

                    def ids_of(batch):
                        user, (values, offsets) = batch["ids"]["user"], batch["ids"]["hist"]
                        bags = {"mean": (values, offsets), "root": (values, offsets)}
                        if not joined:
                            bags["seq"] = (values, offsets)
                        return {
                            "user": user,
                            "weighed": (values, offsets, weights[: len(values)]),
                            **bags,
                        }

                    for batch, x in emb.ahead(batches(10), ids=ids_of):
                        if joined:
                            loss = (x - 0.3).square().sum()
                            self.assertEqual(x.shape, (EXAMPLES, 16))
                        else:
                            seq = x.pop("seq")
                            loss = sum((of - 0.3).square().sum() for of in x.values())
                            loss = loss + (seq.rows[seq.index] - 0.2).square().sum()
                        loss.backward()
                        rows.step()
                    found.append([emb.get(name, np.arange(ROWS)) for name in ("user", "mean")])
            for other in found[1:]:
                np.testing.assert_allclose(other[0], found[0][0], atol=1e-5)
                # Rounding to bf16 is stochastic: sums that differ slightly may round differently.
                np.testing.assert_allclose(other[1], found[0][1], atol=2e-2)

    def test_ids_may_change_once_they_are_fed(self):
        values, offsets = torch.arange(4), torch.tensor([0, 1, 3, 4])

        def reused():
            for step in range(6):
                offsets[1] = 1 + step % 2
                yield {"user": torch.tensor([1, 2, 3]), "hist": (values, offsets)}

        for pooling, device in [(None, None), ("sum", "cpu")]:
            with embeddings(pooling, device=device) as emb:
                stepwell.optim.SGD(emb, lr=0.1)
                rows = torch.from_numpy(emb.get("hist", values))
                for step, (_, x) in enumerate(emb.ahead(reused(), train=False)):
                    end = 1 + step % 2
                    if pooling is None:
                        self.assertEqual(x["hist"].offsets.tolist(), [0, end, 3, 4])
                    else:
                        self.assertTrue(torch.allclose(x["hist"][0], rows[:end].sum(0)))

    def test_devices_are_checked(self):
        with self.assertRaisesRegex(ValueError, "device is 'meta'"):
            embeddings(device="meta")
        with embeddings(device="cpu") as emb:
            rows = stepwell.optim.SGD(emb, lr=0.1)
            empty = {"user": torch.tensor([1]), "hist": (torch.zeros(0).long(), torch.tensor([0, 0]))}
            emb(empty)["hist"].sum().backward()
            rows.step()
            weights = {**empty, "hist": (torch.tensor([1, 2]), torch.tensor([0, 2]), torch.ones(1))}
            with self.assertRaisesRegex(ValueError, "'hist': 1 weights for 2 ids"):
                emb(weights)

    def test_nested_tensors_are_bags(self):
        with embeddings() as emb:
            bags = [torch.tensor([3, 5]), torch.tensor([], dtype=torch.long), torch.tensor([5])]
            offsets = torch.tensor([0, 2, 2, 3])
            user = torch.tensor([1, 2, 3])
            expected = emb({"user": user, "hist": (torch.cat(bags), offsets)}, train=False)
            nested = torch.nested.nested_tensor(bags, layout=torch.jagged)
            found = emb({"user": user, "hist": nested}, train=False)
            self.assertTrue(torch.equal(found["hist"], expected["hist"]))
            padded = torch.tensor([[3, 5, 0], [0, 0, 0], [5, 9, 9]])
            lengths = torch.tensor([2, 0, 1])
            nested = torch.nested.narrow(padded, 1, 0, lengths, layout=torch.jagged)
            found = emb({"user": user, "hist": nested}, train=False)
            self.assertTrue(torch.equal(found["hist"], expected["hist"]))
            two = torch.nested.nested_tensor(
                [torch.tensor([8, 9]), torch.tensor([0, 2])], layout=torch.jagged
            )
            self.assertEqual(len(emb({"user": user[:2], "hist": two}, train=False)["hist"]), 2)

    def test_workers_of_a_loader_make_ids(self):
        expected = None
        for method in [None, "fork", "spawn", "forkserver"]:
            with embeddings() as emb:
                rows = stepwell.optim.SGD(emb, lr=0.5)
                loader = torch.utils.data.DataLoader(
                    Clicks(),
                    batch_size=16,
                    num_workers=0 if method is None else 2,
                    multiprocessing_context=method,
                )
                ids = lambda batch: {"user": batch["user"], "hist": batch["hist"]}
                for batch, x in emb.ahead(loader, ids=ids):
                    (x["user"] - x["hist"]).square().sum().backward()
                    rows.step()
                expected = expected or emb.digest()
                self.assertEqual((emb.steps, emb.digest()), (8, expected), method)

    def test_an_interrupt_ends_a_loop(self):
        script = """
import itertools, signal, test_torch
# A shell lets its background jobs ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
emb = test_torch.embeddings()
import stepwell
rows = stepwell.optim.SGD(emb, lr=0.5)
try:
    for batch, x in emb.ahead(itertools.cycle(test_torch.batches(5)), ids=lambda b: b["ids"]):
        x["user"].sum().backward()
        rows.step()
        if emb.steps == 10:
            print("running", flush=True)
except KeyboardInterrupt:
    print("interrupted", emb.digest()[:0], flush=True)
"""
        with subprocess.Popen(
            [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True
        ) as child:
            self.assertEqual(child.stdout.readline(), "running\n")
            child.send_signal(signal.SIGINT)
            try:
                out, _ = child.communicate(timeout=60)
            finally:
                child.kill()
            self.assertIn("interrupted", out)
        self.assertEqual(child.returncode, 0)

    def test_bags_are_those_of_embedding_bag(self):
        """Any ids, lengths, weights and pooling."""
        try:
            from hypothesis import given, settings, strategies as st
        except ImportError:
            self.skipTest("hypothesis is not installed")

        @settings(max_examples=60, deadline=None)
        @given(
            bags=st.lists(st.lists(st.integers(-5, 50), max_size=6), min_size=1, max_size=12),
            mode=st.sampled_from(["sum", "mean"]),
            weighed=st.booleans(),
            dim=st.integers(1, 20),
            seed=st.integers(0, 2**32),
        )
        def check(bags, mode, weighed, dim, seed):
            generator = torch.Generator().manual_seed(seed)
            values = torch.tensor([id for bag in bags for id in bag], dtype=torch.long)
            offsets = torch.tensor([0, *np.cumsum([len(bag) for bag in bags])])
            weights = torch.rand(len(values), generator=generator)
            weighed = weighed and mode == "sum"
            parts = (values, offsets, weights) if weighed else (values, offsets)
            table = {"a": stepwell.Table(dim, init_range=0.5, seed=seed)}
            feature = {"a": stepwell.Feature("a", pooling=mode)}
            with stepwell.Embeddings(table, feature, dram="64KiB") as emb:
                rows = stepwell.optim.SGD(emb, lr=0.5)
                theirs = nn.Parameter(torch.from_numpy(emb.get("a", np.arange(-5, 51))))
                target = torch.rand(len(bags), dim, generator=generator)
                x = emb(parts)
                expected = F.embedding_bag(
                    values + 5,
                    theirs,
                    offsets,
                    mode=mode,
                    per_sample_weights=weights if weighed else None,
                    include_last_offset=True,
                )
                torch.testing.assert_close(x, expected, atol=1e-5, rtol=1e-5)
                (x - target).square().sum().backward()
                rows.step()
                (expected - target).square().sum().backward()
                with torch.no_grad():
                    theirs -= 0.5 * theirs.grad
                found = torch.from_numpy(emb.get("a", np.arange(-5, 51)))
                torch.testing.assert_close(found, theirs.detach(), atol=1e-4, rtol=1e-4)

        check()

    def test_tools_of_pytorch_work_on_the_row_optimizer(self):
        with embeddings() as emb:
            rows = stepwell.optim.Adagrad(emb, lr=0.5)
            dense_model = model()
            dense = torch.optim.Adam(dense_model.parameters())
            schedule = torch.optim.lr_scheduler.LinearLR(rows, 1.0, 0.1, total_iters=10)
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            rates, first = [], emb.get("user", np.arange(ROWS))
            for batch, x in emb.ahead(batches(10), ids=lambda batch: batch["ids"]):
                with torch.autocast("cpu", torch.bfloat16):
                    loss = loss_of(dense_model, x["user"], x["hist"], batch["label"])
                dense.zero_grad()
                scaler.scale(loss).backward()
                scaler.unscale_(rows)
                scaler.unscale_(dense)
                leaves = rows.param_groups[0]["params"]
                norm = nn.utils.clip_grad_norm_(leaves, 0.01)
                self.assertTrue(norm > 0 and all(leaf.grad is not None for leaf in leaves))
                scaler.step(rows)
                scaler.step(dense)
                scaler.update()
                rates.append(rows.lr)
                schedule.step()
            self.assertEqual(emb.steps, 10)
            self.assertTrue(rates[0] == 0.5 and rates[-1] < 0.1)
            self.assertFalse(np.array_equal(first, emb.get("user", np.arange(ROWS))))

    def test_a_row_optimizer_is_saved_with_its_schedule(self):
        with embeddings(None) as emb:
            rows = stepwell.optim.Adagrad(emb, lr=0.5)
            schedule = torch.optim.lr_scheduler.StepLR(rows, 1, 0.5)
            for batch, x in emb.ahead(batches(3), ids=lambda batch: batch["ids"]):
                x["user"].sum().backward()
                rows.step()
                schedule.step()
            state = rows.state_dict()
        with embeddings(None) as emb:
            again = stepwell.optim.Adagrad(emb, lr=0.5)
            again.load_state_dict(state)
            self.assertEqual(again.lr, 0.0625)

    def test_a_skipped_step_leaves_no_trace(self):
        with embeddings() as emb:
            rows = stepwell.optim.SGD(emb, lr=0.5)
            before = emb.digest()
            scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
            for batch, x in emb.ahead(batches(3), ids=lambda batch: batch["ids"]):
                scaler.scale(x["user"].sum() * float("inf")).backward()
                scaler.step(rows)
                scaler.update()
            self.assertEqual((emb.digest(), emb.steps), (before, 0))

    def test_a_compiled_model_trains(self):
        if not hasattr(torch, "compile"):
            self.skipTest("torch.compile is missing")
        with embeddings() as emb:
            rows = stepwell.optim.SGD(emb, lr=0.5)
            compiled = torch.compile(model(), fullgraph=True, backend="aot_eager")
            for batch, x in emb.ahead(batches(3), ids=lambda batch: batch["ids"]):
                loss_of(compiled, x["user"], x["hist"], batch["label"]).backward()
                rows.step()
            self.assertEqual(emb.steps, 3)

    def test_a_model_is_saved_with_its_rows(self):
        with tempfile.TemporaryDirectory() as home:
            with embeddings() as emb:
                rows = stepwell.optim.Adagrad(emb, lr=0.5)
                dense = model()
                for batch, x in emb.ahead(batches(5), ids=lambda batch: batch["ids"]):
                    loss_of(dense, x["user"], x["hist"], batch["label"]).backward()
                    rows.step()
                with self.assertRaisesRegex(ValueError, "extra"):
                    emb.save(home, extra={"model": dense})
                emb.save(home, extra={"model": dense.state_dict()})
                digest = emb.digest()
            emb, extra = stepwell.load(home, dram="1MiB")
            with emb:
                stepwell.optim.Adagrad(emb, lr=0.5)
                self.assertEqual((emb.digest(), emb.steps), (digest, 5))
                again = model()
                again.load_state_dict(extra["model"])
                for ours, theirs in zip(again.parameters(), dense.parameters()):
                    self.assertTrue(torch.equal(ours, theirs))

    def test_embeddings_without_gradients_are_evaluated(self):
        with embeddings() as emb:
            stepwell.optim.SGD(emb, lr=0.5)
            batch = next(batches(1))
            with torch.no_grad():
                x = emb(batch["ids"])
            self.assertFalse(x["user"].requires_grad)
            self.assertTrue(emb(batch["ids"])["user"].requires_grad)

    def test_a_gradient_of_an_earlier_mini_batch_is_refused(self):
        with embeddings() as emb:
            rows = stepwell.optim.SGD(emb, lr=0.5)
            loop = emb.ahead(batches(3), ids=lambda batch: batch["ids"])
            _, old = next(loop)
            _, new = next(loop)
            with self.assertRaisesRegex(RuntimeError, "of an earlier mini-batch"):
                old["user"].sum().backward()
            new["user"].sum().backward()
            rows.step()
            with self.assertRaisesRegex(RuntimeError, "of an earlier mini-batch"):
                new["user"].sum().backward()
            self.assertEqual(emb.steps, 1)

    def test_a_row_optimizer_takes_only_its_own_settings(self):
        with embeddings() as emb:
            rows = stepwell.optim.SGD(emb, lr=0.5)
            other = torch.optim.SGD([torch.zeros(1)], lr=0.25)
            with self.assertRaisesRegex(ValueError, "of dense parameters"):
                rows.load_state_dict(other.state_dict())
            self.assertEqual(rows.lr, 0.5)

    def test_a_second_step_of_one_mini_batch_is_refused(self):
        with embeddings() as emb:
            rows = stepwell.optim.SGD(emb, lr=0.5)
            emb(next(batches(1))["ids"])["user"].sum().backward()
            rows.step()
            with self.assertRaisesRegex(RuntimeError, "its step has ended"):
                rows.step()


if __name__ == "__main__":
    unittest.main()
