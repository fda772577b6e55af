"""Which neighbours a viewpoint has, in which order, and which of its 36 views shows each of them.

This follows the Matterport3D simulator to the last candidate. A panorama is swept view by view; in each view the
neighbours within 40 degrees to either side appear, nearest to the centre first. A neighbour keeps the place in the
list where it first appeared, while the view that shows it most centrally gives its data.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from vlnbert.sources.connectivity import ScanGraph
from vlnbert.world.geometry import STEPS, VIEW_ANGLE, VIEWS

HALF_WIDTH = np.radians(40)  # how far to either side a view shows its neighbours


@dataclass(frozen=True)
class Candidates:
    """The directed edges of a scan, grouped by viewpoint and in candidate order within each."""

    viewpoint: NDArray[np.int64]  # [edge]
    neighbour: NDArray[np.int64]  # [edge]
    view: NDArray[np.int64]  # [edge] the view that shows the neighbour most centrally
    heading: NDArray[np.float64]  # [edge] absolute, as the view's plus what is left; may be negative
    elevation: NDArray[np.float64]  # [edge] absolute
    distance: NDArray[np.float64]  # [edge] angle from the view's centre
    rank: NDArray[np.int64]  # [edge] 1-based place among the neighbours in that view
    slot: NDArray[np.int64]  # [edge] 0-based place in the viewpoint's list


def find_candidates(graph: ScanGraph) -> Candidates:
    """All candidates of a scan, each viewpoint's in the simulator's order."""
    start, end = np.nonzero(graph.adjacent)
    # The simulator keeps positions in single precision: so do its angles.
    east, north, up = (graph.position.astype(np.float32)[end] - graph.position.astype(np.float32)[start]).T.astype(
        float
    )
    heading, elevation = np.arctan2(east, north), np.arctan2(up, np.hypot(east, north))

    views = np.arange(VIEWS)
    view_heading, view_elevation = views % STEPS * VIEW_ANGLE, (views // STEPS - 1) * VIEW_ANGLE
    aside = (heading[:, None] - view_heading + np.pi) % (2 * np.pi) - np.pi  # [edge, view]
    distance = np.hypot(aside, elevation[:, None] - view_elevation)
    distance[np.abs(aside) > HALF_WIDTH] = np.inf

    edges = np.arange(len(start))
    first = np.argmax(np.isfinite(distance), axis=1) if len(start) else edges  # earliest view that shows it
    best = np.argmin(distance, axis=1) if len(start) else edges  # the earliest of equals wins
    order = np.lexsort((distance[edges, first], first, start))
    slot = np.empty_like(order)
    slot[order] = edges - np.searchsorted(start, start)[order]  # `start` is sorted, so groups keep their ranges
    return Candidates(
        viewpoint=start[order],
        neighbour=end[order],
        view=best[order],
        heading=(view_heading[best] + aside[edges, best])[order],
        elevation=elevation[order],
        distance=distance[edges, best][order],
        rank=_ranks(start, distance, best)[order],
        slot=slot[order],
    )


def _ranks(start: NDArray[np.int64], distance: NDArray[np.float64], best: NDArray[np.int64]) -> NDArray[np.int64]:
    """The 1-based place of each edge among its viewpoint's edges in its own best view."""
    edges = np.arange(len(start))
    mine = distance[edges, best]
    low, high = np.searchsorted(start, start), np.searchsorted(start, start, side="right")
    ranks = np.ones(len(start), dtype=np.int64)
    for offset in range(int((high - low).max(initial=0))):
        other = low + offset
        inside = other < high
        other = np.minimum(other, len(start) - 1)
        theirs = distance[other, best]
        ranks += inside & ((theirs < mine) | ((theirs == mine) & (other < edges)))
    return ranks
