"""R2R-like instructions, in three styles; and REVERIE-like requests, each for one object of the house and no other."""

import math
from dataclasses import dataclass, replace
from random import Random

from vlnbert.house import templates
from vlnbert.house.building import DOORWAY, FOOT, HALL, HEAD, LANDING, Building
from vlnbert.house.objects import HouseObject
from vlnbert.house.plan import HALLWAY, STAIRS
from vlnbert.house.routes import ALONG, CROSS, DOOR, DOWN, STRAIGHT, UP, Route, RouteStep, route_steps
from vlnbert.house.templates import ORDINALS, SYNONYMS

BESIDE = 1.9  # metres from the eye to the middle of an object that one stands next to
SYNONYM_RATE = 0.25
ARMS_LENGTH = 1.6  # metres between two objects that are next to each other
# How often each detail is given though it is not needed to tell the target apart.
SAY_COLOUR, SAY_FLOOR, SAY_NEIGHBOUR, SAY_ROUTE = 0.6, 0.5, 0.15, 0.7


def instructions(rng: Random, building: Building, path: Route) -> list[str]:
    """Three instructions for a path: in short sentences, in long ones, and in careless lower case."""
    short, long, careless = (_Clauses(rng, building).of_path(path) for _ in range(3))
    opened = [f"{rng.choice(templates.OPENERS)} {c}" if i and rng.random() < 0.15 else c for i, c in enumerate(short)]
    pairs = [long[i : i + 2] for i in range(0, len(long), 2)]
    joined = [f"{rng.choice((',', ''))} {rng.choice(templates.CONNECTIVES)} ".join(pair) for pair in pairs]
    joiner = rng.choice((" then ", ", ", ". ", " and then "))
    return [_sentences(opened), _sentences(joined), joiner.join(careless) + rng.choice(("", ".", ". ", " "))]


def vary_word(rng: Random, name: str) -> str:
    """A name or, now and then, a synonym of it."""
    others = SYNONYMS.get(name)
    return rng.choice(others) if others and rng.random() < SYNONYM_RATE else name


def object_name(rng: Random, thing: HouseObject, colour: bool) -> str:
    """A name for an object, with its colour or without."""
    name = vary_word(rng, thing.kind.name)
    return f"{vary_word(rng, thing.colour)} {name}" if colour else name


class _Clauses:
    """Writes a clause for each step of a path, and one for its end."""

    def __init__(self, rng: Random, building: Building) -> None:
        self.rng, self.building = rng, building

    def of_path(self, path: Route) -> list[str]:
        clauses = list[str]()
        for step in route_steps(self.building, path):
            turn = self.rng.choice(templates.TURNS[step.turn])
            action = self._action(step)
            if step.turn_after != STRAIGHT:
                after = self.rng.choice(templates.TURNS[step.turn_after])
                action = f"{action} {self.rng.choice(templates.TURN_AFTER).format(turn=after)}"
            clauses.append(f"{turn} and {action}" if not clauses or step.turn != STRAIGHT else action)
        node = path.nodes[-1]
        place, thing = self._place(node), self._landmark(node)
        stop = self.rng.choice(templates.STOPS[self._stop_key(node)])
        place, stairs = vary_word(self.rng, place), vary_word(self.rng, STAIRS)
        return [*clauses, stop.format(thing=thing, place=place, stairs=stairs)]

    def _action(self, step: RouteStep) -> str:
        names = {"source": vary_word(self.rng, step.source), "target": vary_word(self.rng, step.target)}
        names |= {"side": step.side, "stairs": vary_word(self.rng, STAIRS)}
        if step.passed:
            names["thing"] = object_name(self.rng, step.passed, self.rng.random() < 0.5)
        if step.action == CROSS:
            names["thing"] = self._landmark(step.nodes[-1])
        template = self.rng.choice(templates.ACTIONS[self._action_key(step, names)])
        return template.format(**names, ordinal=ORDINALS[step.ordinal], floor=ORDINALS[step.floor + 1])

    def _action_key(self, step: RouteStep, names: dict[str, str]) -> str:
        """The key of `templates.ACTIONS` for the known details of a step."""
        if step.action == DOOR:
            return self._door_key(step)
        if step.action in (UP, DOWN):
            return f"{step.action} to" if step.floor >= 0 and self.rng.random() < 0.6 else step.action
        if step.action == ALONG:
            return "along past" if step.passed and self.rng.random() < 0.8 else "along"
        if step.action == CROSS:
            return "cross" if names["thing"] else "cross bare"
        return step.action

    def _door_key(self, step: RouteStep) -> str:
        if self.building.viewpoints[step.nodes[-1]].kind == DOORWAY and step.target != HALLWAY:
            return "reach door"
        if step.source != HALLWAY:
            return "leave to the hallway" if step.target == HALLWAY else "leave"
        if step.side == "end":
            return "take end door"
        if step.ordinal:
            return self.rng.choice(("take numbered door", "take side door"))
        return "take side door" if step.side else "take door"

    def _landmark(self, node: int) -> str:
        """The nearest object, with its colour where the kind alone would be ambiguous; empty where there is none."""
        nearest = self._nearest(node)
        if nearest is None:
            return ""
        alike = sum(thing.kind == nearest.kind for thing in self.building.objects_near(node))
        return object_name(self.rng, nearest, colour=alike > 1 or self.rng.random() < 0.5)

    def _nearest(self, node: int) -> HouseObject | None:
        """The nearest object of the region one is in."""
        regions = self.building.viewpoints[node].regions
        return next((thing for thing in self.building.objects_near(node) if thing.region in regions), None)

    def _stop_key(self, node: int) -> str:
        viewpoint = self.building.viewpoints[node]
        if viewpoint.kind in (DOORWAY, FOOT, HEAD, LANDING):
            return viewpoint.kind
        nearest = self._nearest(node)
        if nearest:
            return "beside" if self.building.object_distance[node, nearest.number] <= BESIDE else "near"
        if viewpoint.kind == HALL:
            return "hall" if self._place(node) == HALLWAY else "door ahead"
        return "room"

    def _place(self, node: int) -> str:
        """The room one is in or, in a hallway, the room behind the nearest door."""
        viewpoint, plan = self.building.viewpoints[node], self.building.plan
        here = viewpoint.regions[0]
        if viewpoint.kind == HALL:
            across = {door.index: abs(door.x - viewpoint.x) for door in plan.doors_of(here)}
            nearest = min(across, key=lambda index: (across[index], index))
            if across[nearest] < 1.0:
                return plan.regions[plan.doors[nearest].beyond(here)].kind
        return plan.regions[here].kind


def _sentences(texts: list[str]) -> str:
    """Texts as sentences, each with a capital letter and a full stop."""
    return " ".join(f"{text[0].upper()}{text[1:]}." for text in texts) + " "


@dataclass(frozen=True)
class ObjectDescription:
    """The details that describe a target: its kind and its room's kind always, the others where they are set."""

    kind: str
    room: str
    colour: str = ""
    floor: int = -1
    neighbour: str = ""  # name of an object next to it
    detail: str = ""  # name of another object of its room


def matches(building: Building, description: ObjectDescription, thing: HouseObject) -> bool:
    """Whether all details of a description are true of `thing`."""
    room = building.plan.regions[thing.region].kind
    return (
        (thing.kind.name, room) == (description.kind, description.room)
        and description.colour in ("", thing.colour)
        and description.floor in (-1, thing.floor)
        and (not description.neighbour or description.neighbour in _names_in_room(building, thing, ARMS_LENGTH))
        and (not description.detail or description.detail in _names_in_room(building, thing))
    )


def describe_object(rng: Random, building: Building, thing: HouseObject) -> ObjectDescription | None:
    """Add detail to a description until it matches one object of the house; None where nothing tells it apart."""
    description = ObjectDescription(thing.kind.name, building.plan.regions[thing.region].kind)
    neighbours, others = _names_in_room(building, thing, ARMS_LENGTH), _names_in_room(building, thing)
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
    rng: Random, building: Building, thing: HouseObject, *, description: ObjectDescription, path: Route
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


def _route_template(rng: Random, building: Building, path: Route) -> str:
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


def _names_in_room(building: Building, thing: HouseObject, within: float = math.inf) -> list[str]:
    """Names of the other objects of the same room within some metres, in alphabetical order."""
    others = [other for other in building.objects if other.region == thing.region and other != thing]
    squares = [(o, round((o.x - thing.x) ** 2 + (o.y - thing.y) ** 2, 6)) for o in others]
    return sorted({other.name for other, square in squares if square <= within**2})
