"""How much a stranger's checkpoint may ask for, told before torch does what it asks.

torch saves a pickle of a few hundred bytes a tensor, and beside it the numbers, none of it compressed. A file that is
otherwise may unpack to any size, make objects without end, or declare tensors that it does not hold.
"""

import io
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vlnbert.errors import DataError
from vlnbert.sources.files import MEGABYTE

LARGEST_PICKLE = MEGABYTE  # bytes; a base agent's with its optimiser has 0.2 MB
SHARED = 2  # times the file's size: how much all tensors may have, since some share their numbers
# torch's loader would let these make room for any size. What else it knows takes its numbers from the file.
MAKERS = re.compile(rb"c(?:__builtin__|builtins)\n(bytearray)\n|ctorch(?:\.cuda)?\n(\w*Tensor)\n")
ZIP_MARK = b"PK"
ASK = "ask for a checkpoint of plain tensors"


class _TooLargeError(Exception):
    """The pickles of a file of the older format go on for too long."""


class _Pickles(io.BufferedReader):
    """A file of the older format: pickles, then numbers, which torch reads by the file's descriptor itself."""

    taken = 0

    def read(self, size: int | None = -1, /) -> bytes:
        return self._counted(super().read(-1 if size is None else size))

    def readline(self, size: int | None = -1, /) -> bytes:
        return self._counted(super().readline(size))

    def _counted(self, content: bytes | None) -> bytes:
        self.taken += len(content or b"")
        if self.taken > LARGEST_PICKLE:
            raise _TooLargeError
        return content or b""


@contextmanager
def bounded_source(path: Path) -> Iterator[dict[str, Any]]:
    """What torch shall load, as its arguments, once it is known not to ask for too much."""
    with path.open("rb") as file:
        head = file.read(LARGEST_PICKLE)
    if head.startswith(ZIP_MARK) or zipfile.is_zipfile(path):
        _check_archive(path)
        yield {"f": path, "mmap": True}
        return
    _check_makers(path, head)
    with _Pickles(io.FileIO(path)) as file:
        try:
            yield {"f": file}
        except _TooLargeError:
            raise _too_large(path) from None


def check_declared(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Refuse tensors that are not made of the file's own numbers, or have many times as many as it holds."""
    declared = 0
    for name, tensor in tensors.items():
        if tensor.layout != torch.strided:
            continue  # an import says what it thinks of those
        if tensor.device.type != "cpu":
            raise DataError(path, "has no numbers in the file", ASK, name)
        size = tensor.numel() * tensor.element_size()
        if size > tensor.untyped_storage().nbytes():
            problem = f"declares {tensor.numel():,} numbers, of which the file holds fewer"
            raise DataError(path, problem, ASK, name)
        declared += size
    if declared > SHARED * path.stat().st_size:
        problem = f"declares tensors of {declared / MEGABYTE:,.0f} MB, more than {SHARED} times its size"
        raise DataError(path, problem, ASK)


def _check_archive(path: Path) -> None:
    """Today's format, a zip archive of a pickle and the numbers of each storage.

    Every part must be as its checksum says, which torch does not look at.
    """
    with zipfile.ZipFile(path) as archive:
        parts = archive.infolist()
        if any(part.compress_type != zipfile.ZIP_STORED for part in parts):
            raise zipfile.BadZipFile("a part is compressed")
        if sum(part.file_size for part in parts) > path.stat().st_size:
            raise zipfile.BadZipFile("it declares more than it holds")
        pickles = [part for part in parts if part.filename.lower().endswith(".pkl")]  # torch, too, looks at no case
        if any(part.file_size > LARGEST_PICKLE for part in pickles):
            raise _too_large(path)
        if (damaged := archive.testzip()) is not None:
            raise zipfile.BadZipFile(f"the checksum of {damaged} differs")
        for part in pickles:
            _check_makers(path, archive.read(part))


def _check_makers(path: Path, pickle: bytes) -> None:
    if found := MAKERS.search(pickle):
        name = next(filter(None, found.groups())).decode()
        problem = f"makes objects of any size ({name}), which no state dict does; nothing in it was run"
        raise DataError(path, problem, ASK)


def _too_large(path: Path) -> DataError:
    problem = f"describes its tensors in more than {LARGEST_PICKLE // MEGABYTE} MB, which none does"
    return DataError(path, problem, ASK)
