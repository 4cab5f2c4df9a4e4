"""Embedding tables larger than memory, for PyTorch and NumPy.

>>> emb = stepwell.Embeddings(
...     tables={"item": stepwell.Table(16)},
...     features={"item": "item", "hist": stepwell.Feature("item", pooling="mean")},
...     memory="8GiB")
>>> rows = stepwell.optim.Adagrad(emb, lr=0.02)
>>> for batch, x in emb.ahead(loader, ids=lambda batch: batch["ids"]):
...     loss = loss_fn(model(x), batch["label"])
...     loss.backward()
...     rows.step()
"""

import importlib
import os
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from . import optim
    from ._embeddings import Embeddings, load, open
    from ._program import predict, train
    from ._specs import Feature, Rows, Table
    from ._stepwell import Error

__all__ = [
    "Embeddings",
    "Error",
    "Feature",
    "Rows",
    "Table",
    "load",
    "open",
    "optim",
    "predict",
    "train",
]
__version__ = "0.1.0"

_MODULES = {
    "Embeddings": "_embeddings",
    "Error": "_stepwell",
    "Feature": "_specs",
    "Rows": "_specs",
    "Table": "_specs",
    "load": "_embeddings",
    "open": "_embeddings",
    "predict": "_program",
    "train": "_program",
}

if "torch" not in sys.modules:
    # By default, an idle thread of OpenMP spins for milliseconds, on a core that rows need.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


def __getattr__(name: str) -> Any:
    """Imports names on first use, so that the program starts without PyTorch."""
    if name == "optim":
        return importlib.import_module(".optim", __name__)
    if name not in _MODULES:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    found = getattr(importlib.import_module(f".{_MODULES[name]}", __name__), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return __all__
