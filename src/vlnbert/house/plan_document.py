"""The plan of a generated house as a document, for people who look at it: no agent reads it.

Positions are metres of the graph's own frame, x and y; what is on which floor counts from the lowest, 0.
"""

from typing import Any

from vlnbert.house.building import Building
from vlnbert.house.plan import STAIRS, STOREY, HousePlan, Opening, Rectangle
from vlnbert.house.viewpoints import EYE

FORMAT = 1


def plan_document(building: Building) -> dict[str, Any]:
    """What `plans/<scan>.json` holds: floors by the height of an eye, rooms, doors, flights of stairs and objects."""
    plan = building.plan
    wells = plan.stairwells
    return {
        "format": FORMAT,
        "scan": building.scan,
        "floors": [{"z": round(floor * STOREY + EYE, 3)} for floor in range(plan.floors)],
        "rooms": [
            {"name": region.kind, "floor": region.floor, "polygon": _polygon(plan, region.box)}
            for region in plan.regions
            if region.kind != STAIRS
        ],
        "doors": [_door(plan, door) for door in plan.doors] + [_way_in(plan, well.floor, well.box) for well in wells],
        "stairs": [{"floor": well.floor, "polygon": _polygon(plan, well.box)} for well in wells[:-1]],
        "objects": [
            {"id": str(thing.number), "name": thing.name, "floor": thing.floor, "x": x, "y": y}
            for thing in building.objects
            for x, y in [_point(plan, thing.x, thing.y)]
        ],
    }


def _polygon(plan: HousePlan, box: Rectangle) -> list[list[float]]:
    corners = (box.left, box.bottom), (box.right, box.bottom), (box.right, box.top), (box.left, box.top)
    return [_point(plan, *corner) for corner in corners]


def _door(plan: HousePlan, door: Opening) -> dict[str, Any]:
    x, y = (door.half, 0.0) if door.along == "x" else (0.0, door.half)
    ends = _point(plan, door.x - x, door.y - y), _point(plan, door.x + x, door.y + y)
    return {"floor": door.floor, "from": ends[0], "to": ends[1]}


def _way_in(plan: HousePlan, floor: int, well: Rectangle) -> dict[str, Any]:
    """A stairwell is open to its hallway."""
    ends = _point(plan, well.left, well.bottom), _point(plan, well.right, well.bottom)
    return {"floor": floor, "from": ends[0], "to": ends[1]}


def _point(plan: HousePlan, x: float, y: float) -> list[float]:
    """A point of the plan in the graph's frame, to the millimetre."""
    return [round(part, 3) for part in plan.to_world(x, y)]
