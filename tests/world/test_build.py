"""Candidates and distances: by hand, and against a plain sweep and Floyd-Warshall."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlnbert.sources.connectivity import ScanGraph
from vlnbert.world.build import find_candidates, shortest_paths


def star(*neighbours):
    """A viewpoint at the origin with neighbours around it."""
    adjacent = np.zeros((len(neighbours) + 1,) * 2, dtype=bool)
    adjacent[0, 1:] = adjacent[1:, 0] = True
    names = tuple(f"v{index}" for index in range(len(adjacent)))
    return ScanGraph("star", names, np.array([(0, 0, 0), *neighbours], dtype=np.float64), adjacent)


def swept(graph):
    """The same by a plain sweep over the views, as the simulator's users do it: (neighbour, view, heading, ...)."""
    position = graph.position.astype(np.float32)  # and so are differences, before they become angles
    for viewpoint in range(len(graph.viewpoints)):
        found = {}
        for view in range(36):
            heading, elevation, shown = math.radians(30 * (view % 12)), math.radians(30 * (view // 12 - 1)), []
            for neighbour in np.flatnonzero(graph.adjacent[viewpoint]):
                east, north, up = (position[neighbour] - position[viewpoint]).tolist()
                aside = math.remainder(math.atan2(east, north) - heading, 2 * math.pi)
                above = math.atan2(up, math.hypot(east, north))
                if abs(aside) <= math.radians(40):
                    shown.append((math.hypot(aside, above - elevation), neighbour, heading + aside, above))
            for rank, (distance, neighbour, absolute, above) in enumerate(sorted(shown), start=1):
                if neighbour not in found or distance < found[neighbour][-1]:
                    found[neighbour] = (view, absolute, above, rank, distance)  # keeps its place in the dictionary
        yield viewpoint, [(neighbour, *data) for neighbour, data in found.items()]


@pytest.mark.parametrize(
    ("neighbour", "view", "heading", "elevation"),
    [
        ((0, 1, 0), 12, 0, 0),
        ((1, 0, 0), 15, 90, 0),
        ((0, -1, 0), 18, 180, 0),
        ((-1, 0, 0), 21, 270, 0),
        ((math.sin(-0.1), math.cos(-0.1), 0), 12, math.degrees(-0.1), 0),  # left of north stays negative
        ((0, 1, 1), 24, 0, 45),
        ((0, 1, -1), 0, 0, -45),
        ((0, 0, 5), 24, 0, 90),
    ],
)
def test_one_neighbour(neighbour, view, heading, elevation):
    found = find_candidates(star(neighbour))
    assert (found.viewpoint[0], found.neighbour[0], found.slot[0], found.rank[0]) == (0, 1, 0, 1)
    assert found.view[0] == view
    assert np.degrees(found.heading[0]) == pytest.approx(heading, abs=1e-4)
    assert np.degrees(found.elevation[0]) == pytest.approx(elevation, abs=1e-4)


def test_the_sweep_gives_the_order_and_the_centre_the_view():
    east, north, west, low_east = (1, 0, 0), (0, 1, 0), (-1, 0, 0), (1, 0, -0.2)
    found = find_candidates(star(west, east, low_east, north))
    mine = found.viewpoint == 0
    # view 0 shows north; view 2 both in the east, the lower one nearer to its centre, and view 8 the west
    assert found.neighbour[mine].tolist() == [4, 3, 2, 1]
    assert found.view[mine].tolist() == [12, 15, 15, 21]
    assert found.rank[mine].tolist() == [1, 2, 1, 1]
    assert found.slot[mine].tolist() == [0, 1, 2, 3]


def test_no_edges_no_candidates():
    found = find_candidates(ScanGraph("s", ("a", "b"), np.zeros((2, 3)), np.zeros((2, 2), dtype=bool)))
    assert len(found.viewpoint) == len(found.slot) == 0


@given(st.integers(0, 10_000), st.integers(2, 14), st.integers(0, 40))
@settings(max_examples=40)
def test_any_graph_as_by_a_plain_sweep(random_graph, seed, count, extra):
    graph = random_graph(seed, count, extra)
    found = find_candidates(graph)
    for viewpoint, expected in swept(graph):
        mine = found.viewpoint == viewpoint
        assert found.slot[mine].tolist() == list(range(len(expected)))
        neighbour, view, heading, elevation, rank, distance = np.array(expected).T
        assert found.neighbour[mine].tolist() == neighbour.tolist()
        assert found.view[mine].tolist() == view.tolist()
        assert found.rank[mine].tolist() == rank.tolist()
        for name, numbers in {"heading": heading, "elevation": elevation, "distance": distance}.items():
            np.testing.assert_allclose(getattr(found, name)[mine], numbers, atol=1e-9)


GRAPHS = {"seed": st.integers(0, 10_000), "count": st.integers(1, 16), "extra": st.integers(0, 30)}


def floyd_warshall(graph):
    distance = np.linalg.norm(graph.position[:, None] - graph.position, axis=-1)
    distance[~graph.adjacent] = np.inf
    np.fill_diagonal(distance, 0)
    for middle in range(len(distance)):
        distance = np.minimum(distance, distance[:, middle, None] + distance[middle])
    return distance


@given(**GRAPHS)
@settings(max_examples=80)
def test_distances_are_a_metric(random_graph, seed, count, extra):
    graph = random_graph(seed, count, extra)
    distance, _ = shortest_paths(graph)
    assert distance.dtype == np.float64
    assert (distance.diagonal() == 0).all()
    np.testing.assert_allclose(distance, distance.T, rtol=1e-12)
    assert (distance[:, None] <= distance[:, :, None] + distance[None] + 1e-9).all()
    np.testing.assert_allclose(distance, floyd_warshall(graph), rtol=1e-12)


@given(**GRAPHS)
def test_next_hops_reach_the_goal_in_its_distance(random_graph, seed, count, extra):
    graph = random_graph(seed, count, extra)
    distance, hop = shortest_paths(graph)
    for goal in range(count):
        place, walked = np.arange(count), np.zeros(count)
        for _ in range(count):
            after = hop[place, goal]
            assert (graph.adjacent[place, after] | (place == after)).all()
            walked += np.linalg.norm(graph.position[after] - graph.position[place], axis=1)
            place = after
        assert (place == goal).all()
        np.testing.assert_allclose(walked, distance[:, goal], atol=1e-9)


@given(seed=st.integers(0, 10_000), count=st.integers(4, 12), parts=st.integers(2, 3))
def test_no_path_is_infinite_and_its_hop_stays(random_graph, seed, count, parts):
    distance, hop = shortest_paths(random_graph(seed, count, 10, parts))
    itself = np.arange(count)
    apart = itself[:, None] % parts != itself % parts
    assert (np.isinf(distance) == apart).all()
    assert (hop == itself[:, None])[apart].all()


def test_two_viewpoints_in_one_place_are_neighbours_all_the_same():
    adjacent = np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]], dtype=bool)
    distance, hop = shortest_paths(
        ScanGraph("s", ("a", "b", "c"), np.array([[0, 0, 0], [0, 0, 0], [0, 2.0, 0]]), adjacent)
    )
    assert distance[0].tolist() == [0, 0, 2]
    assert hop[0].tolist() == [0, 1, 1]


@pytest.mark.parametrize("count", [0, 1])
def test_hardly_any_viewpoints(count):
    distance, hop = shortest_paths(
        ScanGraph("s", ("a",) * count, np.zeros((count, 3)), np.zeros((count, count), dtype=bool))
    )
    assert distance.tolist() == [[0.0]] * count
    assert hop.tolist() == [[0]] * count
