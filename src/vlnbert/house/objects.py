"""Objects: their kinds, the rooms that have them, and their places along the walls."""

import math
from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING

from vlnbert.house.plan import HALF_DOOR, HALLWAY, STAIRS, STOREY, HousePlan, PlanPoint, Region

if TYPE_CHECKING:
    from vlnbert.house.building import Viewpoint

FROM_WALL = 0.4  # metres from a wall to the middle of an object
APART = 0.75  # metres between two objects
ROOM_TO_STAND = 0.8  # metres around a viewpoint that stay free of objects
MOST_IN_ROOM = 8  # kinds of objects

Point = tuple[float, float]
COLOURS = ("red", "blue", "green", "yellow", "black", "white", "brown", "gray", "orange", "purple")


@dataclass(frozen=True)
class ObjectKind:
    """A kind of object: `width` along a wall, `height` of the object and of its middle above the floor, in metres."""

    name: str
    width: float
    height: float
    middle: float
    family: str  # decides the requests for it, and how its colour shows in a feature


def _family(family: str, *rows: tuple[str, float, float, float]) -> dict[str, ObjectKind]:
    return {row[0]: ObjectKind(*row, family=family) for row in rows}


OBJECT_KINDS: dict[str, ObjectKind] = {
    **_family(
        "furniture",
        ("armchair", 0.8, 0.9, 0.45),
        ("bed", 1.5, 0.7, 0.35),
        ("bench", 1.1, 0.5, 0.25),
        ("bookshelf", 1.0, 1.8, 0.9),
        ("cabinet", 0.9, 1.2, 0.6),
        ("chair", 0.5, 0.9, 0.45),
        ("coffee table", 0.9, 0.5, 0.25),
        ("crib", 1.1, 1.0, 0.5),
        ("desk", 1.2, 0.8, 0.4),
        ("dining table", 1.4, 0.8, 0.4),
        ("dresser", 1.0, 1.0, 0.5),
        ("nightstand", 0.5, 0.6, 0.3),
        ("pool table", 1.5, 0.9, 0.45),
        ("sofa", 1.5, 0.8, 0.4),
        ("stool", 0.4, 0.7, 0.35),
    ),
    **_family(
        "machine",
        ("computer", 0.6, 0.5, 1.0),
        ("dryer", 0.7, 0.9, 0.45),
        ("exercise bike", 0.7, 1.2, 0.6),
        ("fan", 0.4, 1.2, 0.6),
        ("lamp", 0.4, 1.5, 0.9),
        ("oven", 0.7, 0.9, 0.45),
        ("printer", 0.5, 0.4, 0.9),
        ("refrigerator", 0.8, 1.8, 0.9),
        ("television", 1.1, 0.7, 1.2),
        ("treadmill", 0.9, 1.3, 0.65),
        ("washing machine", 0.7, 0.9, 0.45),
    ),
    **_family(
        "fixture",
        ("bathtub", 1.5, 0.6, 0.3),
        ("clock", 0.4, 0.4, 1.9),
        ("dartboard", 0.5, 0.5, 1.7),
        ("fireplace", 1.2, 1.1, 0.55),
        ("mirror", 0.7, 1.0, 1.5),
        ("painting", 0.8, 0.6, 1.6),
        ("piano", 1.4, 1.1, 0.55),
        ("sink", 0.6, 0.3, 0.9),
        ("toilet", 0.5, 0.8, 0.4),
    ),
    **_family(
        "trinket",
        ("basket", 0.4, 0.5, 0.25),
        ("candle", 0.2, 0.3, 1.0),
        ("globe", 0.4, 0.5, 1.0),
        ("kettle", 0.3, 0.3, 1.0),
        ("pillow", 0.5, 0.3, 0.6),
        ("plant", 0.5, 1.1, 0.55),
        ("statue", 0.5, 1.5, 0.75),
        ("towel", 0.5, 0.7, 1.2),
        ("toy", 0.3, 0.3, 0.15),
        ("vase", 0.3, 0.5, 1.0),
    ),
}

# The first kinds of a room make it what it is and are always there; the others come and go.
FURNISHING: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "bathroom": (("toilet", "sink", "bathtub"), ("towel", "mirror", "cabinet", "basket", "plant")),
    "bedroom": (("bed", "nightstand"), ("dresser", "lamp", "mirror", "pillow", "painting", "chair", "plant")),
    "dining room": (("dining table", "chair"), ("vase", "candle", "painting", "cabinet", "plant", "chair")),
    "game room": (("pool table", "dartboard"), ("stool", "television", "painting", "bench", "lamp", "stool")),
    "gym": (("treadmill", "exercise bike"), ("bench", "towel", "fan", "mirror", "television", "clock")),
    "kitchen": (("oven", "refrigerator"), ("sink", "kettle", "stool", "cabinet", "basket", "plant", "clock")),
    "laundry room": (("washing machine", "dryer"), ("basket", "towel", "cabinet", "sink", "stool", "fan")),
    "library": (("bookshelf", "globe"), ("armchair", "lamp", "desk", "painting", "bookshelf", "statue")),
    "living room": (("sofa", "fireplace"), ("armchair", "television", "coffee table", "lamp", "plant", "pillow")),
    "music room": (("piano", "stool"), ("painting", "lamp", "armchair", "statue", "vase", "candle")),
    "nursery": (("crib", "toy"), ("dresser", "basket", "lamp", "toy", "painting", "armchair")),
    "office": (("desk", "computer"), ("printer", "chair", "bookshelf", "lamp", "plant", "clock")),
}
HALLWAY_OBJECTS = ("plant", "painting", "bench", "clock", "statue", "vase", "mirror", "basket")


@dataclass(frozen=True)
class HouseObject:
    """An object of the house: `x` and `y` in the plan's frame, `position` (its middle) in the world's."""

    number: int
    kind: ObjectKind
    colour: str
    region: int
    floor: int
    x: float
    y: float
    position: tuple[float, float, float]

    @property
    def name(self) -> str:
        return f"{self.colour} {self.kind.name}"

    def point(self) -> PlanPoint:
        return PlanPoint(self.x, self.y, (self.floor,))


def place_objects(rng: Random, plan: HousePlan, viewpoints: list["Viewpoint"]) -> list[HouseObject]:
    objects: list[HouseObject] = []
    for region in plan.regions:
        if region.kind != STAIRS:
            taken = [(v.x, v.y) for v in viewpoints if region.index in v.regions]
            free = _free_points(rng, plan, region, taken)
            kinds = _choose_kinds(rng, region)
            # Each colour once: no room has the same kind twice in the same colour.
            for name, colour, (x, y) in zip(kinds, rng.sample(COLOURS, len(COLOURS)), reversed(free), strict=False):
                kind = OBJECT_KINDS[name]
                position = (*plan.to_world(x, y), round(region.floor * STOREY + kind.middle, 6))
                objects.append(HouseObject(len(objects), kind, colour, region.index, region.floor, x, y, position))
    return objects


def _choose_kinds(rng: Random, region: Region) -> list[str]:
    if region.kind == HALLWAY:
        return rng.sample(HALLWAY_OBJECTS, rng.randint(4, 6))
    always, sometimes = FURNISHING[region.kind]
    extra = rng.sample(sometimes, rng.randint(3, min(len(sometimes), MOST_IN_ROOM - len(always))))
    # Now and then a second one, of another colour, so that the colour must be read.
    return [*always, *extra, *([rng.choice(extra)] if rng.random() < 0.5 else [])]


def _free_points(rng: Random, plan: HousePlan, region: Region, taken: list[Point]) -> list[Point]:
    """Points along the walls in random order, away from doors, stairs, each other and from where people stand."""
    box, doors = region.box, plan.doors_of(region.index)
    wells = [well.box for well in plan.stairwells if (well.floor, HALLWAY) == (region.floor, region.kind)]
    inner = (box.left + FROM_WALL, box.bottom + FROM_WALL, box.right - FROM_WALL, box.top - FROM_WALL)
    chosen: list[Point] = []
    for _ in range(80):
        x, y = rng.uniform(inner[0], inner[2]), rng.uniform(inner[1], inner[3])
        wall = rng.randrange(2 if region.kind == HALLWAY else 4)
        point = ((x, inner[1]), (x, inner[3]), (inner[0], y), (inner[2], y))[wall]
        clear = all(math.dist(point, (door.x, door.y)) > HALF_DOOR + 0.45 for door in doors)
        clear = clear and all(math.dist(point, eye) > ROOM_TO_STAND for eye in taken)
        in_the_way = any(point[1] > 0 and well.left - 0.3 < point[0] < well.right + 0.3 for well in wells)
        if clear and not in_the_way and all(math.dist(point, other) > APART for other in chosen):
            chosen.append((round(point[0], 6), round(point[1], 6)))
    return chosen
