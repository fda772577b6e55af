"""From graphs to a `World`, through a cache: candidates, distances and next hops.

Candidates follow the Matterport3D simulator exactly. A panorama is swept view by view; in each view the
neighbours within 40 degrees to either side appear, nearest to the centre first. A neighbour keeps the place in the
list where it first appeared, while the view that shows it most centrally gives its data.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.progress import track
from vlnbert.sources.connectivity import ScanGraph, read_connectivity
from vlnbert.sources.layout import DataFolder, open_folder
from vlnbert.world.cache import Built, Key, cached
from vlnbert.world.world import STEPS, VIEW_ANGLE, VIEWS, World

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
    """All candidates of a scan, those of each viewpoint in the simulator's order."""
    start, end = np.nonzero(graph.adjacent)
    # The simulator computes angles from positions in single precision.
    position = graph.position.astype(np.float32)
    east, north, up = (position[end] - position[start]).T.astype(float)
    heading, elevation = np.arctan2(east, north), np.arctan2(up, np.hypot(east, north))

    views = np.arange(VIEWS)
    view_heading, view_elevation = views % STEPS * VIEW_ANGLE, (views // STEPS - 1) * VIEW_ANGLE
    aside = (heading[:, None] - view_heading + np.pi) % (2 * np.pi) - np.pi  # [edge, view]
    distance = np.hypot(aside, elevation[:, None] - view_elevation)
    distance[np.abs(aside) > HALF_WIDTH] = np.inf

    edges = np.arange(len(start))
    # The earliest view that shows each edge decides its place in the list.
    first = np.argmax(np.isfinite(distance), axis=1) if len(start) else edges
    best = np.argmin(distance, axis=1) if len(start) else edges
    order = np.lexsort((distance[edges, first], first, start))
    slot = np.empty_like(order)
    # `start` is sorted, so groups keep their ranges.
    slot[order] = edges - np.searchsorted(start, start)[order]
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


VERSION = 2  # of the tensors below; a new one makes old caches unused
NOWHERE = -9999  # scipy's value for "no predecessor"


def open_world(
    folder: DataFolder | Path | str, scans: Sequence[str] | None = None, device: torch.device | str = "cpu"
) -> World:
    """The world of a data folder, with all its scans or those named; built once, then opened from the cache."""
    folder = folder if isinstance(folder, DataFolder) else open_folder(folder)
    paths = folder.graphs()
    if scans is not None:
        wanted = sorted(set(scans))
        for scan in wanted:
            if scan not in paths:
                raise UnknownNameError("scan", scan, paths)
        paths = {scan: paths[scan] for scan in wanted}

    def build() -> Built:
        graphs = [read_connectivity(path) for path in track(paths.values(), "reading graphs")]
        built = build_world(graphs)
        return built.tensors(), {"scans": list(built.scans), "viewpoints": list(built.viewpoints)}

    tensors, names = cached(Key.of("world", paths.values(), f"version {VERSION}"), build)
    world = World(scans=tuple(names["scans"]), viewpoints=tuple(names["viewpoints"]), **tensors)
    return world.to(device)


def build_world(graphs: Sequence[ScanGraph]) -> World:
    """A world of these scans, one after the other."""
    if not graphs:
        raise UsageError("a world of no scans cannot be made; name at least one, or none to take all of a folder")
    candidates = [find_candidates(graph) for graph in graphs]
    sizes = [len(graph.viewpoints) for graph in graphs]
    # The first viewpoint of each scan, and its first pair.
    starts = np.concatenate(([0], np.cumsum(sizes)))
    pair_starts = np.concatenate(([0], np.cumsum(np.square(sizes))))
    slots = 2 + max((int(found.slot.max(initial=-1)) for found in candidates), default=-1)
    kinds = {"neighbour": np.int64, "view": np.int64, "heading": np.float32, "elevation": np.float32}
    table = {name: np.zeros((starts[-1], slots), dtype=kind) for name, kind in kinds.items()}
    # Padding leads to the viewpoint itself.
    table["neighbour"] += np.arange(starts[-1])[:, None]
    distance, next_slot = [], []
    for graph, found, start in zip(graphs, candidates, starts, strict=False):
        # Slot 0 stops, so neighbours begin at 1.
        where = found.viewpoint + start, found.slot + 1
        table["neighbour"][where] = found.neighbour + start
        for name in ("view", "heading", "elevation"):
            table[name][where] = getattr(found, name)
        metres, hops = shortest_paths(graph)
        distance.append(metres.ravel())
        # A hop to itself is a stop.
        slot_of = np.zeros_like(hops)
        slot_of[found.viewpoint, found.neighbour] = found.slot + 1
        next_slot.append(np.take_along_axis(slot_of, hops, axis=1).ravel())
    columns = [np.arange(size) for size in sizes]
    rows = [pair_start + size * column for pair_start, size, column in zip(pair_starts, sizes, columns, strict=False)]
    arrays = {
        "scan_of": np.repeat(np.arange(len(graphs)), sizes),
        "position": np.concatenate([graph.position for graph in graphs]),
        "choices": 1 + np.concatenate([graph.adjacent.sum(axis=1) for graph in graphs]),
        "row": np.concatenate(rows),
        "column": np.concatenate(columns),
        "distance": np.concatenate(distance),
        "next_slot": np.concatenate(next_slot).astype(np.int16),
        **table,
    }
    names = tuple(name for graph in graphs for name in graph.viewpoints)
    tensors = {name: torch.from_numpy(array) for name, array in arrays.items()}
    return World(scans=tuple(graph.scan for graph in graphs), viewpoints=names, **tensors)


def shortest_paths(graph: ScanGraph) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Metres between any two viewpoints [from, to], infinite where no path leads, and the first hop [from, to].

    The first hop is the viewpoint itself at the goal, and where no path leads.
    """
    # Imported late: most commands find the distances in the cache.
    from scipy.sparse import csr_array
    from scipy.sparse.csgraph import dijkstra

    count = len(graph.viewpoints)
    start, end = np.nonzero(graph.adjacent)
    metres = np.linalg.norm(graph.position[start] - graph.position[end], axis=1)
    edges = csr_array((metres, (start, end)), shape=(count, count))
    # The graph is symmetric: what precedes `v` on the way from the goal is what follows it on the way there.
    distance, before = dijkstra(edges, directed=True, return_predecessors=True)
    itself = np.arange(count)[:, None]
    return distance, np.where(before.T == NOWHERE, itself, before.T).astype(np.int64)
