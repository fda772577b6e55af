"""Objects: along the walls of the room they belong to, clear of doors, each kind and colour once a room."""

import math
from dataclasses import dataclass
from random import Random

from vlnbert.house.lexicon import COLOURS, FURNISHING, HALLWAY, HALLWAY_KINDS, KINDS, STAIRS, Kind
from vlnbert.house.plan import HALF_DOOR, STOREY, Plan, Region
from vlnbert.house.sight import Spot
from vlnbert.house.viewpoints import Viewpoint

FROM_WALL = 0.4  # metres from a wall to the middle of an object
APART = 0.75
ROOM_TO_STAND = 0.8  # metres around a viewpoint; nearer, an object would be under one's eyes
MOST_IN_ROOM = 8

Point = tuple[float, float]


@dataclass(frozen=True)
class Thing:
    """An object of the house: `x` and `y` in the plan's frame, `position` (its middle) in the world's."""

    number: int
    kind: Kind
    colour: str
    region: int
    floor: int
    x: float
    y: float
    position: tuple[float, float, float]

    @property
    def name(self) -> str:
        return f"{self.colour} {self.kind.name}"

    def spot(self) -> Spot:
        return Spot(self.x, self.y, (self.floor,))


def place_objects(rng: Random, plan: Plan, viewpoints: list[Viewpoint]) -> list[Thing]:
    things: list[Thing] = []
    for region in plan.regions:
        if region.kind != STAIRS:
            taken = [(v.x, v.y) for v in viewpoints if region.index in v.regions]
            free = _free_spots(rng, plan, region, taken)
            for kind, colour in zip(_kinds(rng, region), _colours(rng), strict=False):
                if free:
                    things.append(_thing(len(things), plan, region, kind, colour, free))
    return things


def _kinds(rng: Random, region: Region) -> list[str]:
    if region.kind == HALLWAY:
        return rng.sample(HALLWAY_KINDS, rng.randint(4, 6))
    always, sometimes = FURNISHING[region.kind]
    extra = rng.sample(sometimes, rng.randint(3, min(len(sometimes), MOST_IN_ROOM - len(always))))
    kinds = [*always, *extra]
    if rng.random() < 0.5:
        kinds.append(rng.choice(extra))  # a second one, of another colour, so that the colour must be read
    return kinds


def _colours(rng: Random) -> list[str]:
    """Every colour once before any comes again, so that no room has the same kind twice in the same colour."""
    return rng.sample(COLOURS, len(COLOURS))


def _free_spots(rng: Random, plan: Plan, region: Region, taken: list[Point]) -> list[Point]:
    """Points along the walls, in random order, away from doors, from each other and from where people stand."""
    box, doors = region.box, plan.doors_of(region.index)
    inner = (box.left + FROM_WALL, box.bottom + FROM_WALL, box.right - FROM_WALL, box.top - FROM_WALL)
    chosen: list[Point] = []
    for _ in range(80):
        x, y = rng.uniform(inner[0], inner[2]), rng.uniform(inner[1], inner[3])
        wall = rng.randrange(2 if region.kind == HALLWAY else 4)
        point = ((x, inner[1]), (x, inner[3]), (inner[0], y), (inner[2], y))[wall]
        clear = all(math.dist(point, (door.x, door.y)) > HALF_DOOR + 0.45 for door in doors)
        clear = clear and all(math.dist(point, eye) > ROOM_TO_STAND for eye in taken)
        if clear and not _in_stairs(plan, region, point) and all(math.dist(point, one) > APART for one in chosen):
            chosen.append((round(point[0], 6), round(point[1], 6)))
    return chosen


def _in_stairs(plan: Plan, region: Region, point: Point) -> bool:
    """Whether a point of a hallway stands in front of the stairwell."""
    wells = [well.box for well in plan.stairwells if well.floor == region.floor] if region.kind == HALLWAY else []
    return any(point[1] > 0 and box.left - 0.3 < point[0] < box.right + 0.3 for box in wells)


def _thing(number: int, plan: Plan, region: Region, kind_name: str, colour: str, free: list[Point]) -> Thing:
    kind = KINDS[kind_name]
    x, y = free.pop()
    height = round(region.floor * STOREY + kind.middle, 6)
    position = (*plan.turned(x, y), height)
    return Thing(number, kind, colour, region.index, region.floor, x, y, position)
