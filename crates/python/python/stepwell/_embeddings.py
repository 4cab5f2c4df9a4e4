"""Tables, features, and the mini-batches that use them."""

from __future__ import annotations

import contextlib
import dataclasses
import io
import json
import os
import threading
from collections import deque
from typing import Any, Callable, Iterable, Iterator

import numpy as np

from . import _stepwell
from ._torch import torch


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of `dim` weights. An id gets a row when it is first trained.

    `storage` is "f32", "f16" or "bf16". With `admit_after=n`, at most 255, an id gets a row at its
    n-th occurrence; with `expire_after=n`, a row is removed after n steps without a use. Initial
    weights are uniform in ±`init_range` and depend only on `seed`, the table and the id.
    """

    dim: int
    storage: str = "f32"
    admit_after: int = 1
    expire_after: int = 0
    init_range: float = 0.01
    seed: int = 0

    def __post_init__(self) -> None:
        _check("dim", self.dim, 1, 1 << 16)
        _check("admit_after", self.admit_after, 0, 255)
        _check("expire_after", self.expire_after, 0, 1 << 62)
        _check("seed", self.seed, 0, (1 << 64) - 1)
        if self.storage not in ("f32", "f16", "bf16"):
            raise ValueError(f"storage is '{self.storage}': give one of f32, f16, bf16")
        if not 0 <= self.init_range < float("inf"):
            raise ValueError(f"init_range is {self.init_range}: give a number from 0 on")


@dataclasses.dataclass(frozen=True)
class Feature:
    """Ids that select rows of `table`.

    `pooling` is "sum", "mean" or "sqrt_n" of a bag's rows, or None for the rows themselves
    (`Rows`). Ids of one `namespace`, by default the table's name, are the same rows.
    """

    table: str
    pooling: str | None = "sum"
    namespace: str | None = None

    def __post_init__(self) -> None:
        if self.pooling not in ("sum", "mean", "sqrt_n", None):
            raise ValueError(f"pooling is '{self.pooling}': give one of sum, mean, sqrt_n, None")


class Rows:
    """Rows that are not pooled: `rows[index[i]]` is the row of id i."""

    def __init__(self, rows: Any, index: Any, offsets: Any) -> None:
        self.rows = rows
        """The distinct rows (rows, dim)."""
        self.index = index
        """Row of each id (ids)."""
        self.offsets = offsets
        """Offsets of the examples' ids (examples + 1)."""


@dataclasses.dataclass
class _TableArgs:
    """What the engine needs of a table."""

    name: str
    dim: int
    storage: str
    admit_after: int
    expire_after: int
    init_range: float
    seed: int
    optimizer: str
    settings: dict[str, float]


@dataclasses.dataclass
class _FeatureArgs:
    name: str
    table: int
    pooling: str
    namespace: str


@dataclasses.dataclass
class _TierArgs:
    memory: str
    index: str
    path: str | None
    lookahead: int
    threads: int


class Embeddings:
    """Embeddings of `features` in `tables`, of which `memory` holds a part.

    `path` is a directory for the rows on disk, which must not have rows; by default, it is
    temporary. The rows of `lookahead` mini-batches are loaded ahead. An optimizer from
    `stepwell.optim` trains the rows; without one they are only read. Embeddings are tensors of
    PyTorch if it is installed, unless `arrays` is "numpy".
    """

    def __init__(
        self,
        tables: dict[str, Table],
        features: dict[str, str | Feature],
        *,
        memory: str | int = "1GiB",
        index: str | int = "1GiB",
        path: str | os.PathLike[str] | None = None,
        lookahead: int = 2,
        threads: int | None = None,
        arrays: str | None = None,
    ) -> None:
        if arrays not in (None, "numpy", "torch"):
            raise ValueError(f"arrays is '{arrays}': give 'numpy' or 'torch'")
        if arrays == "torch" and torch is None:
            raise ImportError("PyTorch is not installed")
        self._torch = None if arrays == "numpy" else torch
        _check("lookahead", lookahead, 0, 10_000)
        _check("threads", 1 if threads is None else threads, 1, 1 << 12)
        if not tables or not features:
            raise ValueError("give at least one table and one feature")
        self.tables = dict(tables)
        self.features = {
            name: Feature(of) if isinstance(of, str) else of for name, of in features.items()
        }
        numbers = {name: number for number, name in enumerate(self.tables)}
        for name, feature in self.features.items():
            if feature.table not in numbers:
                known = ", ".join(numbers)
                raise ValueError(f"feature '{name}': no table '{feature.table}', only {known}")
        unused = set(numbers) - {feature.table for feature in self.features.values()}
        if unused:
            raise ValueError(f"table '{min(unused)}' has no feature")
        self._numbers = numbers
        self._unpooled = {of.table for of in self.features.values() if of.pooling is None}
        for name, feature in self.features.items():
            if feature.table in self._unpooled and feature.pooling is not None:
                raise ValueError(
                    f"feature '{name}': another feature of table '{feature.table}' isn't pooled: "
                    "give all of them pooling=None"
                )
        self._tiers = _TierArgs(
            memory=str(memory),
            index=str(index),
            path=None if path is None else os.fspath(path),
            lookahead=lookahead,
            threads=threads or len(os.sched_getaffinity(0)),
        )
        self._rule: tuple[str, dict[str, float]] = ("sgd", {"lr": 0.01})
        self._optimizer: Any = None
        self._saved: Any = None
        self._engine: Any = None
        self._lock = threading.RLock()
        self._turn: _Turn | None = None
        self._stream: _Stream | None = None
        self._lr: float | None = None
        self._columns: dict[str, tuple[int, int]] = {}
        column = 0
        for name, feature in self.features.items():
            if feature.table not in self._unpooled:
                end = column + self.tables[feature.table].dim
                self._columns[name] = (column, end)
                column = end

    # The session

    def _set_optimizer(self, optimizer: Any, name: str, settings: dict[str, float]) -> None:
        fixed = {"lr": 0.0}
        known = (self._rule[0], {**self._rule[1], **fixed})
        if self._engine is not None and (name, {**settings, **fixed}) != known:
            raise RuntimeError("make the optimizer before the first mini-batch")
        self._optimizer = optimizer
        if self._engine is None:
            self._rule = (name, settings)

    def _session(self) -> Any:
        if self._engine is None:
            name, settings = self._rule
            tables = [
                _TableArgs(name=of, optimizer=name, settings=settings, **dataclasses.asdict(table))
                for of, table in self.tables.items()
            ]
            features = [
                _FeatureArgs(
                    name=of,
                    table=self._numbers[feature.table],
                    pooling=feature.pooling or "none",
                    namespace=feature.namespace or feature.table,
                )
                for of, feature in self.features.items()
            ]
            self._engine = _stepwell.Engine(tables, features, self._tiers, self._saved)
        return self._engine

    @property
    def steps(self) -> int:
        """Number of steps trained."""
        return int(self._session().steps)

    def close(self) -> None:
        """Ends the session and frees its memory and temporary files."""
        if self._engine is not None:
            self._engine.close()

    def __enter__(self) -> Embeddings:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()

    # Mini-batches

    def _feed(self, ids: Any, train: bool) -> _Fed:
        """Feeds the ids of all features."""
        if train and self._optimizer is None:
            raise RuntimeError("training needs an optimizer of stepwell.optim; or give train=False")
        if not isinstance(ids, dict):
            if len(self.features) != 1:
                raise ValueError("give ids as a dict by feature")
            ids = {name: ids for name in self.features}
        missing, other = set(self.features) - set(ids), set(ids) - set(self.features)
        if missing:
            raise ValueError(f"feature '{min(missing)}' has no ids")
        if other:
            raise ValueError(f"there is no feature '{min(other)}'")
        arrays = {name: _arrays(name, ids[name]) for name in self.features}
        counts = {
            len(values) if offsets is None else len(offsets) - 1
            for values, offsets, _ in arrays.values()
        }
        if len(counts) != 1:
            each = ", ".join(str(count) for count in sorted(counts))
            raise ValueError(f"features have different numbers of examples: {each}")
        examples = counts.pop()
        self._session().feed(list(arrays.values()), examples, train)
        offsets = {name: offsets for name, (_, offsets, _) in arrays.items()}
        return _Fed(offsets, examples, train)

    def _next(self, fed: _Fed) -> Any:
        """The embeddings of the next mini-batch, which is `fed`."""
        self._turn = None
        if not self._session().ready():
            raise RuntimeError("no mini-batch is left")
        self._turn = _Turn(self, fed)
        return self._turn.embeddings()

    def _switch(self, stream: _Stream | None) -> None:
        """Sets the current stream's mini-batches aside and feeds `stream`'s again."""
        if self._stream is stream:
            return
        self._turn = None
        engine = self._session()
        if self._stream is not None:
            self._stream.aside = engine.drain()
        self._stream = stream
        if stream is not None and stream.aside is not None:
            aside, stream.aside = stream.aside, None
            engine.feed_again(aside)

    def _trains(self, train: bool | None) -> bool:
        if train is not None:
            return train
        return self._optimizer is not None and (
            self._torch is None or self._torch.is_grad_enabled()
        )

    def _discard(self) -> None:
        """Takes out what is fed, unless the session has ended with an error."""
        with contextlib.suppress(_stepwell.Error, RuntimeError):
            self._session().drain()

    def ahead(
        self,
        batches: Iterable[Any],
        ids: Callable[[Any], Any] = lambda batch: batch,
        train: bool | None = None,
    ) -> Iterator[tuple[Any, Any]]:
        """Yields each batch with its embeddings, while coming batches are loaded.

        `ids` returns a batch's ids by feature: for each feature an integer array of one id an
        example (examples), of a fixed number (examples, ids), or (values, offsets) or (values,
        offsets, weights) with examples + 1 offsets. Embeddings are a dict by feature, or a single
        array if there is one feature: pooled ones (examples, dim), others `Rows`. Loops may be
        nested, such as an evaluation within training. `train` is as in a call; a loop that ends
        early has read up to `lookahead` + 1 batches more than it yielded.
        """
        train = self._trains(train)
        source, stream, more = iter(batches), _Stream(), True
        failure: Exception | None = None
        engine = self._session()
        try:
            while True:
                with self._lock:
                    self._switch(stream)
                    while more and engine.has_room():
                        try:
                            batch = next(source)
                            of_batch = ids(batch)
                            # The source may have used the embeddings itself.
                            self._switch(stream)
                            stream.fed.append((batch, self._feed(of_batch, train)))
                        except StopIteration:
                            more = False
                        except Exception as error:
                            # Batches before this one come first.
                            more, failure = False, error
                    if not stream.fed and failure is not None:
                        raise failure
                    if not stream.fed:
                        return
                    batch, fed = stream.fed.popleft()
                    x = self._next(fed)
                yield batch, x
        finally:
            # A loop that ended early leaves mini-batches behind.
            with self._lock:
                if self._stream is stream:
                    self._turn = self._stream = None
                    self._discard()

    def __call__(self, ids: Any, train: bool | None = None) -> Any:
        """Embeddings of one mini-batch of ids, with nothing loaded ahead.

        It trains by default if an optimizer was made and PyTorch, if it is used, records gradients.
        """
        train = self._trains(train)
        with self._lock:
            self._switch(None)
            fed = self._feed(ids, train)
            try:
                return self._next(fed)
            except BaseException:
                self._discard()
                raise

    def step(self, gradients: Any = None) -> None:
        """Ends the step with `gradients`, for programs without PyTorch: by feature the gradient of
        its embeddings, or for `Rows` the gradient of the distinct rows. A missing one counts as
        zeros."""
        turn = self._current()
        if gradients is not None and not isinstance(gradients, dict):
            if len(self.features) != 1:
                raise ValueError("give gradients as a dict by feature")
            gradients = {name: gradients for name in self.features}
        self._push(turn.given(gradients or {}), self._optimizer.lr)

    def _step(self, lr: float) -> None:
        self._push(self._current().recorded(), lr)

    def _current(self) -> _Turn:
        if self._turn is None:
            raise RuntimeError("no mini-batch is current: its step has ended, or was never begun")
        if self._turn.thread != threading.get_ident():
            raise RuntimeError("the current mini-batch is of another thread: train in one")
        if not self._turn.train:
            raise RuntimeError("the mini-batch was fed for an evaluation")
        return self._turn

    def _push(self, gradients: tuple[Any, list[tuple[int, Any]]], lr: float) -> None:
        with self._lock:
            if lr != self._rate():
                self._set_rate(lr)
            self._session().push(*gradients)
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
        if feature not in self.features:
            raise ValueError(f"there is no feature '{feature}'")
        values, _, _ = _arrays(feature, ids)
        rows = np.empty((len(values), self.tables[self.features[feature].table].dim), np.float32)
        with self._lock:
            self._turn = None
            self._session().read(list(self.features).index(feature), values, rows)
            return rows

    def digest(self) -> str:
        """A digest of all rows: equal rows have equal digests. Ends the current mini-batch."""
        with self._lock:
            self._turn = None
            return str(self._session().digest())

    # Checkpoints

    def save(self, path: str | os.PathLike[str], extra: Any = None, keep: int = 2) -> str:
        """Saves rows and `extra` in a checkpoint in directory `path`, where the newest `keep` stay;
        returns its path. `extra` is bytes, or anything that `torch.save` takes. Mini-batches fed
        ahead stay fed; the current one ends."""
        _check("keep", keep, 1, 1 << 31)
        self._check_apart(path)
        config = {
            "tables": {name: dataclasses.asdict(table) for name, table in self.tables.items()},
            "features": {name: dataclasses.asdict(of) for name, of in self.features.items()},
            "optimizer": [self._rule[0], {**self._rule[1], "lr": self._rate()}],
            "extra": None if extra is None else "bytes" if isinstance(extra, bytes) else "torch",
        }
        if isinstance(extra, bytes):
            data = extra
        elif extra is None:
            data = b""
        elif torch is None:
            raise TypeError("without PyTorch, extra must be bytes")
        else:
            buffer = io.BytesIO()
            torch.save(extra, buffer)
            data = buffer.getvalue()
            try:
                torch.load(io.BytesIO(data), weights_only=True)
            except Exception as error:
                raise ValueError(
                    "extra: torch.load(weights_only=True) can't read it: give tensors, numbers, "
                    "text, and lists and dicts of them"
                ) from error
        head = json.dumps(config).encode()
        whole = len(head).to_bytes(8, "little") + head + data
        with self._lock:
            self._turn = None
            return str(self._session().save(os.fspath(path), keep, whole))

    def _check_apart(self, path: str | os.PathLike[str]) -> None:
        """Refuses rows and checkpoints in one directory."""
        if self._tiers.path is not None:
            rows, saved = os.path.realpath(self._tiers.path), os.path.realpath(path)
            if rows in (saved, os.path.dirname(saved)):
                raise ValueError(f"path and checkpoints are both in {rows}: give two directories")

    def __reduce__(self) -> Any:
        raise TypeError("embeddings can't be pickled or copied: give workers only ids")


def load(path: str | os.PathLike[str], /, **tiers: Any) -> tuple[Embeddings, Any]:
    """Opens the newest checkpoint in `path` that `Embeddings.save` wrote; returns the embeddings
    and `extra`. `tiers` are memory, path, lookahead and so on, as in `Embeddings`."""
    saved = _stepwell.Saved(os.fspath(path))
    whole = saved.extra
    if len(whole) < 8:
        raise ValueError(f"{os.fspath(path)} was not saved by stepwell.Embeddings")
    end = 8 + int.from_bytes(whole[:8], "little")
    config, data = json.loads(whole[8:end]), whole[end:]
    emb = Embeddings(
        {name: Table(**table) for name, table in config["tables"].items()},
        {name: Feature(**of) for name, of in config["features"].items()},
        **tiers,
    )
    emb._check_apart(path)
    emb._saved = saved
    name, settings = config["optimizer"]
    # A checkpoint may have been saved at a rate of 0, which no optimizer begins with.
    emb._rule = (name, {**settings, "lr": settings["lr"] or 1.0})
    if config["extra"] == "bytes":
        return emb, data
    if config["extra"] is None:
        return emb, None
    if torch is None:
        raise ImportError("the checkpoint has a PyTorch model: install torch to load it")
    return emb, torch.load(io.BytesIO(data), weights_only=True)


@dataclasses.dataclass
class _Fed:
    """A mini-batch as it was fed."""

    offsets: dict[str, Any]
    """Offsets of each feature's bags; None for one id an example."""
    examples: int
    train: bool


class _Stream:
    """Mini-batches of one loop."""

    def __init__(self) -> None:
        self.fed: deque[tuple[Any, _Fed]] = deque()
        self.aside: Any = None
        """Mini-batches that were fed and taken out, while another loop has its turn."""


class _Turn:
    """The current mini-batch."""

    def __init__(self, emb: Embeddings, fed: _Fed):
        self.emb, self.offsets, self.examples, self.train = emb, fed.offsets, fed.examples, fed.train
        self.leaves: dict[str, Any] = {}
        self.leaf: Any = None
        self.thread = threading.get_ident()

    def embeddings(self) -> Any:
        emb = self.emb
        engine = emb._engine
        found: dict[str, Any] = {}
        if engine.width > 0:
            x = np.empty((self.examples, engine.width), np.float32)
            engine.gather(x)
            self.leaf = self.leaf_of(x)
            # The gradient of a split is one concatenation; each slice would have a whole matrix.
            ends = [end for _, end in emb._columns.values()]
            widths = [end - begin for begin, end in emb._columns.values()]
            if emb._torch is None:
                found.update(zip(emb._columns, np.split(x, ends[:-1], 1)))
            else:
                found.update(zip(emb._columns, self.leaf.split(widths, 1)))
        for table in emb.tables:
            if table in emb._unpooled:
                self.rows_of(table, found)
        if emb._torch is not None and emb._optimizer is not None and self.train:
            params = [leaf for leaf in [self.leaf, *self.leaves.values()] if leaf is not None]
            emb._optimizer.param_groups[0]["params"] = params
        if len(emb.features) == 1:
            return next(iter(found.values()))
        return {name: found[name] for name in emb.features}

    def leaf_of(self, array: np.ndarray) -> Any:
        if self.emb._torch is None:
            return array
        return torch.from_numpy(array).requires_grad_(self.train)

    def rows_of(self, table: str, found: dict[str, Any]) -> None:
        """Adds the rows of each feature of a table that isn't pooled."""
        emb, number = self.emb, self.emb._numbers[table]
        count, ids = emb._engine.counts(number)
        rows = np.empty((count, emb.tables[table].dim), np.float32)
        places = np.empty(ids, np.int64)
        emb._engine.rows(number, rows, places)
        leaf = self.leaves[table] = self.leaf_of(rows)
        # Ids are in the order of examples, and of features within each.
        names = [name for name, of in emb.features.items() if of.table == table]
        ends = np.stack([self.counts(name) for name in names], 1).ravel().cumsum()
        begins = np.concatenate([[0], ends[:-1]])
        for at, name in enumerate(names):
            spans = zip(begins[at :: len(names)], ends[at :: len(names)])
            parts = [places[begin:end] for begin, end in spans] if len(names) > 1 else [places]
            index = np.concatenate(parts) if parts else places
            offsets = np.concatenate([[0], self.counts(name).cumsum()])
            if emb._torch is not None:
                index, offsets = torch.from_numpy(index), torch.from_numpy(offsets)
            found[name] = Rows(leaf, index, offsets)

    def counts(self, name: str) -> Any:
        """Number of ids of each example."""
        offsets = self.offsets[name]
        return np.ones(self.examples, np.int64) if offsets is None else np.diff(offsets)

    def given(self, gradients: dict[str, Any]) -> tuple[Any, list[tuple[int, Any]]]:
        """Gradients that the caller computed, by feature."""
        emb = self.emb
        unknown = set(gradients) - set(emb.features)
        if unknown:
            raise ValueError(f"there is no feature '{min(unknown)}'")
        d_x = np.zeros((self.examples, emb._engine.width), np.float32)
        d_rows: dict[int, Any] = {}
        for name, gradient in gradients.items():
            if gradient is None:
                continue
            gradient = np.ascontiguousarray(_numpy(gradient), np.float32)
            if name in emb._columns:
                begin, end = emb._columns[name]
                if gradient.shape != (self.examples, end - begin):
                    wanted = (self.examples, end - begin)
                    raise ValueError(f"feature '{name}': gradient {gradient.shape}, not {wanted}")
                d_x[:, begin:end] = gradient
            else:
                table = emb.features[name].table
                number, wanted = emb._numbers[table], self.leaves[table].shape
                if gradient.shape != wanted:
                    raise ValueError(f"feature '{name}': gradient {gradient.shape}, not {wanted}")
                d_rows[number] = d_rows[number] + gradient if number in d_rows else gradient
        return d_x, list(d_rows.items())

    def recorded(self) -> tuple[Any, list[tuple[int, Any]]]:
        """Gradients that PyTorch recorded."""
        if self.emb._torch is None:
            raise RuntimeError("without PyTorch, pass gradients to Embeddings.step")
        d_rows = [
            (self.emb._numbers[table], _array(leaf.grad))
            for table, leaf in self.leaves.items()
            if leaf.grad is not None
        ]
        d_x = None if self.leaf is None or self.leaf.grad is None else _array(self.leaf.grad)
        return d_x, d_rows


def _array(gradient: Any) -> np.ndarray:
    return np.ascontiguousarray(gradient.detach().to("cpu", torch.float32).numpy())


def _arrays(name: str, ids: Any) -> tuple[Any, Any, Any]:
    """Values, offsets and weights of a feature's ids."""
    # Collating by a DataLoader turns a tuple into a list of tensors.
    is_bags = isinstance(ids, tuple) or (
        isinstance(ids, list) and all(getattr(part, "ndim", 0) == 1 for part in ids)
    )
    if is_bags and len(ids) in (2, 3):
        values, offsets, *weights = ids
        offsets = _integers(name, offsets)
        if offsets.ndim != 1 or offsets.size == 0:
            raise ValueError(f"feature '{name}': give one offset more than there are examples")
        if weights and getattr(weights[0], "requires_grad", False):
            raise ValueError(f"feature '{name}': weights are constants, without a gradient")
        weight = np.ascontiguousarray(_numpy(weights[0]), np.float32) if weights else None
        return _integers(name, values).ravel(), offsets, weight
    values = _integers(name, ids)
    if values.ndim == 1:
        return values, None, None
    if values.ndim != 2:
        raise ValueError(f"feature '{name}': ids of {values.ndim} dimensions: give 1 or 2")
    examples, each = values.shape
    return values.ravel(), np.arange(examples + 1, dtype=np.int64) * each, None


def _check(name: str, value: int, least: int, most: int) -> None:
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}: give {least} to {most}")


def _numpy(values: Any) -> np.ndarray:
    if torch is not None and isinstance(values, torch.Tensor):
        return values.detach().cpu().numpy()
    return np.asarray(values)


def _integers(name: str, values: Any) -> np.ndarray:
    array = _numpy(values)
    if array.size == 0:
        return array.astype(np.int64)
    if array.dtype.kind not in "iu":
        raise TypeError(f"feature '{name}': ids are {array.dtype}: give integers")
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        raise ValueError(f"feature '{name}': an id exceeds 2^63 - 1")
    return np.ascontiguousarray(array, np.int64)
