"""Row optimizers, initial weights and memory of tables."""

import tempfile
import unittest

import numpy as np
import stepwell
from stepwell import optim

EXAMPLES = 48
INITIAL = {
    "uniform": stepwell.Table(8, init_range=0.5),
    "normal": stepwell.Table(8, init_std=0.5, storage="bf16"),
    "constant": stepwell.Table(5, init_value=0.25),
}
OPTIMIZERS = {
    "sgd": lambda emb: optim.SGD(emb, lr=0.1, weight_decay=0.05, clip_norm=1.0),
    "momentum": lambda emb: optim.SGD(emb, lr=0.1, momentum=0.5),
    "adagrad": lambda emb: optim.Adagrad(emb, lr=0.1, weight_decay=0.05),
    "row_wise_adagrad": lambda emb: optim.RowWiseAdagrad(emb, lr=0.1, weight_decay=0.05),
    "adam": lambda emb: optim.Adam(emb, lr=0.1, weight_decay=0.05),
    "adamw": lambda emb: optim.AdamW(emb, lr=0.1, weight_decay=0.5),
    "row_wise_adam": lambda emb: optim.RowWiseAdam(emb, lr=0.1),
    "ftrl": lambda emb: optim.FTRL(emb, lr=0.1, l1=0.01, l2=0.1),
}


def batches(count, vocabulary=2000):
    random = np.random.default_rng(1)
    for _ in range(count):
        yield {name: random.integers(0, vocabulary, EXAMPLES) for name in INITIAL}


def embeddings(optimizer, dram, **more):
    emb = stepwell.Embeddings(
        INITIAL, {name: name for name in INITIAL}, dram=dram, arrays="numpy", **more
    )
    optimizer(emb)
    return emb


def train(emb, data):
    for _, x in emb.ahead(data):
        emb.step({name: rows - 0.3 for name, rows in x.items()})


class TablesTest(unittest.TestCase):
    def test_memory_and_saving_do_not_change_rows(self):
        for name, optimizer in OPTIMIZERS.items():
            with embeddings(optimizer, "16MiB") as emb:
                train(emb, batches(40))
                expected = emb.digest()
            with tempfile.TemporaryDirectory() as home:
                data = list(batches(40))
                with embeddings(optimizer, "64KiB") as emb:
                    train(emb, data[:20])
                    emb.save(home)
                emb, _ = stepwell.load(home, dram="80KiB", lookahead=1, arrays="numpy")
                with emb:
                    optimizer(emb)
                    train(emb, data[20:])
                    self.assertGreater(emb.stats()["rows_evicted"], 0)
                    self.assertEqual(emb.digest(), expected, name)

    def test_a_checkpoint_has_the_rows_of_its_optimizer(self):
        with tempfile.TemporaryDirectory() as home:
            with embeddings(OPTIMIZERS["adam"], "1MiB") as emb:
                train(emb, batches(2))
                emb.save(home)
            # Adam and AdamW keep the same state.
            emb, _ = stepwell.load(home, arrays="numpy")
            OPTIMIZERS["adamw"](emb)
            with self.assertRaisesRegex(RuntimeError, "state of adam"):
                OPTIMIZERS["row_wise_adagrad"](emb)

    def test_initial_weights_have_their_distribution(self):
        with embeddings(OPTIMIZERS["sgd"], "1MiB") as emb:
            normal = emb.get("normal", np.arange(4000))
            self.assertAlmostEqual(float(normal.std()), 0.5, delta=0.01)
            self.assertGreater(np.abs(normal).max(), 1.5)
            self.assertTrue((emb.get("constant", [1, 2]) == 0.25).all())
            uniform = emb.get("uniform", np.arange(4000))
            self.assertAlmostEqual(float(uniform.max()), 0.5, delta=0.01)
            rows = emb({name: np.arange(3) for name in INITIAL}, train=False)
            np.testing.assert_array_equal(rows["normal"], normal[:3])

    def test_row_wise_adagrad_has_one_sum_per_row(self):
        table = {"a": stepwell.Table(16, init_range=0.5)}
        with stepwell.Embeddings(table, {"a": "a"}, dram="1MiB", arrays="numpy") as emb:
            optim.RowWiseAdagrad(emb, lr=0.1, eps=1e-6)
            [before] = emb.get("a", [7]).astype(np.float64)
            total = 0.0
            for step in range(5):
                emb(np.array([7, 7]))
                gradient = np.random.default_rng(step).normal(size=(2, 16))
                emb.step(gradient.astype(np.float32))
                gradient = gradient.sum(0)
                total += (gradient**2).mean()
                before -= 0.1 * gradient / (np.sqrt(total) + 1e-6)
            np.testing.assert_allclose(emb.get("a", [7])[0], before, rtol=1e-5)

    def test_ftrl_makes_weights_zero(self):
        table = {"a": stepwell.Table(4, init_value=0.0)}
        with stepwell.Embeddings(table, {"a": "a"}, dram="1MiB", arrays="numpy") as emb:
            optim.FTRL(emb, lr=0.1, l1=1.0)
            for _ in range(3):
                emb(np.array([7]))
                emb.step(np.array([[0.1, -0.1, 2.0, -2.0]], np.float32))
            [row] = emb.get("a", [7])
            self.assertEqual(row[:2].tolist(), [0, 0])
            self.assertTrue(row[2] < 0 < row[3], row)

    def test_a_long_gradient_is_scaled_down(self):
        table = {"a": stepwell.Table(2, init_value=0.0)}
        with stepwell.Embeddings(table, {"a": "a"}, dram="1MiB", arrays="numpy") as emb:
            optim.SGD(emb, lr=1.0, clip_norm=5.0)
            emb(np.array([1, 2]))
            emb.step(np.array([[3, 4], [30, 40]], np.float32))
            np.testing.assert_allclose(emb.get("a", [1, 2]), [[-3, -4], [-3, -4]], rtol=1e-6)

    def test_a_long_embedding_is_scaled_down(self):
        table = {"a": stepwell.Table(2, init_value=0.0)}
        with stepwell.Embeddings(table, {"a": "a"}, dram="1MiB", arrays="numpy") as emb:
            optim.SGD(emb, lr=1.0, max_norm=5.0)
            emb(np.array([1, 2]))
            emb.step(np.array([[0.3, 0.4], [30, 40]], np.float32))
            rows = emb.get("a", [1, 2])
            np.testing.assert_allclose(rows, [[-0.3, -0.4], [-3, -4]], rtol=1e-6)

    def test_settings_out_of_range_are_refused(self):
        for make, message in [
            (lambda: stepwell.Table(4, init_std=-1.0), "init_std is -1.0"),
            (lambda: stepwell.Table(4, init_value=float("nan")), "init_value is nan"),
            (lambda: stepwell.Table(4, init_std=1.0, init_value=1.0), "not both"),
            (lambda: stepwell.Table(4, init_std=1e39), "init_std is 1e\\+39: give a number from 0"),
            (lambda: stepwell.Table(4, place="disk"), "place is 'disk'"),
        ]:
            with self.assertRaisesRegex(ValueError, message):
                make()
        with stepwell.Embeddings({"a": stepwell.Table(4)}, {"a": "a"}, arrays="numpy") as emb:
            for decay in [-1.0, float("nan"), float("inf")]:
                with self.assertRaisesRegex(ValueError, f"weight_decay is {decay}"):
                    optim.SGD(emb, lr=0.1, weight_decay=decay)
            for clip in [0.0, -1.0, float("nan")]:
                with self.assertRaisesRegex(ValueError, f"clip_norm is {clip}: give a number above"):
                    optim.Adam(emb, lr=0.1, clip_norm=clip)
                with self.assertRaisesRegex(ValueError, f"max_norm is {clip}: give a number above"):
                    optim.FTRL(emb, lr=0.1, max_norm=clip)
            with self.assertRaisesRegex(ValueError, "l1 is -1"):
                optim.FTRL(emb, lr=0.1, l1=-1.0)
            optim.AdamW(emb, lr=np.float32(0.1), weight_decay=np.float32(0.5))
            emb(np.array([1]))
            with tempfile.TemporaryDirectory() as home:
                emb.save(home)
            with self.assertRaisesRegex(RuntimeError, r"state of adam \(.*weight_decay 0.5\)"):
                optim.Adam(emb, lr=0.1)

    def test_a_whole_table_stays_in_memory(self):
        features = {"a": "a", "b": "b"}
        data = [{"a": np.arange(64), "b": np.arange(64) + 64 * step} for step in range(60)]
        digests = []
        for place in ["tiers", "memory"]:
            tables = {"a": stepwell.Table(4, place=place, dram="32KiB"), "b": stepwell.Table(4)}
            with stepwell.Embeddings(tables, features, dram="64KiB", arrays="numpy") as emb:
                optim.SGD(emb, lr=0.1)
                train(emb, data)
                digests.append(emb.digest())
                with tempfile.TemporaryDirectory() as home:
                    emb.save(home)
                    other, _ = stepwell.load(home, dram="64KiB", arrays="numpy")
                    with other:
                        self.assertEqual(other.digest(), digests[-1])
        self.assertEqual(*digests)
        tables = {"a": stepwell.Table(4, place="memory", dram="32KiB")}
        features = {"a": "a", "again": "a"}
        with stepwell.Embeddings(tables, features, arrays="numpy") as emb:
            optim.SGD(emb, lr=0.1)
            data = [dict.fromkeys(features, np.arange(64) + 64 * step) for step in range(60)]
            with self.assertRaisesRegex(stepwell.Error, "table 'a' must stay in memory"):
                train(emb, data)


if __name__ == "__main__":
    unittest.main()
