"""Pooling of distinct rows by PyTorch, where the rows are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._ids import Ids
from ._specs import Rows
from ._torch import torch


def on_device(array: np.ndarray, device: Any) -> Any:
    """A tensor of `array` on `device`; one on a GPU is copied while the caller goes on."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def of_feature(ids: Ids, index: np.ndarray, rows: Any, pooling: str | None) -> Any:
    """The embeddings of a feature: those of its `ids`, whose rows are `rows[index]`."""
    device = rows.device
    places = on_device(index, device)
    if ids.offsets is None and ids.weights is None and pooling is not None:
        return torch.nn.functional.embedding(places, rows)
    counts = ids.counts()
    offsets = on_device(np.concatenate([[0], counts.cumsum()]), device)
    if pooling is None:
        return Rows(rows, places, offsets)
    factors = None if ids.weights is None else np.asarray(ids.weights, np.float32)
    if pooling != "sum":
        each = {"mean": counts, "sqrt_n": np.sqrt(counts)}[pooling]
        of_bags = np.divide(1, each, where=counts > 0, out=np.zeros(len(counts)))
        of_ids = np.repeat(of_bags, counts).astype(np.float32)
        factors = of_ids if factors is None else of_ids * factors
    if len(rows) == 0:
        return rows.new_zeros((ids.examples(), rows.shape[1]))
    return torch.nn.functional.embedding_bag(
        places,
        rows,
        offsets,
        mode="sum",
        include_last_offset=True,
        per_sample_weights=None if factors is None else on_device(factors, device),
    )
