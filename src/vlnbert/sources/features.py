"""Image features of views and of REVERIE's objects: the 36-view TSV, and HDF5 with a dataset for each viewpoint.

One viewpoint is in memory at a time. An HDF5 file may declare in a few bytes what it does not hold: unstored datasets
are filled, compressed ones unpack up to a millionfold, and links lead into other files; all is checked before reading.
"""

import base64
import binascii
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import TypeVar

import h5py
import numpy as np
from h5py import h5d, h5l, h5o
from numpy.typing import NDArray

from vlnbert.errors import SHOWN_FAULTS, DataError, Faults, UsageError
from vlnbert.progress import track
from vlnbert.sources.files import FETCH_AGAIN, MEGABYTE, is_name, opened

VIEWS = 36
# Of a viewpoint; every table has room for those of the fullest. The open data has 61 at most.
MOST_OBJECTS = 1000
TSV_FIELDS = ("scanId", "viewpointId", "image_w", "image_h", "vfov", "features")
LONGEST_LINE = 16 * MEGABYTE  # bytes of a panorama in a TSV file; with 2,048 numbers a view it has 0.4 MB
LARGEST_DATASET = 32 * MEGABYTE  # bytes of a dataset, and of a chunk of one; 36 views of 2,048 numbers have 0.3 MB
UNPACKED_ROOM = 1 << 28  # bytes that all datasets may have beyond UNPACKED times what the file stores
UNPACKED = 16  # features are hardly ever packed that well
# From h5py, where a file is damaged.
HDF5_FAULTS = (OSError, RuntimeError, KeyError, TypeError, ValueError, MemoryError)
NO_DATASET = "is not a dataset named <scan>_<viewpoint>"
IDS = "obj_ids"
NO_IDS = f"'{IDS}' is not a list of whole numbers or texts"

Content = TypeVar("Content")
Entry = tuple[str, str, str, Content | str]  # place, scan, viewpoint, content or what is wrong with it
Read = Callable[[h5py.Dataset], Content | str]


@dataclass(frozen=True)
class PanoramaFeatures:
    """The features of all views of a viewpoint."""

    scan: str
    viewpoint: str
    values: NDArray[np.float32]  # [36, width]


@dataclass(frozen=True)
class ObjectFeatures:
    """The features of the objects of a viewpoint, which may have none."""

    scan: str
    viewpoint: str
    ids: tuple[str, ...]
    values: NDArray[np.float32]  # [object, width]


def read_features(path: Path, width: int | None = None) -> Iterator[PanoramaFeatures]:
    """The panoramas of a feature file in file order, sliced to `width`; its faults are raised together at the end.

    Some HDF5 files append class scores to the features: `width` keeps the features alone.
    """
    check_width(width)
    raw = _read_tsv(path) if path.suffix == ".tsv" else _read_datasets(path, _views)
    faults, seen, whole, common = Faults(path), set[tuple[str, str]](), 0, width
    for place, scan, viewpoint, values in raw:
        problem = values if isinstance(values, str) else _values_problem(values, common, exact=width is None)
        if (scan, viewpoint) in seen:
            problem = "occurs twice"
        seen.add((scan, viewpoint))
        if problem or isinstance(values, str):
            faults.add(place, problem, FETCH_AGAIN)
            continue
        whole, common = whole + 1, common or values.shape[1]
        yield PanoramaFeatures(scan, viewpoint, np.ascontiguousarray(values[:, :common], dtype=np.float32))
    if not seen:
        faults.add("", "holds no panoramas", FETCH_AGAIN)
    elif not whole and len(seen) > SHOWN_FAULTS:  # another kind of file, rather than a damaged one
        first = faults.found[0]
        problem = f"{first.problem}, nor does any of the other {len(seen) - 1:,} fit"
        raise DataError(path, problem, "give another file of view features", first.place)
    faults.raise_if_any()


def feature_width(path: Path) -> int:
    """The width of the first panorama of a feature file."""
    return int(next(read_features(path)).values.shape[1])


def read_object_features(path: Path, width: int | None = None) -> Iterator[ObjectFeatures]:
    """The objects of an HDF5 file by viewpoint, sliced to `width`; its faults are raised together at the end.

    HAMT's file says with `bboxes` and `viewindexs` where each object is seen, DUET's with `directions` and `sizes`.
    Both name their objects in `obj_ids`; where these are is known from their boxes, so nothing else is read. The
    published files append class scores to the features: `width` keeps the features alone.
    """
    check_width(width)
    faults, common, empty = Faults(path), width, True
    for place, scan, viewpoint, content in _read_datasets(path, _objects):
        empty = False
        if isinstance(content, str):
            faults.add(place, content, FETCH_AGAIN)
            continue
        ids, values = content
        if ids and (problem := _values_problem(values, common, exact=width is None)):
            faults.add(place, problem, FETCH_AGAIN)
            continue
        common = common or (values.shape[1] if ids else None)
        yield ObjectFeatures(scan, viewpoint, ids, np.ascontiguousarray(values[:, :common]))
    if empty:
        faults.add("", "holds no viewpoints", FETCH_AGAIN)
    faults.raise_if_any()


def check_width(width: int | None) -> None:
    """Refuse features of no width."""
    if width is not None and width < 1:
        raise UsageError(f"features of width {width} hold nothing; choose 1 or more, or leave the width out")


def _values_problem(values: NDArray[np.float32], width: int | None, exact: bool) -> str:
    """The fault of [any, width] features, or nothing; `exact` where a wider one may not be sliced."""
    if width is not None and (values.shape[1] != width if exact else values.shape[1] < width):
        return f"is {values.shape[1]} wide, where {width} is expected"
    if not np.isfinite(values).all():
        return "holds NaN or infinity"
    return ""


def _read_tsv(path: Path) -> Iterator[Entry[NDArray[np.float32]]]:
    with opened(path, "feature file") as file:
        for number, line in enumerate(iter(partial(file.readline, LONGEST_LINE + 1), b""), start=1):
            if len(line) > LONGEST_LINE:
                problem = f"is longer than {LONGEST_LINE // MEGABYTE} MB, which no line of features is"
                raise DataError(path, problem, "give another file of view features", f"line {number}")
            fields = line.rstrip(b"\r\n").split(b"\t")
            if len(fields) != len(TSV_FIELDS):
                yield f"line {number}", "", str(number), f"has {len(fields)} fields, not {len(TSV_FIELDS)}"
                continue
            scan, viewpoint = fields[0].decode(errors="replace"), fields[1].decode(errors="replace")
            values: NDArray[np.float32] | str = "is not 36 equally wide float32 features"
            try:
                content = base64.b64decode(fields[-1], validate=True)
                if content and not len(content) % (4 * VIEWS):
                    values = np.frombuffer(content, dtype="<f4").reshape(VIEWS, -1)
            except binascii.Error:
                values = "is not whole base64"
            yield f"line {number}", scan, viewpoint, values


def _read_datasets(path: Path, read: Read[Content]) -> Iterator[Entry[Content]]:
    """The datasets of an HDF5 file, as `read` gives them."""
    with opened(path, "feature file"):
        # Only to report a file that cannot be opened; later errors are about its content.
        pass
    with ExitStack() as stack:
        try:
            file = stack.enter_context(h5py.File(path, "r"))
            keys = list(file)
        except HDF5_FAULTS:
            raise DataError(path, "is not a whole HDF5 file", FETCH_AGAIN) from None
        size = _Size(path, path.stat().st_size)
        for key in track(keys, path.name):
            # A key that is not UTF-8 comes as bytes.
            name = key if isinstance(key, str) else key.decode(errors="replace")
            scan, _, viewpoint = name.rpartition("_")
            yield f"key {name}", scan, viewpoint, _read_dataset(file, key, read, size) if scan else NO_DATASET


@dataclass
class _Size:
    """Bytes that the datasets so far declare, and bytes that the file stores of them."""

    path: Path
    whole: int  # bytes of the file
    declared: int = 0
    stored: int = 0

    def add(self, declared: int, stored: int) -> None:
        self.declared += declared
        self.stored += stored
        if self.stored > self.whole:
            raise DataError(self.path, "stores the same numbers under several names", FETCH_AGAIN)
        if self.declared > UNPACKED_ROOM + UNPACKED * self.stored:
            problem = f"unpacks to more than {UNPACKED} times what it stores"
            raise DataError(self.path, problem, "write it again without compression, as h5repack -f NONE does")


def _read_dataset(file: h5py.File, key: str | bytes, read: Read[Content], size: _Size) -> Content | str:
    name = key.encode() if isinstance(key, str) else key
    try:
        if file.id.links.get_info(name).type != h5l.TYPE_HARD:
            return "is a link, not a dataset"
        # What file[key] does in the end, but quicker.
        item = h5o.open(file.id, name)
        if not isinstance(item, h5d.DatasetID):
            return NO_DATASET
        dataset = h5py.Dataset(item)
        return _size_problem(dataset, size) or read(dataset)
    except HDF5_FAULTS:
        return "cannot be read: the file is damaged there"


def _size_problem(dataset: h5py.Dataset, size: _Size) -> str:
    """Why a dataset lies elsewhere or is too large, or nothing; the file's size is checked too."""
    # An empty dataset has no shape.
    shape, itemsize = dataset.shape or (), dataset.dtype.itemsize
    declared, stored = prod(shape) * itemsize, dataset.id.get_storage_size()
    made = dataset.id.get_create_plist()
    layout = made.get_layout()
    if layout == h5d.VIRTUAL or (layout == h5d.CONTIGUOUS and made.get_external_count()):
        return "lies in other files"
    chunk = prod(made.get_chunk()) * itemsize if layout == h5d.CHUNKED else 0
    if max(declared, chunk) > LARGEST_DATASET:
        most = LARGEST_DATASET // MEGABYTE
        return f"is {dataset.dtype} of shape {shape}, more than the {most} MB that features may have"
    if declared and not stored:
        return f"is of shape {shape}, but the file stores nothing of it"
    size.add(declared, stored)
    return ""


def _views(dataset: h5py.Dataset) -> NDArray[np.float32] | str:
    shape: tuple[int, ...] = dataset.shape or ()
    if len(shape) != 2 or shape[0] != VIEWS or not shape[1] or not np.issubdtype(dataset.dtype, np.floating):
        return f"is {dataset.dtype} of shape {shape}, not 36 views of floating-point features"
    return _as_float32(dataset)


def _objects(dataset: h5py.Dataset) -> tuple[tuple[str, ...], NDArray[np.float32]] | str:
    if IDS not in dataset.attrs:
        return f"has no attribute '{IDS}'"
    stored = dataset.attrs.get_id(IDS)
    # Few bytes may declare many texts.
    named = prod(stored.shape or ())
    if named and stored.dtype.kind not in "iuS" and h5py.check_string_dtype(stored.dtype) is None:
        # h5py crashes on some other kinds, where they are damaged.
        return NO_IDS
    if named > MOST_OBJECTS:
        return f"'{IDS}' names {named:,} objects, more than {MOST_OBJECTS:,}"
    listed = np.asarray(dataset.attrs[IDS])
    names = [name.decode(errors="replace") if isinstance(name, bytes) else name for name in listed.ravel().tolist()]
    if listed.ndim != 1 or not all(map(is_name, names)):
        return NO_IDS
    ids = tuple(map(str, names))
    shape: tuple[int, ...] = dataset.shape or ()
    if len(set(ids)) != len(ids):
        return f"'{IDS}' names an object twice"
    if not ids and 0 in shape:
        # Some write such a dataset where there is no object.
        return (), np.zeros((0, 0), dtype=np.float32)
    if len(shape) != 2 or not shape[1] or not np.issubdtype(dataset.dtype, np.floating):
        return f"is {dataset.dtype} of shape {shape}, not floating-point features of objects"
    if shape[0] != len(ids):
        return f"holds {shape[0]} features of {len(ids)} objects"
    return ids, _as_float32(dataset)


def _as_float32(dataset: h5py.Dataset) -> NDArray[np.float32]:
    """All numbers of a dataset; one that is too large becomes infinite, which is refused later."""
    with np.errstate(over="ignore"):
        return np.asarray(dataset[()], dtype=np.float32)
