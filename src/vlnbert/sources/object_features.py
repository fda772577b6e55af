"""Features of REVERIE's objects from HDF5: a dataset <scan>_<viewpoint> of [object, width], its ids in `obj_ids`.

HAMT's file says with `bboxes` and `viewindexs` where each object is seen, DUET's with `directions` and `sizes`. Where
objects are is known from their boxes, so all that is read is what both have.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from vlnbert.errors import Faults
from vlnbert.sources.boxes import MOST_OBJECTS
from vlnbert.sources.checks import is_name
from vlnbert.sources.datasets import read_datasets
from vlnbert.sources.features import check_width, numbers_problem
from vlnbert.sources.files import FETCH_AGAIN

IDS = "obj_ids"
NO_IDS = f"'{IDS}' is not a list of whole numbers or texts"


@dataclass(frozen=True)
class ObjectFeatures:
    """The objects of a viewpoint; none where it has none."""

    scan: str
    viewpoint: str
    ids: tuple[str, ...]
    values: NDArray[np.float32]  # [object, width]


def read_object_features(path: Path, width: int | None = None) -> Iterator[ObjectFeatures]:
    """The viewpoints of a file in file order, sliced to `width`; its faults are raised together at the end.

    The published files append class scores to the features: `width` keeps the part that is wanted.
    """
    check_width(width)
    faults, common, empty = Faults(path), width, True
    for place, scan, viewpoint, content in read_datasets(path, _objects):
        empty = False
        if isinstance(content, str):
            faults.add(place, content, FETCH_AGAIN)
            continue
        ids, values = content
        if ids and (problem := numbers_problem(values, common, exact=width is None)):
            faults.add(place, problem, FETCH_AGAIN)
            continue
        common = common or (values.shape[1] if ids else None)
        yield ObjectFeatures(scan, viewpoint, ids, np.ascontiguousarray(values[:, :common]))
    if empty:
        faults.add("", "holds no viewpoints", FETCH_AGAIN)
    faults.raise_if_any()


def _objects(dataset: h5py.Dataset) -> tuple[tuple[str, ...], NDArray[np.float32]] | str:
    if IDS not in dataset.attrs:
        return f"has no attribute '{IDS}'"
    stored = dataset.attrs.get_id(IDS)
    named = prod(stored.shape or ())  # which may be many texts in few bytes
    if named and stored.dtype.kind not in "iuS" and h5py.check_string_dtype(stored.dtype) is None:
        return NO_IDS  # h5py crashes on some other kinds, where they are damaged
    if named > MOST_OBJECTS:
        return f"'{IDS}' names {named:,} objects, more than {MOST_OBJECTS:,}"
    shape: tuple[int, ...] = dataset.shape or ()
    ids = _ids(np.asarray(dataset.attrs[IDS]))
    if ids is None:
        return NO_IDS
    if len(set(ids)) != len(ids):
        return f"'{IDS}' names an object twice"
    if not ids and 0 in shape:
        return (), np.zeros((0, 0), dtype=np.float32)  # some write such a dataset where there is no object
    if len(shape) != 2 or not shape[1] or not np.issubdtype(dataset.dtype, np.floating):
        return f"is {dataset.dtype} of shape {shape}, not floating-point features of objects"
    if shape[0] != len(ids):
        return f"holds {shape[0]} features of {len(ids)} objects"
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, which is refused
        return ids, np.asarray(dataset[()], dtype=np.float32)


def _ids(found: NDArray[np.generic]) -> tuple[str, ...] | None:
    if found.ndim != 1:
        return None
    names = [name.decode(errors="replace") if isinstance(name, bytes) else name for name in found.tolist()]
    return tuple(map(str, names)) if all(map(is_name, names)) else None
