"""What views show, as an agent reads it: features of views and objects, and captions.

Features are sums of fixed codes of what is shown, plus noise; by integer hashing, so that every machine makes the same.
"""

import hashlib
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlnbert.house import templates
from vlnbert.house.objects import HouseObject
from vlnbert.house.panoramas import SURFACE, VIEWS, Panorama, SceneElement
from vlnbert.house.plan import HALLWAY
from vlnbert.sources.annotations import HEADINGS, LEVELS

GAIN = 0.6
COLOUR = 0.7  # the share of a colour's code, against one for the kind
LEVEL = 0.5  # the share of a floor's code
MENTIONED = 2  # objects in a view's caption
WORTH_SAYING = 0.15  # the least weight of what a caption mentions
_STEP = np.uint64(0x9E3779B97F4A7C15)


def view_features(panorama: Panorama, width: int, noise: float, key: str) -> NDArray[np.float16]:
    """[view, width]; `key` names the viewpoint, and with it the noise."""
    features = noise * _noise(key, VIEWS * width).reshape(VIEWS, width)
    for element, weights in zip(panorama.elements, panorama.weights, strict=True):
        features += (GAIN * weights)[:, None] * _element_code(element, width)[None]
    return features.astype(np.float16)


def object_features(objects: Sequence[HouseObject], width: int, noise: float, key: str) -> NDArray[np.float16]:
    """[object, width]: the same codes as in views, of each object alone; `key` as there."""
    codes = np.array([_code_of_object(thing, width) for thing in objects])
    features: NDArray[np.float64] = GAIN * codes + noise * _noise(f"objects/{key}", codes.size).reshape(codes.shape)
    return features.astype(np.float16)


def view_captions(rng: Random, panorama: Panorama) -> dict[str, Any]:
    """For each view a caption of the whole and the objects that a detector would find."""
    return {
        str(view): {
            "global_cap": _caption(rng, panorama, panorama.weights[:, view]),
            "dense_cap": _detections(rng, panorama, view),
        }
        for view in range(VIEWS)
    }


def view_observations(rng: Random, panorama: Panorama) -> list[str]:
    """For each of eight headings a text with a caption for each elevation, from below."""
    return [
        "\n".join(
            f"{level}: {_caption(rng, panorama, _between_views(panorama, level=number, heading=heading))}"
            for number, level in enumerate(LEVELS)
        )
        for heading in range(HEADINGS)
    ]


def _between_views(panorama: Panorama, level: int, heading: int) -> NDArray[np.float64]:
    """[element] how strongly each shows in the direction of a heading: that of a view, or halfway between two."""
    steps = VIEWS // len(LEVELS)
    before, after = heading * steps // HEADINGS, -(-heading * steps // HEADINGS) % steps
    weights: NDArray[np.float64] = (
        panorama.weights[:, level * steps + before] + panorama.weights[:, level * steps + after]
    ) / 2
    return np.round(weights, 6)


def _element_code(element: SceneElement, width: int) -> NDArray[np.float64]:
    if element.object:
        return _code_of_object(element.object, width)
    if element.kind == SURFACE:
        return _room_code(element.room, element.point.floors[0], width)
    return _opening_code(element.kind, element.room, width)


def _code_of_object(thing: HouseObject, width: int) -> NDArray[np.float64]:
    return _object_code(thing.kind.name, thing.kind.family, thing.colour, width)


@cache
def _object_code(kind: str, family: str, colour: str, width: int) -> NDArray[np.float64]:
    """A colour's code is turned by the object's family: a red sofa and a lamp are not a sofa and a red lamp."""
    return _sign_vector(f"kind {kind}", width) + COLOUR * _sign_vector(f"family {family}", width) * _sign_vector(
        f"colour {colour}", width
    )


@cache
def _room_code(room: str, floor: int, width: int) -> NDArray[np.float64]:
    """The look of a kind of room, and a touch of the floor it is on, as carpets differ from floor to floor."""
    return _sign_vector(f"place {room}", width) + LEVEL * _sign_vector(f"floor {floor}", width)


@cache
def _opening_code(kind: str, room: str, width: int) -> NDArray[np.float64]:
    """A way out, and the kind of place to which it leads."""
    return 0.5 * _sign_vector(f"way {kind}", width) + _sign_vector(f"place {room}", width)


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
    """A sentence on what shows as strongly as [element] `shown` says."""
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


def _detections(rng: Random, panorama: Panorama, view: int) -> list[dict[str, str]]:
    objects = [(element.object, element.room) for element in panorama.elements if element.object]
    found = []
    for index in np.flatnonzero(panorama.boxed[:, view]):
        (thing, room), (x, y, w, h) = objects[index], panorama.boxes[index, view].tolist()
        caption = rng.choice(templates.OBJECT_CAPTIONS).format(thing=thing.name, place=room)
        found.append(
            {
                "obj_class": thing.kind.name,
                "coordinates": f"{x} {y} {x + w} {y + h}",
                "confidence": f"{rng.uniform(0.3, 0.99):.2f}",
                "caption": _with_articles(caption),
            }
        )
    return found


def _with_articles(text: str) -> str:
    """`a` becomes `an` before a vowel."""
    words = text.split(" ")
    pairs = zip(words, [*words[1:], ""], strict=True)
    return " ".join("an" if this == "a" and after[:1] in tuple("aeiou") else this for this, after in pairs)
