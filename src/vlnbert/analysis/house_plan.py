"""The plan of a house: floors, rooms, graph and objects as JSON, and an episode on it as SVG."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from itertools import chain, groupby, pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlnbert.data.data import Data
from vlnbert.errors import UnknownNameError
from vlnbert.features.objects import box_direction, readable_name
from vlnbert.sources.annotations import read_plan
from vlnbert.tables import escaped
from vlnbert.world.objects import ObjectTable
from vlnbert.world.world import World

FORMAT = 1
LEVEL = 0.5  # metres up or down that a floor may have: steps, thresholds, a sunken room
STOREY = 2.0  # floors are at least this far apart; half a storey is drawn with its neighbour, as architects do
CROWD = 3  # viewpoints that make a floor; fewer are a landing
FARTHEST = 6.0  # metres from a viewpoint that sees an object; REVERIE shows those within 3 m, measured otherwise
STRAY = 0.5  # metres by which the lines of sight may miss the point that is nearest to all of them
SPREAD = 0.15  # how much the lines must differ in direction: the smaller eigenvalue of their mean projection

WIDTH, TALLEST, FLATTEST = 340.0, 360.0, 200.0  # pixels of a panel
AROUND, CLOSEST = 1.8, 52.0  # metres around what must be seen; pixels to the metre, however short the walk
# Where a room's name may stand, from the middle.
ROOM_PLACES = [(down, side) for down in (0, -18, 18, -34, 34, -50, 50) for side in (0, -0.5, 0.5, -1, 1)]
SIGHT = 1.5  # metres at which an object is drawn whose distance nobody knows
LETTER = 6.6  # pixels that a letter of a label takes, about

Json = dict[str, Any]


def house_plan(data: Data, scan: str) -> dict[str, Any]:
    """The plan of one scan of a data folder.

    A generated house has rooms, doors, stairs and objects, as its generator drew them. A real one has the objects whose
    places follow from REVERIE's boxes, where the folder has them. Positions are metres of the graph.
    """
    world, file = data.world, data.folder.plans / f"{scan}.json"
    if scan not in world.scans:
        raise UnknownNameError("scan", scan, world.scans)
    members = [number for (where, _), number in world.numbers.items() if where == scan]
    position = world.position.cpu().numpy()[members]
    drawn = read_plan(file) if file.is_file() else None
    if drawn is not None:
        heights = list(drawn.floors)
    else:
        floor_of = find_floors(position[:, 2])
        heights = [float(np.median(position[floor_of == floor, 2])) for floor in range(int(floor_of.max()) + 1)]
    floors = np.abs(position[:, 2:] - heights).argmin(axis=1)
    place = {number: index for index, number in enumerate(members)}
    ends = zip(members, world.neighbour[members].tolist(), strict=True)
    edges = {(place[start], place[end]) for start, row in ends for end in row}
    if drawn is not None:
        plan = {
            "rooms": [asdict(room) for room in drawn.rooms],
            "doors": [{"floor": door.floor, "from": door.start, "to": door.end} for door in drawn.doors],
            "stairs": [asdict(flight) for flight in drawn.stairs],
            "objects": [asdict(thing) for thing in drawn.objects],
        }
    else:
        objects = place_objects(world, data.objects, scan) if data.folder.boxes.is_dir() else []
        placed = [
            {
                "id": thing.id,
                "name": thing.name,
                "floor": int(np.abs(np.array(heights) - thing.z).argmin()),
                "x": _metres(thing.x),
                "y": _metres(thing.y),
            }
            for thing in objects
        ]
        plan = {"rooms": [], "doors": [], "stairs": [], "objects": placed}
    return {
        "format": FORMAT,
        "scan": scan,
        "viewpoints": [
            {"id": world.viewpoints[number], "x": _metres(x), "y": _metres(y), "z": _metres(z), "floor": int(floor)}
            for number, (x, y, z), floor in zip(members, position.tolist(), floors, strict=True)
        ],
        "edges": [[start, end] for start, end in sorted(edges) if start < end],
        "floors": [{"z": _metres(height)} for height in heights],
        **plan,
    }


def _metres(value: float) -> float:
    return round(float(value), 3)


@dataclass(frozen=True)
class SeenObject:
    """An object at a place that was worked out from its sightings."""

    id: str
    name: str
    x: float
    y: float
    z: float  # of the viewpoints that see it, on average


def place_objects(world: World, objects: ObjectTable, scan: str) -> list[SeenObject]:
    """The objects of a scan whose places follow from two or more lines of sight that agree."""
    heading, position = box_direction(objects)[0].tolist(), world.position.cpu().numpy()
    number = world.scans.index(scan)
    scan_of, seen = world.scan_of.tolist(), dict[str, list[int]]()
    for row, viewpoint in enumerate(objects.viewpoint.tolist()):
        if scan_of[viewpoint] == number:
            seen.setdefault(objects.ids[row], []).append(row)
    placed = []
    for id, rows in seen.items():
        eyes = position[objects.viewpoint[rows].numpy()]
        where = meeting_point(eyes[:, :2], [heading[row] for row in rows])
        if where is not None:
            name = readable_name(objects.names[int(objects.name[rows[0]])])
            placed.append(SeenObject(id, name, float(where[0]), float(where[1]), float(eyes[:, 2].mean())))
    return placed


def meeting_point(eyes: NDArray[np.float64], headings: Sequence[float]) -> NDArray[np.float64] | None:
    """The point nearest to all lines of sight, None where they are alike, miss each other or lead away from it."""
    ahead = np.array([[math.sin(heading), math.cos(heading)] for heading in headings])
    across = np.eye(2) - ahead[:, :, None] * ahead[:, None, :]  # [line, 2, 2] what a point has beside each line
    mean = across.mean(axis=0)
    if float(np.linalg.eigvalsh(mean)[0]) < SPREAD:
        return None
    point = np.linalg.solve(mean, (across @ eyes[:, :, None])[..., 0].mean(axis=0))
    off = point - eyes
    stray = np.linalg.norm((across @ off[:, :, None])[..., 0], axis=1)
    far = (off * ahead).sum(axis=1)
    fits = float(np.sqrt((stray**2).mean())) <= STRAY and bool((far > 0).all()) and float(far.max()) <= FARTHEST
    return np.asarray(point) if fits else None


def find_floors(height: NDArray[np.float64]) -> NDArray[np.int64]:
    """[viewpoint] the floor of each, counted from the lowest one up.

    Viewpoints on stairs fill the gaps between floors, so gaps do not tell floors apart. Counts do: the height that most
    viewpoints share is a floor, and so is the commonest height among those at least a storey away, until only a few
    viewpoints are left. Viewpoints on stairs then go to the nearer floor.
    """
    levels, rest = list[float](), height
    while rest.size:
        alike = np.abs(rest[:, None] - rest) <= LEVEL
        crowded = int(alike.sum(axis=1).argmax())
        if levels and alike[crowded].sum() < CROWD:
            break
        levels.append(float(rest[alike[crowded]].mean()))
        rest = rest[np.abs(rest - levels[-1]) >= STOREY]
    return np.asarray(np.abs(height[:, None] - np.sort(levels)).argmin(axis=1))


def still_plan(record: Json, plan: Json) -> list[tuple[str, str]]:
    """A caption and an <svg> for each floor that the episode touches, lowest first."""
    places = {viewpoint["id"]: viewpoint for viewpoint in plan["viewpoints"]}
    shown = [places[id] for id in (*record["path"], *(record["reference"] or ())) if id in places]
    floors = sorted({place["floor"] for place in shown})
    target = [one for one in plan["objects"] if _is_target(record, one) and one["floor"] in floors]
    goals = [places[id] for id in record["goals"] or () if id in places and places[id]["floor"] in floors]
    panel = _Panel([*shown, *goals, *target])
    captions = [f"floor {floor + 1} of {len(plan['floors'])}" if len(plan["floors"]) > 1 else "" for floor in floors]
    return [
        (caption, _Floor(record, plan, places, floor, panel).svg(caption))
        for floor, caption in zip(floors, captions, strict=True)
    ]


def _is_target(record: Json, thing: Json) -> bool:
    return record["target_object"] is not None and str(thing["id"]) == str(record["target_object"]["id"])


class _Panel:
    """Where metres lie on a panel that shows all of some places."""

    def __init__(self, places: Sequence[Json]) -> None:
        xs, ys = ([float(place[axis]) for place in places] for axis in "xy")
        wide, high = (max(axis) - min(axis) + 2 * AROUND for axis in (xs, ys))
        self.scale = min(CLOSEST, WIDTH / wide, TALLEST / high)
        self.height = max(FLATTEST, high * self.scale)
        self.middle = (min(xs) + max(xs)) / 2, (min(ys) + max(ys)) / 2

    def x(self, metres: float) -> float:
        return round(WIDTH / 2 + (metres - self.middle[0]) * self.scale, 1)

    def y(self, metres: float) -> float:
        return round(self.height / 2 - (metres - self.middle[1]) * self.scale, 1)


class _Floor:
    """One floor, layer by layer."""

    def __init__(self, record: Json, plan: Json, places: dict[str, Json], floor: int, on: _Panel) -> None:
        self.record, self.plan, self.places, self.floor, self.on = record, plan, places, floor, on
        self.taken: list[tuple[float, float, float, float]] = [(WIDTH - 140, on.height - 24, WIDTH, on.height)]

    def svg(self, caption: str) -> str:
        reference = self.track(self.record["reference"] or [], "ve-reference")
        # Names come last: they go where nothing else is.
        layers = chain(self.rooms(), self.graph(), reference, self.goals(), self.objects(), self.sight())
        layers = chain(layers, self.walk(), self.scale_bar(), self.names())
        label = f"Floor plan{', ' if caption else ''}{caption}: where the agent walked, numbered by its steps"
        return (
            f'<svg role="img" aria-label="{label}" width="{WIDTH:.0f}" height="{self.on.height:.0f}" '
            f'viewBox="0 0 {WIDTH:.0f} {self.on.height:.0f}">'
            f"{''.join(layers)}</svg>"
        )

    def here(self, kind: str) -> list[Json]:
        return [one for one in self.plan[kind] if one["floor"] == self.floor]

    def rooms(self) -> Iterable[str]:
        yield from (
            f'<polygon class="ve-room" points="{self.points(room["polygon"])}"/>' for room in self.here("rooms")
        )
        for flight in self.plan["stairs"]:
            if self.floor in (flight["floor"], flight["floor"] + 1):
                yield f'<polygon class="ve-stairs" points="{self.points(flight["polygon"])}"/>'
                if len(flight["polygon"]) == 4:
                    (ax, ay), (bx, by), (cx, cy), (dx, dy) = flight["polygon"]
                    for part in (tread / 9 for tread in range(1, 9)):
                        start = {"x": ax + (dx - ax) * part, "y": ay + (dy - ay) * part}
                        yield self.line(start, {"x": bx + (cx - bx) * part, "y": by + (cy - by) * part}, "ve-tread")
        for door in self.here("doors"):
            (x1, y1), (x2, y2) = door["from"], door["to"]
            yield self.line({"x": x1, "y": y1}, {"x": x2, "y": y2}, "ve-door")

    def names(self) -> Iterable[str]:
        """Names of rooms, where they cover nothing else; one that finds no place is left out."""
        for room in self.here("rooms"):
            xs = [min(max(self.on.x(x), 0), WIDTH) for x, _ in room["polygon"]]
            ys = [min(max(self.on.y(y), 0), self.on.height) for _, y in room["polygon"]]
            half, middle = LETTER * len(room["name"]) / 2 + 3, ((max(xs) + min(xs)) / 2, (max(ys) + min(ys)) / 2)
            if max(xs) - min(xs) < 2 * half or max(ys) - min(ys) < 26:
                continue
            places = ((middle[0] + side * half, middle[1] + down) for down, side in ROOM_PLACES)
            free = ((x, y) for x, y in places if self.is_free(x, y, half))
            if place := next(free, None):
                yield self.label(room["name"], *place, "ve-room-name")

    def is_free(self, x: float, y: float, half: float) -> bool:
        """Whether a line of text there covers no mark of the panel, and remember it if so."""
        box = x - half, y - 11, x + half, y + 4
        if box[0] < 0 or box[2] > WIDTH or box[1] < 0 or box[3] > self.on.height:
            return False
        if any(box[0] < r and left < box[2] and box[1] < low and top < box[3] for left, top, r, low in self.taken):
            return False
        self.taken.append(box)
        return True

    def take(self, x: float, y: float, wide: float, high: float) -> None:
        self.taken.append((x - wide, y - high, x + wide, y + high))

    def graph(self) -> Iterable[str]:
        viewpoints = self.plan["viewpoints"]
        for start, end in self.plan["edges"]:
            if self.floor in (viewpoints[start]["floor"], viewpoints[end]["floor"]):
                yield self.line(viewpoints[start], viewpoints[end], "ve-edge")
        for one in self.here("viewpoints"):
            yield f'<circle class="ve-viewpoint" cx="{self.on.x(one["x"])}" cy="{self.on.y(one["y"])}" r="2.4"/>'

    def goals(self) -> Iterable[str]:
        for id in self.record["goals"] or ():
            place = self.places.get(id)
            if place is not None and place["floor"] == self.floor:
                size = 11 if id == self.record["goal"] else 5
                self.take(self.on.x(place["x"]), self.on.y(place["y"]), size, size)
                yield f'<circle class="ve-goal" cx="{self.on.x(place["x"])}" cy="{self.on.y(place["y"])}" r="{size}"/>'

    def objects(self) -> Iterable[str]:
        told = f" {self.record['instruction']['text'].lower()} "
        for one in self.here("objects"):
            x, y = self.on.x(one["x"]), self.on.y(one["y"])
            if not (0 < x < WIDTH and 0 < y < self.on.height):
                continue
            asked_for = _is_target(self.record, one)
            if asked_for:
                yield f'<rect class="ve-target" x="{x - 6:.1f}" y="{y - 6:.1f}" width="12" height="12"/>'
            yield f'<rect class="ve-object" x="{x - 2.6:.1f}" y="{y - 2.6:.1f}" width="5.2" height="5.2"/>'
            self.take(x, y, 3, 3)
            if asked_for or one["name"].lower() in told:
                self.take(x, y - 12, LETTER * len(one["name"]) / 2, 8)
                yield self.label(one["name"], x, y - 8, "ve-object-name")

    def sight(self) -> Iterable[str]:
        """The direction in which the target object was seen last, if its place is not known."""
        seen = [(step, one) for step in self.record["steps"] for one in step["objects"] if _is_target(self.record, one)]
        if not seen or any(_is_target(self.record, one) for one in self.plan["objects"]):
            return
        here, heading = self.places[seen[-1][0]["viewpoint"]], seen[-1][1]["heading"]
        if here["floor"] == self.floor:
            there = {"x": here["x"] + SIGHT * math.sin(heading), "y": here["y"] + SIGHT * math.cos(heading)}
            x, y = self.on.x(there["x"]), self.on.y(there["y"])
            yield self.line(here, there, "ve-sight")
            yield f'<rect class="ve-target" x="{x - 6:.1f}" y="{y - 6:.1f}" width="12" height="12"/>'
            yield self.label(seen[-1][1]["name"], x, y - 9, "ve-object-name")

    def walk(self) -> Iterable[str]:
        walked = [id for id, _ in groupby(self.record["path"])]
        yield from self.track(walked, "ve-walked")
        for id in dict.fromkeys(reversed(walked)):
            place = self.places.get(id)
            if place is None or place["floor"] != self.floor:
                continue
            steps = [step for step, visited in enumerate(walked, start=1) if visited == id]
            told = ",".join(map(str, steps[:3])) + ("…" if len(steps) > 3 else "")
            x, y, wide = self.on.x(place["x"]), self.on.y(place["y"]), 16 + 5.5 * (len(told) - 1)
            self.take(x, y, wide / 2 + 1, 9)
            first = "-start" if steps[0] == 1 else ""
            yield (
                f'<rect class="ve-plate{first}" x="{x - wide / 2:.1f}" y="{y - 8:.1f}" width="{wide:.1f}" height="16" '
                f'rx="8"/>'
                f'<text class="ve-number ve-number{first}" x="{x}" y="{y + 4:.1f}">{told}</text>'
            )

    def scale_bar(self) -> Iterable[str]:
        metres = next((length for length in (10, 5, 2, 1) if length * self.on.scale <= 90), 1)
        right, y = WIDTH - 10, self.on.height - 10
        left = right - metres * self.on.scale
        yield f'<path class="ve-scale" d="M{left:.1f} {y - 4:.1f}v8m0 -4H{right:.1f}m0 -4v8"/>'
        yield f'<text class="ve-label ve-scale-text" x="{left - 6:.1f}" y="{y + 4:.1f}">{metres} m</text>'

    def track(self, ids: list[str], kind: str) -> Iterable[str]:
        known = [
            (self.places[one], self.places[other]) for one, other in pairwise(ids) if {one, other} <= self.places.keys()
        ]
        return (self.line(*move, kind) for move in known if self.floor in (move[0]["floor"], move[1]["floor"]))

    def line(self, start: Json, end: Json, kind: str) -> str:
        x: Callable[[float], float] = self.on.x
        y: Callable[[float], float] = self.on.y
        return f'<line class="{kind}" x1="{x(start["x"])}" y1="{y(start["y"])}" x2="{x(end["x"])}" y2="{y(end["y"])}"/>'

    def points(self, polygon: list[list[float]]) -> str:
        return " ".join(f"{self.on.x(x)},{self.on.y(y)}" for x, y in polygon)

    def label(self, words: str, x: float, y: float, kind: str) -> str:
        half = LETTER * len(words) / 2 + 3
        inside = min(max(x, half), max(half, WIDTH - half))
        return f'<text class="ve-label {kind}" x="{inside:.1f}" y="{max(y, 12):.1f}">{escaped(words)}</text>'
