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
