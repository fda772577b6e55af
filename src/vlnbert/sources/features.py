"""Image features of the 36 views of a panorama, from the 36-view TSV or from HDF5.

Both stream: one panorama is in memory at a time, whatever the size of the file.
"""

import base64
import binascii
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import h5py
import numpy as np
from numpy.typing import NDArray

from vlnbert.errors import SHOWN_FAULTS, DataError, Faults, UsageError
from vlnbert.sources.datasets import read_datasets
from vlnbert.sources.files import FETCH_AGAIN, MEGABYTE, opened

VIEWS = 36
TSV_FIELDS = ("scanId", "viewpointId", "image_w", "image_h", "vfov", "features")
LONGEST_LINE = 16 * MEGABYTE  # bytes of a panorama in a TSV file; of 2,048 numbers a view it has 0.4 MB


@dataclass(frozen=True)
class PanoramaFeatures:
    scan: str
    viewpoint: str
    values: NDArray[np.float32]  # [36, width]


def read_features(path: Path, width: int | None = None) -> Iterator[PanoramaFeatures]:
    """The panoramas of a feature file in file order, sliced to `width`; its faults are raised together at the end.

    Some HDF5 files append class scores to the features: `width` keeps the part that is wanted.
    """
    check_width(width)
    raw = _read_tsv(path) if path.suffix == ".tsv" else read_datasets(path, _views)
    faults, seen, whole, common = Faults(path), set[tuple[str, str]](), 0, width
    for place, scan, viewpoint, values in raw:
        problem = values if isinstance(values, str) else numbers_problem(values, common, exact=width is None)
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


def check_width(width: int | None) -> None:
    """Refuse to ask for features that hold nothing."""
    if width is not None and width < 1:
        raise UsageError(f"features of width {width} hold nothing; choose 1 or more, or leave the width out")


def numbers_problem(values: NDArray[np.float32], width: int | None, exact: bool) -> str:
    """What is wrong with [any, width] features; `exact` where a wider one may not be sliced."""
    if width is not None and (values.shape[1] != width if exact else values.shape[1] < width):
        return f"is {values.shape[1]} wide, where {width} is expected"
    if not np.isfinite(values).all():
        return "holds NaN or infinity"
    return ""


Raw = Iterator[tuple[str, str, str, NDArray[np.float32] | str]]  # place, scan, viewpoint, values or what is wrong


def _read_tsv(path: Path) -> Raw:
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
            yield f"line {number}", scan, viewpoint, _decode(fields[-1])


def _decode(field: bytes) -> NDArray[np.float32] | str:
    try:
        content = base64.b64decode(field, validate=True)
    except binascii.Error:
        return "is not whole base64"
    if not content or len(content) % (4 * VIEWS):
        return "is not 36 equally wide float32 features"
    return np.frombuffer(content, dtype="<f4").reshape(VIEWS, -1)


def _views(dataset: h5py.Dataset) -> NDArray[np.float32] | str:
    shape: tuple[int, ...] = dataset.shape or ()  # an empty one has none
    kind = dataset.dtype
    if len(shape) != 2 or shape[0] != VIEWS or not shape[1] or not np.issubdtype(kind, np.floating):
        return f"is {kind} of shape {shape}, not 36 views of floating-point features"
    with np.errstate(over="ignore"):  # what does not fit becomes infinite, which is refused
        return np.asarray(dataset[()], dtype=np.float32)
