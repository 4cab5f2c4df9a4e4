"""A checkpoint's data besides rows: tables and features, and the caller's own data."""

from __future__ import annotations

import io
import json
from typing import Any

from ._torch import torch


def packed(config: dict[str, Any], extra: Any) -> bytes:
    """The bytes of `config` and `extra`."""
    kind, data = "torch", b""
    if extra is None or isinstance(extra, bytes):
        kind, data = ("none", b"") if extra is None else ("bytes", extra)
    elif torch is None:
        raise TypeError("without PyTorch, extra must be bytes")
    else:
        try:
            buffer = io.BytesIO()
            torch.save(extra, buffer)
            data = buffer.getvalue()
            torch.load(io.BytesIO(data), weights_only=True)
        except Exception as error:
            raise ValueError(
                "extra: torch.load(weights_only=True) can't read it: give tensors, numbers, "
                "text, and lists and dicts of them"
            ) from error
    head = json.dumps({**config, "extra": kind}).encode()
    return len(head).to_bytes(8, "little") + head + data


def parts(path: str, whole: bytes) -> tuple[dict[str, Any], bytes]:
    """The config that was packed, and the bytes of the caller's data."""
    end = 8 + int.from_bytes(whole[:8], "little")
    try:
        if len(whole) < end:
            raise ValueError
        return json.loads(whole[8:end]), whole[end:]
    except ValueError:
        raise ValueError(f"{path} was not saved by stepwell.Embeddings") from None


def unpacked(config: dict[str, Any], data: bytes) -> Any:
    """The caller's data."""
    if config["extra"] == "bytes":
        return data
    if config["extra"] != "torch":
        return None
    if torch is None:
        raise ImportError("the checkpoint has a PyTorch model: install torch to load it")
    return torch.load(io.BytesIO(data), weights_only=True)
