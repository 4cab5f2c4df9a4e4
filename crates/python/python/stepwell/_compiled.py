"""Look-ups within models that `torch.compile` compiles: two custom operators, which compiled code
calls as they are."""

from __future__ import annotations

import itertools
import weakref
from typing import Any, Sequence

from ._torch import torch

_numbers = itertools.count(1)
_embeddings: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Embeddings by the number by which compiled code knows them."""


def register(emb: Any) -> int:
    """A number for `emb`."""
    number = next(_numbers)
    _embeddings[number] = emb
    return number


def is_compiling() -> bool:
    """Whether `torch.compile` traces the caller."""
    return torch is not None and torch.compiler.is_compiling()


def lookup(emb: Any, ids: Any, train: bool) -> Any:
    """The embeddings of a mini-batch, for tracing. Ids are tensors, or tuples of tensors."""
    if emb._row_tables or emb._torch is None:
        raise TypeError("compiled code looks up only pooled features, as tensors in host memory")
    if not isinstance(ids, dict):
        ids = {name: ids for name in emb.features}
    tensors: list[torch.Tensor] = []
    counts: list[int] = []
    for name in emb.features:
        parts = ids[name]
        parts = parts if isinstance(parts, (tuple, list)) else (parts,)
        tensors.extend(parts)
        counts.append(len(parts))
    width = sum(emb._widths.values())
    x, _ = torch.ops.stepwell.lookup(emb._stand_in, tensors, counts, emb._number, width, train)
    if emb._joined:
        return x
    parts = x.split(list(emb._widths.values()), 1)
    return parts[0] if len(parts) == 1 else dict(zip(emb._widths, parts))


def _lookup(
    stand_in: torch.Tensor,
    tensors: Sequence[torch.Tensor],
    counts: Sequence[int],
    number: int,
    width: int,
    train: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Joined embeddings (examples, `width`), and the number of their turn. `counts` has the number
    of `tensors` of each feature. Compiled code keeps the call that records the gradient, because it
    computes the gradient of `stand_in`."""
    emb, rest = _embeddings[number], iter(tensors)
    parts = [tuple(itertools.islice(rest, count)) for count in counts]
    ids = [part[0] if len(part) == 1 else part for part in parts]
    turn = emb._turn_of(dict(zip(emb.features, ids)), train)
    return turn.leaf.detach(), torch.tensor(turn.number)


def _lookup_shape(
    stand_in: Any, tensors: Any, counts: Any, number: int, width: int, train: bool
) -> tuple[Any, Any]:
    # The first feature's ids are one an example, or have offsets.
    examples = tensors[0].shape[0] if counts[0] == 1 else tensors[1].shape[0] - 1
    x = stand_in.new_empty((examples, width), dtype=torch.float32)
    return x, stand_in.new_empty((), dtype=torch.int64)


def _record(gradient: torch.Tensor, turn: torch.Tensor, number: int) -> torch.Tensor:
    """Records the gradient of embeddings; returns the stand-in's."""
    _embeddings[number]._record(int(turn), gradient)
    return gradient.new_empty(0)


def _record_shape(gradient: Any, turn: Any, number: int) -> Any:
    return gradient.new_empty(0)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.tensors, ctx.number = len(inputs[1]), inputs[3]
    ctx.save_for_backward(output[1])


def _backward(ctx: Any, gradient: Any, _: Any) -> Any:
    [turn] = ctx.saved_tensors
    done = torch.ops.stepwell.record(gradient, turn, ctx.number)
    return done, [None] * ctx.tensors, None, None, None, None


# PyTorch caches compiled code on disk and identifies operators by name: change the names if
# operators change.
if torch is not None:
    _op = torch.library.custom_op("stepwell::lookup", _lookup, mutates_args=())
    _op.register_fake(_lookup_shape)
    _op.register_autograd(_backward, setup_context=_keep)
    _op = torch.library.custom_op("stepwell::record", _record, mutates_args=())
    _op.register_fake(_record_shape)
