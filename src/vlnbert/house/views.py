"""The 36 views of a viewpoint: visible elements, boxes of objects, features, captions and observations.

Features are sums of fixed codes of elements, plus noise; by integer hashing, so that every machine makes the same.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlnbert.house import templates
from vlnbert.house.building import EYE, FOOT, HEAD, LANDING, Building, Viewpoint, line_of_sight
from vlnbert.house.objects import HouseObject
from vlnbert.house.plan import HALLWAY, STAIRS, STOREY, Opening, PlanPoint, Region
from vlnbert.sources.annotations import HEADINGS, IMAGE_HEIGHT, IMAGE_WIDTH, LEVELS
from vlnbert.sources.features import VIEWS

HALF_VIEW = 30.0  # degrees from the middle of a view to its edge
FOCAL = (IMAGE_HEIGHT / 2) / np.tan(np.radians(30.0))  # a vertical field of view of 60 degrees
# Pixels: a sliver at the edge of an image gets no box.
SMALLEST = 10
# Metres in front of the camera; what is closer is drawn as if there.
NEAREST = 0.05

VIEW_HEADINGS = np.array([30.0 * (view % 12) for view in range(VIEWS)])
VIEW_ELEVATIONS = np.array([30.0 * (view // 12) - 30.0 for view in range(VIEWS)])

OBJECT, DOOR, STAIRS_UP, STAIRS_DOWN, SURFACE = "object", "door", "up", "down", "surface"
# Strength in front of one's eyes, metres at which it is half of that, and metres from which nothing is left.
OPENING = 1.4, 6.0, 13.0
STRENGTH = {OBJECT: (0.9, 3.0, 7.0), SURFACE: (0.3, 3.0, 7.0), DOOR: OPENING, STAIRS_UP: OPENING, STAIRS_DOWN: OPENING}
TOO_CLOSE = 0.5  # metres: a doorway is not visible from within
EDGE_LOSS = 0.9  # how much weaker an element is at the edge of a view than in its middle
GAIN = 0.6
COLOUR = 0.7  # the share of a colour's code, against one for the kind
LEVEL = 0.5  # the share of a floor's code
MENTIONED = 2  # objects in a view's caption
WORTH_SAYING = 0.15  # the least weight of what a caption mentions
_STEP = np.uint64(0x9E3779B97F4A7C15)

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class SceneElement:
    """A visible thing: an object, a door, stairs, or a bit of wall or floor."""

    kind: str
    room: str  # the kind of region that it shows
    point: PlanPoint
    position: tuple[float, float, float]
    object: HouseObject | None = None
    door: Opening | None = None
    region: int = -1  # behind the door
    from_landing: int = -1  # the flight whose landing alone shows it


@dataclass(frozen=True)
class Panorama:
    """The elements visible from a viewpoint, the weight of each in each view, and the boxes of objects."""

    elements: list[SceneElement]
    weights: NDArray[np.float64]  # [element, view]
    boxed: NDArray[np.bool_]  # [object, view] whether it has a box there
    boxes: NDArray[np.int64]  # [object, view, 4] x, y, width, height


def panoramas(building: Building) -> dict[int, Panorama]:
    """The panorama of every included viewpoint."""
    elements = _scene(building)
    eyes = [viewpoint.point() for viewpoint in building.viewpoints]
    seen = line_of_sight(building.plan, eyes, [element.point for element in elements])
    by_viewpoint = {}
    for index, viewpoint in enumerate(building.viewpoints):
        if viewpoint.included:
            shown = [e for e, clear in zip(elements, seen[index], strict=True) if clear and _faces(viewpoint, e)]
            by_viewpoint[index] = _panorama(viewpoint, shown)
    return by_viewpoint


def _panorama(viewpoint: Viewpoint, elements: list[SceneElement]) -> Panorama:
    across, up, distance = view_offsets(viewpoint.position, np.array([element.position for element in elements]))
    strength, fading, reach = np.array([STRENGTH[element.kind] for element in elements]).T
    strength = strength / (1.0 + distance / fading) * ((distance <= reach) & (distance >= TOO_CLOSE))
    inside = (abs(across) <= HALF_VIEW) & (abs(up) <= HALF_VIEW)
    centring = (1.0 - EDGE_LOSS * (across / HALF_VIEW) ** 2) * (1.0 - EDGE_LOSS * (up / HALF_VIEW) ** 2)
    weights = np.round(strength[:, None] * centring * inside, 6)
    kept = [i for i, row in enumerate(weights) if row.any()]
    elements, weights = [elements[i] for i in kept], weights[kept]
    objects = [element.object for element in elements if element.object]
    return Panorama(elements, weights, *object_boxes(viewpoint.position, objects))


def _scene(building: Building) -> list[SceneElement]:
    """All elements of a house. Objects come first, so that the boxes of a panorama belong to its first elements."""
    plan = building.plan
    elements = [
        SceneElement(OBJECT, plan.regions[thing.region].kind, thing.point(), thing.position, object=thing)
        for thing in building.objects
    ]
    for door in plan.doors:
        position = (*plan.to_world(door.x, door.y), door.floor * STOREY + 1.2)
        point = PlanPoint(door.x, door.y, (door.floor,))
        elements += [
            SceneElement(DOOR, plan.regions[behind].kind, point, position, door=door, region=behind)
            for behind in (door.first, door.second)
        ]
    for viewpoint in building.viewpoints:
        elements += _stairs(viewpoint)
    for region in plan.regions:
        if region.kind != STAIRS:
            elements += _surfaces(building, region)
    return elements


def _stairs(viewpoint: Viewpoint) -> list[SceneElement]:
    """Stairs show at the landing, as going up or down by the floor of the eye, and from there at both ends."""
    if viewpoint.kind == LANDING:
        points = [PlanPoint(viewpoint.x, viewpoint.y, (floor,)) for floor in viewpoint.floors]
        kinds = STAIRS_UP, STAIRS_DOWN
        return [SceneElement(kinds[i], STAIRS, point, viewpoint.position) for i, point in enumerate(points)]
    if viewpoint.kind in (FOOT, HEAD):
        kind = STAIRS_DOWN if viewpoint.kind == FOOT else STAIRS_UP
        return [SceneElement(kind, STAIRS, viewpoint.point(), viewpoint.position, from_landing=viewpoint.flight)]
    return []


def _surfaces(building: Building, region: Region) -> list[SceneElement]:
    """Bits of a room's walls and floor, which show the kind of the room."""
    box, height = region.box, region.floor * STOREY + EYE - 0.2
    across = max(2, round((box.right - box.left) / 2.0))
    elements = []
    for i, j in product(range(across), range(2)):
        x = round(box.left + (box.right - box.left) * (i + 0.5) / across, 6)
        y = round(box.bottom + (box.top - box.bottom) * (j + 0.5) / 2, 6)
        point, position = PlanPoint(x, y, (region.floor,)), (*building.plan.to_world(x, y), height)
        elements.append(SceneElement(SURFACE, region.kind, point, position))
    return elements


def _faces(viewpoint: Viewpoint, element: SceneElement) -> bool:
    """A door shows the room behind it, so it must be looked at from the other side."""
    if door := element.door:
        if element.region in viewpoint.regions:
            return False
        return any(map(door.joins, viewpoint.regions)) or element.region == _far_side(viewpoint, door)
    return element.from_landing < 0 or (viewpoint.kind == LANDING and viewpoint.flight == element.from_landing)


def _far_side(viewpoint: Viewpoint, door: Opening) -> int:
    """The region behind a door of a region one is not in; a door's first region has the smaller x, or is a hallway."""
    if door.along == "x":
        return door.second if (viewpoint.y < door.y) == (door.y > 0) else door.first
    if door.x == 0.0:
        return door.second if viewpoint.x > 0.0 else door.first
    return door.second if viewpoint.x < door.x else door.first


def view_offsets(eye: tuple[float, float, float], positions: Floats) -> tuple[Floats, Floats, Floats]:
    """Degrees from the middle of each view to each position, across and up, as [position, view]; and the distances."""
    dx, dy, dz = (positions[:, axis] - eye[axis] for axis in range(3))
    flat = np.sqrt(dx * dx + dy * dy)
    heading, elevation = np.degrees(np.arctan2(dx, dy)), np.degrees(np.arctan2(dz, flat))
    across = (heading[:, None] - VIEW_HEADINGS[None] + 180.0) % 360.0 - 180.0
    up = elevation[:, None] - VIEW_ELEVATIONS[None]
    squares: Floats = flat * flat + dz * dz
    distance: Floats = np.sqrt(squares)
    return np.round(across, 6), np.round(up, 6), np.round(distance, 6)


def object_boxes(
    eye: tuple[float, float, float], objects: Sequence[HouseObject]
) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which views show each object, and its box [x, y, w, h] there, as [object, view] and [object, view, 4]."""
    middles = np.array([thing.position for thing in objects]).reshape(-1, 1, 3)
    halves = np.array([(thing.kind.width, thing.kind.width, thing.kind.height) for thing in objects]).reshape(-1, 1, 3)
    corners = middles + np.array(list(product((-1, 1), repeat=3))) * (halves / 2)
    right, up, depth = _in_camera(corners - np.array(eye))
    in_front = _in_camera(middles - np.array(eye))[2][..., 0] > NEAREST
    depth = np.maximum(depth, NEAREST)
    x = np.round(IMAGE_WIDTH / 2 + FOCAL * right / depth, 3)
    y = np.round(IMAGE_HEIGHT / 2 - FOCAL * up / depth, 3)
    ends = np.stack([x, y], axis=-1).clip(0, [IMAGE_WIDTH, IMAGE_HEIGHT])
    low, high = ends.min(axis=2), ends.max(axis=2)
    box = np.concatenate([low, high - low], axis=-1).astype(np.int64)
    seen: NDArray[np.bool_] = in_front & (box[..., 2] >= SMALLEST) & (box[..., 3] >= SMALLEST)
    return seen, box


def _in_camera(points: Floats) -> tuple[Floats, Floats, Floats]:
    """Points [object, corner, 3] relative to the eye, to the right, upwards and in depth: [object, view, corner]."""
    x, y, z = (points[:, None, :, axis] for axis in range(3))
    heading, elevation = np.radians(VIEW_HEADINGS)[None, :, None], np.radians(VIEW_ELEVATIONS)[None, :, None]
    ahead = x * np.sin(heading) + y * np.cos(heading)
    right = x * np.cos(heading) - y * np.sin(heading)
    depth = ahead * np.cos(elevation) + z * np.sin(elevation)
    up = z * np.cos(elevation) - ahead * np.sin(elevation)
    return right, up, depth


def view_features(panorama: Panorama, width: int, noise: float, key: str) -> NDArray[np.float16]:
    """[view, width]; `key` names the viewpoint, and with it the noise."""
    features = noise * _noise(key, VIEWS * width).reshape(VIEWS, width)
    for element, weights in zip(panorama.elements, panorama.weights, strict=True):
        features += (GAIN * weights)[:, None] * _element_code(element, width)[None]
    return features.astype(np.float16)


def object_features(objects: Sequence[HouseObject], width: int, noise: float, key: str) -> NDArray[np.float16]:
    """[object, width]: the same codes as in views, of each object alone; `key` names the viewpoint."""
    codes = np.array([_object_code(thing, width) for thing in objects])
    features: NDArray[np.float64] = GAIN * codes + noise * _noise(f"objects/{key}", codes.size).reshape(codes.shape)
    return features.astype(np.float16)


def view_captions(rng: Random, panorama: Panorama) -> dict[str, Any]:
    """For each view a caption of the whole and the objects that a detector would find."""
    captions = dict[str, Any]()
    shown = [(element.object, element.room) for element in panorama.elements if element.object]
    for view in range(VIEWS):
        caption, detections = _caption(rng, panorama, panorama.weights[:, view]), []
        for index in np.flatnonzero(panorama.boxed[:, view]):
            (thing, room), (x, y, w, h) = shown[index], panorama.boxes[index, view].tolist()
            words = rng.choice(templates.OBJECT_CAPTIONS).format(thing=thing.name, place=room)
            detections.append(
                {
                    "obj_class": thing.kind.name,
                    "coordinates": f"{x} {y} {x + w} {y + h}",
                    "confidence": f"{rng.uniform(0.3, 0.99):.2f}",
                    "caption": _with_articles(words),
                }
            )
        captions[str(view)] = {"global_cap": caption, "dense_cap": detections}
    return captions


def view_observations(rng: Random, panorama: Panorama) -> list[str]:
    """For each of eight headings a text with a caption for each elevation, from below."""
    texts, steps = [], VIEWS // len(LEVELS)
    for heading in range(HEADINGS):
        # A heading is that of a view, or halfway between two.
        before, after = heading * steps // HEADINGS, -(-heading * steps // HEADINGS) % steps
        lines = []
        for level, views in zip(LEVELS, np.split(panorama.weights, len(LEVELS), axis=1), strict=True):
            shown = np.round((views[:, before] + views[:, after]) / 2, 6)
            lines.append(f"{level}: {_caption(rng, panorama, shown)}")
        texts.append("\n".join(lines))
    return texts


def _element_code(element: SceneElement, width: int) -> NDArray[np.float64]:
    """The code of a kind of object in a colour, of a kind of room on a floor, or of a way out and where it leads."""
    if element.object:
        return _object_code(element.object, width)
    room = _sign_vector(f"place {element.room}", width)
    if element.kind == SURFACE:
        return room + LEVEL * _sign_vector(f"floor {element.point.floors[0]}", width)
    return 0.5 * _sign_vector(f"way {element.kind}", width) + room


def _object_code(thing: HouseObject, width: int) -> NDArray[np.float64]:
    """A colour's code is turned by the object's family: a red sofa and a lamp are not a sofa and a red lamp."""
    family, colour = _sign_vector(f"family {thing.kind.family}", width), _sign_vector(f"colour {thing.colour}", width)
    return _sign_vector(f"kind {thing.kind.name}", width) + COLOUR * family * colour


@cache
def _sign_vector(name: str, width: int) -> NDArray[np.float64]:
    """A fixed vector of +1 and -1 for a name."""
    return np.where(_random_integers(f"code/{name}", width) >> np.uint64(63), 1.0, -1.0)


def _noise(key: str, count: int) -> NDArray[np.float64]:
    """Nearly normal numbers of variance one: sums of four uniform ones, in exact arithmetic up to the last scaling."""
    bits = (_random_integers(f"noise/{key}", 4 * count) >> np.uint64(40)).astype(np.float64).reshape(4, count)
    uniform = bits / 2.0**24 - 0.5
    total: NDArray[np.float64] = (uniform[0] + uniform[1] + uniform[2] + uniform[3]) * 1.75
    return total


def _random_integers(name: str, count: int) -> NDArray[np.uint64]:
    """Pseudo-random 64-bit integers, a pure function of the name (Steele et al. 2014, SplitMix64)."""
    start = np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))
    state = start + _STEP * np.arange(1, count + 1, dtype=np.uint64)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed


def _main_room(panorama: Panorama, shown: NDArray[np.float64]) -> str:
    """The kind of room that fills most of a view; looking up or down, of the whole panorama."""
    totals: dict[str, float] = {}
    for element, weights, here in zip(panorama.elements, panorama.weights, shown.tolist(), strict=True):
        if element.kind == SURFACE:
            before = totals.get(element.room, 0.0)
            totals[element.room] = round(before + here + 1e-3 * float(weights.max()), 6)
    return max(sorted(totals), key=lambda room: totals[room], default=HALLWAY)


def _caption(rng: Random, panorama: Panorama, shown: NDArray[np.float64]) -> str:
    """A sentence on elements that show as strongly as [element] `shown`."""
    room = _main_room(panorama, shown)
    clear = [(weight, i) for i, weight in enumerate(shown.tolist()) if weight >= WORTH_SAYING]
    names = [_element_name(panorama.elements[i]) for _, i in sorted(clear, key=lambda item: (-item[0], item[1]))]
    names = list(dict.fromkeys(name for name in names if name))[:MENTIONED]
    if not names:
        return _with_articles(rng.choice(templates.BARE_CAPTIONS).format(place=room))
    return _with_articles(rng.choice(templates.VIEW_CAPTIONS).format(place=room, things=" and ".join(names)))


def _element_name(element: SceneElement) -> str:
    if element.object:
        return f"a {element.object.name}"
    return "" if element.kind == SURFACE else templates.SEEN[element.kind].format(place=element.room)


def _with_articles(text: str) -> str:
    """`a` becomes `an` before a vowel."""
    words = text.split(" ")
    pairs = zip(words, [*words[1:], ""], strict=True)
    return " ".join("an" if this == "a" and after[:1] in tuple("aeiou") else this for this, after in pairs)
