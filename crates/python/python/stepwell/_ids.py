"""Ids of any kind of array as the engine takes them: 64-bit integers, or the bytes of texts."""

from __future__ import annotations

from typing import Any, Iterable, NamedTuple

import numpy as np

from ._torch import torch


class Ids(NamedTuple):
    """Ids of a feature."""

    values: Any
    """Integers (ids), or the bytes of all texts and where each ends (ids)."""
    offsets: Any
    """Offsets of the examples' bags (examples + 1); None for one id an example."""
    weights: Any
    """Factor of each row (ids); None if all are 1."""

    def examples(self) -> int:
        """Number of examples."""
        if self.offsets is not None:
            return len(self.offsets) - 1
        return self.total()

    def total(self) -> int:
        """Number of ids."""
        return len(self.values[1] if isinstance(self.values, tuple) else self.values)

    def counts(self) -> np.ndarray:
        """Number of ids of each example."""
        if self.offsets is None:
            return np.ones(self.examples(), np.int64)
        return np.diff(self.offsets)

    def bags(self) -> Bags:
        """The bags, whose arrays stay the same when the caller's change."""
        weights = None if self.weights is None else np.array(self.weights, np.float32)
        return Bags(self.counts(), self.offsets is None, weights)


class Bags(NamedTuple):
    """Bags of a feature, without their ids."""

    counts: np.ndarray
    """Number of ids of each example."""
    is_single: bool
    """Whether each example has one id."""
    weights: np.ndarray | None
    """Factor of each row (ids); None if all are 1."""


def of_features(ids: Any, features: Iterable[str]) -> dict[str, Ids]:
    """The ids of all `features` of a mini-batch."""
    names = list(features)
    if isinstance(ids, dict):
        given = set(ids)
        other = given - set(names)
        if other:
            raise ValueError(f"there is no feature '{min(map(str, other))}'")
    else:
        _check_collected(ids)
        columns = _names(ids)
        if columns is None:
            if len(names) != 1:
                raise ValueError("give ids as a dict by feature")
            ids, columns = {names[0]: ids}, set(names)
        given = columns
    missing = set(names) - given
    if missing:
        raise ValueError(f"feature '{min(missing)}' has no ids")
    found = {name: of_feature(name, ids[name]) for name in names}
    counts = {of.examples() for of in found.values()}
    if len(counts) != 1:
        each = ", ".join(str(count) for count in sorted(counts))
        raise ValueError(f"features have different numbers of examples: {each}")
    return found


def _check_collected(ids: Any) -> None:
    if type(ids).__name__ == "LazyFrame":
        raise TypeError("ids are a LazyFrame: call its method collect first")


def _names(ids: Any) -> set[str] | None:
    """Names of the columns of a table, such as a DataFrame, or of the keys of a mapping, such as a
    KeyedJaggedTensor; None for anything else."""
    if type(ids).__name__ == "Series":
        return None
    for names in ("column_names", "columns", "keys"):
        found = getattr(ids, names, None)
        if found is not None:
            return set(found() if callable(found) else found)
    return None


def of_feature(name: str, ids: Any) -> Ids:
    """The ids of feature `name`."""
    _check_collected(ids)
    if callable(getattr(ids, "unbind", None)) and ids.is_nested:
        return _of_lists(name, ids.unbind())
    if callable(getattr(ids, "offsets", None)) and callable(getattr(ids, "values", None)):
        # A JaggedTensor of TorchRec.
        weights = getattr(ids, "weights_or_none", lambda: None)()
        parts = [ids.values(), ids.offsets(), *([] if weights is None else [weights])]
        return _bags(name, parts)
    if _is_bags(ids):
        return _bags(name, ids)
    if _is_arrow_list(ids):
        return _of_arrow_list(name, ids)
    array = _array(name, ids)
    if array.dtype == object and any(_is_bag(bag) for bag in array.flat):
        return _of_lists(name, array.flat)
    if array.ndim == 1:
        return Ids(_values(name, array), None, None)
    if array.ndim != 2:
        raise ValueError(f"feature '{name}': ids of {array.ndim} dimensions: give 1 or 2")
    examples, each = array.shape
    return Ids(_values(name, array), np.arange(examples + 1, dtype=np.int64) * each, None)


def _of_lists(name: str, lists: Iterable[Any]) -> Ids:
    """The ids of a list for each example; an absent list is empty."""
    bags = [_array(name, bag if _is_bag(bag) else []) for bag in lists]
    offsets = np.concatenate([[0], np.cumsum([len(bag) for bag in bags], dtype=np.int64)])
    full = [bag for bag in bags if len(bag)]
    return Ids(_values(name, np.concatenate(full) if full else np.zeros(0, int)), offsets, None)


def values_of(name: str, ids: Any) -> Any:
    """The values of ids that are not in bags."""
    found = of_feature(name, ids)
    if found.offsets is not None and (found.counts() != 1).any():
        raise ValueError(f"feature '{name}': give one id for each row, not bags")
    return found.values


def _is_bags(ids: Any) -> bool:
    """Whether these are (values, offsets) or (values, offsets, weights)."""
    if isinstance(ids, tuple):
        return len(ids) in (2, 3)
    if not isinstance(ids, list) or len(ids) not in (2, 3):
        return False
    # Collating by a DataLoader turns a tuple into a list of tensors; but a list may also have an
    # example in each.
    if any(getattr(part, "ndim", 0) != 1 for part in ids):
        return False
    values, offsets, *weights = ids
    spans = len(offsets) > 0 and offsets[0] == 0 and offsets[-1] == len(values)
    return bool(spans) and all(len(weight) == len(values) for weight in weights)


def _bags(name: str, parts: Any) -> Ids:
    values, offsets, *weights = parts
    offsets = to_numpy(offsets)
    if offsets.ndim != 1 or offsets.size == 0:
        raise ValueError(f"feature '{name}': give one offset more than there are examples")
    if offsets.dtype.kind not in "iu":
        raise TypeError(f"feature '{name}': offsets are {offsets.dtype}: give integers")
    offsets = np.ascontiguousarray(offsets, np.int64)
    if weights and getattr(weights[0], "requires_grad", False):
        raise ValueError(f"feature '{name}': weights are constants, without a gradient")
    weight = np.ascontiguousarray(to_numpy(weights[0]), np.float32) if weights else None
    found = Ids(_values(name, _array(name, values)), offsets, weight)
    if weight is not None and weight.shape != (found.total(),):
        shape = " x ".join(map(str, weight.shape))
        raise ValueError(f"feature '{name}': {shape} weights for {found.total()} ids")
    if weight is not None and not np.isfinite(weight).all():
        raise ValueError(f"feature '{name}': weights must be finite")
    return found


def _is_arrow_list(ids: Any) -> bool:
    return _is_arrow(ids) and "list" in str(ids.type)


def _is_arrow(values: Any) -> bool:
    return type(values).__module__.startswith("pyarrow")


def _of_arrow_list(name: str, ids: Any) -> Ids:
    """The ids of an array of lists of Arrow; an absent list is empty."""
    if hasattr(ids, "combine_chunks"):
        ids = ids.combine_chunks()
    counts = np.array(ids.value_lengths().fill_null(0), np.int64)
    offsets = np.concatenate([[0], counts.cumsum()])
    return Ids(_values(name, _array(name, ids.flatten())), offsets, None)


def _is_bag(of: Any) -> bool:
    return isinstance(of, (list, tuple)) or getattr(of, "ndim", 0) == 1


def to_numpy(values: Any) -> np.ndarray:
    """An array of NumPy with these values, the same memory if possible."""
    if torch is not None and isinstance(values, torch.Tensor):
        return np.asarray(values.detach().cpu())
    if _is_arrow(values):
        if "dictionary" in str(values.type):
            values = values.cast(values.type.value_type)
        # An array of Arrow copies only if asked to; a chunked one always does.
        chunked = hasattr(values, "num_chunks")
        return np.asarray(
            values.to_numpy() if chunked else values.to_numpy(zero_copy_only=False)
        )
    if not isinstance(values, np.ndarray) and hasattr(values, "to_numpy"):
        return np.asarray(values.to_numpy())
    return np.asarray(values)


def _array(name: str, values: Any) -> np.ndarray:
    """Values as an array; a list of anything but numbers as objects, so that nothing is converted."""
    if isinstance(values, (list, tuple)):
        if all(type(of) is int for of in values):
            try:
                return np.array(values, np.int64)
            except OverflowError:
                pass
        array = np.empty(len(values), object)
        for number, of in enumerate(values):
            array[number] = of
        return array
    try:
        return to_numpy(values)
    except (ValueError, TypeError) as error:
        raise TypeError(f"feature '{name}': ids can't be read: {error}") from error


def _values(name: str, array: np.ndarray) -> Any:
    """Integers as 64-bit ones; texts, and integers that need more, as bytes."""
    if array.size == 0:
        return np.zeros(0, np.int64)
    if array.dtype.kind in "OSUT":
        return _texts(name, array.ravel().tolist())
    if array.dtype.kind not in "iu":
        why = "; if ids are missing, fill them in" if array.dtype.kind == "f" else ""
        raise TypeError(f"feature '{name}': ids are {array.dtype}: give integers or text{why}")
    if array.dtype == np.uint64 and array.max() > np.iinfo(np.int64).max:
        return _texts(name, array.ravel().tolist())
    return np.ascontiguousarray(array, np.int64).ravel()


def _texts(name: str, values: list[Any]) -> tuple[np.ndarray, np.ndarray]:
    """The bytes of texts, and where each ends. A missing text is an empty one, and a number is its
    text."""
    texts = [_bytes(name, value) for value in values]
    data = b"".join(texts)
    ends = np.cumsum([len(text) for text in texts], dtype=np.int64)
    return np.frombuffer(data, np.uint8) if data else np.zeros(0, np.uint8), ends


def _bytes(name: str, value: Any) -> bytes:
    if isinstance(value, np.generic) or getattr(value, "ndim", None) == 0:
        value = value.item()
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if value is None or type(value).__name__ == "NAType" or value != value:
        return b""
    if isinstance(value, int) and not isinstance(value, bool):
        return str(value).encode()
    raise TypeError(
        f"feature '{name}': an id is {type(value).__name__}: give integers or text"
    )
