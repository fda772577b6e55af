"""Features: sums of fixed codes of what is shown, plus noise; by integer hashing, alike on every machine."""

import hashlib
from collections.abc import Sequence
from functools import cache

import numpy as np
from numpy.typing import NDArray

from vlnbert.house.objects import Thing
from vlnbert.house.sights import OBJECT, PATCH, Panorama, Sight
from vlnbert.house.views import VIEWS

GAIN = 0.6
COLOUR = 0.7  # the share of a colour's code, against one for the kind
LEVEL = 0.5  # the share of a floor's code
_STEP = np.uint64(0x9E3779B97F4A7C15)


def view_features(panorama: Panorama, width: int, noise: float, key: str) -> NDArray[np.float16]:
    """[view, width]; `key` names the viewpoint, and with it the noise."""
    features = noise * _noise(key, VIEWS * width).reshape(VIEWS, width)
    for sight, weights in zip(panorama.sights, panorama.weights, strict=True):
        features += (GAIN * weights)[:, None] * _code_of(sight, width)[None]
    return features.astype(np.float16)


def object_features(things: Sequence[Thing], width: int, noise: float, key: str) -> NDArray[np.float16]:
    """[object, width]: the same codes as in views, of each object alone; `key` as there."""
    codes = np.array([_code_of_thing(thing, width) for thing in things])
    features: NDArray[np.float64] = GAIN * codes + noise * _noise(f"objects/{key}", codes.size).reshape(codes.shape)
    return features.astype(np.float16)


def _code_of(sight: Sight, width: int) -> NDArray[np.float64]:
    if sight.kind == OBJECT and sight.thing:
        return _code_of_thing(sight.thing, width)
    if sight.kind == PATCH:
        return _room_code(sight.place, sight.spot.floors[0], width)
    return _opening_code(sight.kind, sight.place, width)


def _code_of_thing(thing: Thing, width: int) -> NDArray[np.float64]:
    return _object_code(thing.kind.name, thing.kind.family, thing.colour, width)


@cache
def _object_code(kind: str, family: str, colour: str, width: int) -> NDArray[np.float64]:
    """A colour's code is turned by the object's family: a red sofa and a lamp are not a sofa and a red lamp."""
    return _signs(f"kind {kind}", width) + COLOUR * _signs(f"family {family}", width) * _signs(
        f"colour {colour}", width
    )


@cache
def _room_code(place: str, floor: int, width: int) -> NDArray[np.float64]:
    """The look of a kind of room, and a touch of the floor it is on, as carpets differ from floor to floor."""
    return _signs(f"place {place}", width) + LEVEL * _signs(f"floor {floor}", width)


@cache
def _opening_code(kind: str, place: str, width: int) -> NDArray[np.float64]:
    """A way out, and the kind of place to which it leads."""
    return 0.5 * _signs(f"way {kind}", width) + _signs(f"place {place}", width)


@cache
def _signs(name: str, width: int) -> NDArray[np.float64]:
    """A fixed vector of +1 and -1 for a name."""
    return np.where(_mixed(f"code/{name}", width) >> np.uint64(63), 1.0, -1.0)


def _noise(key: str, count: int) -> NDArray[np.float64]:
    """Nearly normal numbers of variance one: sums of four uniform ones, in exact arithmetic up to the last scaling."""
    bits = (_mixed(f"noise/{key}", 4 * count) >> np.uint64(40)).astype(np.float64).reshape(4, count)
    uniform = bits / 2.0**24 - 0.5
    total: NDArray[np.float64] = (uniform[0] + uniform[1] + uniform[2] + uniform[3]) * 1.75
    return total


def _mixed(name: str, count: int) -> NDArray[np.uint64]:
    """Pseudo-random 64-bit integers, a pure function of the name (Steele et al. 2014, SplitMix64)."""
    start = np.uint64(int.from_bytes(hashlib.sha256(name.encode()).digest()[:8], "little"))
    state = start + _STEP * np.arange(1, count + 1, dtype=np.uint64)
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: NDArray[np.uint64] = state ^ (state >> np.uint64(31))
    return mixed
