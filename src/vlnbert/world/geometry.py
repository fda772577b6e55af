"""The angles of a panorama. Heading 0 looks along +y and grows clockwise; elevation grows upwards; radians.

A panorama has 36 views, `level * 12 + step`: level 0 looks 30 degrees down, 1 straight ahead, 2 up, and each step
turns 30 degrees to the right.
"""

import math

import torch
from torch import Tensor

from vlnbert.errors import UsageError

VIEWS = 36
STEPS = 12  # views in a turn
VIEW_ANGLE = math.radians(30)  # between neighbouring views, in both directions


def view_heading(view: Tensor) -> Tensor:
    """The heading at the centre of a view."""
    return (view % STEPS) * VIEW_ANGLE


def view_elevation(view: Tensor) -> Tensor:
    """The elevation at the centre of a view."""
    return (view // STEPS - 1) * VIEW_ANGLE


def level_view(heading: Tensor) -> Tensor:
    """The level view nearest to a heading: halves round up, and a full turn is none."""
    return torch.floor(heading / VIEW_ANGLE + 0.5).long() % STEPS + STEPS


def nearest_view(heading: float, elevation: float) -> int:
    """The view whose centre is nearest to a direction."""
    level = min(max(round(elevation / VIEW_ANGLE), -1), 1) + 1
    return level * STEPS + round(heading / VIEW_ANGLE) % STEPS


def wrapped(angle: Tensor) -> Tensor:
    """The same direction within [-pi, pi)."""
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def angle_feature(heading: Tensor, elevation: Tensor, width: int = 128) -> Tensor:
    """(sin h, cos h, sin e, cos e) repeated up to `width`: the order of the published weights, not of the paper."""
    if width < 4 or width % 4:
        raise UsageError(f"an angle feature of width {width} cannot be made; choose a multiple of 4")
    parts = torch.stack((heading.sin(), heading.cos(), elevation.sin(), elevation.cos()), dim=-1)
    return parts.repeat(*(1,) * heading.dim(), width // 4)
