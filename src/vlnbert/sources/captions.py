"""Caption files: `captions/<scan>.json`, a sentence for every view of every viewpoint and what was detected there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlnbert.errors import Faults
from vlnbert.sources.boxes import Box
from vlnbert.sources.checks import is_number, is_text
from vlnbert.sources.features import VIEWS
from vlnbert.sources.files import FETCH_AGAIN, read_by_viewpoint

VIEW_KEYS = {str(view): view for view in range(VIEWS)}


@dataclass(frozen=True, slots=True)
class Detection:
    label: str
    confidence: float
    box: Box  # left, top, right, bottom in a 640 x 480 view
    caption: str


@dataclass(frozen=True, slots=True)
class ViewCaption:
    text: str
    detections: tuple[Detection, ...]


@dataclass(frozen=True, slots=True)
class PanoramaCaptions:
    scan: str
    viewpoint: str
    views: tuple[ViewCaption, ...]  # 36, in the order of the views


class _ConfidenceError(Exception):
    """A detection is surer than sure, or less sure than not at all."""


def read_captions(path: Path) -> list[PanoramaCaptions]:
    """Read and check the captions of one scan."""
    return read_by_viewpoint(path, "caption file", "get them with: vlnbert data fetch DIR --only captions", _panorama)


def _panorama(scan: str, viewpoint: str, views: Any, faults: Faults) -> PanoramaCaptions:
    place = f"viewpoint {viewpoint}"
    if not is_text(viewpoint) or not isinstance(views, dict) or views.keys() != VIEW_KEYS.keys():
        faults.add(place, "does not hold views '0' to '35'", FETCH_AGAIN)
        return PanoramaCaptions(scan, viewpoint, ())
    captions = tuple(_view(views[key], f"{place} view {key}", faults) for key in VIEW_KEYS)
    return PanoramaCaptions(scan, viewpoint, captions)


def _view(entry: Any, place: str, faults: Faults) -> ViewCaption:
    try:
        if is_text(entry["global_cap"]) and isinstance(entry["dense_cap"], list):
            return ViewCaption(entry["global_cap"], tuple(map(_detection, entry["dense_cap"])))
    except _ConfidenceError as error:
        faults.add(place, str(error), FETCH_AGAIN)
        return ViewCaption("", ())
    except (KeyError, TypeError, ValueError, AttributeError, OverflowError):
        pass
    problem = "is not a 'global_cap' with a 'dense_cap' of obj_class, coordinates, confidence and caption"
    faults.add(place, problem, FETCH_AGAIN)
    return ViewCaption("", ())


def _detection(item: Any) -> Detection:
    left, top, right, bottom = map(float, item["coordinates"].split())
    label, caption, confidence = item["obj_class"], item["caption"], float(item["confidence"])
    if not (is_text(label) and is_text(caption) and all(map(is_number, (left, top, right, bottom)))):
        raise ValueError("a detection of other kinds")
    if not 0 <= confidence <= 1:
        raise _ConfidenceError(f"detects {label} with a confidence of {confidence:g}, not of 0 to 1")
    return Detection(label, confidence, (left, top, right, bottom), caption)
