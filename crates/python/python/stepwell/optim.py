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

    def __init__(
        self,
        emb: Any,
        lr: float,
        clip_norm: float | None = None,
        max_norm: float | None = None,
        **settings: float,
    ) -> None:
        if not hasattr(emb, "_set_optimizer"):
            raise TypeError(f"give the Embeddings, not {type(emb).__name__}")
        if not 0 < lr < float("inf"):
            raise ValueError(f"lr is {lr}: give a number above 0")
        for name, norm in [("clip_norm", clip_norm), ("max_norm", max_norm)]:
            if norm is not None:
                if not 0 < norm < float("inf"):
                    raise ValueError(f"{name} is {norm}: give a number above 0")
                settings[name] = norm
        for setting, value in settings.items():
            if not 0 <= value < float("inf"):
                called = "weight_decay" if setting == "l2" and self.name != "ftrl" else setting
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
    """Gradient descent. With `momentum`, each row has its own velocity. `weight_decay` times the
    weights is added to the gradient of a mini-batch's rows. A row's gradient longer than
    `clip_norm` is scaled down to it, and so is an embedding that an update makes longer than
    `max_norm`."""

    name = "sgd"

    def __init__(
        self,
        emb: Any,
        lr: float,
        momentum: float = 0.0,
        weight_decay: float = 0.0,
        clip_norm: float | None = None,
        max_norm: float | None = None,
    ) -> None:
        settings = {"l2": weight_decay}
        if momentum != 0:
            self.name, settings["momentum"] = "momentum", momentum
        super().__init__(emb, lr, clip_norm, max_norm, **settings)


class Adagrad(RowOptimizer):
    """Adagrad; each row has its own sums of squares. `weight_decay`, `clip_norm` and `max_norm` are
    as in `SGD`."""

    name = "adagrad"

    def __init__(
        self,
        emb: Any,
        lr: float,
        eps: float = 1e-10,
        initial_accumulator_value: float = 0.0,
        weight_decay: float = 0.0,
        clip_norm: float | None = None,
        max_norm: float | None = None,
    ) -> None:
        settings = {"eps": eps, "initial": initial_accumulator_value, "l2": weight_decay}
        super().__init__(emb, lr, clip_norm, max_norm, **settings)


class RowWiseAdagrad(Adagrad):
    """Adagrad with one sum for each row, of the mean of its squared gradients, as in TorchRec: 4
    bytes of state per row."""

    name = "row_wise_adagrad"


class Adam(RowOptimizer):
    """Adam; each row has its own moments and counts its own steps. `weight_decay`, `clip_norm` and
    `max_norm` are as in `SGD`."""

    name = "adam"

    def __init__(
        self,
        emb: Any,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        clip_norm: float | None = None,
        max_norm: float | None = None,
    ) -> None:
        settings = {"beta1": betas[0], "beta2": betas[1], "eps": eps, "l2": weight_decay}
        super().__init__(emb, lr, clip_norm, max_norm, **settings)


class RowWiseAdam(Adam):
    """Adam with one second moment for each row, of the mean of its squared gradients, as in
    FBGEMM."""

    name = "row_wise_adam"


class AdamW(RowOptimizer):
    """Adam with decoupled decay: rows of the current mini-batch shrink by `lr` times `weight_decay`
    before their update. `clip_norm` and `max_norm` are as in `SGD`."""

    name = "adam"

    def __init__(
        self,
        emb: Any,
        lr: float,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0.01,
        clip_norm: float | None = None,
        max_norm: float | None = None,
    ) -> None:
        settings = {"beta1": betas[0], "beta2": betas[1], "eps": eps}
        super().__init__(emb, lr, clip_norm, max_norm, **settings, weight_decay=weight_decay)


class FTRL(RowOptimizer):
    """FTRL-Proximal (McMahan et al., KDD 2013). The larger `l1`, the more weights are exactly zero;
    `l2` is its other penalty. `clip_norm` and `max_norm` are as in `SGD`."""

    name = "ftrl"

    def __init__(
        self,
        emb: Any,
        lr: float,
        beta: float = 1.0,
        l1: float = 0.0,
        l2: float = 0.0,
        initial_accumulator_value: float = 0.0,
        clip_norm: float | None = None,
        max_norm: float | None = None,
    ) -> None:
        settings = {"beta": beta, "l1": l1, "l2": l2, "initial": initial_accumulator_value}
        super().__init__(emb, lr, clip_norm, max_norm, **settings)
