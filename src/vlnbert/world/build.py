"""From graphs to a `World`, through a cache."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.progress import track
from vlnbert.sources.connectivity import ScanGraph, read_connectivity
from vlnbert.sources.layout import DataFolder, open_folder
from vlnbert.world.cache import Key, cached
from vlnbert.world.candidates import Candidates, find_candidates
from vlnbert.world.world import World

VERSION = 2  # of the tensors below; a new one makes old caches unused
NOWHERE = -9999  # scipy's mark for "no predecessor"


def open_world(
    folder: DataFolder | Path | str, scans: Sequence[str] | None = None, device: torch.device | str = "cpu"
) -> World:
    """The world of a data folder: all its scans, or those named. Built once, then opened from the cache."""
    folder = folder if isinstance(folder, DataFolder) else open_folder(folder)
    paths = folder.graphs()
    if scans is not None:
        paths = {scan: _known(paths, scan) for scan in sorted(set(scans))}
    key = world_key(paths)
    tensors, names = cached(key, lambda: _pack(build_world(_read(paths))))
    world = World(scans=tuple(names["scans"]), viewpoints=tuple(names["viewpoints"]), **tensors)
    return world.to(device)


def world_key(paths: dict[str, Path]) -> Key:
    return Key.of("world", paths.values(), f"version {VERSION}")


def build_world(graphs: Sequence[ScanGraph]) -> World:
    """Lay the scans out one behind the other."""
    if not graphs:
        raise UsageError("a world of no scans cannot be made; name at least one, or none to take all of a folder")
    candidates = [find_candidates(graph) for graph in graphs]
    sizes = [len(graph.viewpoints) for graph in graphs]
    starts = np.concatenate(([0], np.cumsum(sizes)))  # the first viewpoint of each scan
    pair_starts = np.concatenate(([0], np.cumsum(np.square(sizes))))  # its first pair
    slots = 2 + max((int(found.slot.max(initial=-1)) for found in candidates), default=-1)
    itself = np.arange(starts[-1])[:, None]
    table = {
        "neighbour": np.broadcast_to(itself, (len(itself), slots)).copy(),
        "view": np.zeros((len(itself), slots), dtype=np.int64),
        "heading": np.zeros((len(itself), slots), dtype=np.float32),
        "elevation": np.zeros((len(itself), slots), dtype=np.float32),
    }
    distance, next_slot = [], []
    for graph, found, start in zip(graphs, candidates, starts, strict=False):
        _fill(table, found, start)
        metres, hops = shortest_paths(graph)
        distance.append(metres.ravel())
        next_slot.append(_slots_of(hops, found).ravel())
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
    from scipy.sparse import csr_array  # here, since most commands find the distances in the cache
    from scipy.sparse.csgraph import dijkstra

    count = len(graph.viewpoints)
    start, end = np.nonzero(graph.adjacent)
    metres = np.linalg.norm(graph.position[start] - graph.position[end], axis=1)
    edges = csr_array((metres, (start, end)), shape=(count, count))
    # The graph is symmetric: what precedes `v` on the way from the goal is what follows it on the way there.
    distance, before = dijkstra(edges, directed=True, return_predecessors=True)
    itself = np.arange(count)[:, None]
    return distance, np.where(before.T == NOWHERE, itself, before.T).astype(np.int64)


def _fill(table: dict[str, np.ndarray], found: Candidates, start: int) -> None:
    where = found.viewpoint + start, found.slot + 1  # slot 0 stops
    table["neighbour"][where] = found.neighbour + start
    table["view"][where] = found.view
    table["heading"][where] = found.heading
    table["elevation"][where] = found.elevation


def _slots_of(hops: np.ndarray, found: Candidates) -> np.ndarray:
    """Turn next hops [from, to] into the slots that take them."""
    slot = np.zeros_like(hops)  # a hop to itself is a stop
    slot[found.viewpoint, found.neighbour] = found.slot + 1
    return np.take_along_axis(slot, hops, axis=1)


def _read(paths: dict[str, Path]) -> list[ScanGraph]:
    return [read_connectivity(path) for path in track(paths.values(), "reading graphs")]


def _pack(world: World) -> tuple[dict[str, Tensor], dict[str, list[str]]]:
    return world.tensors(), {"scans": list(world.scans), "viewpoints": list(world.viewpoints)}


def _known(paths: dict[str, Path], scan: str) -> Path:
    if scan not in paths:
        raise UnknownNameError("scan", scan, paths)
    return paths[scan]
