"""Embeddings with tools that have loops, loaders or ids of their own: Lightning, torchdata, TorchRec."""

import importlib
import logging
import tempfile
import unittest
import warnings

import numpy as np

import stepwell

try:
    import torch
    from torch import nn
    from torch.nn import functional as F
except ImportError as error:
    raise unittest.SkipTest("PyTorch is not installed") from error

from test_torch import EXAMPLES, ROWS, Clicks, batches, embeddings, loss_of, model

STEPS = 20


def needed(name):
    """The module `name`; without it, the test is skipped."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(name)
    except (ImportError, OSError) as error:
        raise unittest.SkipTest(f"{name} can't be imported: {error}") from error


def ids_of(batch):
    return batch["ids"]


def trained(dense_lr=0.1, epochs=1):
    """The digest of rows trained in a plain loop; the model itself stays as it is at a rate of 0."""
    with embeddings() as emb:
        rows = stepwell.optim.Adagrad(emb, lr=0.5)
        dense_model = model()
        dense = torch.optim.SGD(dense_model.parameters(), lr=dense_lr)
        for _ in range(epochs):
            for batch, x in emb.ahead(batches(STEPS), ids=ids_of):
                loss = loss_of(dense_model, x["user"], x["hist"], batch["label"])
                dense.zero_grad()
                loss.backward()
                rows.step()
                dense.step()
        return emb.digest()


def loop(emb):
    """Batches with their embeddings. Their number is known: Lightning asks an iterable without a
    length for one batch more than it trains."""
    return emb.ahead(list(batches(STEPS)), ids=ids_of)


class LightningTest(unittest.TestCase):
    def setUp(self):
        self.lightning = needed("lightning.pytorch")
        logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    def fit(self, module, data, epochs=1, validation=None, **more):
        with tempfile.TemporaryDirectory() as home, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            trainer = self.lightning.Trainer(
                max_epochs=epochs,
                accelerator="cpu",
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
                default_root_dir=home,
                **more,
            )
            trainer.fit(module, data, validation)

    def manual(self, rows):
        """A module that takes the steps of both optimizers itself."""

        class Manual(self.lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.automatic_optimization = False
                self.dense = model()

            def configure_optimizers(self):
                return [rows, torch.optim.SGD(self.dense.parameters(), lr=0.1)]

            def training_step(self, pair):
                batch, x = pair
                row_optimizer, dense = self.optimizers()
                loss = loss_of(self.dense, x["user"], x["hist"], batch["label"])
                dense.zero_grad()
                self.manual_backward(loss)
                row_optimizer.step()
                dense.step()

        return Manual

    def automatic(self, optimizer):
        """A module whose optimizer, `optimizer(parameters)`, Lightning steps."""

        class Automatic(self.lightning.LightningModule):
            def __init__(self):
                super().__init__()
                self.dense = model()

            def configure_optimizers(self):
                return optimizer(self.dense.parameters())

            def training_step(self, pair):
                batch, x = pair
                return loss_of(self.dense, x["user"], x["hist"], batch["label"])

        return Automatic

    def test_manual_optimization_trains_both(self):
        for epochs in [1, 2]:
            with embeddings() as emb:
                module = self.manual(stepwell.optim.Adagrad(emb, lr=0.5))()
                self.fit(module, loop(emb), epochs)
                self.assertEqual((emb.steps, emb.digest()), (epochs * STEPS, trained(epochs=epochs)))

    def test_a_step_that_takes_batches_itself_needs_no_length(self):
        with embeddings() as emb:
            manual = self.manual(stepwell.optim.Adagrad(emb, lr=0.5))

            class Taking(manual):
                def training_step(self, dataloader_iter):
                    pair, _, _ = next(dataloader_iter)
                    super().training_step(pair)

            self.fit(Taking(), emb.ahead(batches(STEPS), ids=ids_of))
            self.assertEqual((emb.steps, emb.digest()), (STEPS, trained()))

    def test_embeddings_are_called_in_a_step(self):
        with embeddings() as emb:
            manual = self.manual(stepwell.optim.Adagrad(emb, lr=0.5))

            class Calling(manual):
                def training_step(self, batch):
                    super().training_step((batch, emb(batch["ids"])))

            self.fit(Calling(), batches(STEPS))
            self.assertEqual((emb.steps, emb.digest()), (STEPS, trained()))

    def test_a_callback_steps_rows_beside_automatic_optimization(self):
        with embeddings() as emb:
            rows = stepwell.optim.Adagrad(emb, lr=0.5)

            class StepRows(self.lightning.Callback):
                def on_after_backward(self, trainer, module):
                    rows.step()

            module = self.automatic(lambda parameters: torch.optim.SGD(parameters, lr=0.1))()
            self.fit(module, loop(emb), callbacks=[StepRows()])
            self.assertEqual((emb.steps, emb.digest()), (STEPS, trained()))

    def test_a_row_optimizer_is_the_only_one(self):
        with embeddings() as emb:
            rows = stepwell.optim.Adagrad(emb, lr=0.5)
            self.fit(self.automatic(lambda parameters: rows)(), loop(emb))
            self.assertEqual((emb.steps, emb.digest()), (STEPS, trained(dense_lr=0.0)))

    def test_a_validation_within_training_leaves_no_trace(self):
        with embeddings() as emb:
            manual, requires_grad = self.manual(stepwell.optim.Adagrad(emb, lr=0.5)), []

            class Validating(manual):
                def validation_step(self, pair, _):
                    requires_grad.append(pair[1]["user"].requires_grad)

            self.fit(Validating(), loop(emb), validation=loop(emb), val_check_interval=STEPS // 2)
            # Two batches are a check before training; then all of them, twice.
            self.assertEqual(requires_grad, [False] * (2 + 2 * STEPS))
            self.assertEqual((emb.steps, emb.digest()), (STEPS, trained()))

    def test_fabric_takes_a_row_optimizer(self):
        fabric = needed("lightning.fabric").Fabric(accelerator="cpu", devices=1)
        with embeddings() as emb:
            rows = fabric.setup_optimizers(stepwell.optim.Adagrad(emb, lr=0.5))
            dense_model = model()
            dense = torch.optim.SGD(dense_model.parameters(), lr=0.1)
            dense_model, dense = fabric.setup(dense_model, dense)
            for batch, x in emb.ahead(batches(STEPS), ids=ids_of):
                loss = loss_of(dense_model, x["user"], x["hist"], batch["label"])
                dense.zero_grad()
                fabric.backward(loss)
                rows.step()
                dense.step()
            self.assertEqual((emb.steps, emb.digest()), (STEPS, trained()))


class StatefulLoaderTest(unittest.TestCase):
    EPOCHS, OF_EPOCH = 2, 8

    def setUp(self):
        self.loaders = needed("torchdata.stateful_dataloader")
        needed("torchdata.stateful_dataloader.sampler")

    def loader(self, workers):
        data, generator = Clicks(), torch.Generator().manual_seed(1)
        # A generator that the sampler shares with the loader, as with `shuffle=True`, isn't restored
        # for the epochs after the resumed one.
        sampler = self.loaders.sampler.RandomSampler(data, generator=generator)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.loaders.StatefulDataLoader(
                data,
                batch_size=len(data) // self.OF_EPOCH,
                sampler=sampler,
                num_workers=workers,
            )

    def train(self, emb, rows, loader, epoch=0, until=None, home=None):
        """Trains all epochs, or up to a step, and saves in `home` then.

        `ahead` has taken more batches from the loader than it yielded, so that the loader's own state
        is ahead, too. The state to save is the one it had right after the batch.
        """

        def with_state():
            for batch in loader:
                yield batch, loader.state_dict()

        for epoch in range(epoch, self.EPOCHS):
            for (_, state), x in emb.ahead(with_state(), ids=lambda pair: pair[0]):
                (x["user"] - x["hist"]).square().sum().backward()
                rows.step()
                if emb.steps == until:
                    emb.save(home, extra={"loader": state, "epoch": epoch})
                    return

    def test_a_loader_is_resumed_with_its_rows(self):
        for workers in [0, 2]:
            with embeddings() as emb:
                self.train(emb, stepwell.optim.Adagrad(emb, lr=0.5), self.loader(workers))
                expected = emb.steps, emb.digest()
            self.assertEqual(expected[0], self.EPOCHS * self.OF_EPOCH)
            # In the middle of each epoch, and at the end of one.
            for until in [3, self.OF_EPOCH, self.OF_EPOCH + 5]:
                with self.subTest(workers=workers, until=until), tempfile.TemporaryDirectory() as home:
                    with embeddings() as emb:
                        rows = stepwell.optim.Adagrad(emb, lr=0.5)
                        self.train(emb, rows, self.loader(workers), until=until, home=home)
                    emb, extra = stepwell.load(home, dram="64KiB")
                    with emb:
                        rows = stepwell.optim.Adagrad(emb, lr=0.5)
                        loader = self.loader(workers)
                        loader.load_state_dict(extra["loader"])
                        self.train(emb, rows, loader, extra["epoch"])
                        self.assertEqual((emb.steps, emb.digest()), expected)


class TorchRecTest(unittest.TestCase):
    def setUp(self):
        self.jagged = needed("torchrec.sparse.jagged_tensor").KeyedJaggedTensor

    def test_a_keyed_jagged_tensor_has_the_ids(self):
        for weighed in [False, True]:
            digests = []
            for form in [self.as_bags, self.as_keyed]:
                with embeddings() as emb:
                    rows = stepwell.optim.Adagrad(emb, lr=0.5)
                    for _, x in emb.ahead(batches(10), ids=lambda batch: form(batch["ids"], weighed)):
                        (x["user"] - x["hist"]).square().sum().backward()
                        rows.step()
                    digests.append(emb.digest())
            self.assertEqual(digests[0], digests[1])

    def as_bags(self, ids, weighed):
        values, offsets = ids["hist"]
        ends = torch.arange(EXAMPLES + 1)
        if not weighed:
            return {"user": (ids["user"], ends), "hist": (values, offsets)}
        return {
            "user": (ids["user"], ends, torch.full((EXAMPLES,), 2.0)),
            "hist": (values, offsets, 1.0 + values % 3),
        }

    def as_keyed(self, ids, weighed):
        """The same bags in another order, with a feature that the embeddings don't have."""
        bags = self.as_bags(ids, weighed)
        of_keys = [bags["hist"], bags["user"], bags["user"]]
        weights = torch.cat([of[2] for of in of_keys]) if weighed else None
        return self.jagged.from_lengths_sync(
            keys=["hist", "other", "user"],
            values=torch.cat([of[0] for of in of_keys]),
            lengths=torch.cat([of[1].diff() for of in of_keys]),
            weights=weights,
        )


class GradientTest(unittest.TestCase):
    """Gradients that autograd leaves in other places and forms than one backward pass does."""

    def test_a_compiled_model_pools_rows_itself(self):
        if not hasattr(torch, "compile"):
            self.skipTest("torch.compile is missing")
        dense = model()

        def loss_of_rows(user, rows, index, offsets, label):
            hist = F.embedding_bag(index, rows, offsets, mode="sum", include_last_offset=True)
            return loss_of(dense, user, hist, label)

        compiled = torch.compile(loss_of_rows, fullgraph=True, backend="aot_eager", dynamic=True)
        found = []
        for loss in [loss_of_rows, compiled]:
            with embeddings(None) as emb:
                rows = stepwell.optim.SGD(emb, lr=0.5)
                for batch, x in emb.ahead(batches(10), ids=ids_of):
                    of = x["hist"]
                    loss(x["user"], of.rows, of.index, of.offsets, batch["label"]).backward()
                    rows.step()
                found.append([emb.get(name, np.arange(ROWS)) for name in ("user", "hist")])
        for eager, other in zip(*found):
            np.testing.assert_allclose(eager, other, atol=1e-6)

    def test_a_compiled_model_looks_up_its_embeddings(self):
        if not hasattr(torch, "compile"):
            self.skipTest("torch.compile is missing")

        class Model(nn.Module):
            def __init__(self, emb):
                super().__init__()
                self.emb, self.dense = emb, model()

            def forward(self, ids):
                x = self.emb(ids)
                return self.dense(torch.cat([x["user"], x["hist"]], 1)).squeeze(1)

        def compiled(backend):
            return lambda of: torch.compile(of, fullgraph=True, backend=backend, dynamic=True)

        found = []
        for how in [lambda of: of, compiled("aot_eager"), compiled("inductor")]:
            with embeddings() as emb:
                rows = stepwell.optim.Adagrad(emb, lr=0.1, weight_decay=0.01)
                whole = Model(emb)
                run, optimizer = how(whole), torch.optim.SGD(whole.parameters(), lr=0.1)
                scores = []
                for batch in batches(10):
                    logits = run(ids_of(batch))
                    F.binary_cross_entropy_with_logits(logits, batch["label"]).backward()
                    nn.utils.clip_grad_norm_(rows.param_groups[0]["params"], 1e-3)
                    rows.step()
                    optimizer.step()
                    optimizer.zero_grad()
                with torch.no_grad():
                    scores = [run(ids_of(batch)).numpy() for batch in batches(3)]
                self.assertEqual(emb.steps, 10)
                found.append([*scores, emb.get("user", np.arange(ROWS))])
        for other in found[1:]:
            for expected, values in zip(found[0], other):
                np.testing.assert_allclose(values, expected, atol=1e-5)

    def test_compiled_code_refuses_what_it_would_get_wrong(self):
        if not hasattr(torch, "compile"):
            self.skipTest("torch.compile is missing")
        first, second = [ids_of(batch) for batch in batches(2)]
        for backend in ["aot_eager", "inductor"]:
            with embeddings() as emb:
                rows = stepwell.optim.SGD(emb, lr=0.1)

                def compiled(function):
                    return torch.compile(function, fullgraph=True, backend=backend, dynamic=True)

                total = compiled(lambda ids: emb(ids)["user"].sum())
                lost = total(first)
                total(second).backward()
                with self.assertRaisesRegex(RuntimeError, "earlier mini-batch"):
                    lost.backward()
                rows.step()
                two = compiled(lambda a, b: (emb(a)["user"] * emb(b)["user"]).sum())
                with self.assertRaisesRegex(RuntimeError, "earlier mini-batch"):
                    two(first, second).backward()
                mixed = compiled(
                    lambda a, b: (emb(a, train=False)["user"] - emb(b)["user"]).square().sum()
                )
                before = emb.get("user", second["user"])
                mixed(first, second).backward()
                rows.step()
                self.assertGreater(np.abs(emb.get("user", second["user"]) - before).max(), 0)

    def test_compiled_models_call_other_embeddings_outside(self):
        if not hasattr(torch, "compile"):
            self.skipTest("torch.compile is missing")
        [batch] = batches(1)
        with embeddings(None) as emb:
            stepwell.optim.SGD(emb, lr=0.1)
            total = torch.compile(lambda ids: emb(ids)["hist"].rows.sum(), backend="aot_eager")
            found = total(ids_of(batch)).item()
            self.assertAlmostEqual(found, emb(ids_of(batch))["hist"].rows.sum().item(), places=4)
        with embeddings() as emb:
            stepwell.optim.SGD(emb, lr=0.1)
            of_user = torch.compile(lambda ids: emb(ids)["user"] * 1, backend="aot_eager")
            lists = {"user": [1, 2], "hist": [[3], [4, 5]]}
            self.assertTrue(torch.equal(of_user(lists), emb(lists)["user"]))
            with self.assertRaisesRegex(Exception, "has no ids"):
                of_user({"user": torch.tensor([1, 2])})

    def test_many_embeddings_use_the_same_compiled_code(self):
        if not hasattr(torch, "compile"):
            self.skipTest("torch.compile is missing")

        @torch.compile(fullgraph=True, backend="aot_eager")
        def total(emb, ids):
            return emb(ids)["user"].sum()

        for _ in range(12):
            with embeddings() as emb:
                rows = stepwell.optim.SGD(emb, lr=0.1)
                for batch in batches(2):
                    total(emb, ids_of(batch)).backward()
                    rows.step()
                self.assertEqual(emb.steps, 2)

    def test_gradients_of_one_mini_batch_accumulate(self):
        """Several backward passes, over all examples or a part of them, are one step."""
        found = []
        for parts in [1, 4]:
            with embeddings() as emb:
                rows = stepwell.optim.SGD(emb, lr=0.5)
                dense = model()
                for batch, x in emb.ahead(batches(10), ids=ids_of):
                    of_part = EXAMPLES // parts
                    for at in range(0, EXAMPLES, of_part):
                        part = slice(at, at + of_part)
                        loss = loss_of(dense, x["user"][part], x["hist"][part], batch["label"][part])
                        (loss / parts).backward()
                    rows.step()
                self.assertEqual(emb.steps, 10)
                found.append([emb.get(name, np.arange(ROWS)) for name in ("user", "hist")])
        for whole, other in zip(*found):
            np.testing.assert_allclose(whole, other, atol=1e-6)

    def test_absent_gradients_are_zeros(self):
        for pooling in ["sum", None]:
            digests = []
            for used in [["user"], ["user", "hist"]]:
                with embeddings(pooling) as emb:
                    rows = stepwell.optim.Adam(emb, lr=0.5)
                    first = emb.get("hist", np.arange(ROWS))
                    for batch, x in emb.ahead(batches(5), ids=ids_of):
                        loss = x["user"].square().sum()
                        if "hist" in used:
                            loss = loss + 0 * (x["hist"] if pooling else x["hist"].rows).sum()
                        loss.backward()
                        rows.step()
                    np.testing.assert_array_equal(emb.get("hist", np.arange(ROWS)), first)
                    digests.append((emb.steps, emb.digest()))
            self.assertEqual(digests[0], digests[1])
            self.assertEqual(digests[0][0], 5)

    def test_gradients_need_not_be_contiguous(self):
        forms = {
            "contiguous": lambda of: of.contiguous(),
            "transposed": lambda of: of.t().contiguous().t(),
            "part": lambda of: torch.cat([of, of], 1)[:, : of.shape[1]],
            "every other row": lambda of: of.repeat_interleave(2, 0)[::2],
        }
        for pooling in ["sum", None]:
            digests = {}
            for name, form in forms.items():
                with embeddings(pooling) as emb:
                    rows = stepwell.optim.Adagrad(emb, lr=0.5)
                    for batch, x in emb.ahead(batches(5), ids=ids_of):
                        hist = x["hist"] if pooling else x["hist"].rows
                        (x["user"].square().sum() + hist.square().sum()).backward()
                        for leaf in rows.param_groups[0]["params"]:
                            leaf.grad = form(leaf.grad)
                        rows.step()
                    digests[name] = emb.digest()
            self.assertEqual(len(set(digests.values())), 1, digests)

    def test_one_gradient_for_all_examples(self):
        """The gradient of a sum is an expanded number."""
        with embeddings() as emb:
            rows = stepwell.optim.SGD(emb, lr=0.5)
            users = torch.arange(EXAMPLES)
            before = emb.get("user", users)
            x = emb({"user": users, "hist": [[] for _ in users]})
            self.assertFalse(x["hist"].any())
            for leaf in rows.param_groups[0]["params"]:
                leaf.grad = torch.tensor(1.0).expand(leaf.shape)
            rows.step()
            np.testing.assert_allclose(emb.get("user", users), before - 0.5, rtol=1e-6)

    def test_a_mini_batch_of_empty_bags_trains_nothing(self):
        for pooling in ["sum", "mean", None]:
            table = {"a": stepwell.Table(4, init_range=0.5)}
            feature = {"a": stepwell.Feature("a", pooling=pooling)}
            with stepwell.Embeddings(table, feature, dram="64KiB") as emb:
                rows = stepwell.optim.SGD(emb, lr=0.5)
                digest = emb.digest()
                x = emb((torch.zeros(0, dtype=torch.long), torch.zeros(9, dtype=torch.long)))
                found = x if pooling else x.rows
                self.assertEqual(len(found), 8 if pooling else 0)
                self.assertFalse(found.any())
                found.sum().backward()
                rows.step()
                self.assertEqual((emb.steps, emb.digest()), (1, digest))


if __name__ == "__main__":
    unittest.main()
