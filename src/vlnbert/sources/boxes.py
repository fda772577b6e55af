"""REVERIE's objects: `BBox/<scan>_<viewpoint>.json`, what lies within 3 m of a viewpoint and which views show it."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError, Faults
from vlnbert.progress import track
from vlnbert.sources.checks import is_list_of, is_numbers, is_text
from vlnbert.sources.features import VIEWS
from vlnbert.sources.files import FETCH_AGAIN, read_json

Box = tuple[float, float, float, float]  # x, y, width, height in a 640 x 480 view
IMAGE_WIDTH, IMAGE_HEIGHT = 640, 480  # of a view
MOST_OBJECTS = 1000  # of a viewpoint; all are shown at the number of the fullest. The open data has 61 at most.


@dataclass(frozen=True, slots=True)
class BoxedObject:
    """An object near a viewpoint. It is visible there when `views` is not empty."""

    id: str
    name: str
    views: tuple[int, ...]
    boxes: tuple[Box, ...]  # one for each of `views`


@dataclass
class BoxRange:
    """Counts boxes that are out of the range of a view: they are read, cut to the view, and told of."""

    what: str  # whose boxes
    beyond: int = 0
    unseen: int = 0

    def add(self, left: float, top: float, right: float, bottom: float) -> None:
        if left >= min(right, IMAGE_WIDTH) or right <= 0 or top >= min(bottom, IMAGE_HEIGHT) or bottom <= 0:
            self.unseen += 1
        elif left < 0 or top < 0 or right > IMAGE_WIDTH or bottom > IMAGE_HEIGHT:
            self.beyond += 1

    def lines(self) -> list[str]:
        """In words; nothing where all boxes are in range."""
        view = f"the {IMAGE_WIDTH} x {IMAGE_HEIGHT} view"
        said = [(self.beyond, f"reach beyond {view} and are cut to it"), (self.unseen, f"show nothing of {view}")]
        return [f"{count:,} boxes of {self.what} {problem}" for count, problem in said if count]


@dataclass(frozen=True, slots=True)
class ViewpointObjects:
    scan: str
    viewpoint: str
    objects: tuple[BoxedObject, ...]
    path: Path  # of the file


def read_boxes(path: Path) -> ViewpointObjects:
    """Read and check the objects of one viewpoint."""
    scan, _, viewpoint = path.stem.rpartition("_")
    document = read_json(path, "box file")
    if not isinstance(document, dict) or not isinstance(document.get(viewpoint), dict):
        problem = f"does not hold the objects of {viewpoint}"
        raise DataError(path, problem, "name the file <scan>_<viewpoint>.json after its only key")
    faults, count = Faults(path), len(document[viewpoint])
    if count > MOST_OBJECTS:
        raise DataError(path, f"holds {count:,} objects", f"give at most {MOST_OBJECTS:,} for a viewpoint")
    for name, entry in document[viewpoint].items():
        if problem := _problem(name, entry):
            faults.add(f"object {name}", problem, FETCH_AGAIN)
    faults.raise_if_any()
    return ViewpointObjects(scan, viewpoint, tuple(_object(*item) for item in document[viewpoint].items()), path)


def box_files(folder: Path) -> list[Path]:
    """The files of a BBox folder, in alphabetical order."""
    paths = sorted(folder.glob("*_*.json"))
    if not paths:
        raise DataError(
            folder, "holds no <scan>_<viewpoint>.json", "get them with: vlnbert data fetch DIR --only reverie"
        )
    return paths


def read_box_folder(folder: Path) -> Iterator[ViewpointObjects]:
    """Every viewpoint of a BBox folder, in alphabetical order; the faults of all files are raised together."""
    faults = Faults(folder)
    for path in track(box_files(folder), "object boxes"):
        with faults.including():
            yield read_boxes(path)
    faults.raise_if_any()


def _problem(name: str, entry: Any) -> str:
    if not is_text(name) or not isinstance(entry, dict) or not is_text(entry.get("name")):
        return "has no 'name'"
    views, boxes = entry.get("visible_pos"), entry.get("bbox2d")
    if not is_list_of(views, int) or not all(0 <= view < VIEWS for view in views):
        return "'visible_pos' is not a list of views 0 to 35"
    if not is_list_of(boxes, list) or len(boxes) != len(views) or not all(is_numbers(box, 4) for box in boxes):
        return "'bbox2d' is not one [x, y, w, h] for each of 'visible_pos'"
    return ""


def _object(name: str, entry: dict[str, Any]) -> BoxedObject:
    boxes = tuple((x, y, width, height) for x, y, width, height in entry["bbox2d"])
    return BoxedObject(name, entry["name"], tuple(entry["visible_pos"]), boxes)
