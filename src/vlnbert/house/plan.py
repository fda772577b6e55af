"""Floor plans: a hallway on each floor, rooms along it and at its ends, doors between them, stairs between floors."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from random import Random

HALLWAY, STAIRS = "hallway", "stairs"  # kinds of region that are not rooms
STOREY = 3.0  # metres from floor to floor
HALF_HALL = 1.0  # half the width of a hallway
HALF_DOOR = 0.55
STAIR_WIDTH = 2.8
# Of scan 0, 1, ...: a cycle, so that even a few scans have houses of one floor and of more.
FLOORS = (2, 1, 3, 2, 1, 2)
TWICE_A_FLOOR = ("bedroom", "bathroom")


@dataclass(frozen=True)
class Rectangle:
    """A part of the floor, in metres of the plan's frame."""

    left: float
    bottom: float
    right: float
    top: float

    @property
    def centre(self) -> tuple[float, float]:
        return (self.left + self.right) / 2, (self.bottom + self.top) / 2


@dataclass(frozen=True)
class Region:
    """A room, a hallway or a stairwell of one floor."""

    index: int
    kind: str
    floor: int
    box: Rectangle


@dataclass(frozen=True)
class Opening:
    """A gap in the wall between two regions: `along` is the axis of the wall, (x, y) the gap's middle."""

    index: int
    first: int
    second: int
    floor: int
    x: float
    y: float
    along: str
    half: float  # of its width, in metres

    def joins(self, region: int) -> bool:
        return region in (self.first, self.second)

    def beyond(self, region: int) -> int:
        """The region on the other side."""
        return self.second if region == self.first else self.first


@dataclass(frozen=True, slots=True)
class PlanPoint:
    """A point of the plan, and the floors from which it can be seen."""

    x: float
    y: float
    floors: tuple[int, ...]


@dataclass(frozen=True)
class HousePlan:
    """The rooms, doors, stairs and walls of a house, in a frame whose x runs along the hallways."""

    floors: int
    yaw: float  # radians by which the house is turned in the world
    regions: tuple[Region, ...]
    doors: tuple[Opening, ...]
    stairwells: tuple[Region, ...]  # one a floor, lowest first; none in a house of one floor
    walls: tuple[tuple[tuple[float, float, float, float], ...], ...]  # for each floor, segments (x, y, x, y)
    stair_openings: tuple[Opening, ...] = ()  # between each stairwell and its hallway

    def doors_of(self, region: int) -> list[Opening]:
        return [door for door in self.doors if door.joins(region)]

    def to_world(self, x: float, y: float) -> tuple[float, float]:
        """A point of the plan in the world's frame, into which `yaw` turns it."""
        cosine, sine = math.cos(self.yaw), math.sin(self.yaw)
        return round(x * cosine - y * sine, 6), round(x * sine + y * cosine, 6)


def draw_plan(rng: Random, scan_number: int, room_kinds: Iterable[str]) -> HousePlan:
    """A random plan; a floor has each kind of room at most once, a bedroom or bathroom at most twice."""
    floors = FLOORS[scan_number % len(FLOORS)]
    length = round(rng.uniform(12.0, 16.0), 2)
    stairs_at = rng.choice((0.0, round(length - STAIR_WIDTH, 2))) if floors > 1 else None
    draft = _PlanDraft(rng, length, stairs_at, list(room_kinds))
    for floor in range(floors):
        draft.add_floor(floor)
    return HousePlan(
        floors=floors,
        yaw=round(rng.uniform(0.0, 6.28), 3),
        regions=tuple(draft.regions),
        doors=tuple(draft.doors),
        stairwells=tuple(region for region in draft.regions if region.kind == STAIRS),
        stair_openings=tuple(draft.stair_openings),
        walls=tuple(_walls(floor, draft.regions, draft.doors + draft.stair_openings) for floor in range(floors)),
    )


class _PlanDraft:
    """A plan under construction."""

    def __init__(self, rng: Random, length: float, stairs_at: float | None, room_kinds: list[str]) -> None:
        self.rng, self.length, self.stairs_at, self.room_kinds = rng, length, stairs_at, room_kinds
        self.regions: list[Region] = []
        self.doors: list[Opening] = []
        self.stair_openings: list[Opening] = []

    def add_floor(self, floor: int) -> None:
        hall = self._region(HALLWAY, floor, Rectangle(0.0, -HALF_HALL, self.length, HALF_HALL))
        kinds = [*self.room_kinds, *(kind for kind in TWICE_A_FLOOR if self.rng.random() < 0.5)]
        self.rng.shuffle(kinds)
        for side in (1, -1):
            self._add_side(hall, side, kinds)
        for end in (0.0, self.length):
            if self.rng.random() < 0.5:
                depth, half = round(self.rng.uniform(3.8, 4.6), 2), round(self.rng.uniform(1.9, 2.4), 2)
                left, right = (-depth, 0.0) if end == 0.0 else (end, end + depth)
                room = self._region(kinds.pop(), floor, Rectangle(left, -half, right, half))
                self._door(hall, room, end, round(self.rng.uniform(-0.3, 0.3), 2), along="y")
        if self.stairs_at is not None:
            left, right = self.stairs_at, self.stairs_at + STAIR_WIDTH
            well = self._region(STAIRS, floor, Rectangle(left, HALF_HALL, right, HALF_HALL + 4.0))
            number, middle, half = len(self.stair_openings), left + STAIR_WIDTH / 2, STAIR_WIDTH / 2
            self.stair_openings.append(
                Opening(number, hall.index, well.index, floor, x=middle, y=HALF_HALL, along="x", half=half)
            )

    def _add_side(self, hall: Region, side: int, kinds: list[str]) -> None:
        """Add the rooms along one side of a hallway, with doors to it and now and then between them."""
        depth = round(self.rng.uniform(3.9, 4.7), 2)
        near, far = sorted((side * HALF_HALL, side * (HALF_HALL + depth)))
        boxes = [Rectangle(left, near, right, far) for left, right in self._spans(side)]
        rooms = [self._region(kinds.pop(), hall.floor, box) for box in boxes]
        for room in rooms:
            x = round(self.rng.uniform(room.box.left + 0.9, room.box.right - 0.9), 2)
            middle, doors = room.box.centre[0], [door for door in self.doors if door.joins(hall.index)]
            opposite = [door.x for door in doors if abs(door.x - middle) < 1.2]
            # Doors like to face each other.
            if opposite and self.rng.random() < 0.85:
                x = round(opposite[0] + self.rng.uniform(-0.2, 0.2), 2)
            self._door(hall, room, x, side * HALF_HALL, along="x")
        for room, neighbour in pairwise(rooms):
            if self.rng.random() < 0.2:
                y = round(self.rng.uniform(room.box.bottom + 1.4, room.box.top - 1.4), 2)
                self._door(room, neighbour, room.box.right, y, along="y")

    def _spans(self, side: int) -> list[tuple[float, float]]:
        """Cut a side of the hallway into rooms of about 4.6 m."""
        low, high = 0.0, self.length
        if side > 0 and self.stairs_at is not None:
            low, high = (STAIR_WIDTH, high) if self.stairs_at == 0.0 else (low, self.stairs_at)
        count = max(2, round((high - low) / 4.6))
        cuts = [low + (high - low) * i / count + self.rng.uniform(-0.4, 0.4) for i in range(1, count)]
        return list(pairwise([low, *(round(cut, 2) for cut in cuts), high]))

    def _region(self, kind: str, floor: int, box: Rectangle) -> Region:
        self.regions.append(Region(len(self.regions), kind, floor, box))
        return self.regions[-1]

    def _door(self, first: Region, second: Region, x: float, y: float, along: str) -> None:
        self.doors.append(Opening(len(self.doors), first.index, second.index, first.floor, x, y, along, HALF_DOOR))


def _walls(floor: int, regions: list[Region], openings: list[Opening]) -> tuple[tuple[float, float, float, float], ...]:
    """The sides of the regions of a floor, less the openings in them."""
    on_floor = [opening for opening in openings if opening.floor == floor]
    walls = []
    for box in (region.box for region in regions if region.floor == floor):
        for x in (box.left, box.right):
            gaps = [(o.y - o.half, o.y + o.half) for o in on_floor if o.along == "y" and o.x == x]
            walls += [(x, low, x, high) for low, high in _pieces(box.bottom, box.top, gaps)]
        for y in (box.bottom, box.top):
            gaps = [(o.x - o.half, o.x + o.half) for o in on_floor if o.along == "x" and o.y == y]
            walls += [(low, y, high, y) for low, high in _pieces(box.left, box.right, gaps)]
    return tuple(walls)


def _pieces(low: float, high: float, gaps: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """The span from `low` to `high` without the gaps, in pieces."""
    pieces = []
    for gap_low, gap_high in sorted(gap for gap in gaps if low < gap[1] and gap[0] < high):
        if gap_low > low:
            pieces.append((low, gap_low))
        low = gap_high
    if low < high:
        pieces.append((low, high))
    return pieces
