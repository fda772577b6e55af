"""A digest of what was read, so that two readings can be compared: values count, objects and places do not."""

import hashlib
from collections.abc import Mapping, Set
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch


def meaning(value: object) -> str:
    digest = hashlib.blake2b(digest_size=16)
    for piece in _pieces(value):
        digest.update(piece)
        digest.update(b"\x00")
    return digest.hexdigest()


def _pieces(value: Any) -> Any:
    yield type(value).__name__.encode()
    if isinstance(value, torch.Tensor):
        yield f"{value.dtype} {tuple(value.shape)}".encode()
        yield value.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes() if value.numel() else b""
    elif isinstance(value, np.ndarray):
        yield f"{value.dtype} {value.shape}".encode()
        yield value.tobytes()
    elif isinstance(value, Path):
        yield value.name.encode(errors="surrogatepass")
    elif isinstance(value, str | bytes | int | float | complex | bool | type(None)):
        yield repr(value).encode(errors="surrogatepass")
    elif isinstance(value, Mapping):
        for key in value:
            yield from _pieces(key)
            yield from _pieces(value[key])
    elif isinstance(value, Set):
        yield from sorted(meaning(item).encode() for item in value)
    elif isinstance(value, list | tuple):
        yield str(len(value)).encode()
        for item in value:
            yield from _pieces(item)
    elif is_dataclass(value):
        for field in fields(value):
            yield from _pieces(getattr(value, field.name))
    else:
        raise TypeError(f"nobody knows what a {type(value).__name__} means")
