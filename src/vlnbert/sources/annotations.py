"""What annotators, detectors and generators say of houses: object boxes, captions, observations, plans."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError, Faults
from vlnbert.progress import track
from vlnbert.sources.features import MOST_OBJECTS, VIEWS
from vlnbert.sources.files import FETCH_AGAIN, is_list_of, is_number, is_numbers, is_text, read_by_viewpoint, read_json

Box = tuple[float, float, float, float]  # x, y, width, height in a 640 x 480 view
IMAGE_WIDTH, IMAGE_HEIGHT = 640, 480  # of a view
VIEW_KEYS = {str(view): view for view in range(VIEWS)}
HEADINGS = 8  # that observations describe, from 0 on, clockwise
LEVELS = ("down", "middle", "top")  # of views 0 to 11, 12 to 23 and 24 to 35


@dataclass(frozen=True, slots=True)
class BoxedObject:
    """An object near a viewpoint. It is visible there when `views` is not empty."""

    id: str
    name: str
    views: tuple[int, ...]
    boxes: tuple[Box, ...]  # one for each of `views`


@dataclass(frozen=True, slots=True)
class ViewpointObjects:
    """The objects within 3 m of a viewpoint, and the views that show them."""

    scan: str
    viewpoint: str
    objects: tuple[BoxedObject, ...]
    path: Path  # of the file


@dataclass
class BoxRange:
    """Counts boxes beyond the edges of their view: they are cut to the view and reported."""

    what: str  # whose boxes
    beyond: int = 0
    unseen: int = 0

    def add(self, left: float, top: float, right: float, bottom: float) -> None:
        if left >= min(right, IMAGE_WIDTH) or right <= 0 or top >= min(bottom, IMAGE_HEIGHT) or bottom <= 0:
            self.unseen += 1
        elif left < 0 or top < 0 or right > IMAGE_WIDTH or bottom > IMAGE_HEIGHT:
            self.beyond += 1

    def lines(self) -> list[str]:
        """A sentence for each kind of fault; none where all boxes are within their views."""
        view = f"the {IMAGE_WIDTH} x {IMAGE_HEIGHT} view"
        kinds = [(self.beyond, f"reach beyond {view} and are cut to it"), (self.unseen, f"show nothing of {view}")]
        return [f"{count:,} boxes of {self.what} {problem}" for count, problem in kinds if count]


@dataclass(frozen=True, slots=True)
class Detection:
    """An object that a detector found in a view."""

    label: str
    confidence: float
    box: Box  # left, top, right, bottom in a 640 x 480 view
    caption: str


@dataclass(frozen=True, slots=True)
class ViewCaption:
    """The caption of a view, and the objects detected in it."""

    text: str
    detections: tuple[Detection, ...]


@dataclass(frozen=True, slots=True)
class PanoramaCaptions:
    """The captions of all views of a viewpoint."""

    scan: str
    viewpoint: str
    views: tuple[ViewCaption, ...]  # 36, in the order of the views


@dataclass(frozen=True, slots=True)
class PanoramaObservations:
    """The captions of a viewpoint along its eight headings."""

    scan: str
    viewpoint: str
    captions: tuple[tuple[str, ...], ...]  # of 8 headings, each at the three levels, from below


def read_boxes(path: Path) -> ViewpointObjects:
    """Read and check the objects of one viewpoint, `BBox/<scan>_<viewpoint>.json`."""
    scan, _, viewpoint = path.stem.rpartition("_")
    document = read_json(path, "box file")
    if not isinstance(document, dict) or not isinstance(document.get(viewpoint), dict):
        problem = f"does not hold the objects of {viewpoint}"
        raise DataError(path, problem, "name the file <scan>_<viewpoint>.json after its only key")
    entries, faults = document[viewpoint], Faults(path)
    if len(entries) > MOST_OBJECTS:
        raise DataError(path, f"holds {len(entries):,} objects", f"give at most {MOST_OBJECTS:,} for a viewpoint")
    for name, entry in entries.items():
        if problem := _object_problem(name, entry):
            faults.add(f"object {name}", problem, FETCH_AGAIN)
    faults.raise_if_any()
    objects = []
    for name, entry in entries.items():
        boxes = tuple((x, y, w, h) for x, y, w, h in entry["bbox2d"])
        objects.append(BoxedObject(name, entry["name"], tuple(entry["visible_pos"]), boxes))
    return ViewpointObjects(scan, viewpoint, tuple(objects), path)


def _object_problem(name: str, entry: Any) -> str:
    if not is_text(name) or not isinstance(entry, dict) or not is_text(entry.get("name")):
        return "has no 'name'"
    views, boxes = entry.get("visible_pos"), entry.get("bbox2d")
    if not is_list_of(views, int) or not all(0 <= view < VIEWS for view in views):
        return "'visible_pos' is not a list of views 0 to 35"
    if not is_list_of(boxes, list) or len(boxes) != len(views) or not all(is_numbers(box, 4) for box in boxes):
        return "'bbox2d' is not one [x, y, w, h] for each of 'visible_pos'"
    return ""


def box_files(folder: Path) -> list[Path]:
    """The files of a BBox folder, in alphabetical order."""
    if paths := sorted(folder.glob("*_*.json")):
        return paths
    raise DataError(folder, "holds no <scan>_<viewpoint>.json", "get them with: vlnbert data fetch DIR --only reverie")


def read_box_folder(folder: Path) -> Iterator[ViewpointObjects]:
    """Every viewpoint of a BBox folder, in alphabetical order; the faults of all files are raised together."""
    faults = Faults(folder)
    for path in track(box_files(folder), "object boxes"):
        with faults.including():
            yield read_boxes(path)
    faults.raise_if_any()


def read_captions(path: Path) -> list[PanoramaCaptions]:
    """Read and check the captions of one scan, `captions/<scan>.json`: a sentence and detections for every view."""
    remedy = "get them with: vlnbert data fetch DIR --only captions"
    return read_by_viewpoint(path, "caption file", remedy, _captions_of)


def _captions_of(scan: str, viewpoint: str, views: Any, faults: Faults) -> PanoramaCaptions:
    place = f"viewpoint {viewpoint}"
    if not is_text(viewpoint) or not isinstance(views, dict) or views.keys() != VIEW_KEYS.keys():
        faults.add(place, "does not hold views '0' to '35'", FETCH_AGAIN)
        return PanoramaCaptions(scan, viewpoint, ())
    captions = tuple(_view_caption(views[key], f"{place} view {key}", faults) for key in VIEW_KEYS)
    return PanoramaCaptions(scan, viewpoint, captions)


def _view_caption(entry: Any, place: str, faults: Faults) -> ViewCaption:
    problem = "is not a 'global_cap' with a 'dense_cap' of obj_class, coordinates, confidence and caption"
    with suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError):
        if is_text(entry["global_cap"]) and isinstance(entry["dense_cap"], list):
            detections = tuple(map(_detection, entry["dense_cap"]))
            wrong = [detection for detection in detections if not 0 <= detection.confidence <= 1]
            if not wrong:
                return ViewCaption(entry["global_cap"], detections)
            problem = f"detects {wrong[0].label} with a confidence of {wrong[0].confidence:g}, not of 0 to 1"
    faults.add(place, problem, FETCH_AGAIN)
    return ViewCaption("", ())


def _detection(item: Any) -> Detection:
    left, top, right, bottom = map(float, item["coordinates"].split())
    label, caption, confidence = item["obj_class"], item["caption"], float(item["confidence"])
    if not (is_text(label) and is_text(caption) and all(map(is_number, (left, top, right, bottom)))):
        raise ValueError("a detection of other kinds")
    return Detection(label, confidence, (left, top, right, bottom), caption)


def read_observations(path: Path) -> list[PanoramaObservations]:
    """Read and check the observations of one scan, `observations/<scan>.json`: captions along eight headings.

    String i looks along 45 i degrees; its lines `down: ...`, `middle: ...` and `top: ...` describe three elevations.
    """
    remedy = "get them with: vlnbert data fetch DIR --only observations"
    return read_by_viewpoint(path, "observation file", remedy, _observations_of)


def _observations_of(scan: str, viewpoint: str, headings: Any, faults: Faults) -> PanoramaObservations:
    place = f"viewpoint {viewpoint}"
    if not is_text(viewpoint) or not isinstance(headings, list) or len(headings) != HEADINGS:
        content = f"holds {len(headings)} headings" if isinstance(headings, list) else "holds no list of headings"
        faults.add(place, f"{content}, not {HEADINGS}", FETCH_AGAIN)
        return PanoramaObservations(scan, viewpoint, ())
    captions = (_heading_captions(entry, f"{place} heading {number}", faults) for number, entry in enumerate(headings))
    return PanoramaObservations(scan, viewpoint, tuple(captions))


def _heading_captions(entry: Any, place: str, faults: Faults) -> tuple[str, ...]:
    """The captions of one heading; its lines may come in any order and with any white space."""
    lines = [line.partition(":") for line in entry.splitlines() if line.strip()] if is_text(entry) else []
    captions = {level.strip().lower(): " ".join(caption.split()) for level, _, caption in lines}
    if len(lines) != len(LEVELS) or captions.keys() != set(LEVELS):
        faults.add(place, "is not a text of the lines 'down: ...', 'middle: ...' and 'top: ...'", FETCH_AGAIN)
        return ()
    for level in LEVELS:
        if not captions[level]:
            faults.add(place, f"'{level}' has an empty caption", FETCH_AGAIN)
    return tuple(captions[level] for level in LEVELS)


FORMAT = 1
LARGEST_FILE = 4 << 20  # bytes
MOST = 5_000  # rooms, doors, flights of stairs or objects
MOST_FLOORS, MOST_CORNERS, LONGEST_NAME = 50, 100, 100
FARTHEST = 10_000.0  # metres from the origin
REMEDY = "make the house again with: vlnbert house DIR, or remove the file, which only pictures need"

Point = tuple[float, float]


@dataclass(frozen=True)
class Room:
    name: str
    floor: int
    polygon: tuple[Point, ...]


@dataclass(frozen=True)
class Door:
    """An opening in a wall, from one of its sides to the other."""

    floor: int
    start: Point
    end: Point


@dataclass(frozen=True)
class Stairs:
    """A flight that leads up from `floor`."""

    floor: int
    polygon: tuple[Point, ...]


@dataclass(frozen=True)
class PlacedObject:
    id: str
    name: str
    floor: int
    x: float
    y: float


@dataclass(frozen=True)
class ScanPlan:
    """The plan of one house, in metres of its graph; floors count from the lowest, 0."""

    scan: str
    floors: tuple[float, ...]  # the height of a viewpoint on each, ascending
    rooms: tuple[Room, ...]
    doors: tuple[Door, ...]
    stairs: tuple[Stairs, ...]
    objects: tuple[PlacedObject, ...]


def read_plan(path: Path) -> ScanPlan:
    """Read and check one plan; all its faults are reported together."""
    if path.is_file() and path.stat().st_size > LARGEST_FILE:
        raise DataError(path, f"is larger than any plan, {LARGEST_FILE >> 20} MB", REMEDY)
    document = read_json(path, "plan", REMEDY, REMEDY)
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        raise DataError(path, f"does not hold a plan of format {FORMAT}", REMEDY)
    return _PlanReader(path, document).read()


class _PlanReader:
    """Takes a document apart and collects what is wrong with it."""

    def __init__(self, path: Path, document: dict[str, Any]) -> None:
        self.path, self.document, self.faults = path, document, Faults(path)

    def read(self) -> ScanPlan:
        floors: list[Any] = [entry.get("z") for _, entry in self.placed("floors", MOST_FLOORS)]
        if not floors or not is_numbers(floors, len(floors)) or sorted(floors) != floors:
            raise DataError(self.path, "'floors' is not a list of heights, lowest first", REMEDY)
        self.floors = len(floors)
        plan = ScanPlan(
            scan=self.path.stem,
            floors=tuple(map(float, floors)),
            rooms=tuple(
                Room(self.name(entry, place), self.floor(entry, place), self.polygon(entry, place))
                for place, entry in self.placed("rooms")
            ),
            doors=tuple(
                Door(
                    self.floor(entry, place),
                    self.point(entry.get("from"), f"{place} 'from'"),
                    self.point(entry.get("to"), f"{place} 'to'"),
                )
                for place, entry in self.placed("doors")
            ),
            stairs=tuple(
                Stairs(self.floor(entry, place), self.polygon(entry, place)) for place, entry in self.placed("stairs")
            ),
            objects=tuple(self.object(entry, place) for place, entry in self.placed("objects")),
        )
        self.faults.raise_if_any()
        return plan

    def placed(self, key: str, most: int = MOST) -> list[tuple[str, dict[str, Any]]]:
        """The entries of a list, each with its place for errors."""
        entries = self.document.get(key)
        if not isinstance(entries, list) or len(entries) > most or not all(isinstance(one, dict) for one in entries):
            raise DataError(self.path, f"'{key}' is not a list of at most {most:,} objects", REMEDY)
        return [(f"{key} {index}", entry) for index, entry in enumerate(entries)]

    def name(self, entry: dict[str, Any], place: str, key: str = "name") -> str:
        name = entry.get(key)
        if is_text(name) and 0 < len(name) <= LONGEST_NAME:
            return name
        self.faults.add(place, f"'{key}' is not a text of at most {LONGEST_NAME} characters", REMEDY)
        return ""

    def floor(self, entry: dict[str, Any], place: str) -> int:
        floor = entry.get("floor")
        if type(floor) is int and 0 <= floor < self.floors:
            return floor
        self.faults.add(place, f"'floor' is not one of 0 to {self.floors - 1}", REMEDY)
        return 0

    def polygon(self, entry: dict[str, Any], place: str) -> tuple[Point, ...]:
        corners = entry.get("polygon")
        if not isinstance(corners, list) or not 3 <= len(corners) <= MOST_CORNERS:
            self.faults.add(place, f"'polygon' is not a list of 3 to {MOST_CORNERS} points", REMEDY)
            return ()
        return tuple(self.point(corner, f"{place} 'polygon'") for corner in corners)

    def object(self, entry: dict[str, Any], place: str) -> PlacedObject:
        x, y = self.point([entry.get("x"), entry.get("y")], place)
        return PlacedObject(self.name(entry, place, "id"), self.name(entry, place), self.floor(entry, place), x, y)

    def point(self, value: Any, place: str) -> Point:
        if is_numbers(value, 2) and max(map(abs, value)) <= FARTHEST:
            return float(value[0]), float(value[1])
        self.faults.add(place, f"is not two numbers of at most {FARTHEST:,.0f} m", REMEDY)
        return 0.0, 0.0
