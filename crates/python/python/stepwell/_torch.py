"""PyTorch, if it is installed."""

from __future__ import annotations

import os
import sys
from typing import Any

if "torch" not in sys.modules:
    # By default, an idle thread of OpenMP spins for milliseconds, on a core that rows need.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

torch: Any
try:
    import torch
except ImportError:
    torch = None
