"""What each view of a viewpoint shows, and how strongly: objects, doors and what lies behind, stairs, kinds of room."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vlnbert.house.building import Building
from vlnbert.house.lexicon import STAIRS
from vlnbert.house.objects import Thing
from vlnbert.house.plan import STOREY, Opening, Region
from vlnbert.house.sight import Spot, sees
from vlnbert.house.viewpoints import EYE, FOOT, HEAD, LANDING, Viewpoint
from vlnbert.house.views import HALF_VIEW, boxes, offsets

OBJECT, DOOR, UP, DOWN, PATCH = "object", "door", "up", "down", "patch"
STRENGTH = {OBJECT: 0.9, DOOR: 1.4, UP: 1.4, DOWN: 1.4, PATCH: 0.3}
FADING = {OBJECT: 3.0, DOOR: 6.0, UP: 6.0, DOWN: 6.0, PATCH: 3.0}  # metres at which a sight is half as strong
RANGE = {OBJECT: 7.0, DOOR: 13.0, UP: 13.0, DOWN: 13.0, PATCH: 7.0}  # metres
TOO_CLOSE = 0.5  # metres: one does not see the doorway in which one stands
EDGE_LOSS = 0.9  # how much weaker a sight is at the edge of a view than in its middle


@dataclass(frozen=True)
class Sight:
    """Something to be seen: `place` is the kind of region it shows, `thing` the object, if it is one."""

    kind: str
    place: str
    spot: Spot
    position: tuple[float, float, float]
    thing: Thing | None = None
    door: Opening | None = None
    region: int = -1  # behind the door
    from_landing: int = -1  # the flight whose landing alone shows it


@dataclass(frozen=True)
class Panorama:
    """The sights of a viewpoint, the weight of each in each view, and the boxes of those that are objects."""

    sights: list[Sight]
    weights: NDArray[np.float64]  # [sight, view]
    boxed: NDArray[np.bool_]  # [object, view]
    boxes: NDArray[np.int64]  # [object, view, 4]


def panoramas(building: Building) -> dict[int, Panorama]:
    """The panorama of every included viewpoint."""
    sights = _all_sights(building)
    seen = sees(building.plan, [v.spot() for v in building.viewpoints], [sight.spot for sight in sights])
    found = {}
    for index, viewpoint in enumerate(building.viewpoints):
        if viewpoint.included:
            shown = [s for s, clear in zip(sights, seen[index], strict=True) if clear and _faces(viewpoint, s)]
            found[index] = _panorama(viewpoint, shown)
    return found


def _panorama(viewpoint: Viewpoint, sights: list[Sight]) -> Panorama:
    across, up, distance = offsets(viewpoint.position, np.array([sight.position for sight in sights]))
    reach = np.array([RANGE[sight.kind] for sight in sights])
    fading = np.array([FADING[sight.kind] for sight in sights])
    strength = np.array([STRENGTH[sight.kind] for sight in sights]) / (1.0 + distance / fading)
    strength *= (distance <= reach) & (distance >= TOO_CLOSE)
    inside = (abs(across) <= HALF_VIEW) & (abs(up) <= HALF_VIEW)
    centring = (1.0 - EDGE_LOSS * (across / HALF_VIEW) ** 2) * (1.0 - EDGE_LOSS * (up / HALF_VIEW) ** 2)
    weights = np.round(strength[:, None] * centring * inside, 6)
    kept = [i for i, row in enumerate(weights) if row.any()]
    sights, weights = [sights[i] for i in kept], weights[kept]
    things = [sight.thing for sight in sights if sight.thing]
    boxed, corners = (
        boxes(viewpoint.position, things) if things else (np.zeros((0, 36), bool), np.zeros((0, 36, 4), int))
    )
    return Panorama(sights, weights, boxed, corners)


def _all_sights(building: Building) -> list[Sight]:
    """Objects first, so that the boxes of a panorama belong to its first sights."""
    plan = building.plan
    sights = [Sight(OBJECT, plan.regions[t.region].kind, t.spot(), t.position, thing=t) for t in building.things]
    for door in plan.doors:
        position = (*plan.turned(door.x, door.y), door.floor * STOREY + 1.2)
        spot = Spot(door.x, door.y, (door.floor,))
        sights += [
            Sight(DOOR, plan.regions[behind].kind, spot, position, door=door, region=behind)
            for behind in (door.first, door.second)
        ]
    for viewpoint in building.viewpoints:
        sights += _stairs(viewpoint)
    for region in plan.regions:
        if region.kind != STAIRS:
            sights += _patches(building, region)
    return sights


def _stairs(viewpoint: Viewpoint) -> list[Sight]:
    """Stairs show at the landing, as going up or down by the floor of the eye, and from there at both ends."""
    x, y, flight = viewpoint.x, viewpoint.y, viewpoint.flight
    if viewpoint.kind == LANDING:
        low, high = viewpoint.floors
        ends = ((UP, low), (DOWN, high))
        return [Sight(kind, STAIRS, Spot(x, y, (floor,)), viewpoint.position) for kind, floor in ends]
    if viewpoint.kind in (FOOT, HEAD):
        kind = DOWN if viewpoint.kind == FOOT else UP
        return [Sight(kind, STAIRS, Spot(x, y, viewpoint.floors), viewpoint.position, from_landing=flight)]
    return []


def _patches(building: Building, region: Region) -> list[Sight]:
    """Bits of a room's walls and floor, by which its kind can be told."""
    box, height = region.box, region.floor * STOREY + EYE - 0.2
    across = max(2, round((box.right - box.left) / 2.0))
    points = []
    for i in range(across):
        for j in range(2):
            x = box.left + (box.right - box.left) * (i + 0.5) / across
            y = box.bottom + (box.top - box.bottom) * (j + 0.5) / 2
            points.append((round(x, 6), round(y, 6)))
    floors = (region.floor,)
    return [Sight(PATCH, region.kind, Spot(x, y, floors), (*building.plan.turned(x, y), height)) for x, y in points]


def _faces(viewpoint: Viewpoint, sight: Sight) -> bool:
    """A door shows the room behind it, so it must be looked at from the other side."""
    if sight.door:
        door = sight.door
        if sight.region in viewpoint.regions:
            return False
        if door.joins(viewpoint.regions[0]) or door.joins(viewpoint.regions[-1]):
            return True
        return sight.region == _far_side(viewpoint, door)
    return sight.from_landing < 0 or (viewpoint.kind == LANDING and viewpoint.flight == sight.from_landing)


def _far_side(viewpoint: Viewpoint, door: Opening) -> int:
    """The region behind a door of a region one is not in; a door's first region has the smaller x, or is a hallway."""
    if door.along == "x":
        return door.second if (viewpoint.y < door.y) == (door.y > 0) else door.first
    if door.x == 0.0:
        return door.second if viewpoint.x > 0.0 else door.first
    return door.second if viewpoint.x < door.x else door.first
