"""Optimizers of rows. With PyTorch, they are `torch.optim.Optimizer`s: schedulers, `GradScaler` and
gradient clipping work on them, and `step` updates the rows of the current mini-batch."""

from __future__ import annotations

import weakref
from typing import Any

from ._torch import torch

_Base: Any = torch.optim.Optimizer if torch is not None else object


class RowOptimizer(_Base):  # type: ignore[misc]
    """Updates the rows of `emb` with the gradient of the current mini-batch's embeddings. Its
    parameters are these embeddings."""

    name = ""

    def __init__(self, emb: Any, lr: float, **settings: float) -> None:
        if not hasattr(emb, "_set_optimizer"):
            raise TypeError(f"give the Embeddings, not {type(emb).__name__}")
        if not 0 < lr < float("inf"):
            raise ValueError(f"lr is {lr}: give a number above 0")
        for setting, value in settings.items():
            if not 0 <= value < float("inf"):
                called = "weight_decay" if setting == "l2" else setting
                raise ValueError(f"{called} is {value}: give a number from 0 on")
        # A decay of 0 is none, as in checkpoints of earlier versions.
        decays = ("l2", "weight_decay")
        given = {name: float(of) for name, of in settings.items() if of or name not in decays}
        # The embeddings have the optimizer, so that neither keeps the other alive in a circle.
        self._emb = weakref.ref(emb)
        if torch is not None:
            # The parameter is a stand-in until the first mini-batch is there.
            super().__init__([{"params": [torch.nn.Parameter(torch.empty(0))], "lr": lr}], {})
        else:
            self.param_groups = [{"params": [], "lr": lr}]
        emb._set_optimizer(self, self.name, {"lr": float(lr), **given})

    @property
    def lr(self) -> float:
        """Learning rate of the next step."""
        lr: Any = self.param_groups[0]["lr"]
        return float(lr)

    def step(self, closure: Any = None) -> Any:
        """Ends the current mini-batch's step. A missing gradient counts as zeros."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        emb = self._emb()
        if emb is None:
            raise RuntimeError("the embeddings of this optimizer are gone")
        if emb._optimizer is not self:
            raise RuntimeError("another optimizer trains these embeddings now")
        emb._step(self.lr)
        return loss

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuses other parameters, which need their own optimizer."""
        if self.param_groups:
            raise ValueError("a row optimizer trains only embeddings: make another for the model")
        super().add_param_group(param_group)

    def state_dict(self) -> dict[str, Any]:
        """The settings that a scheduler changes; the state of rows is saved with the rows."""
        groups = [
            {name: value for name, value in group.items() if name != "params"}
            for group in self.param_groups
        ]
        return {"state": {}, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        for group, saved in zip(self.param_groups, state_dict["param_groups"]):
            others = set(saved) & {"betas", "eps", "lr_decay", "momentum", "weight_decay"}
            if others:
                raise ValueError(f"'{min(others)}' is of an optimizer of dense parameters")
            group.update((name, value) for name, value in saved.items() if name != "params")


class SGD(RowOptimizer):
    """Gradient descent. `weight_decay` times the weights is added to the gradient of a mini-batch's
    rows."""

    name = "sgd"

    def __init__(self, emb: Any, lr: float, weight_decay: float = 0.0) -> None:
        super().__init__(emb, lr, l2=weight_decay)


class Adagrad(RowOptimizer):
    """Adagrad; each row has its own sums of squares. `weight_decay` is as in `SGD`."""

    name = "adagrad"

    def __init__(
        self,
        emb: Any,
        lr: float,
        eps: float = 1e-10,
        initial_accumulator_value: float = 0.0,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(emb, lr, eps=eps, initial=initial_accumulator_value, l2=weight_decay)


class RowWiseAdagrad(Adagrad):
    """Adagrad with one sum for each row, of the mean of its squared gradients, as in TorchRec: 4
    bytes of state per row."""

    name = "row_wise_adagrad"


class Adam(RowOptimizer):
    """Adam; each row has its own moments and counts its own steps. `weight_decay` is as in
    `SGD`."""

    name = "adam"

    def __init__(
        self,
        emb: Any,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        super().__init__(emb, lr, beta1=betas[0], beta2=betas[1], eps=eps, l2=weight_decay)


class AdamW(RowOptimizer):
    """Adam with decoupled decay: rows of the current mini-batch shrink by `lr` times `weight_decay`
    before their update."""

    name = "adam"

    def __init__(
        self,
        emb: Any,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
    ) -> None:
        settings = {"beta1": betas[0], "beta2": betas[1], "eps": eps}
        super().__init__(emb, lr, **settings, weight_decay=weight_decay)
