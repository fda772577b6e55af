"""Graphs: what is read from a good file, and every fault of a bad one."""

import numpy as np
import pytest

from vlnbert.errors import VlnbertError
from vlnbert.sources.connectivity import read_connectivity

ALPHA, BETA = "connectivity/alpha_connectivity.json", "connectivity/beta_connectivity.json"


def test_a_graph_in_file_order(tiny):
    graph = read_connectivity(tiny.path(ALPHA))
    assert (graph.scan, graph.viewpoints) == ("alpha", ("a0", "a1", "a2", "a3", "a4", "a5"))
    assert graph.position.dtype == np.float64
    assert graph.position[4].tolist() == [4, 0, 1]
    assert graph.adjacent[3].tolist() == [True, False, True, False, True, False]


def test_left_out_viewpoints_are_gone_with_their_edges(tiny):
    graph = read_connectivity(tiny.path(BETA))
    assert graph.viewpoints == ("b0", "b1", "b2", "b3", "b5")
    assert graph.adjacent.sum(axis=1).tolist() == [1, 2, 2, 1, 0]
    assert graph.position[4].tolist() == [9, 9, 0]


def test_no_viewpoint_leads_to_itself(tiny):
    path = tiny.edit(ALPHA, lambda entries: entries[0]["unobstructed"].__setitem__(0, True))
    assert not read_connectivity(path).adjacent.diagonal().any()


def test_one_way_edges_are_named_by_both_ends(tiny, refuses):
    path = tiny.edit(ALPHA, lambda entries: entries[0]["unobstructed"].__setitem__(1, False))
    refuses(path, lambda: read_connectivity(path), "viewpoint a1: leads to a0, which does not lead back")


def test_one_way_edges_to_a_left_out_viewpoint_do_not_matter(tiny):
    path = tiny.edit(BETA, lambda entries: entries[4]["unobstructed"].__setitem__(0, False))
    assert len(read_connectivity(path).viewpoints) == 5


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("image_id", 3, "'image_id' is missing or not a str"),
        ("pose", None, "'pose' is missing or not a list"),
        ("pose", [0] * 15, "'pose' is not 16 finite numbers"),
        ("pose", [float("nan")] * 16, "'pose' is not 16 finite numbers"),
        ("pose", [float("inf")] * 16, "'pose' is not 16 finite numbers"),
        ("pose", [True] * 16, "'pose' is not 16 finite numbers"),
        ("pose", ["0"] * 16, "'pose' is not 16 finite numbers"),
        ("pose", [10**400] * 16, "'pose' is not 16 finite numbers"),
        ("pose", [1e300] * 16, "'pose'"),
        ("included", 1, "'included' is missing or not a bool"),
        ("unobstructed", [True] * 5, "'unobstructed' is not 6 true or false"),
        ("unobstructed", [1] * 6, "'unobstructed' is not 6 true or false"),
        ("visible", {}, "'visible' is missing or not a list"),
        ("visible", [None] * 6, "'visible' is not 6 true or false"),
    ],
)
def test_a_wrong_field(tiny, refuses, field, value, words):
    path = tiny.edit(ALPHA, lambda entries: entries[2].update({field: value}))
    refuses(path, lambda: read_connectivity(path), f"viewpoint 2: {words}")


def test_all_faults_of_a_file_at_once(tiny, refuses):
    def break_it(entries):
        entries[0] = None
        del entries[1]["pose"], entries[1]["included"]
        entries[3]["visible"] = "no"

    path = tiny.edit(ALPHA, break_it)
    expected = ["viewpoint 0: is not an object", "viewpoint 1: 'pose'", "viewpoint 1: 'included'", "viewpoint 3: 'vis"]
    refuses(path, lambda: read_connectivity(path), *expected)


def test_a_viewpoint_twice(tiny, refuses):
    path = tiny.edit(ALPHA, lambda entries: entries[5].update(image_id="a4"))
    refuses(path, lambda: read_connectivity(path), "viewpoint a4: occurs twice")


@pytest.mark.parametrize("document", [[], {}, None, 3, "graph"])
def test_no_list_of_viewpoints(tiny, refuses, document):
    path = tiny.write(ALPHA, document)
    refuses(path, lambda: read_connectivity(path), "does not hold a list of viewpoints")


def test_damaged_and_missing_files(tiny, refuses):
    path = tiny.cut(ALPHA, 100)
    refuses(path, lambda: read_connectivity(path), "line 1 column 97: is not whole JSON")
    path.write_bytes(b'[{"image_id": "\xe9"}]')
    refuses(path, lambda: read_connectivity(path), "byte 15: is not UTF-8 text")
    path.unlink()
    refuses(
        path, lambda: read_connectivity(path), "no such connectivity file; get the open data with: vlnbert data fetch"
    )


def test_a_name_that_cannot_be_written_down(tiny):
    path = tiny.edit(ALPHA, lambda entries: entries[0].update(image_id="\ud800"))
    with pytest.raises(VlnbertError):
        read_connectivity(path)
