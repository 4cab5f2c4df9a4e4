"""The current mini-batch: its embeddings and their gradients."""

from __future__ import annotations

import dataclasses
import itertools
import threading
import weakref
from collections import deque
from typing import Any, Callable, Iterator, cast

import numpy as np

from . import _pooling
from ._ids import Bags, to_numpy
from ._torch import torch


@dataclasses.dataclass
class Fed:
    """A mini-batch as it was fed."""

    bags: dict[str, Bags]
    """Bags of each feature whose table's rows come back."""
    examples: int
    train: bool


class Stream:
    """Mini-batches of one loop."""

    def __init__(self) -> None:
        self.fed: deque[tuple[Any, Fed]] = deque()
        self.aside: Any = None
        """Mini-batches that were fed and taken out, while another loop has its turn."""


class Ahead:
    """Batches with their embeddings. Each iteration reads `batches` anew."""

    def __init__(self, batches: Any, begin: Callable[[], Iterator[Any]]):
        self._batches, self._begin = batches, begin
        self._begun: Any = None

    def __iter__(self) -> Iterator[tuple[Any, Any]]:
        return self._begin() if self._begun is None else self

    def __next__(self) -> tuple[Any, Any]:
        if self._begun is None:
            self._begun = self._begin()
        try:
            return cast("tuple[Any, Any]", next(self._begun))
        except StopIteration:
            self._begun = None
            raise

    def __len__(self) -> int:
        return len(self._batches)

    def close(self) -> None:
        """Ends the loop that `next` began."""
        if self._begun is not None:
            self._begun.close()


_count = itertools.count(1)


class Turn:
    """The current mini-batch of the embeddings `emb`."""

    def __init__(self, emb: Any, fed: Fed):
        self.emb, self.fed, self.train = emb, fed, fed.train
        self.leaf: Any = None
        """The matrix of pooled embeddings."""
        self.leaves: dict[str, Any] = {}
        """The distinct rows of each table with an unpooled feature."""
        self.thread = threading.get_ident()
        self.number = next(_count)

    def embeddings(self) -> Any:
        """The embeddings, as users get them."""
        emb = self.emb
        found: dict[str, Any] = {}
        self._fill(found)
        if emb._torch is not None and emb._optimizer is not None and self.train:
            emb._optimizer.param_groups[0]["params"] = self._params()
        if emb._joined:
            return self.leaf
        if len(emb.features) == 1:
            return next(iter(found.values()))
        return {name: found[name] for name in emb.features}

    def _fill(self, found: dict[str, Any]) -> None:
        """Adds the embeddings of each feature."""
        emb = self.emb
        if emb._engine.width > 0:
            x = np.empty((self.fed.examples, emb._engine.width), np.float32)
            emb._engine.gather(x)
            self.leaf = self._leaf(x)
            if not emb._joined:
                self._split(found)
        for table in emb._row_tables:
            for name, index in self._index(table).items():
                if emb.features[name].pooling is None:
                    bags, rows = self.fed.bags[name], self.leaves[table]
                    found[name] = _pooling.unpooled(bags, index, rows)

    def _params(self) -> list[Any]:
        """The tensors whose gradients count."""
        return [leaf for leaf in [self.leaf, *self.leaves.values()] if leaf is not None]

    def _leaf(self, array: np.ndarray) -> Any:
        if self.emb._torch is None:
            return array
        leaf = _pooling.on_device(array, self.emb._device).requires_grad_(self.train)
        if self.train:
            this = weakref.ref(self)
            leaf.register_hook(lambda _: check_current(this()))
        return leaf

    def _split(self, found: dict[str, Any]) -> None:
        """Adds the pooled embeddings of each feature."""
        columns = self.emb.columns
        if self.emb._torch is None:
            found.update((name, self.leaf[:, of]) for name, of in columns.items())
            return
        # The gradient of a split is one concatenation; each slice would have a whole matrix.
        widths = [of.stop - of.start for of in columns.values()]
        rest = self.emb._engine.width - sum(widths)
        found.update(zip(columns, self.leaf.split([*widths, rest], 1)))

    def _index(self, table: str) -> dict[str, np.ndarray]:
        """Loads the distinct rows of a table; returns the row of each id, by feature."""
        emb, number = self.emb, self.emb._numbers[table]
        count, ids = emb._engine.counts(number)
        rows = np.empty((count, emb.tables[table].dim), np.float32)
        places = np.empty(ids, np.int64)
        emb._engine.rows(number, rows, places)
        self.leaves[table] = self._leaf(rows)
        names = [name for name, of in emb.features.items() if of.table == table]
        if len(names) == 1:
            return {names[0]: places}
        # Ids are in the order of examples, and of features within each.
        counts = np.stack([self.fed.bags[name].counts for name in names], 1)
        of_each = np.repeat(np.tile(np.arange(len(names)), len(counts)), counts.ravel())
        return {name: places[of_each == at] for at, name in enumerate(names)}

    def given(self, gradients: Any) -> tuple[Any, list[tuple[int, Any]]]:
        """Gradients that the caller computed: by feature, or of the joined embeddings."""
        emb = self.emb
        if emb._joined and isinstance(gradients, dict):
            raise ValueError("embeddings are joined: give the gradient of the whole matrix")
        if emb._joined:
            return self._checked("the embeddings", gradients, self.leaf.shape), []
        gradients = {} if gradients is None else gradients
        if not isinstance(gradients, dict):
            if len(emb.features) != 1:
                raise ValueError("give gradients as a dict by feature")
            gradients = {name: gradients for name in emb.features}
        unknown = set(gradients) - set(emb.features)
        if unknown:
            raise ValueError(f"there is no feature '{min(unknown)}'")
        d_x = np.zeros((self.fed.examples, emb._engine.width), np.float32)
        d_rows: dict[int, Any] = {}
        for name, gradient in gradients.items():
            of, table = emb.columns.get(name), emb.features[name].table
            shape = self.leaves[table].shape if of is None else d_x[:, of].shape
            gradient = self._checked(f"feature '{name}'", gradient, shape)
            if gradient is None:
                continue
            if of is not None:
                d_x[:, of] = gradient
            else:
                number = emb._numbers[table]
                d_rows[number] = d_rows[number] + gradient if number in d_rows else gradient
        return d_x, list(d_rows.items())

    def _checked(self, name: str, gradient: Any, shape: Any) -> np.ndarray | None:
        if gradient is None:
            return None
        array: np.ndarray = np.ascontiguousarray(to_numpy(gradient), np.float32)
        if array.shape != tuple(shape):
            raise ValueError(f"{name}: gradient {array.shape}, not {tuple(shape)}")
        return array

    def recorded(self) -> tuple[Any, list[tuple[int, Any]]]:
        """Takes the gradients that PyTorch recorded."""
        if self.emb._torch is None:
            raise RuntimeError("without PyTorch, pass gradients to Embeddings.step")
        return None if self.leaf is None else taken(self.leaf), self._recorded_rows()

    def _recorded_rows(self) -> list[tuple[int, Any]]:
        """Takes the gradients of distinct rows, by the number of the table."""
        leaves = [(table, leaf) for table, leaf in self.leaves.items() if leaf.grad is not None]
        return [(self.emb._numbers[table], taken(leaf)) for table, leaf in leaves]


class RowsTurn(Turn):
    """A mini-batch whose rows come back unpooled: PyTorch pools them on their device."""

    def _load(self) -> dict[str, np.ndarray]:
        """Loads the rows of all tables; returns the row of each id, by feature."""
        index: dict[str, np.ndarray] = {}
        for table in self.emb.tables:
            index.update(self._index(table))
        return index

    def _fill(self, found: dict[str, Any]) -> None:
        emb, index = self.emb, self._load()
        for name, feature in emb.features.items():
            bags, rows = self.fed.bags[name], self.leaves[feature.table]
            if feature.pooling is None:
                found[name] = _pooling.unpooled(bags, index[name], rows)
            else:
                found[name] = _pooling.pooled(bags, index[name], rows, feature.pooling)
        if emb._joined:
            self.leaf = torch.cat([found[name] for name in emb.features], 1)

    def _params(self) -> list[Any]:
        return list(self.leaves.values())

    def recorded(self) -> tuple[Any, list[tuple[int, Any]]]:
        """Takes the gradients that PyTorch recorded."""
        return None, self._recorded_rows()


def check_current(turn: Turn | None) -> None:
    """Refuses a gradient that no step can push any more."""
    if turn is None or turn.emb._turn is not turn:
        raise RuntimeError(
            "a gradient reached the embeddings of an earlier mini-batch, whose step has ended: call "
            "backward before the next mini-batch is taken"
        )


def taken(leaf: Any) -> np.ndarray | None:
    """Takes the gradient of `leaf` and sets `leaf.grad` to None."""
    gradient, leaf.grad = leaf.grad, None
    if gradient is None:
        return None
    return np.ascontiguousarray(gradient.detach().to("cpu", torch.float32))
