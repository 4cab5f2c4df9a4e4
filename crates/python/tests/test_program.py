"""The program from Python: training, predictions, and exports of embeddings."""

import contextlib
import io
import os
import subprocess
import sys
import tempfile
import unittest

import numpy as np

import stepwell
from stepwell._program import run


def write_clicks(path, examples=600, labels=True):
    random = np.random.default_rng(3)
    with open(path, "w") as file:
        file.write(("click," if labels else "") + "user,item\n")
        for _ in range(examples):
            user, item = random.integers(0, 50), random.integers(0, 80)
            click = int(random.random() < (0.8 if user % 2 else 0.1))
            file.write((f"{click}," if labels else "") + f"{user},{item}\n")


class ProgramTest(unittest.TestCase):
    def setUp(self):
        home = tempfile.TemporaryDirectory()
        self.addCleanup(home.cleanup)
        self.home = home.name
        self.said = io.StringIO()
        self.enterContext(contextlib.redirect_stdout(self.said))
        self.enterContext(contextlib.redirect_stderr(self.said))

    def path(self, name):
        return os.path.join(self.home, name)

    def test_a_model_trains_and_predicts(self):
        write_clicks(self.path("clicks.csv"))
        write_clicks(self.path("new.csv"), 40, labels=False)
        run(["schema", self.path("clicks.csv"), "--out", self.path("run.toml")])
        settings = {"model.kind": "lr", "data.mini_batch": 64, "checkpoint.dir": self.path("saved")}
        report = stepwell.train(self.path("run.toml"), settings=settings)
        self.assertEqual(report["examples"], 540)
        settings["checkpoint.dir"] = self.path("other")
        again = stepwell.train(self.path("run.toml"), self.path("clicks.csv"), {**settings, "quiet": True})
        self.assertEqual(again["model_digest"], report["model_digest"])
        scores = stepwell.predict(self.path("saved"), self.path("new.csv"), unlabelled=True)
        self.assertEqual(scores.shape, (40,))
        self.assertTrue(((0 < scores) & (scores < 1)).all())
        self.assertIn("540", self.said.getvalue())

    def test_data_frames_are_data(self):
        write_clicks(self.path("clicks.csv"))
        run(["schema", self.path("clicks.csv"), "--out", self.path("run.toml")])
        settings = {"model.kind": "lr", "data.mini_batch": 64, "checkpoint.dir": self.path("saved")}
        expected = stepwell.train(self.path("run.toml"), settings=settings)
        of_file = stepwell.predict(self.path("saved"), self.path("clicks.csv"))
        frames = []
        with contextlib.suppress(ImportError):
            import polars

            frames.append(polars.read_csv(self.path("clicks.csv")))
            frames.append(polars.scan_csv(self.path("clicks.csv")))
        with contextlib.suppress(ImportError):
            from pyarrow import csv

            frames.append(csv.read_csv(self.path("clicks.csv")))
        with contextlib.suppress(ImportError):
            import pandas

            frames.append(pandas.read_csv(self.path("clicks.csv")))
        for number, frame in enumerate(frames):
            settings["checkpoint.dir"] = self.path(f"saved-{number}")
            report = stepwell.train(self.path("run.toml"), frame, settings)
            self.assertEqual(report["model_digest"], expected["model_digest"])
            scores = stepwell.predict(self.path("saved"), frame)
            np.testing.assert_array_equal(scores, of_file)

    def test_failures_are_errors(self):
        with self.assertRaisesRegex(stepwell.Error, "none.csv"):
            stepwell.train(None, self.path("none.csv"))
        with self.assertRaisesRegex(stepwell.Error, "model.kind"):
            write_clicks(self.path("clicks.csv"))
            stepwell.train(None, self.path("clicks.csv"), {"model.kind": "none"})
        with self.assertRaisesRegex(TypeError, "data is int"):
            stepwell.train(None, 5)

    def test_the_program_is_a_module(self):
        package = os.path.dirname(os.path.dirname(stepwell.__file__))
        run = lambda *args: subprocess.run(
            [sys.executable, "-m", "stepwell", *args],
            env={**os.environ, "PYTHONPATH": package},
            capture_output=True,
            text=True,
        )
        self.assertIn("stepwell 0.1.0", run("--version").stdout)
        wrong = run("trian")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("stepwell: ", wrong.stderr)

    def test_embeddings_are_exported(self):
        tables = {"item": stepwell.Table(4, init_range=0.5, history=True)}
        with stepwell.Embeddings(tables, {"item": "item"}, dram="64KiB", arrays="numpy") as emb:
            stepwell.optim.SGD(emb, lr=0.1)
            emb(np.arange(100), train=True)
            emb.step(np.ones((100, 4)))
            emb(np.arange(10), train=True)
            emb.step(np.ones((10, 4)))
            emb.export(self.path("all"), format="npy")
            emb.export(self.path("new"), format="npy", since=1)
            rows = emb.get("item", np.arange(100))
        found = {}
        for name, count in [("all", 100), ("new", 10)]:
            folder = os.path.join(self.path(name), "table-item")
            found[name] = np.load(os.path.join(folder, "embedding.npy"))
            self.assertEqual(found[name].shape, (count, 4))
            of_ids = {row.tobytes() for row in rows[:count]}
            self.assertEqual({row.tobytes() for row in found[name]}, of_ids)
        self.assertEqual(sorted(os.listdir(self.home)), ["all", "new"])


if __name__ == "__main__":
    unittest.main()
