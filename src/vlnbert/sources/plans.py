"""Plans of generated houses: `plans/<scan>.json`, rooms, doors, stairs and objects, for people who look at a house."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError, Faults
from vlnbert.sources.files import is_numbers, is_text, read_json

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
