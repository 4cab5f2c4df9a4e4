"""Tables and features, as users describe them and as the engine takes them."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from . import _stepwell


WEIGHT_MAX = 1e4
"""Largest initial weight and standard deviation; rows of 16 bits hold six times as much."""


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows of `dim` weights. An id gets a row when it is first trained.

    `storage` is "f32", "f16" or "bf16". With `admit_after=n`, at most 255, an id gets a row at its
    n-th occurrence, which a sketch of `sketch` bytes counts: at 8 bytes per id, one id in forty
    gets its row early. With `expire_after=n`, a row is removed after n steps without a use. Either
    of them, or `history=True`, keeps each row's last step, which `Embeddings.export(since=...)`
    needs.
    With `dram`, the table has that many bytes for its rows in memory, instead of a share. With
    `place="memory"` instead of "tiers", all of its rows stay there; one too many is an error that
    ends the embeddings.
    Initial weights are uniform in ±`init_range`; or normal with standard deviation `init_std`; or
    all `init_value`. They depend only on `seed`, the table and the id.
    """

    dim: int
    storage: str = "f32"
    admit_after: int = 1
    expire_after: int = 0
    history: bool = False
    init_range: float = 0.01
    init_std: float | None = None
    init_value: float | None = None
    seed: int = 0
    sketch: str | int = "4MiB"
    dram: str | int | None = None
    place: str = "tiers"

    def __post_init__(self) -> None:
        object.__setattr__(self, "sketch", byte_count("sketch", self.sketch))
        if self.dram is not None:
            object.__setattr__(self, "dram", byte_count("dram", self.dram))
        check("dim", self.dim, 1, 1 << 16)
        check("admit_after", self.admit_after, 0, 255)
        check("expire_after", self.expire_after, 0, 1 << 62)
        check("seed", self.seed, 0, (1 << 64) - 1)
        if self.storage not in ("f32", "f16", "bf16"):
            raise ValueError(f"storage is '{self.storage}': give one of f32, f16, bf16")
        if self.place not in ("tiers", "memory"):
            raise ValueError(f"place is '{self.place}': give tiers or memory")
        object.__setattr__(self, "init_range", self._initial("init_range", 0.0))
        object.__setattr__(self, "init_std", self._initial("init_std", 0.0))
        object.__setattr__(self, "init_value", self._initial("init_value", -WEIGHT_MAX))
        if self.init_std is not None and self.init_value is not None:
            raise ValueError("give init_std or init_value, not both")

    def _initial(self, name: str, least: float) -> float | None:
        """A setting of initial weights, which every storage can hold."""
        value = getattr(self, name)
        if value is None:
            return None
        if isinstance(value, (str, bytes, bool)):
            raise TypeError(f"{name} is {value!r}: give a number")
        number = float(value)
        if not least <= number <= WEIGHT_MAX:
            raise ValueError(f"{name} is {value}: give a number from {least:g} to {WEIGHT_MAX:g}")
        return number


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
        """The distinct rows of the feature's table (rows, dim)."""
        self.index = index
        """Row of each id (ids)."""
        self.offsets = offsets
        """Offsets of the examples' ids (examples + 1)."""

    def __repr__(self) -> str:
        rows, dim = self.rows.shape
        ids, examples = len(self.index), len(self.offsets) - 1
        return f"Rows(rows: ({rows}, {dim}), ids: {ids}, examples: {examples})"


@dataclasses.dataclass
class TableArgs:
    """A table, as the engine takes it."""

    name: str
    dim: int
    storage: str
    admit_after: int
    expire_after: int
    history: bool
    init_range: float
    init_std: float | None
    init_value: float | None
    seed: int
    sketch: int
    dram: int | None
    place: str
    optimizer: str
    settings: dict[str, float]


@dataclasses.dataclass
class FeatureArgs:
    """A feature, as the engine takes it."""

    name: str
    table: int
    pooling: str
    namespace: str


@dataclasses.dataclass
class TierArgs:
    """Memory and disk, as the engine takes them."""

    memory: int
    dram: int | None
    index: int | None
    harvest: int | None
    page_cache: int
    rank: int
    ranks: int
    path: str | None
    lookahead: int
    horizon: int
    threads: int


def check(name: str, value: int, least: int, most: int) -> None:
    """Refuses a value that isn't a whole number from `least` to `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"{name} is {value!r}: give a whole number")
    if not least <= value <= most:
        raise ValueError(f"{name} is {value}: give {least} to {most}")


def byte_count(name: str, value: str | int) -> int:
    """The number of bytes in a number or a text such as "8GiB"."""
    if isinstance(value, bool) or not isinstance(value, (str, int, np.integer)):
        raise TypeError(f"{name} is {value!r}: give a number of bytes, or a text such as '8GiB'")
    try:
        return _stepwell.byte_count(str(value))
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None


def checked_features(
    tables: dict[str, Table], features: dict[str, str | Feature]
) -> dict[str, Feature]:
    """The features, if each has a table and each table a feature."""
    if not isinstance(features, dict) or not all(isinstance(of, Table) for of in tables.values()):
        raise TypeError("give tables as a dict of Table, and features as a dict of Feature or text")
    if not tables or not features:
        raise ValueError("give at least one table and one feature")
    found = {name: Feature(of) if isinstance(of, str) else of for name, of in features.items()}
    for name, feature in found.items():
        if feature.table not in tables:
            known = ", ".join(tables)
            raise ValueError(f"feature '{name}': no table '{feature.table}', only {known}")
    unused = set(tables) - {feature.table for feature in found.values()}
    if unused:
        raise ValueError(f"table '{min(unused)}' has no feature")
    return found
