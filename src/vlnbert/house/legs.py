"""What a walker does along a path, leg by leg: the facts that an instruction puts into words.

Turns are measured against the heading on arrival; heading 0 is +y and clockwise is positive, so right is positive.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

from vlnbert.house.building import Building
from vlnbert.house.objects import Thing
from vlnbert.house.paths import Path
from vlnbert.house.plan import Opening
from vlnbert.house.viewpoints import DOORWAY, FOOT, HALL, HEAD, LANDING, ROOM, Viewpoint

DOOR, ENTER, STEP, ALONG, REACH, CROSS, UP, DOWN = "door", "enter", "step", "along", "reach", "cross", "up", "down"
STRAIGHT, LEFT, RIGHT, SLIGHT_LEFT, SLIGHT_RIGHT, AROUND = (
    "straight",
    "left",
    "right",
    "slight left",
    "slight right",
    "around",
)
BESIDE, AHEAD = 0.7, 1.1  # metres: a door nearer than the first is beside the walker, farther than the second ahead


@dataclass(frozen=True)
class Leg:
    """One action: where from, where to, the turn before it, and what is met on the way."""

    action: str
    turn: str
    nodes: tuple[int, ...]
    heading: float  # in degrees, at its end
    source: str = ""  # kinds of region
    target: str = ""
    side: str = ""  # of a door seen from the hallway: left, right or end
    ordinal: int = 0  # which door on that side, 0 where it is not clear
    veer: str = STRAIGHT  # the turn behind the door
    passed: Thing | None = None
    floor: int = -1  # reached by stairs


def turn_of(before: float, after: float) -> str:
    """Name the turn between two headings in degrees."""
    angle = round((after - before + 180.0) % 360.0 - 180.0, 6)
    side = "right" if angle > 0 else "left"
    if abs(angle) < 30.0:
        return STRAIGHT
    if abs(angle) < 60.0:
        return f"slight {side}"
    return side if abs(angle) < 140.0 else AROUND


def bearing(start: Viewpoint, end: Viewpoint) -> float:
    """The heading from one viewpoint to another, in degrees."""
    dx, dy = end.position[0] - start.position[0], end.position[1] - start.position[1]
    return round(math.degrees(math.atan2(dx, dy)) % 360.0, 6)


def legs_of(building: Building, path: Path) -> list[Leg]:
    legs: list[Leg] = []
    came = round(math.degrees(path.heading), 6)
    for here, there in pairwise(path.nodes):
        leg = _hop(building, here, there, came, legs[-1] if legs else None)
        came = leg.heading
        joined = _joined(legs[-1], leg) if legs else None
        if joined:
            legs[-1] = joined
        else:
            legs.append(leg)
    return [_with_things_passed(building, leg) if leg.action == ALONG else leg for leg in legs]


def _hop(building: Building, here: int, there: int, came: float, last: Leg | None) -> Leg:
    start, end = building.viewpoints[here], building.viewpoints[there]
    heading = bearing(start, end)
    leg = Leg(_action(start, end), turn_of(came, heading), (here, there), heading)
    shared = next(region for region in start.regions if region in end.regions)
    leg = replace(leg, source=building.plan.regions[shared].kind, target=building.plan.regions[shared].kind)
    if leg.action == DOOR:
        door = building.plan.doors[end.door]
        leg = replace(leg, target=building.plan.regions[door.beyond(shared)].kind)
        if last and last.action == ALONG:
            leg = _numbered(building, leg, last, door, shared)
    if leg.action in (UP, DOWN):
        leg = replace(leg, floor=end.floors[0] if end.kind != LANDING else -1)
    return leg


def _action(start: Viewpoint, end: Viewpoint) -> str:
    if LANDING in (start.kind, end.kind):
        return UP if end.position[2] > start.position[2] else DOWN
    if end.kind == DOORWAY:
        return DOOR
    if end.kind in (FOOT, HEAD):
        return REACH
    if end.kind == ROOM:
        return ENTER if start.kind == DOORWAY else CROSS
    return ALONG if start.kind == HALL else STEP


def _joined(first: Leg, second: Leg) -> Leg | None:
    """Two legs that people describe as one, or None."""
    nodes = first.nodes + second.nodes[1:]
    if first.action == DOOR and second.action == ENTER and len(first.nodes) == 2:
        return replace(first, nodes=nodes, heading=second.heading, veer=second.turn)
    if first.action in (DOOR, UP, DOWN) and second.action == STEP:
        return replace(first, nodes=nodes, heading=second.heading)
    if first.action == REACH and second.action in (UP, DOWN):
        return replace(second, nodes=nodes, turn=first.turn)
    if first.action == second.action == ALONG:
        return replace(first, nodes=nodes, heading=second.heading)
    if first.action == second.action and first.action in (UP, DOWN):
        return replace(first, nodes=nodes, heading=second.heading, floor=second.floor)
    return None


def _numbered(building: Building, leg: Leg, walk: Leg, door: Opening, hall: int) -> Leg:
    """Say on which side of the hallway the door is, and how many doors on that side come before it."""
    start, end = (building.viewpoints[node] for node in (walk.nodes[0], leg.nodes[0]))
    if door.along == "y":
        return replace(leg, side="end")
    forward = 1 if end.x > start.x else -1
    ahead = (door.x - start.x) * forward
    if ahead < AHEAD:
        return leg
    side = LEFT if (door.y > 0) == (forward > 0) else RIGHT
    same_side = [d for d in building.plan.doors_of(hall) if d.along == "x" and d.y == door.y]
    offsets = [(d.x - start.x) * forward for d in same_side]
    clear = not any(BESIDE < offset < AHEAD for offset in offsets)
    ordinal = 1 + sum(AHEAD <= offset < ahead for offset in offsets) if clear else 0
    return replace(leg, side=side, ordinal=ordinal)


def _with_things_passed(building: Building, leg: Leg) -> Leg:
    """The last object of the hallway that is well behind at the end of the walk."""
    start, end = (building.viewpoints[node] for node in (leg.nodes[0], leg.nodes[-1]))
    hall = next((region for region in end.regions if region in start.regions), -1)
    forward = 1 if end.x > start.x else -1
    reach = (end.x - start.x) * forward
    passed = [t for t in building.things if t.region == hall and 0.3 < (t.x - start.x) * forward < reach - 1.0]
    last = max(passed, key=lambda t: t.x * forward, default=None)
    return replace(leg, passed=last)
