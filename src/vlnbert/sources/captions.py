"""Caption files: `captions/<scan>.json`, a sentence for every view of every viewpoint and what was detected there."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError, Faults
from vlnbert.sources.boxes import Box
from vlnbert.sources.features import VIEWS
from vlnbert.sources.files import FETCH_AGAIN, read_json


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


def read_captions(path: Path) -> list[PanoramaCaptions]:
    """Read and check the captions of one scan."""
    document = read_json(path, "caption file", "unpack the caption files there")
    if not isinstance(document, dict):
        raise DataError(path, "does not hold an object with a key a viewpoint", FETCH_AGAIN)
    faults = Faults(path)
    panoramas = [_panorama(path.stem, viewpoint, views, faults) for viewpoint, views in document.items()]
    faults.raise_if_any()
    return panoramas


def _panorama(scan: str, viewpoint: str, views: Any, faults: Faults) -> PanoramaCaptions:
    place = f"viewpoint {viewpoint}"
    if not isinstance(views, dict) or set(views) != {str(view) for view in range(VIEWS)}:
        faults.add(place, "does not hold views '0' to '35'", FETCH_AGAIN)
        return PanoramaCaptions(scan, viewpoint, ())
    captions = tuple(_view(views[str(view)], f"{place} view {view}", faults) for view in range(VIEWS))
    return PanoramaCaptions(scan, viewpoint, captions)


def _view(entry: Any, place: str, faults: Faults) -> ViewCaption:
    try:
        detections = tuple(_detection(item) for item in entry["dense_cap"])
        if isinstance(entry["global_cap"], str):
            return ViewCaption(entry["global_cap"], detections)
    except (KeyError, TypeError, ValueError, AttributeError):
        pass
    problem = "is not a 'global_cap' with a 'dense_cap' of obj_class, coordinates, confidence and caption"
    faults.add(place, problem, FETCH_AGAIN)
    return ViewCaption("", ())


def _detection(item: Any) -> Detection:
    left, top, right, bottom = (float(number) for number in item["coordinates"].split())
    return Detection(
        str(item["obj_class"]), float(item["confidence"]), (left, top, right, bottom), str(item["caption"])
    )
