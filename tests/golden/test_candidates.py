"""Candidates as the C++ simulator gives them: the same neighbours, in the same order, in the same views."""

import gzip
import json

import numpy as np
import pytest

from vlnbert.sources.connectivity import read_connectivity
from vlnbert.world.build import find_candidates


@pytest.fixture(scope="module")
def expected(golden):
    """By scan and viewpoint."""
    scans = {}
    for path in sorted((golden / "candidates").glob("*.jsonl.gz")):
        with gzip.open(path, "rt") as file:
            lines = [json.loads(line) for line in file]
        scans[path.name.split(".")[0]] = {line["viewpoint"]: line["candidates"] for line in lines}
    return scans


def test_all_scans_are_there(expected):
    assert len(expected) == 45
    assert sum(map(len, expected.values())) > 4000


def test_slots_of_the_world(expected, open_data_world):
    """No difference in neighbours, order or view; angles within a millionth."""
    world = open_data_world
    names, tables = world.viewpoints, {name: tensor.numpy() for name, tensor in world.tensors().items()}
    differences, angles = [], []
    for scan, viewpoints in expected.items():
        assert set(viewpoints) == set(world.names_in(scan))
        for viewpoint, candidates in viewpoints.items():
            number = world.find(scan, viewpoint)
            real = slice(1, tables["choices"][number])
            found = [names[there] for there in tables["neighbour"][number, real]], tables["view"][number, real].tolist()
            wanted = [item["viewpoint"] for item in candidates], [item["view"] for item in candidates]
            if found != wanted:
                differences.append((scan, viewpoint))
                continue
            for name in ("heading", "elevation"):
                numbers = np.array([item[name] for item in candidates])
                angles.append(np.abs(tables[name][number, real] - numbers))
    assert differences == []
    assert np.concatenate(angles).max() < 1e-6


def test_distance_and_rank_within_the_view(expected, open_data):
    for scan, viewpoints in expected.items():
        graph = read_connectivity(open_data.graphs()[scan])
        found = find_candidates(graph)
        wanted = [item for name in graph.viewpoints for item in viewpoints[name]]
        assert found.rank.tolist() == [item["idx"] for item in wanted]
        np.testing.assert_allclose(found.distance, [item["distance"] for item in wanted], atol=1e-6)
