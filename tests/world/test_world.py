"""The world as tensors: layout, names, angles, and what building it refuses."""

import math
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vlnbert.environment.contract import check_world
from vlnbert.errors import UnknownNameError, UsageError, VlnbertError
from vlnbert.sources.connectivity import ScanGraph, read_connectivity
from vlnbert.world.build import build_world, find_candidates, open_world, shortest_paths
from vlnbert.world.world import STOP, VIEWS, angle_feature, level_view, view_elevation, view_heading, wrapped


def test_scans_lie_one_behind_the_other(world):
    assert world.scans == ("alpha", "beta", "gamma")
    assert world.viewpoints[:7] == ("a0", "a1", "a2", "a3", "a4", "a5", "b0")
    assert (len(world), world.slots) == (17, 4)
    assert world.scan_of.tolist() == [0] * 6 + [1] * 5 + [2] * 6
    assert check_world(world) == []


def test_known_geometry(world):
    place = world.find("alpha", "a3")
    assert world.position.dtype == world.distance.dtype == torch.float64  # lengths are exact
    assert world.position[place].tolist() == [2, 0, 0]
    assert world.choices[place] == 4
    assert [world.viewpoints[there] for there in world.neighbour[place]] == ["a3", "a2", "a4", "a0"]
    assert world.view[place].tolist() == [0, 13, 27, 21]
    degrees = torch.rad2deg(world.heading[place]).tolist()
    assert degrees == pytest.approx([0, math.degrees(math.atan2(1, 2)), 90, 270], abs=1e-4)
    assert world.elevation[place].tolist() == pytest.approx([0, 0, math.atan2(1, 2), 0], abs=1e-6)


def test_stop_and_padding_stay_and_hold_zeros(world):
    blank = torch.arange(world.slots) >= world.choices[:, None]
    blank[:, STOP] = True
    assert torch.equal(world.neighbour[blank], torch.arange(len(world)).repeat_interleave(blank.sum(dim=1)))
    for table in (world.view, world.heading, world.elevation):
        assert not table[blank].any()


def test_metres(world):
    pairs = {("a0", "a2"): 2 + math.sqrt(5), ("a0", "a5"): 2 + math.sqrt(5) + 3, ("a4", "a4"): 0}
    for (start, end), metres in pairs.items():
        found = world.metres(*(torch.tensor([world.find("alpha", name)]) for name in (start, end)))
        assert found.item() == pytest.approx(metres)
    gap = world.metres(torch.tensor(world.find("gamma", "g0")), torch.tensor(world.find("gamma", "g3")))
    assert gap == math.inf


def test_the_tables_are_those_of_each_scan(tiny, world):
    for scan, path in tiny.folder.graphs().items():
        graph = read_connectivity(path)
        distance, hop = shortest_paths(graph)
        found = find_candidates(graph)
        number = torch.tensor([world.find(scan, name) for name in graph.viewpoints])
        start, end = number[:, None].expand(-1, len(number)), number.expand(len(number), -1)
        assert world.metres(start, end).tolist() == distance.tolist()
        slot = world.next_slot[world.pair(start, end)].long()
        assert torch.equal(world.neighbour[start, slot], number[torch.from_numpy(hop)])
        there = world.neighbour[number[found.viewpoint], torch.from_numpy(found.slot + 1)]
        assert torch.equal(there, number[found.neighbour])


def test_a_world_of_some_scans(tiny, world):
    part = open_world(tiny.folder, scans=["gamma", "alpha", "gamma"])
    assert part.scans == ("alpha", "gamma")
    assert part.fingerprint() != world.fingerprint()
    with pytest.raises(UnknownNameError, match="no scan 'alpa'; did you mean alpha"):
        open_world(tiny.folder, scans=["alpa"])


def test_a_world_of_no_scans(tiny):
    with pytest.raises(VlnbertError):
        open_world(tiny.folder, scans=[])


def test_find_says_what_is_unknown(world):
    assert world.find("beta", "b5") == 10
    with pytest.raises(UnknownNameError, match="no scan 'betta'; did you mean beta"):
        world.find("betta", "b0")
    with pytest.raises(UnknownNameError, match="no viewpoint in scan beta 'b4'; known: b0, b1"):
        world.find("beta", "b4")
    with pytest.raises(UnknownNameError, match="no viewpoint in scan beta 'xyz'; known: b0, b1, b2, b3, b5"):
        world.find("beta", "xyz")


def test_names_in_a_scan(world):
    assert world.names_in("beta") == ["b0", "b1", "b2", "b3", "b5"]


def test_to_the_same_device_is_the_same_world(world):
    assert world.to("cpu") is world
    assert world.to("meta").device.type == "meta"


def test_fingerprints_tell_scans_apart(tiny):
    """The same house under another name has other features."""
    graph = read_connectivity(tiny.folder.graphs()["alpha"])
    other = ScanGraph("other", graph.viewpoints, graph.position, graph.adjacent)
    assert build_world([graph]).fingerprint() != build_world([other]).fingerprint()


def test_fingerprints_tell_views_apart(world):
    turned = replace(world, view=(world.view + 1) * (world.view > 0))
    assert turned.fingerprint() != world.fingerprint()


def test_a_viewpoint_of_many_neighbours():
    """Next hops are kept in a byte: a world they do not fit in is refused, or fits."""
    count = 140
    positions = np.random.default_rng(0).uniform(-5, 5, (count, 3))
    clique = ScanGraph("s", tuple(map(str, range(count))), positions, ~np.eye(count, dtype=bool))
    with suppress(VlnbertError):
        assert check_world(build_world([clique])) == []


@pytest.mark.parametrize("count", [0, 1])
def test_a_scan_without_edges(tiny, count):
    bare = ScanGraph("bare", ("v",) * count, np.zeros((count, 3)), np.zeros((count, count), dtype=bool))
    world = build_world([bare, read_connectivity(tiny.folder.graphs()["alpha"])])
    assert len(world) == 6 + count
    assert check_world(world) == []


ANGLES = st.floats(-100, 100)


def test_views_turn_right_and_rise():
    views = torch.arange(VIEWS)
    steps = [30 * step for step in range(12)]
    assert torch.rad2deg(view_heading(views)).round().tolist() == steps * 3
    assert torch.rad2deg(view_elevation(views)).round().tolist() == [-30] * 12 + [0] * 12 + [30] * 12


@pytest.mark.parametrize("degrees", range(0, 720, 15))
def test_halves_round_up_and_full_turns_are_none(degrees):
    heading = torch.tensor(math.radians(degrees), dtype=torch.float64)
    assert level_view(heading) == 12 + (degrees + 15) // 30 % 12


@given(st.floats(-20, 20))
def test_the_level_view_is_the_nearest(heading):
    heading = torch.tensor(heading, dtype=torch.float64)
    view = level_view(heading)
    assert 12 <= view < 24
    assert wrapped(heading - view_heading(view)).abs() <= math.radians(15) + 1e-9


@given(ANGLES)
def test_wrapped_is_the_same_direction_within_half_a_turn(angle):
    angle = torch.tensor(angle, dtype=torch.float64)
    short = wrapped(angle)
    assert -math.pi <= short < math.pi
    turns = (angle - short) / (2 * math.pi)
    assert turns.sub(turns.round()).abs() < 1e-9


def test_wrapped_at_the_seam():
    seam = torch.tensor([math.pi, -math.pi, 3 * math.pi], dtype=torch.float64)
    torch.testing.assert_close(wrapped(seam), torch.full((3,), -math.pi, dtype=torch.float64))


@given(ANGLES, ANGLES, st.sampled_from([4, 8, 128]))
def test_angle_features_are_sin_cos_of_heading_then_elevation(heading, elevation, width):
    feature = angle_feature(torch.tensor([heading]).double(), torch.tensor([elevation]).double(), width)
    heading, elevation = torch.tensor(heading).double().item(), torch.tensor(elevation).double().item()
    assert feature.shape == (1, width)
    parts = [math.sin(heading), math.cos(heading), math.sin(elevation), math.cos(elevation)]
    assert feature[0].tolist() == pytest.approx(parts * (width // 4), abs=1e-5)


def test_angle_features_of_any_shape():
    assert angle_feature(torch.zeros(2, 3), torch.zeros(2, 3)).shape == (2, 3, 128)


@pytest.mark.parametrize("width", [0, 2, 6, -4])
def test_a_width_that_cannot_be_made(width):
    with pytest.raises(UsageError, match="multiple of 4"):
        angle_feature(torch.zeros(1), torch.zeros(1), width)
