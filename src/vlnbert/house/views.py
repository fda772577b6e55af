"""The 36 views of a panorama: where they look, what falls into them, and boxes in their 640 x 480 images."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vlnbert.house.objects import Thing

VIEWS = 36
HALF_VIEW = 30.0  # degrees from the middle of a view to its edge
IMAGE_WIDTH, IMAGE_HEIGHT = 640, 480
FOCAL = (IMAGE_HEIGHT / 2) / np.tan(np.radians(30.0))  # a vertical field of view of 60 degrees
SMALLEST = 10  # pixels: a sliver at the edge of an image is not a sight
NEAREST = 0.05  # metres in front of the camera; what is closer is drawn as if there

HEADINGS = np.array([30.0 * (view % 12) for view in range(VIEWS)])
ELEVATIONS = np.array([30.0 * (view // 12) - 30.0 for view in range(VIEWS)])

Floats = NDArray[np.float64]


def offsets(eye: tuple[float, float, float], positions: Floats) -> tuple[Floats, Floats, Floats]:
    """Degrees from the middle of each view to each position, across and up, as [position, view]; and the distances."""
    dx, dy, dz = (positions[:, axis] - eye[axis] for axis in range(3))
    flat = np.sqrt(dx * dx + dy * dy)
    heading, elevation = np.degrees(np.arctan2(dx, dy)), np.degrees(np.arctan2(dz, flat))
    across = (heading[:, None] - HEADINGS[None] + 180.0) % 360.0 - 180.0
    up = elevation[:, None] - ELEVATIONS[None]
    squares: Floats = flat * flat + dz * dz
    distance: Floats = np.sqrt(squares)
    return np.round(across, 6), np.round(up, 6), np.round(distance, 6)


def boxes(eye: tuple[float, float, float], things: Sequence[Thing]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
    """Which views show each object, and its box [x, y, w, h] there, as [object, view] and [object, view, 4]."""
    corners = np.array([_corners(thing) for thing in things]) - np.array(eye)
    middles = np.array([thing.position for thing in things]) - np.array(eye)
    right, up, depth = _in_camera(corners)
    in_front = _in_camera(middles[:, None])[2][..., 0] > NEAREST
    depth = np.maximum(depth, NEAREST)
    x = np.round(IMAGE_WIDTH / 2 + FOCAL * right / depth, 3)
    y = np.round(IMAGE_HEIGHT / 2 - FOCAL * up / depth, 3)
    low = np.stack([x.min(axis=2), y.min(axis=2)], axis=-1)
    high = np.stack([x.max(axis=2), y.max(axis=2)], axis=-1)
    limits = np.array([IMAGE_WIDTH, IMAGE_HEIGHT])
    low, high = np.clip(low, 0, limits), np.clip(high, 0, limits)
    box = np.concatenate([low, high - low], axis=-1).astype(np.int64)
    seen: NDArray[np.bool_] = in_front & (box[..., 2] >= SMALLEST) & (box[..., 3] >= SMALLEST)
    return seen, box


def _corners(thing: Thing) -> list[tuple[float, float, float]]:
    x, y, z = thing.position
    half, rise = thing.kind.width / 2, thing.kind.height / 2
    return [(x + a * half, y + b * half, z + c * rise) for a in (-1, 1) for b in (-1, 1) for c in (-1, 1)]


def _in_camera(points: Floats) -> tuple[Floats, Floats, Floats]:
    """Points [object, corner, 3] relative to the eye, to the right, upwards and in depth: [object, view, corner]."""
    x, y, z = (points[:, None, :, axis] for axis in range(3))
    heading, elevation = np.radians(HEADINGS)[None, :, None], np.radians(ELEVATIONS)[None, :, None]
    ahead = x * np.sin(heading) + y * np.cos(heading)
    right = x * np.cos(heading) - y * np.sin(heading)
    depth = ahead * np.cos(elevation) + z * np.sin(elevation)
    up = z * np.cos(elevation) - ahead * np.sin(elevation)
    return right, up, depth
