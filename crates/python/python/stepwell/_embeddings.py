"""Tables, features, and the mini-batches that use them."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import tempfile
import threading
import time
from typing import Any, Callable, Iterable, Iterator

import numpy as np

from . import _compiled, _ids, _program, _saved, _stepwell
from ._specs import (
    Feature,
    FeatureArgs,
    Table,
    TableArgs,
    TierArgs,
    byte_count,
    check,
    checked_features,
)
from ._ranks import RankFed, Ranks, RankTurn
from ._torch import torch
from ._turn import Ahead, Fed, RowsTurn, Stream, Turn, check_current


Expected = tuple[int, list[int], list[int]]
"""Examples of a mini-batch, and by table their ids and distinct ones."""


class Embeddings:
    """Embeddings of `features` in `tables`, of which memory holds a part.

    `memory` bounds what the embeddings allocate: rows in memory, the index of those on disk, buffers
    and waiting mini-batches. The first mini-batch decides how it is divided, unless `dram` (rows in
    memory), `index` (about 11 bytes per row on disk) or `harvest` (rows read along with others) set
    a part. If rows are put first, mini-batches of `batch` examples are assumed. `page_cache` bytes
    of the files may use the system's page cache, outside of `memory`.

    `path` is a directory for the rows on disk, which must not have rows; by default, it is
    temporary. The rows of `lookahead` mini-batches are loaded ahead, and the ids of `horizon` are
    read ahead, so that rows needed soon stay in memory. An optimizer from `stepwell.optim` trains
    the rows; without one they are only read.

    Embeddings are tensors of PyTorch if it is installed, unless `arrays` is "numpy". With `joined`,
    the embeddings of all features, which must be pooled, are one matrix (examples, columns), in
    which each feature has its `columns`.

    With `device`, such as "cuda", the distinct rows of each mini-batch are copied to that device,
    PyTorch pools them there, and the embeddings stay on it.

    With `group`, a group of torch.distributed, each of its ranks has a part of the rows, and its own
    mini-batches. All ranks make the same calls, except `stats`.
    """

    def __init__(
        self,
        tables: dict[str, Table],
        features: dict[str, str | Feature],
        *,
        memory: str | int = "1GiB",
        dram: str | int | None = None,
        index: str | int | None = None,
        harvest: str | int | None = None,
        page_cache: str | int = 0,
        path: str | os.PathLike[str] | None = None,
        lookahead: int = 2,
        horizon: int = 16,
        threads: int | None = None,
        arrays: str | None = None,
        joined: bool = False,
        batch: int = 1024,
        device: Any = None,
        group: Any = None,
    ) -> None:
        if arrays not in (None, "numpy", "torch"):
            raise ValueError(f"arrays is '{arrays}': give 'numpy' or 'torch'")
        if arrays == "torch" and torch is None:
            raise ImportError("PyTorch is not installed")
        self._torch = None if arrays == "numpy" else torch
        check("lookahead", lookahead, 0, 10_000)
        check("horizon", horizon, 0, 10_000)
        check("threads", 1 if threads is None else threads, 1, 1 << 12)
        self.tables = dict(tables)
        self.features = checked_features(self.tables, features)
        self._numbers = {name: number for number, name in enumerate(self.tables)}
        if joined and any(of.pooling is None for of in self.features.values()):
            raise ValueError("joined embeddings are pooled: give no feature pooling=None")
        if device is not None and self._torch is None:
            raise ValueError("device needs PyTorch's tensors")
        self._device = _checked_device(device)
        # Rows on a device are pooled there, by PyTorch.
        self._pools = device is None
        unpooled = {of.table for of in self.features.values() if of.pooling is None}
        self._row_tables = [name for name in self.tables if not self._pools or name in unpooled]
        check("batch", batch, 1, 1 << 31)
        self._batch = batch
        self._joined = joined
        ranks = None if group is None else Ranks(self, group)
        self._ranks = ranks if ranks is not None and ranks.size > 1 else None
        if ranks is not None and path is not None:
            path = os.path.join(path, f"rank-{ranks.rank}")
        self._tiers = TierArgs(
            memory=byte_count("memory", memory),
            dram=None if dram is None else byte_count("dram", dram),
            index=None if index is None else byte_count("index", index),
            harvest=None if harvest is None else byte_count("harvest", harvest),
            page_cache=byte_count("page_cache", page_cache),
            rank=0 if self._ranks is None else self._ranks.rank,
            ranks=1 if self._ranks is None else self._ranks.size,
            path=None if path is None else os.fspath(path),
            lookahead=lookahead,
            horizon=horizon,
            threads=threads or len(os.sched_getaffinity(0)),
        )
        self._rule: tuple[str, dict[str, float]] = ("sgd", {"lr": 0.01})
        self._optimizer: Any = None
        # Read by compiled code, which would be compiled again for another optimizer.
        self._has_optimizer = False
        self._packed: tuple[dict[str, Any], bytes] | None = None
        self._saved: Any = None
        self._saved_path: str | None = None
        self._is_provisional = False
        self._engine: Any = None
        self._lock = threading.RLock()
        self._turn: Turn | None = None
        self._stream: Stream | None = None
        self._lr: float | None = None
        self._is_view = False
        self._waited = 0.0
        self._stand_in = None if self._torch is None else _compiled.stand_in(self)
        self._widths = {
            name: self.tables[of.table].dim
            for name, of in self.features.items()
            if of.pooling is not None
        }
        self.columns: dict[str, slice] = {}
        """Columns of each pooled feature in the joined embeddings."""
        column = 0
        for name, width in self._widths.items():
            self.columns[name] = slice(column, column + width)
            column += width

    # The session

    def _set_optimizer(self, optimizer: Any, name: str, settings: dict[str, float]) -> None:
        if self._is_view:
            raise RuntimeError("stepwell.open only reads: to train, use stepwell.load")
        self._drop_provisional()
        if self._engine is None and self._saved is not None and name != self._rule[0]:
            raise RuntimeError(
                f"the checkpoint's rows have the state of {self._rule[0]}: make an optimizer of that "
                "kind"
            )
        fixed = {"lr": 0.0}
        is_same = {**settings, **fixed} == {**self._rule[1], **fixed}
        if self._engine is not None and not (name == self._rule[0] and is_same):
            raise RuntimeError(
                f"rows have the state of {self._rule[0]}{_texts(self._rule[1])}: make an optimizer "
                "of that kind, with the same settings; or make yours before the embeddings are first "
                "used"
            )
        self._optimizer, self._has_optimizer = optimizer, True
        if self._engine is None:
            self._rule = (name, settings)

    def _session(self, expected: Expected | None = None) -> Any:
        """The engine, made for mini-batches as `expected`; by default, of `batch` examples with an
        id per feature."""
        with self._lock:
            if self._engine is None:
                self._engine = self._made(expected or (self._batch, [], []))
                self._is_provisional = expected is None
            return self._engine

    def _drop_provisional(self) -> None:
        """Drops an engine that nothing has changed, so that it can be made anew."""
        if self._is_provisional and self._engine is not None:
            self._reopen_saved()
            self._engine.close()
            self._engine = None

    def _reopen_saved(self) -> None:
        if self._saved_path is not None:
            self._saved = _stepwell.Saved(self._saved_path)

    def _made(self, expected: Expected) -> Any:
        name, settings = self._rule
        tables = [
            TableArgs(name=of, optimizer=name, settings=settings, **dataclasses.asdict(table))
            for of, table in self.tables.items()
        ]
        features = [
            FeatureArgs(
                name=of,
                table=self._numbers[feature.table],
                pooling=feature.pooling if self._pools and feature.pooling else "none",
                namespace=feature.namespace or feature.table,
            )
            for of, feature in self.features.items()
        ]
        try:
            return _stepwell.Engine(tables, features, self._tiers, expected, self._saved)
        except Exception:
            self._reopen_saved()
            raise

    @property
    def steps(self) -> int:
        """Number of steps trained."""
        if self._engine is None:
            return 0 if self._saved is None else int(self._saved.steps)
        return int(self._engine.steps)

    @property
    def extra(self) -> Any:
        """The `extra` saved with the rows; only of embeddings from `stepwell.open`."""
        if self._packed is None:
            raise AttributeError("only stepwell.open has extra; stepwell.load returns it")
        return _saved.unpacked(*self._packed)

    def __repr__(self) -> str:
        tables = ", ".join(f"{name}: {table.dim}" for name, table in self.tables.items())
        return f"Embeddings({tables}; features: {', '.join(self.features)})"

    def close(self) -> None:
        """Ends the session and frees its memory and temporary files."""
        # Once closed, it isn't made anew.
        self._is_provisional = False
        if self._engine is not None:
            self._engine.close()
        if self._ranks is not None:
            self._ranks.close()

    def __enter__(self) -> Embeddings:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # Mini-batches

    def _feed(self, ids: Any, train: bool) -> Fed:
        """Feeds the ids of all features."""
        try:
            found = self._found(ids, train)
        except Exception:
            # The other ranks wait for this one.
            self._fed(None, train)
            raise
        fed = self._fed(found, train)
        if fed is None:
            raise RuntimeError("another rank has no mini-batch")
        return fed

    def _fed(self, found: dict[str, _ids.Ids] | None, train: bool) -> Fed | None:
        """Feeds a mini-batch of these ids; None if there are none, here or on another rank."""
        if self._ranks is not None:
            return self._ranks.feed(found, train)
        if found is None:
            return None
        examples = next(iter(found.values())).examples()
        self._drop_provisional()
        if self._engine is None:
            self._session((examples, self._counted(found), self._distinct(found)))
        given = [of if self._pools else of._replace(weights=None) for of in found.values()]
        self._session().feed(given, examples, train)
        kept = {
            name: of.bags()
            for name, of in found.items()
            if self.features[name].table in self._row_tables
        }
        return Fed(kept, examples, train)

    def _found(self, ids: Any, train: bool) -> dict[str, _ids.Ids]:
        """The ids of all features."""
        if train and self._optimizer is None:
            raise RuntimeError("training needs an optimizer of stepwell.optim; or give train=False")
        found = _ids.of_features(ids, self.features)
        for name, of in found.items():
            if of.weights is not None and self.features[name].pooling is None:
                raise ValueError(f"feature '{name}' is not pooled, so its rows have no weights")
        return found

    def _counted(self, found: dict[str, _ids.Ids]) -> list[int]:
        """Number of ids of each table."""
        counts = [0] * len(self.tables)
        for name, of in found.items():
            counts[self._numbers[self.features[name].table]] += of.total()
        return counts

    def _distinct(self, found: dict[str, _ids.Ids]) -> list[int]:
        """Number of distinct ids of each table, without texts."""
        values: dict[tuple[str, str], list[Any]] = {}
        for name, of in found.items():
            feature = self.features[name]
            if not isinstance(of.values, tuple):
                namespace = feature.namespace or feature.table
                values.setdefault((feature.table, namespace), []).append(of.values)
        counts = [0] * len(self.tables)
        for (table, _), arrays in values.items():
            counts[self._numbers[table]] += len(np.unique(np.concatenate(arrays)))
        return counts

    def _next(self, fed: Fed) -> Any:
        """The embeddings of the next mini-batch, which is `fed`."""
        self._turn = None
        if isinstance(fed, RankFed):
            turn = RankTurn(self, fed)
            self._turn = turn
            return turn.embeddings()
        begin = time.perf_counter()
        is_ready = self._session().ready()
        self._waited += time.perf_counter() - begin
        if not is_ready:
            raise RuntimeError("no mini-batch is left")
        self._turn = Turn(self, fed) if self._pools else RowsTurn(self, fed)
        return self._turn.embeddings()

    def _switch(self, stream: Stream | None) -> None:
        """Sets the current stream's mini-batches aside and feeds `stream`'s again."""
        self._settle()
        if self._stream is stream:
            return
        self._turn = None
        if self._stream is not None:
            self._stream.aside = self._session().drain()
        self._stream = stream
        if stream is not None and stream.aside is not None:
            aside, stream.aside = stream.aside, None
            self._session().feed_again(aside)

    def _settle(self) -> None:
        """Ends the current step of all ranks."""
        if self._ranks is not None:
            self._ranks.settle()

    def _trains(self, train: bool | None) -> bool:
        if train is not None:
            return train
        return self._has_optimizer and (
            self._torch is None or self._torch.is_grad_enabled()
        )

    def _discard(self) -> None:
        """Takes out the mini-batches that were fed, unless the session has ended with an error."""
        with contextlib.suppress(_stepwell.Error, RuntimeError):
            if self._engine is not None:
                self._engine.drain()

    def _has_room(self, fed: int) -> bool:
        if self._ranks is not None:
            return self._ranks.room(fed)
        # The first mini-batch makes the engine.
        return self._engine is None or self._engine.has_room()

    def ahead(
        self,
        batches: Iterable[Any],
        ids: Callable[[Any], Any] = lambda batch: batch,
        train: bool | None = None,
    ) -> Ahead:
        """Each batch with its embeddings, while coming batches are loaded.

        `ids` returns a batch's ids by feature, as a dict, a DataFrame, a table of Arrow or a
        KeyedJaggedTensor. The ids of a feature are integers or texts: one an example (examples), a
        fixed number (examples, ids), lists of them, a nested tensor, or (values, offsets) or
        (values, offsets, weights) with examples + 1 offsets.

        Embeddings are a dict by feature, or a single array if there is one feature: pooled ones
        (examples, dim), others `Rows`. Loops may be nested, such as an evaluation within training.
        `train` works as in a call and is read when the loop begins. A loop that ends early has read
        ahead by up to `horizon` batches. The result can be iterated again, and has the length of
        `batches`.
        """
        return Ahead(batches, lambda: self._ahead(batches, ids, train))

    def _ahead(
        self, batches: Iterable[Any], ids: Callable[[Any], Any], train: bool | None
    ) -> Iterator[tuple[Any, Any]]:
        train = self._trains(train)
        source, stream, more = iter(batches), Stream(), True
        failure: Exception | None = None
        try:
            while True:
                with self._lock:
                    self._switch(stream)
                    while more and self._has_room(len(stream.fed)):
                        found = fed = None
                        try:
                            batch = next(source)
                            of_batch = ids(batch)
                            # The source may have used the embeddings itself.
                            self._switch(stream)
                            found = self._found(of_batch, train)
                        except StopIteration:
                            more = False
                        except Exception as error:
                            # Batches before this one come first.
                            more, failure = False, error
                        try:
                            fed = self._fed(found, train)
                        except Exception as error:
                            failure = failure or error
                        if fed is None:
                            # No rank goes on without the others.
                            more = False
                        else:
                            stream.fed.append((batch, fed))
                    if not stream.fed and failure is not None:
                        raise failure
                    if not stream.fed:
                        # The last step may have failed.
                        if self._engine is not None:
                            self._engine.wait()
                        return
                    batch, fed = stream.fed.popleft()
                    x = self._next(fed)
                yield batch, x
        finally:
            # A loop that ended early leaves mini-batches behind.
            with self._lock:
                if self._stream is stream:
                    self._settle()
                    self._turn = self._stream = None
                    self._discard()

    def __call__(self, ids: Any, train: bool | None = None) -> Any:
        """Embeddings of one mini-batch of ids, with nothing loaded ahead.

        By default, it is for training if there is an optimizer and gradients aren't turned off.
        """
        train = self._trains(train)
        if not _compiled.is_compiling():
            return self._look_up(ids, train)
        if _compiled.can_look_up(self, ids):
            return _compiled.look_up(self, ids, train)
        # Outside of the compiled code, which `fullgraph=True` refuses.
        return torch.compiler.disable(self._look_up)(ids, train)

    def _look_up(self, ids: Any, train: bool) -> Any:
        with self._lock:
            self._switch(None)
            try:
                return self._next(self._feed(ids, train))
            except BaseException:
                self._discard()
                raise

    def _turn_of(self, ids: Any, train: bool) -> Turn:
        """The turn of one mini-batch, for compiled code."""
        with self._lock:
            self._look_up(ids, train)
            assert self._turn is not None
            return self._turn

    def _record(self, number: int, gradient: Any) -> None:
        """Adds to the gradient of the embeddings of turn `number`, for compiled code."""
        turn = self._turn
        check_current(turn if turn is not None and turn.number == number else None)
        assert turn is not None
        gradient = gradient.detach().clone()
        turn.leaf.grad = gradient if turn.leaf.grad is None else turn.leaf.grad + gradient

    def step(self, gradients: Any = None) -> None:
        """Ends the step with `gradients`, for programs without PyTorch: by feature the gradient of
        its embeddings, or for `Rows` the gradient of the distinct rows; or the gradient of joined
        embeddings. A missing one counts as zeros."""
        if self._ranks is not None or not self._pools:
            raise RuntimeError(
                "embeddings of several ranks, or on a device, take a step by their optimizer"
            )
        self._push(self._current().given(gradients), self._optimizer.lr, waits=True)

    def _step(self, lr: float) -> None:
        turn = self._current()
        if isinstance(turn, RankTurn):
            # The other ranks have to make the step, too.
            turn.record(lr)
            self._turn = None
            return
        # The engine owns the gradients from here on, so the caller needn't wait.
        self._push(turn.recorded(), lr, waits=False)

    def _current(self) -> Turn:
        if self._turn is None:
            raise RuntimeError("no mini-batch is current: its step has ended, or was never begun")
        if self._turn.thread != threading.get_ident():
            raise RuntimeError("the current mini-batch is of another thread: train in one")
        if not self._turn.train:
            raise RuntimeError("the mini-batch was fed for an evaluation")
        return self._turn

    def _push(
        self, gradients: tuple[Any, list[tuple[int, Any]]], lr: float, waits: bool
    ) -> None:
        with self._lock:
            if lr != self._rate():
                self._set_rate(lr)
            self._session().push(*gradients, waits)
            self._turn = None

    def _set_rate(self, lr: float) -> None:
        for number in range(len(self.tables)):
            self._session().set_learning_rate(number, lr)
        self._lr = lr

    def _rate(self) -> float:
        """The learning rate of the last step, or the first."""
        return self._rule[1]["lr"] if self._lr is None else self._lr

    # Rows

    def get(self, feature: str, ids: Any) -> np.ndarray:
        """Rows (ids, dim) of a feature's ids; rows that don't exist yet have initial weights. Ends
        the current mini-batch."""
        number, values, count = self._by_all(lambda: self._of_feature(feature, ids))
        rows = np.empty((count, self.tables[self.features[feature].table].dim), np.float32)
        with self._lock:
            self._settle()
            self._turn = None
            if self._ranks is not None:
                rows = self._ranks.read(number, values, count)
            else:
                self._session().read(number, values, rows)
            return rows

    def put(self, feature: str, ids: Any, weights: Any) -> None:
        """Overwrites the rows of a feature's ids with `weights` (ids, dim) and resets their
        optimizer state. If an id occurs several times, its last row counts. Rows are created even
        if `admit_after` wouldn't admit their ids yet. Ends the current mini-batch."""
        if self._is_view:
            raise RuntimeError("stepwell.open only reads: to change rows, use stepwell.load")
        if self._optimizer is None:
            raise RuntimeError("make an optimizer of stepwell.optim first: rows have its state")
        number, values, rows = self._by_all(lambda: self._rows_given(feature, ids, weights))
        with self._lock:
            self._settle()
            self._turn = None
            if self._ranks is not None:
                self._ranks.write(number, values, rows)
            else:
                self._session().write(number, values, rows)
            self._is_provisional = False

    def _rows_given(self, feature: str, ids: Any, weights: Any) -> tuple[int, Any, np.ndarray]:
        """Number of a feature, the values of its ids, and their rows."""
        number, values, count = self._of_feature(feature, ids)
        if torch is not None and isinstance(weights, torch.Tensor):
            weights = weights.float()
        rows: np.ndarray = np.ascontiguousarray(_ids.to_numpy(weights), np.float32)
        wanted = (count, self.tables[self.features[feature].table].dim)
        if rows.shape != wanted:
            raise ValueError(f"weights have the shape {rows.shape}: give {wanted}")
        return number, values, rows

    def _by_all(self, check: Callable[[], Any]) -> Any:
        """The result of `check`; if it fails on one rank, it fails on all."""
        return check() if self._ranks is None else self._ranks.by_all(check)

    def _of_feature(self, feature: str, ids: Any) -> tuple[int, Any, int]:
        """Number of a feature, and the values of its ids and their number."""
        if feature not in self.features:
            raise ValueError(f"there is no feature '{feature}'")
        values = _ids.values_of(feature, ids)
        count = len(values[1] if isinstance(values, tuple) else values)
        return list(self.features).index(feature), values, count

    def stats(self) -> dict[str, float]:
        """Counters since the embeddings were opened.

        `steps` counts all steps, including those before a checkpoint was loaded. `rows_fit` fit in
        memory. Of the distinct rows of each mini-batch, `rows_hit` were in memory and `rows_loaded`
        were not: `rows_initialized` were new, `rows_read` came from disk, and the others were on
        their way there. `rows_evicted` left memory, and `rows_written` were written to disk, which
        has `rows_on_disk`. Bytes are those of files. The caller waited `wait_seconds` for rows.
        """
        with self._lock:
            return {**dict(self._session().stats()), "wait_seconds": self._waited}

    def digest(self) -> str:
        """A digest of all rows: equal rows have equal digests. Ends the current mini-batch."""
        with self._lock:
            self._settle()
            self._turn = None
            if self._ranks is not None:
                return self._ranks.digest()
            return str(self._session().digest())

    # Checkpoints

    def save(self, path: str | os.PathLike[str], extra: Any = None, keep: int = 2) -> str:
        """Saves rows and `extra` in a checkpoint in directory `path`, where the newest `keep` stay;
        returns its path. `extra` is bytes, or anything that `torch.save` takes. Mini-batches fed
        ahead stay fed; the current one ends."""
        with self._lock:
            self._settle()
            self._turn = None
            whole = self._by_all(lambda: self._packed_with(path, extra, keep))
            meet = None if self._ranks is None else self._ranks.meet
            engine = self._session()
            self._is_provisional = False
            return str(engine.save(os.fspath(path), keep, whole, meet))

    def _packed_with(self, path: str | os.PathLike[str], extra: Any, keep: int) -> bytes:
        """The bytes that a checkpoint has besides rows."""
        check("keep", keep, 1, 1 << 31)
        self._check_apart(path)
        config = {
            "tables": {name: dataclasses.asdict(table) for name, table in self.tables.items()},
            "features": {name: dataclasses.asdict(of) for name, of in self.features.items()},
            "joined": self._joined,
            "optimizer": [self._rule[0], {**self._rule[1], "lr": self._rate()}],
        }
        return _saved.packed(config, extra)

    def export(
        self, path: str | os.PathLike[str], format: str = "safetensors", since: int | None = None
    ) -> None:
        """Writes the rows to a new directory `path`, a file per table in `format`: "safetensors",
        "npy" or "parquet". With `since`, only rows trained or put after that step; every table must
        then keep its rows' last steps (`Table.history`). Ends the current mini-batch."""
        parent = os.path.dirname(os.path.abspath(path))
        # Beside the export, where rows can be linked if the stores are on this file system.
        with tempfile.TemporaryDirectory(prefix=".stepwell-export-", dir=parent) as saved:
            args = ["--out", os.fspath(path), "--format", format]
            args += [] if since is None else ["--since", str(since)]
            if self._ranks is not None:
                self._ranks.export(saved, args)
            else:
                self.save(saved)
                _program.run(["export", saved, *args], shows=False)

    def _check_apart(self, path: str | os.PathLike[str]) -> None:
        """Refuses rows and checkpoints in one directory."""
        if self._tiers.path is not None:
            rows, saved = os.path.realpath(self._tiers.path), os.path.realpath(path)
            if rows in (saved, os.path.dirname(saved)):
                raise ValueError(f"path and checkpoints are both in {rows}: give two directories")

    def __reduce__(self) -> Any:
        raise TypeError("embeddings can't be pickled or copied: give workers only ids")


def _texts(settings: dict[str, float]) -> str:
    """Settings other than the rate, for a message."""
    texts = [f"{name} {value:g}" for name, value in settings.items() if name != "lr"]
    return f" ({', '.join(texts)})" if texts else ""


def _checked_device(device: Any) -> Any:
    """The device of PyTorch, if it can hold rows."""
    if torch is None:
        return None
    found = torch.device("cpu" if device is None else device)
    if found.type == "meta":
        raise ValueError("device is 'meta', which holds no numbers: give cpu or cuda")
    torch.empty(0, device=found)
    return found


def load(path: str | os.PathLike[str], /, **tiers: Any) -> tuple[Embeddings, Any]:
    """Opens the newest checkpoint in `path` that `Embeddings.save` wrote; returns the embeddings
    and `extra`. `tiers` are memory, path, lookahead and so on, as in `Embeddings`."""
    emb, config, data = _opened(path, tiers)
    return emb, _saved.unpacked(config, data)


def open(path: str | os.PathLike[str], /, **tiers: Any) -> Embeddings:
    """Opens the newest checkpoint in `path` for reading: rows are neither made nor trained. `tiers`
    are as in `load`."""
    emb, config, data = _opened(path, tiers)
    emb._is_view = True
    emb._packed = (config, data)
    return emb


def _opened(
    path: str | os.PathLike[str], tiers: dict[str, Any]
) -> tuple[Embeddings, dict[str, Any], bytes]:
    """The embeddings of a checkpoint, and what was packed into it."""
    saved = _stepwell.Saved(os.fspath(path))
    config, data = _saved.parts(os.fspath(path), saved.extra)
    emb = Embeddings(
        # The first checkpoints name no sketch: they had the smallest.
        {name: Table(**{"sketch": 0, **table}) for name, table in config["tables"].items()},
        {name: Feature(**of) for name, of in config["features"].items()},
        **{"joined": config.get("joined", False), **tiers},
    )
    emb._check_apart(path)
    emb._saved, emb._saved_path = saved, os.fspath(saved.path)
    name, settings = config["optimizer"]
    # A checkpoint may have been saved at a rate of 0, which no optimizer begins with.
    emb._rule = (name, {**settings, "lr": settings["lr"] or 1.0})
    return emb, config, data
