"""The datasets of an HDF5 file, one named <scan>_<viewpoint> for each viewpoint, no larger than what the file stores.

A file may declare in a few bytes what it does not hold: unstored datasets are filled, compressed ones may unpack a
thousandfold or, by several filters, a millionfold, and links lead into other files. All of that is told before any is
read.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import TypeVar

import h5py
from h5py import h5d, h5l, h5o

from vlnbert.errors import DataError
from vlnbert.progress import track
from vlnbert.sources.files import FETCH_AGAIN, MEGABYTE, opened

HDF5_FAULTS = (OSError, RuntimeError, KeyError, TypeError, ValueError, MemoryError)  # what damage makes h5py raise
NO_DATASET = "is not a dataset named <scan>_<viewpoint>"
LARGEST = 32 * MEGABYTE  # bytes of a dataset, and of a chunk of one; 36 views of 2,048 numbers have 0.3 MB
ROOM = 1 << 28  # bytes that all datasets may have beyond UNPACKED times what the file stores
UNPACKED = 16  # features are hardly ever packed that well

Content = TypeVar("Content")
Read = Callable[[h5py.Dataset], Content | str]


def read_datasets(path: Path, read: Read[Content]) -> Iterator[tuple[str, str, str, Content | str]]:
    """The place, scan and viewpoint of every dataset of an HDF5 file, with what `read` makes of it or what is wrong."""
    with opened(path, "feature file"):
        pass  # only to report a file that cannot be opened; what follows is about what it holds
    with ExitStack() as stack:
        try:
            file = stack.enter_context(h5py.File(path, "r"))
            keys = list(file)
        except HDF5_FAULTS:
            raise DataError(path, "is not a whole HDF5 file", FETCH_AGAIN) from None
        size = _Size(path, path.stat().st_size)
        for key in track(keys, path.name):
            name = key if isinstance(key, str) else key.decode(errors="replace")  # bytes where it is not UTF-8
            scan, _, viewpoint = name.rpartition("_")
            yield f"key {name}", scan, viewpoint, _content(file, key, read, size) if scan else NO_DATASET


@dataclass
class _Size:
    """How many bytes the datasets so far declare, and how many of those the file stores."""

    path: Path
    whole: int  # bytes of the file
    declared: int = 0
    stored: int = 0

    def add(self, declared: int, stored: int) -> None:
        self.declared += declared
        self.stored += stored
        if self.stored > self.whole:
            raise DataError(self.path, "stores the same numbers under several names", FETCH_AGAIN)
        if self.declared > ROOM + UNPACKED * self.stored:
            problem = f"unpacks to more than {UNPACKED} times what it stores"
            raise DataError(self.path, problem, "write it again without compression, as h5repack -f NONE does")


def _content(file: h5py.File, key: str | bytes, read: Read[Content], size: _Size) -> Content | str:
    name = key.encode() if isinstance(key, str) else key
    try:
        if file.id.links.get_info(name).type != h5l.TYPE_HARD:
            return "is a link, not a dataset"
        found = h5o.open(file.id, name)  # quicker than file[key], to which it comes in the end
        if not isinstance(found, h5d.DatasetID):
            return NO_DATASET
        dataset = h5py.Dataset(found)
        return _problem(dataset, size) or read(dataset)
    except HDF5_FAULTS:
        return "cannot be read: the file is damaged there"


def _problem(dataset: h5py.Dataset, size: _Size) -> str:
    """Why a dataset is not read, if it is not."""
    shape, itemsize = dataset.shape or (), dataset.dtype.itemsize  # an empty one has no shape
    declared, stored = prod(shape) * itemsize, dataset.id.get_storage_size()
    made = dataset.id.get_create_plist()
    layout = made.get_layout()
    if layout == h5d.VIRTUAL or (layout == h5d.CONTIGUOUS and made.get_external_count()):
        return "lies in other files"
    chunk = prod(made.get_chunk()) * itemsize if layout == h5d.CHUNKED else 0
    if max(declared, chunk) > LARGEST:
        return f"is {dataset.dtype} of shape {shape}, more than the {LARGEST // MEGABYTE} MB that features may have"
    if declared and not stored:
        return f"is of shape {shape}, but the file stores nothing of it"
    size.add(declared, stored)
    return ""
