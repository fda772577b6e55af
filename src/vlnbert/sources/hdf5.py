"""HDF5 files that hold a dataset named <scan>_<viewpoint> for each viewpoint: one is in memory at a time."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TypeVar

import h5py

from vlnbert.errors import DataError
from vlnbert.progress import track
from vlnbert.sources.files import FETCH_AGAIN, opened

HDF5_FAULTS = (OSError, RuntimeError, KeyError, TypeError, ValueError, MemoryError)  # what damage makes h5py raise
NO_DATASET = "is not a dataset named <scan>_<viewpoint>"

Content = TypeVar("Content")


def read_datasets(
    path: Path, read: Callable[[h5py.Dataset], Content | str]
) -> Iterator[tuple[str, str, str, Content | str]]:
    """The place, scan and viewpoint of every dataset, with what `read` makes of it or with what is wrong, in words."""
    with opened(path, "feature file"):
        pass  # it can be: what follows is about what it holds
    with ExitStack() as stack:
        try:
            file = stack.enter_context(h5py.File(path, "r"))
            keys = list(file)
        except HDF5_FAULTS:
            raise DataError(path, "is not a whole HDF5 file", FETCH_AGAIN) from None
        for key in track(keys, path.name):
            name = key if isinstance(key, str) else key.decode(errors="replace")  # bytes where it is not UTF-8
            scan, _, viewpoint = name.rpartition("_")
            yield f"key {name}", scan, viewpoint, _content(file, key, read) if scan else NO_DATASET


def _content(file: h5py.File, key: str | bytes, read: Callable[[h5py.Dataset], Content | str]) -> Content | str:
    try:
        dataset = file[key]
        return read(dataset) if isinstance(dataset, h5py.Dataset) else NO_DATASET
    except HDF5_FAULTS:
        return "cannot be read: the file is damaged there"
