"""How far everything is from everything in a scan, along the graph, and the first hop of each shortest path."""

import numpy as np
from numpy.typing import NDArray

from vlnbert.sources.connectivity import ScanGraph

NOWHERE = -9999  # scipy's mark for "no predecessor"


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
