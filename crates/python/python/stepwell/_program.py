"""The program `stepwell`, run from Python as a process of its own."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from typing import IO, Any, Iterator

import numpy as np

from ._stepwell import Error


def train(
    config: str | os.PathLike[str] | None = None,
    data: Any = None,
    settings: dict[str, Any] | None = None,
) -> dict[str, Any]:
    """Runs `stepwell train` with the settings file `config`; returns its report.

    `data`, if given, replaces the file's: a path, or a DataFrame of pandas or polars, an Arrow
    table, or a data set of Hugging Face, which is first written to a temporary Parquet file.
    `settings` override the file's, by key, `{"data.epochs": 2}`, or are options of the command:
    `{"from": "saved"}`, `{"quiet": True}`.
    """
    if config is None and data is None:
        raise ValueError("give a settings file, or data")
    for key, value in (settings or {}).items():
        if value is None:
            raise ValueError(f"{key} is None: leave it out for the default")
    with tempfile.TemporaryDirectory(prefix="stepwell-") as folder, _file(data, folder) as path:
        report = os.path.join(folder, "report.json")
        args = ["train", *([] if config is None else [os.fspath(config)])]
        args += [] if path is None else ["--data", path]
        for key, value in (settings or {}).items():
            if not isinstance(value, bool):
                args.append(f"--{key}={value}")
            elif "." in key:
                args.append(f"--{key}={str(value).lower()}")
            elif value:
                # An option of the command has no value.
                args.append(f"--{key}")
        run([*args, "--report", report])
        with open(report, encoding="utf-8") as file:
            return dict(json.load(file))


def predict(
    checkpoint: str | os.PathLike[str], data: Any, *, unlabelled: bool = False
) -> np.ndarray | dict[str, np.ndarray]:
    """Scores each example of `data`, as in `train`, with the model that `train` saved in directory
    `checkpoint`: `stepwell predict`. Returns the scores (examples), or by label if there are
    several. `unlabelled` says that the data has no labels."""
    with tempfile.TemporaryDirectory(prefix="stepwell-") as folder, _file(data, folder) as path:
        if path is None:
            raise ValueError("give the data to score")
        out = os.path.join(folder, "scores.csv")
        args = ["predict", os.fspath(checkpoint), "--data", path, "--out", out]
        run([*args, *(["--unlabelled"] if unlabelled else [])])
        with open(out, encoding="utf-8") as file:
            names = file.readline().strip().split(",")
            scores = np.loadtxt(file, np.float32, delimiter=",", ndmin=2)
    scores = scores.reshape(-1, len(names))
    if len(names) == 1:
        return scores[:, 0]
    return {name.removeprefix("score_"): scores[:, at] for at, name in enumerate(names)}


@contextlib.contextmanager
def _file(data: Any, folder: str) -> Iterator[str | None]:
    """The path of `data`, which is written to `folder` if it isn't a path."""
    if data is None or isinstance(data, (str, os.PathLike)):
        yield None if data is None else os.fspath(data)
        return
    path = os.path.join(folder, "data.parquet")
    if type(data).__name__ == "LazyFrame":
        data = data.collect()
    if hasattr(data, "write_parquet"):
        data.write_parquet(path)
    elif hasattr(data, "to_parquet"):
        data.to_parquet(path)
    elif type(data).__module__.startswith("pyarrow"):
        import pyarrow  # type: ignore[import-untyped]
        import pyarrow.parquet  # type: ignore[import-untyped]

        batch = isinstance(data, pyarrow.RecordBatch)
        table = pyarrow.Table.from_batches([data]) if batch else data
        pyarrow.parquet.write_table(table, path)
    else:
        raise TypeError(f"data is {type(data).__name__}: give a path, a DataFrame or a table")
    yield path


def run(args: list[str], shows: bool = True) -> None:
    """Runs the program with `args`, and shows its output if it `shows`.

    Raises `Error` with its last message if it fails.
    """
    package = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # On Linux, the program gets a SIGTERM (15) if this process dies.
    start = (
        "import ctypes, sys; sys.path.append(sys.argv.pop(1)); "
        "sys.platform == 'linux' and ctypes.CDLL(None).prctl(1, 15); "
        "from stepwell.__main__ import main; main()"
    )
    program = subprocess.Popen(
        [sys.executable, "-P", "-c", start, package, *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        # Ctrl-C doesn't reach the program directly; it is forwarded below.
        start_new_session=True,
    )
    messages: list[str] = []
    outputs = [(program.stdout, sys.stdout, []), (program.stderr, sys.stderr, messages)]
    shown = [
        threading.Thread(target=_read, args=(source, to if shows else None, last), daemon=True)
        for source, to, last in outputs
    ]
    for thread in shown:
        thread.start()
    interrupt: BaseException | None = None
    while True:
        try:
            status = program.wait()
            break
        except BaseException as error:
            # The first one ends the program in good order, the second one at once.
            program.send_signal(signal.SIGINT)
            interrupt = error
    for thread in shown:
        thread.join()
    if interrupt is not None:
        raise interrupt
    if status < 0:
        raise Error(f"the program was killed by {signal.Signals(-status).name}")
    if status > 0:
        last = messages[-1] if messages else f"the program ended with status {status}"
        raise Error(last.removeprefix("stepwell: "))


def _read(source: IO[str] | None, to: Any, last: list[str]) -> None:
    """Reads the lines of `source`, copies them to `to` unless it's None, and keeps the last one in
    `last`."""
    for line in source or ():
        if to is not None:
            to.write(line)
        last[:] = [line.strip()] if line.strip() else last
    if to is not None:
        to.flush()
