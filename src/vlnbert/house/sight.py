"""Lines of sight in the plan: walls block, doors do not."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from vlnbert.house.plan import Plan

TOUCH = 1e-9  # a line that only grazes the end of a wall is not blocked


def sees(plan: Plan, eyes: Sequence["Spot"], things: Sequence["Spot"]) -> NDArray[np.bool_]:
    """Whether each of `eyes` sees each of `things`: they share a floor on which no wall lies between them."""
    seen = np.zeros((len(eyes), len(things)), dtype=bool)
    for floor in range(plan.floors):
        rows = [i for i, eye in enumerate(eyes) if floor in eye.floors]
        columns = [j for j, thing in enumerate(things) if floor in thing.floors]
        if rows and columns:
            start = np.array([(eyes[i].x, eyes[i].y) for i in rows])
            end = np.array([(things[j].x, things[j].y) for j in columns])
            seen[np.ix_(rows, columns)] |= ~_blocked(start, end, np.array(plan.walls[floor]))
    return seen


class Spot:
    """A point of the plan, and the floors from which it can be seen."""

    __slots__ = ("floors", "x", "y")

    def __init__(self, x: float, y: float, floors: tuple[int, ...]) -> None:
        self.x, self.y, self.floors = x, y, floors


def _blocked(start: NDArray[np.float64], end: NDArray[np.float64], walls: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Whether the segment from each start to each end crosses a wall."""
    p, q = start[:, None, None, :], end[None, :, None, :]
    a, b = walls[None, None, :, :2], walls[None, None, :, 2:]
    sides_of_wall = _side(a, b, p) * _side(a, b, q)
    sides_of_line = _side(p, q, a) * _side(p, q, b)
    crossing = (sides_of_wall < -TOUCH) & (sides_of_line < -TOUCH)
    blocked: NDArray[np.bool_] = np.logical_or.reduce(crossing, axis=2)
    return blocked


def _side(a: NDArray[np.float64], b: NDArray[np.float64], point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Positive where `point` lies to the left of the line from a to b, rounded against the last bit."""
    cross: NDArray[np.float64] = (b[..., 0] - a[..., 0]) * (point[..., 1] - a[..., 1]) - (b[..., 1] - a[..., 1]) * (
        point[..., 0] - a[..., 0]
    )
    return np.round(cross, 9)
