"""Pooling of distinct rows by PyTorch, where the rows are."""

from __future__ import annotations

from typing import Any

import numpy as np

from ._ids import Bags
from ._specs import Rows
from ._torch import torch


def on_device(array: np.ndarray, device: Any) -> Any:
    """A tensor of `array` on `device`; one on a GPU is copied while the caller goes on."""
    tensor = torch.from_numpy(array)
    if device.type != "cuda":
        return tensor.to(device)
    return tensor.pin_memory().to(device, non_blocking=True)


def unpooled(bags: Bags, index: np.ndarray, rows: Any) -> Rows:
    """The embeddings of a feature that isn't pooled, whose ids have the rows `rows[index]`."""
    offsets = np.append(0, bags.counts.cumsum())
    if isinstance(rows, np.ndarray):
        return Rows(rows, index, offsets)
    return Rows(rows, on_device(index, rows.device), on_device(offsets, rows.device))


def pooled(bags: Bags, index: np.ndarray, rows: Any, pooling: str) -> Any:
    """The embeddings (examples, dim) of a pooled feature, whose ids have the rows `rows[index]`."""
    device, counts, factors = rows.device, bags.counts, bags.weights
    places = on_device(index, device)
    if bags.is_single and factors is None:
        return torch.nn.functional.embedding(places, rows)
    if pooling != "sum":
        each = {"mean": counts, "sqrt_n": np.sqrt(counts)}[pooling]
        of_bags = np.divide(1, each, where=counts > 0, out=np.zeros(len(counts)))
        of_ids = np.repeat(of_bags, counts).astype(np.float32)
        factors = of_ids if factors is None else of_ids * factors
    if len(rows) == 0:
        # With a gradient, like other embeddings.
        return rows.new_zeros((len(counts), rows.shape[1])) + rows.sum(0)
    return torch.nn.functional.embedding_bag(
        places,
        rows,
        on_device(np.append(0, counts.cumsum()), device),
        mode="sum",
        include_last_offset=True,
        per_sample_weights=None if factors is None else on_device(factors, device),
    )
