"""PyTorch, if it is installed."""

from __future__ import annotations

from typing import Any

torch: Any
try:
    import torch
except ImportError:
    torch = None
