"""The notebooks of the documentation run from top to bottom."""

import importlib.util
import json
import os
import subprocess
import sys
import tempfile
import unittest

import stepwell

NOTEBOOKS = os.path.join(os.path.dirname(__file__), "..", "..", "..", "docs", "notebooks")

# Runs cells as a notebook does, one after the other; a traceback shows the cell's lines.
CELLS = """
import json, linecache, sys, traceback
names = {"__name__": "__main__"}
for number, source in enumerate(json.load(sys.stdin), 1):
    cell = f"<cell {number}>"
    linecache.cache[cell] = (len(source), None, source.splitlines(True), cell)
    try:
        exec(compile(source, cell, "exec"), names)
    except Exception:
        sys.exit(traceback.format_exc())
"""


def code_of(name):
    """The code cells of a notebook."""
    with open(os.path.join(NOTEBOOKS, f"{name}.ipynb"), encoding="utf-8") as file:
        notebook = json.load(file)
    return ["".join(of["source"]) for of in notebook["cells"] if of["cell_type"] == "code"]


def is_there(package):
    """Whether a package is installed, or one of "this or that"."""
    return any(importlib.util.find_spec(name) is not None for name in package.split(" or "))


class NotebooksTest(unittest.TestCase):
    def check(self, name, *packages):
        for package in packages:
            if not is_there(package):
                self.skipTest(f"{name}.ipynb needs {package}")
        package = os.path.dirname(os.path.dirname(os.path.abspath(stepwell.__file__)))
        path = os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")]))
        with tempfile.TemporaryDirectory() as home:
            done = subprocess.run(
                [sys.executable, "-c", CELLS],
                cwd=home,
                env={**os.environ, "PYTHONPATH": path},
                input=json.dumps(code_of(name)),
                capture_output=True,
                text=True,
                timeout=300,
            )
            left = os.listdir(home)
        self.assertEqual(done.returncode, 0, f"{name}.ipynb\n{done.stderr}")
        self.assertEqual(left, [], f"{name}.ipynb leaves files behind")

    def test_deepfm(self):
        self.check("deepfm", "torch")

    def test_torchrec(self):
        self.check("torchrec", "torch")

    def test_sequences(self):
        self.check("sequences", "torch")

    def test_daily(self):
        self.check("daily", "torch", "polars or pandas", "pyarrow")


if __name__ == "__main__":
    unittest.main()
