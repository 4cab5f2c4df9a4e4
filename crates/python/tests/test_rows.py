"""Embeddings without PyTorch, compared with a plain model in NumPy, whatever the memory."""

import os
import pickle
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

import numpy as np

import stepwell

EXAMPLES = 64


def batches(count, vocabulary=3000):
    random = np.random.default_rng(1)
    for _ in range(count):
        lengths = random.integers(0, 4, EXAMPLES)
        offsets = np.concatenate([[0], lengths.cumsum()])
        yield {
            "user": random.integers(0, vocabulary, EXAMPLES),
            "hist": (random.integers(0, vocabulary, offsets[-1]), offsets),
            "item": random.integers(0, vocabulary, (EXAMPLES, 2)),
        }


def tables():
    return {"user": stepwell.Table(4, init_range=0.5), "item": stepwell.Table(8, init_range=0.5)}


FEATURES = {
    "user": "user",
    "hist": stepwell.Feature("item", pooling="mean"),
    "item": "item",
}


def embeddings(dram="64MiB", lookahead=2, **more):
    emb = stepwell.Embeddings(tables(), FEATURES, dram=dram, lookahead=lookahead, arrays="numpy", **more)
    stepwell.optim.Adagrad(emb, lr=0.1)
    return emb


def train(emb, data):
    for _, x in emb.ahead(data):
        emb.step({name: rows - 0.25 for name, rows in x.items()})


def trained(memory, lookahead, data=None):
    with embeddings(memory, lookahead) as emb:
        train(emb, data or batches(60))
        return emb.digest()


class Plain:
    """The same rows in dictionaries."""

    def __init__(self, emb):
        self.emb, self.rows, self.sums = emb, {}, {}

    def row(self, feature, id):
        table = self.emb.features[feature].table
        if (table, id) not in self.rows:
            self.rows[table, id] = self.emb.get(feature, [id])[0].astype(np.float64)
            self.sums[table, id] = np.zeros_like(self.rows[table, id])
        return self.rows[table, id]

    def bags(self, ids):
        for feature, of in ids.items():
            if isinstance(of, tuple):
                values, offsets = of
                yield feature, [values[a:b] for a, b in zip(offsets, offsets[1:])]
            else:
                yield feature, list(of.reshape(EXAMPLES, -1))

    def pool(self, feature, bag):
        width = self.emb.tables[self.emb.features[feature].table].dim
        total = sum((self.row(feature, id) for id in bag), np.zeros(width))
        return total / max(len(bag), 1) if feature == "hist" else total

    def step(self, ids):
        gradients = {}
        for feature, bags in self.bags(ids):
            table = self.emb.features[feature].table
            for bag in bags:
                d_x = (self.pool(feature, bag) - 0.25).astype(np.float64)
                scale = 1 / max(len(bag), 1) if feature == "hist" else 1
                for id in bag:
                    key = (table, id)
                    gradients[key] = gradients.get(key, 0) + d_x * scale
        for key, gradient in gradients.items():
            self.sums[key] += gradient**2
            self.rows[key] -= 0.1 * gradient / (np.sqrt(self.sums[key]) + 1e-10)


class RowsTest(unittest.TestCase):
    def test_rows_are_those_of_a_plain_model(self):
        with embeddings(dram="256KiB") as emb, embeddings() as untouched:
            plain = Plain(untouched)
            for ids, x in emb.ahead(batches(8, 200)):
                for feature, bags in plain.bags(ids):
                    expected = np.stack([plain.pool(feature, bag) for bag in bags])
                    np.testing.assert_allclose(x[feature], expected, atol=2e-5)
                plain.step(ids)
                emb.step({name: rows - 0.25 for name, rows in x.items()})
            for (table, id), row in plain.rows.items():
                feature = "user" if table == "user" else "item"
                np.testing.assert_allclose(emb.get(feature, [id])[0], row, atol=2e-5)
            self.assertEqual(emb.steps, 8)

    def test_memory_and_lookahead_do_not_change_rows(self):
        expected = trained("64MiB", 0)
        for memory, lookahead in [("64MiB", 4), ("96KiB", 0), ("96KiB", 3)]:
            self.assertEqual(trained(memory, lookahead), expected, (memory, lookahead))
        for horizon in (0, 5, 100):
            with embeddings("96KiB", 1, horizon=horizon) as emb:
                train(emb, batches(60))
                self.assertEqual(emb.digest(), expected, horizon)

    def test_saved_embeddings_go_on(self):
        expected, data = trained("64MiB", 0), list(batches(60))
        with tempfile.TemporaryDirectory() as home:
            emb, done = embeddings("96KiB"), 0
            for end in [20, 40, 60]:
                train(emb, data[done:end])
                path = emb.save(home, extra=b"model %d" % end)
                self.assertTrue(os.path.isdir(path))
                emb.close()
                emb, extra = stepwell.load(home, dram="128KiB", lookahead=1, arrays="numpy")
                stepwell.optim.Adagrad(emb, lr=0.1)
                self.assertEqual((extra, emb.steps), (b"model %d" % end, end))
                done = end
            self.assertEqual(emb.digest(), expected)
            emb.close()

    def test_a_save_in_the_middle_of_a_loop_changes_nothing(self):
        expected = trained("64MiB", 0)
        with tempfile.TemporaryDirectory() as home, embeddings("96KiB", 3) as emb:
            for number, (_, x) in enumerate(emb.ahead(batches(60))):
                emb.step({name: rows - 0.25 for name, rows in x.items()})
                if number % 25 == 0:
                    emb.save(home)
                    emb.get("item", np.arange(100))
            self.assertEqual(emb.digest(), expected)

    def test_a_loop_that_ends_early_leaves_nothing_behind(self):
        data = list(batches(30))
        expected = trained("64MiB", 0, data)
        with embeddings("96KiB", 4) as emb:
            for number, (_, x) in enumerate(emb.ahead(data)):
                emb.step({name: rows - 0.25 for name, rows in x.items()})
                if number == 9:
                    break
            train(emb, data[10:])
            self.assertEqual(emb.digest(), expected)

    def test_loops_may_be_nested_and_interleaved(self):
        data = list(batches(60))
        expected = trained("64MiB", 0, data)
        with embeddings("96KiB", 3) as emb:
            for number, (ids, x) in enumerate(emb.ahead(data[:40])):
                self.assertIs(ids, data[number])
                emb.step({name: rows - 0.25 for name, rows in x.items()})
                if number % 7 == 0:
                    before = emb(data[3], train=False)["user"]
                    for other, x in emb.ahead(data[:5], train=False):
                        self.assertEqual(x["user"].shape, (EXAMPLES, 4))
                        if other is data[3]:
                            np.testing.assert_array_equal(x["user"], before)
                            break
            pairs = zip(emb.ahead(data[40:]), emb.ahead(data[:20], train=False))
            for (ids, x), _ in pairs:
                x = emb(ids, train=True)
                emb.step({name: rows - 0.25 for name, rows in x.items()})
            self.assertEqual((emb.digest(), emb.steps), (expected, 60))

    def test_training_needs_an_optimizer(self):
        with stepwell.Embeddings(tables(), FEATURES, arrays="numpy") as emb:
            with self.assertRaisesRegex(RuntimeError, "needs an optimizer"):
                emb(next(batches(1)), train=True)
            self.assertEqual(emb(next(batches(1)))["user"].shape, (EXAMPLES, 4))
            with self.assertRaisesRegex(RuntimeError, "for an evaluation"):
                emb.step({})

    def test_a_loaded_checkpoint_can_be_read_without_an_optimizer(self):
        with tempfile.TemporaryDirectory() as home:
            with embeddings() as emb:
                train(emb, batches(5))
                emb.save(home)
                digest, rows = emb.digest(), emb.get("item", np.arange(50))
            with stepwell.load(home, dram="1MiB")[0] as emb:
                np.testing.assert_array_equal(emb.get("item", np.arange(50)), rows)
                self.assertEqual(emb.digest(), digest)
            with stepwell.load(home, dram="1MiB")[0] as emb:
                with self.assertRaisesRegex(RuntimeError, "have the state of adagrad"):
                    stepwell.optim.SGD(emb, lr=0.1)
                np.testing.assert_array_equal(emb.get("item", np.arange(50)), rows)

    def test_what_is_read_before_the_first_mini_batch_changes_nothing(self):
        table, ids = {"item": stepwell.Table(4, init_range=0.5)}, np.arange(20_000)
        with stepwell.Embeddings(table, {"item": "item"}, memory="48MiB", arrays="numpy") as emb:
            self.assertEqual(emb.get("item", [1, 2]).shape, (2, 4))
            few = emb.stats()["rows_fit"]
            stepwell.optim.Adagrad(emb, lr=0.1)
            # The memory is divided for the first mini-batch, which is larger than expected.
            x = emb(ids, train=True)
            emb.step(np.ones_like(x))
            self.assertGreater(few, emb.stats()["rows_fit"])
            with tempfile.TemporaryDirectory() as home:
                emb.save(home)
                again, _ = stepwell.load(home, memory="48MiB", arrays="numpy")
                with again:
                    digest = again.digest()
                    stepwell.optim.Adagrad(again, lr=0.1)
                    self.assertEqual((again.steps, digest), (1, emb.digest()))
                    again(ids, train=True)
                    again.step(np.ones_like(x))
                    self.assertEqual(again.steps, 2)

    def test_closed_embeddings_stay_closed(self):
        emb = stepwell.Embeddings({"item": stepwell.Table(4)}, {"item": "item"}, arrays="numpy")
        emb.get("item", [1])
        emb.close()
        with self.assertRaisesRegex(RuntimeError, "closed"):
            emb(np.arange(3), train=False)

    def test_too_little_memory_names_a_size_that_is_enough(self):
        tables = {f"t{number}": stepwell.Table(16 - number) for number in range(3)}
        ids = {name: np.arange(5000) for name in tables}
        memory = "5MiB"
        with stepwell.Embeddings(tables, {of: of for of in tables}, memory=memory) as emb:
            with self.assertRaisesRegex(ValueError, "need more: .* is enough") as refused:
                emb(ids, train=False)
        memory = str(refused.exception).split(": ")[1].removesuffix(" is enough")
        with stepwell.Embeddings(tables, {of: of for of in tables}, memory=memory) as emb:
            self.assertEqual(emb(ids, train=False)["t0"].shape, (5000, 16))

    def test_a_loop_can_be_run_again(self):
        data = list(batches(6))
        with embeddings() as emb, embeddings() as other:
            loop = emb.ahead(data)
            self.assertEqual(len(loop), 6)
            for _ in range(2):
                for _, x in loop:
                    emb.step({name: rows - 0.25 for name, rows in x.items()})
            for _ in range(2):
                train(other, data)
            self.assertEqual(emb.digest(), other.digest())
            begun = emb.ahead(data)
            next(begun)
            self.assertEqual(len(list(begun)), 5)

    def test_batches_before_a_bad_one_are_trained(self):
        def failing(data):
            yield from data
            raise OSError("the loader failed")

        data = list(batches(9))
        expected = trained("64MiB", 0, data)
        bad = {**data[0], "user": np.arange(3)}
        for source, error in [(failing(data), OSError), ([*data, bad, *data], ValueError)]:
            with embeddings("96KiB", 4) as emb:
                with self.assertRaises(error):
                    train(emb, source)
                self.assertEqual((emb.digest(), emb.steps), (expected, 9))

    def test_a_list_of_lists_has_an_example_in_each(self):
        with stepwell.Embeddings({"a": stepwell.Table(4)}, {"a": "a"}, arrays="numpy") as emb:
            self.assertEqual(emb([[1, 2], [0, 2]]).shape, (2, 4))
            self.assertEqual(emb(([1, 2], [0, 2])).shape, (1, 4))
            self.assertEqual(emb([np.array([1, 2]), np.array([0, 2])]).shape, (1, 4))
            with self.assertRaisesRegex(ValueError, "one offset more"):
                emb(([], []))

    def test_a_save_that_fails_leaves_the_embeddings_usable(self):
        with tempfile.TemporaryDirectory() as home, embeddings("96KiB") as emb:
            train(emb, batches(5))
            blocked = os.path.join(home, "file")
            open(blocked, "w").close()
            with self.assertRaises((OSError, ValueError)):
                emb.save(os.path.join(blocked, "saved"))
            emb.save(os.path.join(home, "one"), extra=b"a")
            with self.assertRaisesRegex(ValueError, "another extra"):
                emb.save(os.path.join(home, "one"), extra=b"b")
            train(emb, batches(5))
            self.assertEqual(emb.steps, 10)

    def test_threads_that_read_get_their_own_rows(self):
        with stepwell.Embeddings(tables(), FEATURES, arrays="numpy", dram="1MiB") as emb:
            data = list(batches(30))
            expected = [emb(ids) for ids in data]
            wrong = []

            def read(order):
                for at in order:
                    x = emb(data[at])
                    if any(not np.array_equal(x[name], expected[at][name]) for name in x):
                        wrong.append(at)

            threads = [
                threading.Thread(target=read, args=(np.random.default_rng(n).permutation(30),))
                for n in range(3)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
            self.assertEqual(wrong, [])

    def test_only_the_last_optimizer_trains(self):
        with stepwell.Embeddings({"a": stepwell.Table(4)}, {"a": "a"}) as emb:
            first = stepwell.optim.SGD(emb, lr=0.1)
            stepwell.optim.Adam(emb, lr=0.5)
            emb(np.arange(3), train=True)
            with self.assertRaisesRegex(RuntimeError, "another optimizer"):
                first.step()
            with self.assertRaisesRegex(ValueError, "lr is -1"):
                stepwell.optim.SGD(emb, lr=-1)

    def test_rows_and_checkpoints_are_apart_and_embeddings_are_not_copied(self):
        with tempfile.TemporaryDirectory() as home, embeddings(path=home) as emb:
            with self.assertRaisesRegex(ValueError, "two directories"):
                emb.save(home)
            with self.assertRaisesRegex(TypeError, "can't be pickled"):
                pickle.dumps(emb)
            emb.get("item", [1])
            with self.assertRaisesRegex(ValueError, "in use"):
                embeddings(path=home).get("item", [1])

    def test_evaluation_leaves_no_trace(self):
        expected = trained("64MiB", 0)
        with embeddings("96KiB") as emb:
            for number, ids in enumerate(batches(60)):
                if number % 10 == 0:
                    for _ in emb.ahead(batches(3), train=False):
                        pass
                    emb(ids, train=False)
                x = emb(ids, train=True)
                emb.step({name: rows - 0.25 for name, rows in x.items()})
            self.assertEqual(emb.digest(), expected)

    def test_rows_that_are_not_pooled(self):
        """A list of rows that the caller sums is the bag that the engine sums."""

        def run(pooling):
            item = stepwell.Feature("item", pooling=pooling)
            features = {"hist": item, "item": item}
            table = {"item": stepwell.Table(8, init_range=0.5)}
            with stepwell.Embeddings(table, features, dram="256KiB", arrays="numpy") as emb:
                stepwell.optim.SGD(emb, lr=0.05)
                seen = []
                for ids in batches(20, 300):
                    del ids["user"]
                    x = emb(ids, train=True)
                    if pooling == "sum":
                        pooled = x
                        emb.step({name: rows - 0.25 for name, rows in x.items()})
                    else:
                        pooled, d_rows = {}, 0
                        for name, of in x.items():
                            spans = list(zip(of.offsets, of.offsets[1:]))
                            rows = of.rows[of.index]
                            pooled[name] = np.stack([rows[a:b].sum(0) for a, b in spans])
                            each = np.repeat(pooled[name] - 0.25, np.diff(of.offsets), 0)
                            gradient = np.zeros_like(of.rows)
                            np.add.at(gradient, of.index, each)
                            d_rows = d_rows + gradient
                        emb.step({"item": d_rows})
                    seen.append({name: rows.copy() for name, rows in pooled.items()})
                return seen

        for ours, theirs in zip(run("sum"), run(None)):
            for name in ours:
                np.testing.assert_allclose(ours[name], theirs[name], atol=1e-5)

    def test_a_table_has_pooled_features_and_others(self):
        """Lists of rows that the caller sums, beside features that are pooled."""

        def run(pooling, memory):
            features = {
                "item": "item",
                "seq": stepwell.Feature("item", pooling=pooling),
                "hist": stepwell.Feature("item", pooling="mean"),
            }
            table = {"item": stepwell.Table(8, init_range=0.5)}
            with stepwell.Embeddings(table, features, dram=memory, arrays="numpy") as emb:
                stepwell.optim.SGD(emb, lr=0.05)
                seen = []
                for ids in batches(20, 300):
                    ids = {"item": ids["item"], "seq": ids["hist"], "hist": ids["hist"]}
                    x = emb(ids, train=True)
                    gradients = {name: x[name] - 0.25 for name in ("item", "hist")}
                    if pooling == "sum":
                        pooled = x["seq"]
                        gradients["seq"] = pooled - 0.25
                    else:
                        of = x["seq"]
                        self.assertEqual(of.offsets[-1], len(of.index))
                        spans = list(zip(of.offsets, of.offsets[1:]))
                        rows = of.rows[of.index]
                        pooled = np.stack([rows[a:b].sum(0) for a, b in spans])
                        each = np.repeat(pooled - 0.25, np.diff(of.offsets), 0)
                        gradients["seq"] = np.zeros_like(of.rows)
                        np.add.at(gradients["seq"], of.index, each)
                    emb.step(gradients)
                    seen.append(np.concatenate([x["item"], pooled, x["hist"]], 1))
                return seen, emb.digest()

        theirs, _ = run("sum", "1MiB")
        digests = set()
        for memory in ("1MiB", "48KiB"):
            ours, digest = run(None, memory)
            digests.add(digest)
            for a, b in zip(ours, theirs):
                np.testing.assert_allclose(a, b, atol=1e-5)
        self.assertEqual(len(digests), 1)

    def test_joined_embeddings_are_the_same_rows(self):
        expected = trained("64MiB", 2)
        with embeddings("96KiB", joined=True) as emb:
            widths = [of.stop - of.start for of in emb.columns.values()]
            self.assertEqual((list(emb.columns), widths), (["user", "hist", "item"], [4, 8, 8]))
            for _, x in emb.ahead(batches(60)):
                self.assertEqual(x.shape, (EXAMPLES, 20))
                emb.step(x - 0.25)
            self.assertEqual(emb.digest(), expected)
        with self.assertRaisesRegex(ValueError, "joined"):
            stepwell.Embeddings(
                tables(),
                {"user": "user", "seq": stepwell.Feature("item", pooling=None)},
                joined=True,
            )

    def test_rows_are_put(self):
        with tempfile.TemporaryDirectory() as home, embeddings("96KiB") as emb:
            weights = np.arange(2000 * 8, dtype=np.float32).reshape(2000, 8) / 64
            emb.put("item", np.arange(2000), weights)
            np.testing.assert_array_equal(emb.get("hist", np.arange(2000)), weights)
            train(emb, batches(3))
            emb.put("user", ["5", "x"], np.ones((2, 4)))
            np.testing.assert_array_equal(emb.get("user", ["x", "5"]), np.ones((2, 4)))
            for ids, rows, why in [
                ([1, 2], np.ones((2, 5)), "shape"),
                ([1, 2], np.full((2, 4), np.nan), "the weight nan of row 0|the weight NaN of row 0"),
                ([[1, 2], [3]], np.ones((3, 4)), "not bags"),
            ]:
                with self.assertRaisesRegex(ValueError, why):
                    emb.put("user", ids, rows)
            emb.save(home)
            with stepwell.open(home, arrays="numpy") as view:
                np.testing.assert_array_equal(view.get("user", [5]), np.ones((1, 4)))
                with self.assertRaisesRegex(RuntimeError, "only reads"):
                    view.put("user", [5], np.ones((1, 4)))
                with self.assertRaisesRegex(RuntimeError, "only reads"):
                    stepwell.optim.Adagrad(view, lr=0.1)
                self.assertEqual(view(next(batches(1)))["user"].shape, (EXAMPLES, 4))
                self.assertEqual(view.digest(), emb.digest())

    def test_figures_add_up(self):
        with embeddings("96KiB") as emb:
            train(emb, batches(20))
            stats = emb.stats()
            self.assertEqual(stats["steps"], 20)
            distinct = 0
            for ids in batches(20):
                distinct += len(np.unique(ids["user"]))
                distinct += len(np.unique(np.concatenate([ids["item"].ravel(), ids["hist"][0]])))
            self.assertEqual(stats["rows_hit"] + stats["rows_loaded"], distinct)
            self.assertGreater(stats["rows_read"], 0)
            self.assertGreater(stats["rows_evicted"], 0)
            self.assertGreater(stats["rows_on_disk"], 0)
            self.assertGreaterEqual(stats["wait_seconds"], 0)

    def test_invalid_input_is_refused_and_changes_nothing(self):
        with embeddings("96KiB") as emb:
            good = next(batches(1))
            for ids, why in [
                ({**good, "user": good["user"][:3]}, "different numbers of examples: 3, 64"),
                ({"user": good["user"]}, "'hist' has no ids"),
                ({**good, "other": good["user"]}, "no feature 'other'"),
                ({**good, "user": good["user"] + 0.5}, "give integers"),
                ({**good, "hist": (good["hist"][0], good["hist"][1][::-1])}, "must ascend"),
                (good["user"], "as a dict"),
                ({name: np.arange(9999) for name in good}, "distinct rows"),
            ]:
                with self.assertRaisesRegex((ValueError, TypeError), why):
                    emb(ids, train=True)
            with self.assertRaisesRegex(RuntimeError, "no mini-batch is current"):
                emb.step({})
            emb(good, train=True)
            with self.assertRaisesRegex(ValueError, "feature 'user': gradient"):
                emb.step({"user": np.zeros((3, 4))})
            with self.assertRaisesRegex(ValueError, "as a dict"):
                emb.step(np.zeros((EXAMPLES, 4)))
            # The mini-batch is still the current one.
            with self.assertRaisesRegex(ValueError, "no feature 'other'"):
                emb.step({"other": np.zeros((EXAMPLES, 4))})
            train(emb, batches(60))
            self.assertEqual(emb.digest(), trained("64MiB", 0))

    def test_tables_and_settings_are_checked(self):
        table = {"item": stepwell.Table(4)}
        for tables, features, more, why in [
            (table, {"item": "items"}, {}, "no table 'items', only item"),
            ({}, {"item": "item"}, {}, "at least one table"),
            ({**table, "user": stepwell.Table(4)}, {"item": "item"}, {}, "'user' has no feature"),
            (table, {"item": "item"}, {"memory": "much"}, "memory: 'much' is not a number"),
            (table, {"item": "item"}, {"arrays": "jax"}, "arrays is 'jax'"),
            (table, {"item": "item"}, {"lookahead": -1}, "lookahead is -1"),
        ]:
            with self.assertRaisesRegex(ValueError, why):
                stepwell.Embeddings(tables, features, **more)
        small = stepwell.Embeddings(table, {"item": "item"}, dram=10)
        with self.assertRaisesRegex(ValueError, "cannot hold even one row"):
            small(np.arange(3), train=False)
        for make, why in [
            (lambda: stepwell.Table(4, admit_after=256), "admit_after is 256"),
            (lambda: stepwell.Table(4, storage="f8"), "storage is 'f8'"),
            (lambda: stepwell.Table(4, init_range=float("nan")), "init_range is nan"),
            (lambda: stepwell.Feature("item", "max"), "pooling is 'max'"),
        ]:
            with self.assertRaisesRegex(ValueError, why):
                make()
        with self.assertRaisesRegex(ValueError, "holds no checkpoint|does not exist"):
            stepwell.load("/no/such/checkpoint")

    def test_a_learning_rate_holds_from_the_next_step_on(self):
        table = {"item": stepwell.Table(4)}
        with stepwell.Embeddings(table, {"item": "item"}, arrays="numpy") as emb:
            rows = stepwell.optim.SGD(emb, lr=0.5)
            before = emb.get("item", [7])
            for lr in [0.5, 0.25, 0.0]:
                rows.param_groups[0]["lr"] = lr
                emb(np.array([7]), train=True)
                emb.step(np.ones((1, 4), np.float32))
            np.testing.assert_allclose(before - emb.get("item", [7]), 0.75, atol=1e-6)

    @unittest.skipUnless(sys.platform == "linux", "reads /proc")
    def test_memory_is_what_the_process_grows_by(self):
        script = """
import sys
sys.modules["torch"] = None
import numpy as np, stepwell
MIB = 1 << 20

def anonymous():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) << 10 for line in status if line.startswith("RssAnon"))

draw = np.random.default_rng(1)
tables = {f"t{number}": stepwell.Table(32) for number in range(4)}
memory = 96 * MIB
np.ones(16 * MIB)
before = anonymous()
emb = stepwell.Embeddings(tables, {of: of for of in tables}, memory=memory, horizon=4, arrays="numpy")
stepwell.optim.Adagrad(emb, lr=0.1)
most = 0
for _, x in emb.ahead({of: draw.integers(0, 200_000, 4096) for of in tables} for _ in range(80)):
    emb.step(x)
    most = max(most, anonymous() - before)
of = emb.stats()
assert of["rows_evicted"] > of["rows_fit"] > 100_000, of
# Mini-batches of Python come on top: x, its gradient, and ids.
assert most < 1.1 * memory + 20 * MIB, (most / MIB, of)
assert most > 0.6 * memory, (most / MIB, of)
print(most / MIB)
"""
        run = [sys.executable, "-c", script]
        done = subprocess.run(run, capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr)

    @unittest.skipUnless(hasattr(os, "fork"), "no fork")
    def test_a_child_made_by_fork_does_not_keep_the_directory(self):
        with tempfile.TemporaryDirectory() as home:
            path = os.path.join(home, "rows")
            with embeddings("96KiB", path=path) as emb:
                train(emb, batches(5))
                child = os.fork()
                if child == 0:
                    time.sleep(300)
                    os._exit(0)
            try:
                with embeddings("96KiB", path=path) as emb:
                    train(emb, batches(5))
            finally:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

    def test_a_killed_run_goes_on_from_its_last_checkpoint(self):
        expected = trained("64MiB", 2)
        script = """
import sys, stepwell, test_rows
home, steps = sys.argv[1], int(sys.argv[2])
emb = stepwell.load(home, dram="96KiB", arrays="numpy")[0] if steps else test_rows.embeddings("96KiB")
if steps:
    stepwell.optim.Adagrad(emb, lr=0.1)
assert emb.steps == steps
for _, x in emb.ahead(list(test_rows.batches(60))[steps:]):
    emb.step({name: rows - 0.25 for name, rows in x.items()})
    if emb.steps % 3 == 0:
        emb.save(home)
        print(emb.steps, flush=True)
print(emb.digest(), flush=True)
"""
        with tempfile.TemporaryDirectory() as home:
            steps, ends = 0, [9, 10, 30, 31, 57, 99]
            for end in ends:
                run = [sys.executable, "-c", script, home, str(steps)]
                with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as child:
                    for line in child.stdout:
                        digest = line.strip()
                        if digest.isdigit() and int(digest) >= end:
                            # Perhaps in the middle of the next checkpoint.
                            time.sleep(0.003 * end % 0.02)
                            child.kill()
                            break
                if not digest.isdigit():
                    break
                with stepwell.open(home, arrays="numpy") as saved:
                    steps = saved.steps
                self.assertGreaterEqual(steps, int(digest))
            self.assertEqual(digest, expected)

    def test_a_child_made_by_fork_is_refused(self):
        with embeddings("96KiB") as emb:
            train(emb, batches(3))
            child = os.fork()
            if child == 0:
                try:
                    emb.get("item", [1])
                except RuntimeError as error:
                    os._exit(7 if "belong to process" in str(error) else 1)
                os._exit(2)
            self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), 7)
            train(emb, batches(3))

    def test_a_program_that_forgets_to_close_ends(self):
        code = (
            "import numpy as np, stepwell\n"
            "emb = stepwell.Embeddings({'a': stepwell.Table(4)}, {'a': 'a'})\n"
            "stepwell.optim.SGD(emb, lr=0.1)\n"
            "for ids, x in emb.ahead([np.arange(5)] * 9):\n"
            "    emb.step(np.ones((5, 4), np.float32))\n"
            "print(emb.steps)\n"
        )
        ended = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, timeout=60
        )
        self.assertEqual((ended.returncode, ended.stdout, ended.stderr), (0, "9\n", ""))


if __name__ == "__main__":
    unittest.main()
