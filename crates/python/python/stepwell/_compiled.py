"""Look-ups within models that `torch.compile` compiles: two operators, which compiled code calls
without looking into them."""

from __future__ import annotations

import itertools
import uuid
import weakref
from typing import Any

from ._torch import torch

_registered: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()
"""Embeddings by the number in their stand-in."""


def stand_in(emb: Any) -> Any:
    """A tensor that stands for `emb` in compiled code, which has no other name for it: its element
    is a number. Its gradient, always zero, keeps the backward pass from being removed."""
    number = uuid.uuid4().int >> 76
    _registered[number] = emb
    return torch.tensor([number], dtype=torch.float64, requires_grad=True)


def is_compiling() -> bool:
    """Whether `torch.compile` traces the caller."""
    return torch is not None and torch.compiler.is_compiling()


def can_look_up(emb: Any, ids: Any) -> bool:
    """Whether compiled code can look up these ids: pooled features, whose ids are a tensor, or a
    tuple of values, offsets and, if given, weights."""
    if emb._row_tables or emb._torch is None or emb._ranks is not None or not _has_operators:
        return False
    if not isinstance(ids, dict):
        return len(emb.features) == 1 and _is_known(ids)
    return ids.keys() == emb.features.keys() and all(_is_known(of) for of in ids.values())


def _is_known(ids: Any) -> bool:
    if isinstance(ids, tuple):
        return len(ids) in (2, 3) and all(isinstance(part, torch.Tensor) for part in ids)
    return isinstance(ids, torch.Tensor) and not ids.is_nested and ids.dim() in (1, 2)


def look_up(emb: Any, ids: Any, train: bool) -> Any:
    """The embeddings of a mini-batch, for tracing."""
    tensors: list[torch.Tensor] = []
    counts: list[int] = []
    for name in emb.features:
        of = ids[name] if isinstance(ids, dict) else ids
        parts = of if isinstance(of, tuple) else (of,)
        tensors.extend(parts)
        counts.append(len(parts))
    width = sum(emb._widths.values())
    of_emb = emb._stand_in if train else emb._stand_in.detach()
    x, _ = torch.ops.stepwell.look_up(of_emb, tensors, counts, width, train)
    if emb._joined:
        return x
    parts = x.split(list(emb._widths.values()), 1)
    return parts[0] if len(parts) == 1 else dict(zip(emb._widths, parts))


def _of(stand_in: Any) -> Any:
    """The embeddings that `stand_in` stands for."""
    emb = _registered.get(int(stand_in.item()))
    if emb is None:
        raise RuntimeError("the embeddings that this code was compiled for are gone")
    return emb


def _look_up(stand_in: Any, tensors: Any, counts: Any, width: int, train: bool) -> Any:
    """Joined embeddings (examples, `width`), and the number of their turn. `counts` has the number
    of `tensors` of each feature."""
    emb, rest = _of(stand_in), iter(tensors)
    parts = [tuple(itertools.islice(rest, count)) for count in counts]
    ids = [part[0] if len(part) == 1 else part for part in parts]
    turn = emb._turn_of(dict(zip(emb.features, ids)), train)
    return turn.leaf.detach(), torch.tensor(turn.number)


def _shapes(stand_in: Any, tensors: Any, counts: Any, width: int, train: bool) -> Any:
    # The first feature has a row of ids for each example, or offsets.
    examples = tensors[0].shape[0] if counts[0] == 1 else tensors[1].shape[0] - 1
    x = stand_in.new_empty((examples, width), dtype=torch.float32)
    return x, stand_in.new_empty((), dtype=torch.int64)


def _record(gradient: Any, turn: Any, stand_in: Any) -> Any:
    """Records the gradient of a turn's embeddings; returns the stand-in's."""
    _of(stand_in)._record(int(turn), gradient)
    return torch.zeros_like(stand_in)


def _keep(ctx: Any, inputs: Any, output: Any) -> None:
    ctx.tensors = len(inputs[1])
    ctx.save_for_backward(inputs[0], output[1])


def _backward(ctx: Any, gradient: Any, _: Any) -> Any:
    stand_in, turn = ctx.saved_tensors
    done = torch.ops.stepwell.record_gradient(gradient, turn, stand_in)
    return done, [None] * ctx.tensors, None, None, None


def _define() -> None:
    # PyTorch caches compiled code on disk and identifies operators by name: an operator that
    # changes needs another name.
    look_up = torch.library.custom_op(
        "stepwell::look_up",
        _look_up,
        mutates_args=(),
        schema="(Tensor stand_in, Tensor[] tensors, int[] counts, int width, bool train)"
        " -> (Tensor, Tensor)",
    )
    look_up.register_fake(_shapes)
    look_up.register_autograd(_backward, setup_context=_keep)
    record = torch.library.custom_op(
        "stepwell::record_gradient",
        _record,
        mutates_args=(),
        schema="(Tensor gradient, Tensor turn, Tensor stand_in) -> Tensor",
    )
    record.register_fake(lambda gradient, turn, stand_in: torch.empty_like(stand_in))


# Before 2.4, PyTorch had no such operators.
_has_operators = torch is not None and hasattr(torch.library, "custom_op")
if _has_operators:
    _define()
