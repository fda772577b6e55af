"""REVERIE-like requests: a short text that names one object of the house and no other."""

from dataclasses import dataclass, replace
from random import Random

from vlnbert.house import phrases
from vlnbert.house.building import Building
from vlnbert.house.language import call, word
from vlnbert.house.lexicon import HALLWAY, ORDINALS
from vlnbert.house.objects import Thing
from vlnbert.house.paths import Path
from vlnbert.house.viewpoints import HALL, LANDING

BESIDE = 1.6  # metres between two objects that are next to each other
SAY_COLOUR, SAY_FLOOR, SAY_NEIGHBOUR, SAY_ROUTE = 0.6, 0.5, 0.15, 0.7


@dataclass(frozen=True)
class Description:
    """The details that are said of a target: its kind and its room's kind always, the others where they are set."""

    kind: str
    room: str
    colour: str = ""
    floor: int = -1
    neighbour: str = ""  # the name of an object next to it
    detail: str = ""  # the name of another object of its room


def fits(building: Building, described: Description, thing: Thing) -> bool:
    """Whether everything that is said is true of `thing`."""
    region = building.region_of(thing)
    return (
        (thing.kind.name, region.kind) == (described.kind, described.room)
        and described.colour in ("", thing.colour)
        and described.floor in (-1, thing.floor)
        and (not described.neighbour or described.neighbour in _neighbours(building, thing))
        and (not described.detail or described.detail in _room_mates(building, thing))
    )


def describe(rng: Random, building: Building, thing: Thing) -> Description | None:
    """Add detail to a description until it fits one object of the house; None where nothing tells it apart."""
    described = Description(thing.kind.name, building.region_of(thing).kind)
    neighbours, mates = sorted(_neighbours(building, thing)), sorted(_room_mates(building, thing))
    details: list[tuple[float, dict[str, str | int]]] = [
        (SAY_FLOOR if building.plan.floors > 1 else 0.0, {"floor": thing.floor}),
        (SAY_COLOUR, {"colour": thing.colour}),
        (SAY_NEIGHBOUR, {"neighbour": rng.choice(neighbours)} if neighbours else {}),
        (0.0, {"detail": rng.choice(mates)} if mates else {}),
    ]
    for rate, detail in details:
        if rng.random() < rate or not _unique(building, described):
            described = replace(described, **detail)  # type: ignore[arg-type]
    return described if _unique(building, described) else None


def request(rng: Random, building: Building, thing: Thing, described: Description, path: Path) -> str:
    """Put a description into words, sometimes with a hint of the way."""
    place = f"the {_place(rng, described)}"
    target = call(rng, thing, colour=bool(described.colour))
    if described.neighbour:
        target = rng.choice(phrases.OBJECT_BESIDE).format(object=target, thing=described.neighbour)
    task = rng.choice(phrases.TASKS[thing.kind.family]).format(object=f"the {target}")
    go = _way(rng, building, path).format(place=place, stairs=word(rng, "stairs"), hall=word(rng, HALLWAY))
    text = rng.choice(phrases.REQUESTS).format(go=go, task=task, place=place)
    if rng.random() < 0.7:
        text = text[0].upper() + text[1:]
    return text + rng.choice(("", "", "."))


def _place(rng: Random, described: Description) -> str:
    place = word(rng, described.room)
    if described.floor >= 0:
        ordinal = ORDINALS[described.floor + 1]
        place = rng.choice(phrases.PLACE_FLOOR).format(place=place, floor=ordinal, level=described.floor + 1)
    if described.detail:
        place = rng.choice(phrases.PLACE_DETAIL).format(place=place, thing=described.detail)
    return place


def _way(rng: Random, building: Building, path: Path) -> str:
    """A template for going there; where the path takes the stairs or a hallway it may say so."""
    viewpoints = [building.viewpoints[node] for node in path.nodes]
    climb = viewpoints[-1].position[2] - viewpoints[0].position[2]
    kinds = {viewpoint.kind for viewpoint in viewpoints[1:]}
    if rng.random() < SAY_ROUTE:
        if LANDING in kinds:
            return rng.choice(phrases.GO_UP if climb > 0 else phrases.GO_DOWN)
        if HALL in kinds:
            return rng.choice(phrases.GO_THROUGH)
    return rng.choice(phrases.GO)


def _unique(building: Building, described: Description) -> bool:
    return sum(fits(building, described, thing) for thing in building.things) == 1


def _room_mates(building: Building, thing: Thing) -> set[str]:
    return {other.name for other in building.things if other.region == thing.region and other != thing}


def _neighbours(building: Building, thing: Thing) -> set[str]:
    """Names of the objects of the same room within arm's reach."""
    mates = [other for other in building.things if other.region == thing.region and other != thing]
    return {m.name for m in mates if round((m.x - thing.x) ** 2 + (m.y - thing.y) ** 2, 6) <= BESIDE**2}
