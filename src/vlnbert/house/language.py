"""R2R-like instructions: a path's legs in words, in three styles."""

from random import Random

from vlnbert.house import phrases
from vlnbert.house.building import Building
from vlnbert.house.legs import ALONG, CROSS, DOOR, DOWN, STRAIGHT, UP, Leg, legs_of
from vlnbert.house.lexicon import HALLWAY, ORDINALS, SYNONYMS
from vlnbert.house.objects import Thing
from vlnbert.house.paths import Path
from vlnbert.house.viewpoints import DOORWAY, FOOT, HALL, HEAD, LANDING

BESIDE = 1.9  # metres from the eye to the middle of an object that one stands next to
SYNONYM_RATE = 0.25


def instructions(rng: Random, building: Building, path: Path) -> list[str]:
    """Three: short plain sentences, long ones, and lower case without care for punctuation."""
    clauses = [_Writer(rng, building).clauses(path) for _ in range(3)]
    return [_sentences(rng, clauses[0]), _paired(rng, clauses[1]), _careless(rng, clauses[2])]


def word(rng: Random, name: str) -> str:
    """A name or, now and then, another word for it."""
    others = SYNONYMS.get(name)
    return rng.choice(others) if others and rng.random() < SYNONYM_RATE else name


def call(rng: Random, thing: Thing, colour: bool) -> str:
    name = word(rng, thing.kind.name)
    return f"{word(rng, thing.colour)} {name}" if colour else name


class _Writer:
    def __init__(self, rng: Random, building: Building) -> None:
        self.rng, self.building = rng, building

    def clauses(self, path: Path) -> list[str]:
        legs = legs_of(self.building, path)
        spoken = [self._clause(leg, first=i == 0) for i, leg in enumerate(legs)]
        return [*spoken, self._stop(path.nodes[-1])]

    def _clause(self, leg: Leg, first: bool) -> str:
        turn = self.rng.choice(phrases.TURNS[leg.turn])
        action = self._action(leg)
        if leg.veer != STRAIGHT:
            veer = self.rng.choice(phrases.TURNS[leg.veer])
            action = f"{action} {self.rng.choice(phrases.VEER).format(turn=veer)}"
        if first or leg.turn != STRAIGHT:
            return f"{turn} and {action}"
        return action

    def _action(self, leg: Leg) -> str:
        names = {"source": word(self.rng, leg.source), "target": word(self.rng, leg.target), "side": leg.side}
        names["stairs"] = word(self.rng, "stairs")
        if leg.passed:
            names["thing"] = call(self.rng, leg.passed, self.rng.random() < 0.5)
        if leg.action == CROSS:
            names["thing"] = self._landmark(leg.nodes[-1]) or ""
        template = self.rng.choice(phrases.ACTIONS[self._form(leg, names)])
        return template.format(**names, ordinal=ORDINALS[leg.ordinal], floor=ORDINALS[leg.floor + 1])

    def _form(self, leg: Leg, names: dict[str, str]) -> str:
        if leg.action == DOOR:
            return self._door_form(leg)
        if leg.action in (UP, DOWN):
            return f"{leg.action} to" if leg.floor >= 0 and self.rng.random() < 0.6 else leg.action
        if leg.action == ALONG:
            return "along past" if leg.passed and self.rng.random() < 0.8 else "along"
        if leg.action == CROSS:
            return "cross" if names["thing"] else "cross bare"
        return leg.action

    def _door_form(self, leg: Leg) -> str:
        if self.building.viewpoints[leg.nodes[-1]].kind == DOORWAY and leg.target != HALLWAY:
            return "reach door"
        if leg.source != HALLWAY:
            return "leave to the hallway" if leg.target == HALLWAY else "leave"
        if leg.side == "end":
            return "take end door"
        if leg.ordinal:
            return self.rng.choice(("take numbered door", "take side door"))
        return "take side door" if leg.side else "take door"

    def _landmark(self, node: int) -> str | None:
        """The nearest object, with its colour where the kind alone would be ambiguous."""
        near = self.building.things_near(node)
        nearest = self._nearest(node)
        if nearest is None:
            return None
        alike = sum(thing.kind == nearest.kind for thing in near)
        return call(self.rng, nearest, colour=alike > 1 or self.rng.random() < 0.5)

    def _nearest(self, node: int) -> Thing | None:
        """The nearest object of the region one is in."""
        regions = self.building.viewpoints[node].regions
        return next((thing for thing in self.building.things_near(node) if thing.region in regions), None)

    def _stop(self, node: int) -> str:
        kind = self._stop_form(node)
        place, thing = self._place(node), self._landmark(node) or ""
        template = self.rng.choice(phrases.STOPS[kind])
        return template.format(thing=thing, place=word(self.rng, place), stairs=word(self.rng, "stairs"))

    def _stop_form(self, node: int) -> str:
        viewpoint = self.building.viewpoints[node]
        if viewpoint.kind in (DOORWAY, FOOT, HEAD, LANDING):
            return viewpoint.kind
        nearest = self._nearest(node)
        if nearest:
            return "beside" if self.building.thing_distance[node, nearest.number] <= BESIDE else "near"
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


def _sentences(rng: Random, clauses: list[str]) -> str:
    """Each clause its own sentence."""
    opened = [f"{rng.choice(phrases.OPENERS)} {c}" if i and rng.random() < 0.15 else c for i, c in enumerate(clauses)]
    return " ".join(f"{clause[0].upper()}{clause[1:]}." for clause in opened) + " "


def _paired(rng: Random, clauses: list[str]) -> str:
    """Clauses joined two by two."""
    pairs = [clauses[i : i + 2] for i in range(0, len(clauses), 2)]
    joined = [f"{rng.choice((',', ''))} {rng.choice(phrases.CONNECTIVES)} ".join(pair) for pair in pairs]
    return " ".join(f"{sentence[0].upper()}{sentence[1:]}." for sentence in joined) + " "


def _careless(rng: Random, clauses: list[str]) -> str:
    """All in one breath, as people type in a hurry."""
    joiner = rng.choice((" then ", ", ", ". ", " and then "))
    return joiner.join(clauses) + rng.choice(("", ".", ". ", " "))
