"""A house in a mirror: what flipped rows see is what one would see in a house built that way."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from torch import Tensor

from vlnbert.environment.environment import (
    WANTS,
    Environment,
    Observation,
    State,
    flip_observation,
    flip_words,
    other_sides,
)
from vlnbert.errors import UsageError
from vlnbert.world.banks import FeatureBank
from vlnbert.world.objects import VisibleObjects
from vlnbert.world.world import STEPS, VIEWS, World

NAMES = ("choosable", "direction", "facing")


def tokenizer_of(pieces: list[str]) -> Tokenizer:
    return Tokenizer(WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))


def other_view(view: Tensor) -> Tensor:
    """The view that shows the same in a mirror."""
    step = view % STEPS
    return view - step + (-step) % STEPS


def everywhere(world: World) -> State:
    """An agent at each viewpoint with each view."""
    viewpoint = torch.arange(len(world)).repeat_interleave(VIEWS)
    return State(viewpoint, torch.arange(VIEWS).repeat(len(world)), torch.zeros(len(viewpoint), dtype=torch.bool))


def assert_same(seen: Observation, built: Observation) -> None:
    for name in NAMES:
        torch.testing.assert_close(getattr(seen, name), getattr(built, name), atol=2e-6, rtol=0)


def test_a_mirror_shows_the_mirrored_house(world: World) -> None:
    built = Environment(replace(world, heading=-world.heading, view=other_view(world.view)))
    state = everywhere(world)
    there = replace(state, view=other_view(state.view))
    seen = flip_observation(Environment(world).observe(state), torch.ones_like(state.ended))
    assert_same(seen, built.observe(there))
    moved, moved_there = Environment(world).step(state, state.view % 2), built.step(there, state.view % 2)
    assert torch.equal(other_view(moved.view), moved_there.view)  # and so it goes on


def test_a_panorama_turns_the_other_way(world: World) -> None:
    """In the mirrored house a view shows what its counterpart shows, which lies on the other side."""
    values = torch.rand(len(world), VIEWS, 3)
    other = other_view(torch.arange(VIEWS))

    def bank(values: Tensor) -> FeatureBank:
        return FeatureBank(values.flatten(0, 1), torch.arange(len(world) * VIEWS).view(-1, VIEWS))

    here = Environment(world, open_panoramas=lambda: bank(values)).showing(WANTS)
    mirrored = replace(world, heading=-world.heading, view=other_view(world.view))
    built = Environment(mirrored, open_panoramas=lambda: bank(values[:, other])).showing(WANTS)
    state, flipped = everywhere(world), torch.arange(len(world) * VIEWS) % 2 == 0
    plain, seen = here.observe(state), flip_observation(here.observe(state), flipped)
    there = built.observe(replace(state, view=other_view(state.view)))
    assert not torch.equal(there.panorama.features, plain.panorama.features)
    for rows, expected in ((flipped, there), (~flipped, plain)):
        assert torch.equal(seen.panorama.features[rows], expected.panorama.features[rows])
        torch.testing.assert_close(seen.panorama.direction[rows], expected.panorama.direction[rows], atol=2e-6, rtol=0)
        assert torch.equal(seen.neighbours[rows], expected.neighbours[rows]), "viewpoints are the same in a mirror"


def test_only_flipped_rows_change(world: World) -> None:
    state = everywhere(world)
    observed = Environment(world).observe(state)
    half = torch.tensor([False, True]).repeat(len(state.view) // 2)
    seen, mirrored = flip_observation(observed, half), flip_observation(observed, torch.ones_like(half))
    for name in NAMES:
        assert torch.equal(getattr(seen, name)[::2], getattr(observed, name)[::2])
        assert torch.equal(getattr(seen, name)[1::2], getattr(mirrored, name)[1::2])


@given(left=st.floats(0, 0.5), width=st.floats(0.01, 0.5))
def test_a_box_changes_sides(left: float, width: float) -> None:
    box = torch.tensor([left, 0.2, left + width, 0.7, width * 0.5])
    position = torch.stack((box, torch.zeros(5)))[None]
    direction = torch.tensor([[[0.6, 0.8, 0.0, 1.0], [0.0] * 4]])
    seen = VisibleObjects(torch.ones(1, 2, 3), position, direction, torch.tensor([[True, False]]))
    nothing = torch.zeros(1, 1, 4)
    observed = Observation(torch.ones(1, 1, dtype=torch.bool), nothing, nothing[:, 0], None, seen)
    found = flip_observation(observed, torch.tensor([True])).visible_objects
    expected = torch.tensor([1 - left - width, 0.2, 1 - left, 0.7, width * 0.5])
    torch.testing.assert_close(found.position[0, 0], expected)
    assert not found.position[0, 1].any()  # padding stays empty
    assert torch.equal(found.direction[0], torch.tensor([[-0.6, 0.8, 0.0, 1.0], [0.0] * 4]))
    assert torch.equal(found.features, seen.features)


def test_words_change_sides() -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "left", "right", "the", "##left", "Ġright", "Ġleft"]
    table = other_sides(tokenizer_of(pieces))
    tokens = torch.tensor([[2, 4, 6, 3, 0], [2, 4, 6, 3, 0]])
    assert flip_words(tokens, torch.tensor([True, False]), table).tolist() == [[2, 5, 6, 3, 0], [2, 4, 6, 3, 0]]
    assert [pieces[number] for number in table.tolist()] == [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "right", "left", "the"),
        *("##left", "Ġleft", "Ġright"),  # a piece whose other side is not there stays
    ]


@pytest.mark.parametrize("tokenizer", [None, tokenizer_of(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "left"])])
def test_without_the_words_it_is_refused(tokenizer: object) -> None:
    with pytest.raises(UsageError, match="needs the words left and right"):
        other_sides(tokenizer)


def test_nobody_waits(world: World, no_waiting: Callable[[], AbstractContextManager[None]]) -> None:
    state, flipped = everywhere(world), torch.arange(len(world) * VIEWS) % 2 == 0
    tokens, table = torch.ones(len(flipped), 3, dtype=torch.long), torch.arange(5)
    bank = FeatureBank(torch.ones(1, 2), torch.zeros(len(world), VIEWS, dtype=torch.long))
    observed = Environment(world, open_panoramas=lambda: bank).showing(WANTS).observe(state)
    with no_waiting():
        flip_observation(observed, flipped)
        flip_words(tokens, flipped, table)
