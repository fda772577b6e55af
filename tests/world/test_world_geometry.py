"""Angles of a panorama."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vlnbert.errors import UsageError
from vlnbert.world.world import VIEWS, angle_feature, level_view, view_elevation, view_heading, wrapped

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
