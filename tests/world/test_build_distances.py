"""Distances are a metric and agree with Floyd-Warshall; next hops lead to the goal in that distance."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vlnbert.sources.connectivity import ScanGraph
from vlnbert.world.build import shortest_paths

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
