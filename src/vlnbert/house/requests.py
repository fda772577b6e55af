"""REVERIE-like requests: a short text that names one object of the house and no other."""

from dataclasses import dataclass, replace
from random import Random

from vlnbert.house import templates
from vlnbert.house.building import Building
from vlnbert.house.instructions import object_name, vary_word
from vlnbert.house.objects import HouseObject
from vlnbert.house.plan import HALLWAY, STAIRS
from vlnbert.house.routes import Path
from vlnbert.house.templates import ORDINALS
from vlnbert.house.viewpoints import HALL, LANDING

BESIDE = 1.6  # metres between two objects that are next to each other
SAY_COLOUR, SAY_FLOOR, SAY_NEIGHBOUR, SAY_ROUTE = 0.6, 0.5, 0.15, 0.7  # how often each is said without need


@dataclass(frozen=True)
class ObjectDescription:
    """The details that are said of a target: its kind and its room's kind always, the others where they are set."""

    kind: str
    room: str
    colour: str = ""
    floor: int = -1
    neighbour: str = ""  # the name of an object next to it
    detail: str = ""  # the name of another object of its room


def matches(building: Building, description: ObjectDescription, thing: HouseObject) -> bool:
    """Whether everything that is said is true of `thing`."""
    region = building.region_of(thing)
    return (
        (thing.kind.name, region.kind) == (description.kind, description.room)
        and description.colour in ("", thing.colour)
        and description.floor in (-1, thing.floor)
        and (not description.neighbour or description.neighbour in _neighbours(building, thing))
        and (not description.detail or description.detail in _others_in_room(building, thing))
    )


def describe_object(rng: Random, building: Building, thing: HouseObject) -> ObjectDescription | None:
    """Add detail to a description until it matches one object of the house; None where nothing tells it apart."""
    description = ObjectDescription(thing.kind.name, building.region_of(thing).kind)
    neighbours, others = sorted(_neighbours(building, thing)), sorted(_others_in_room(building, thing))
    details: list[tuple[float, dict[str, str | int]]] = [
        (SAY_FLOOR if building.plan.floors > 1 else 0.0, {"floor": thing.floor}),
        (SAY_COLOUR, {"colour": thing.colour}),
        (SAY_NEIGHBOUR, {"neighbour": rng.choice(neighbours)} if neighbours else {}),
        (0.0, {"detail": rng.choice(others)} if others else {}),
    ]
    for rate, detail in details:
        if rng.random() < rate or not _unique(building, description):
            description = replace(description, **detail)  # type: ignore[arg-type]
    return description if _unique(building, description) else None


def write_request(
    rng: Random, building: Building, thing: HouseObject, *, description: ObjectDescription, path: Path
) -> str:
    """Put a description into words, sometimes with a hint of the way."""
    place = f"the {_place(rng, description)}"
    target = object_name(rng, thing, colour=bool(description.colour))
    if description.neighbour:
        target = rng.choice(templates.OBJECT_BESIDE).format(object=target, thing=description.neighbour)
    task = rng.choice(templates.TASKS[thing.kind.family]).format(object=f"the {target}")
    template = _route_template(rng, building, path)
    go = template.format(place=place, stairs=vary_word(rng, STAIRS), hall=vary_word(rng, HALLWAY))
    text = rng.choice(templates.REQUESTS).format(go=go, task=task, place=place)
    if rng.random() < 0.7:
        text = text[0].upper() + text[1:]
    return text + rng.choice(("", "", "."))


def _place(rng: Random, description: ObjectDescription) -> str:
    place = vary_word(rng, description.room)
    if description.floor >= 0:
        ordinal = ORDINALS[description.floor + 1]
        place = rng.choice(templates.PLACE_FLOOR).format(place=place, floor=ordinal, level=description.floor + 1)
    if description.detail:
        place = rng.choice(templates.PLACE_DETAIL).format(place=place, thing=description.detail)
    return place


def _route_template(rng: Random, building: Building, path: Path) -> str:
    """A template for going there; where the path takes the stairs or a hallway it may say so."""
    viewpoints = [building.viewpoints[node] for node in path.nodes]
    climb = viewpoints[-1].position[2] - viewpoints[0].position[2]
    kinds = {viewpoint.kind for viewpoint in viewpoints[1:]}
    if rng.random() < SAY_ROUTE:
        if LANDING in kinds:
            return rng.choice(templates.GO_UP if climb > 0 else templates.GO_DOWN)
        if HALL in kinds:
            return rng.choice(templates.GO_THROUGH)
    return rng.choice(templates.GO)


def _unique(building: Building, description: ObjectDescription) -> bool:
    return sum(matches(building, description, thing) for thing in building.objects) == 1


def _others_in_room(building: Building, thing: HouseObject) -> set[str]:
    return {other.name for other in building.objects if other.region == thing.region and other != thing}


def _neighbours(building: Building, thing: HouseObject) -> set[str]:
    """Names of the objects of the same room within arm's reach."""
    others = [other for other in building.objects if other.region == thing.region and other != thing]
    return {o.name for o in others if round((o.x - thing.x) ** 2 + (o.y - thing.y) ** 2, 6) <= BESIDE**2}
