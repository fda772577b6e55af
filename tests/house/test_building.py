"""Graphs and paths: symmetric, connected, within reach; shortest ways that a random walker does not find."""

import math
import random
from itertools import pairwise

import numpy as np
import pytest
from scipy.sparse.csgraph import connected_components, dijkstra

from vlnbert.house.building import line_of_sight
from vlnbert.house.plan import HousePlan, Opening, PlanPoint, Rectangle, Region, _walls


def test_edges_are_symmetric_visible_short_and_few(folder):
    for graph in folder.graphs.values():
        assert (graph.visible == graph.visible.T).all()
        assert (graph.edges == graph.edges.T).all()
        assert not (graph.edges & ~graph.visible).any()
        assert not graph.edges.diagonal().any()
        assert graph.edges.sum(axis=1).max() <= 12
        far = np.linalg.norm(graph.positions[:, None] - graph.positions[None], axis=2)[graph.edges]
        assert far.min() > 0.5
        assert far.max() <= 5.0


def test_included_viewpoints_are_connected_and_some_are_excluded(folder):
    for graph in folder.graphs.values():
        kept = np.flatnonzero(graph.included)
        assert connected_components(graph.edges[np.ix_(kept, kept)])[0] == 1
        assert 1 <= (~graph.included).sum() <= 3


def test_houses_have_one_floor_or_more(folder):
    floors = {len({math.floor(z / 3.0) for z in graph.positions[:, 2]}) for graph in folder.graphs.values()}
    assert floors == {1, 2, 3}


def test_walls_block_and_doors_do_not():
    rooms = [Region(0, "kitchen", 0, Rectangle(0, 0, 4, 4)), Region(1, "office", 0, Rectangle(4, 0, 8, 4))]
    door = Opening(0, 0, 1, floor=0, x=4.0, y=2.0, along="y", half=0.5)
    walls = (_walls(0, rooms, [door]),)
    plan = HousePlan(floors=1, yaw=0.0, regions=tuple(rooms), doors=(door,), stairwells=(), walls=walls)
    eye = PlanPoint(1.0, 2.0, (0,))
    things = [
        PlanPoint(7.0, 2.0, (0,)),
        PlanPoint(7.0, 3.9, (0,)),
        PlanPoint(3.0, 3.9, (0,)),
        PlanPoint(3.0, 3.0, (1,)),
    ]
    assert line_of_sight(plan, [eye], things).tolist() == [[True, False, True, False]]


@pytest.mark.parametrize("split", ["train", "val_seen", "val_unseen"])
def test_paths_are_the_one_shortest_way(folder, split):
    for record in folder.records("R2R", split):
        graph = folder.graphs[record["scan"]]
        nodes = [graph.names.index(name) for name in record["path"]]
        length = sum(graph.lengths[a, b] for a, b in pairwise(nodes))
        assert all(graph.lengths[a, b] > 0 for a, b in pairwise(nodes))
        assert 3 <= len(nodes) - 1 <= 6
        assert length >= 5.0
        assert record["distance"] == round(length, 2)
        assert 0.0 <= record["heading"] < 2 * math.pi
        assert record["heading"] == round(record["heading"], 3)
        assert dijkstra(graph.lengths, indices=nodes[0])[nodes[-1]] == pytest.approx(length, abs=1e-6)
        for a, b in pairwise(nodes):  # without any one of its edges the way is longer
            without = graph.lengths.copy()
            without[a, b] = without[b, a] = 0.0
            assert dijkstra(without, indices=nodes[0])[nodes[-1]] > length + 0.01


def test_splits_share_no_more_than_they_should(folder):
    scans = {s: {r["scan"] for r in folder.records("R2R", s)} for s in ("train", "val_seen", "val_unseen", "test")}
    assert scans["val_seen"] <= scans["train"]
    assert not scans["train"] & scans["val_unseen"]
    assert not scans["train"] & scans["test"]
    assert not scans["val_unseen"] & scans["test"]
    assert scans["train"] | scans["val_unseen"] | scans["test"] == set(folder.scans)
    ends = [{(r["path"][0], r["path"][-1]) for r in folder.records("R2R", split)} for split in ("train", "val_seen")]
    assert not ends[0] & ends[1]


def test_a_random_walker_is_lost(folder):
    """R2R's baseline: a random heading, then five steps forward, turning right where the way is blocked."""
    rng, successes = random.Random(0), []
    for record in folder.records("R2R", "train") + folder.records("R2R", "val_unseen"):
        graph = folder.graphs[record["scan"]]
        goal = dijkstra(graph.lengths, indices=graph.names.index(record["path"][-1]))
        successes.append(goal[walk_at_random(rng, graph, graph.names.index(record["path"][0]))] < 3.0)
    assert np.mean(successes) < 0.25


def walk_at_random(rng, graph, here):
    heading = rng.uniform(0.0, 360.0)
    for _ in range(5):
        ahead = []
        while not ahead:
            for there in np.flatnonzero(graph.lengths[here]):
                towards = graph.heading(graph.names[here], graph.names[there])
                ahead.append((abs((towards - heading + 180.0) % 360.0 - 180.0), towards, int(there)))
            ahead = [option for option in ahead if option[0] <= 30.0]
            heading += 0.0 if ahead else 30.0
        _, heading, here = min(ahead)
    return here
