"""A house in a mirror, or turned: what the augmentation shows is what one would see in a house built that way."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from torch import Tensor

from vlnbert.environment.augment import Augmentation, other_side
from vlnbert.environment.environment import Environment, State
from vlnbert.errors import UsageError
from vlnbert.world import World
from vlnbert.world.geometry import STEPS, VIEWS
from vlnbert.world.object_bank import VisibleObjects

NAMES = ("choosable", "direction", "facing")


def tokenizer_of(pieces: list[str]) -> Tokenizer:
    return Tokenizer(WordPiece({piece: number for number, piece in enumerate(pieces)}, unk_token="[UNK]"))


def other_view(view: Tensor, mirrored: bool = False, steps: int = 0) -> Tensor:
    """The view that shows the same, in a mirror or `steps` of 30 degrees further."""
    step = view % STEPS
    return view - step + ((-step if mirrored else step + steps) % STEPS)


def everywhere(world: World) -> State:
    """An agent at each viewpoint with each view."""
    viewpoint = torch.arange(len(world)).repeat_interleave(VIEWS)
    return State(viewpoint, torch.arange(VIEWS).repeat(len(world)), torch.zeros(len(viewpoint), dtype=torch.bool))


def changed(state: State, side: float = 1.0, turn: float = 0.0) -> Augmentation:
    rows = torch.ones(len(state.viewpoint))
    return Augmentation(side * rows, turn * rows)


def assert_same(augmented: object, built: object) -> None:
    for name in NAMES:
        torch.testing.assert_close(getattr(augmented, name), getattr(built, name), atol=2e-6, rtol=0)


def test_a_mirror_shows_the_mirrored_house(world: World) -> None:
    built = Environment(replace(world, heading=-world.heading, view=other_view(world.view, mirrored=True)))
    state = everywhere(world)
    there = replace(state, view=other_view(state.view, mirrored=True))
    seen = changed(state, side=-1.0)(Environment(world).observe(state))
    assert_same(seen, built.observe(there))
    moved, moved_there = Environment(world).step(state, state.view % 2), built.step(there, state.view % 2)
    assert torch.equal(other_view(moved.view, mirrored=True), moved_there.view)  # and so it goes on


@pytest.mark.parametrize("steps", [1, 5, 11])
def test_a_turn_shows_the_turned_house(world: World, steps: int) -> None:
    angle = steps * 2 * math.pi / STEPS
    built = Environment(replace(world, heading=world.heading + angle, view=other_view(world.view, steps=steps)))
    state = everywhere(world)
    seen = changed(state, turn=angle)(Environment(world).observe(state))
    assert_same(seen, built.observe(replace(state, view=other_view(state.view, steps=steps))))


def test_a_row_that_is_not_changed_sees_what_is_there(world: World) -> None:
    state = everywhere(world)
    observed = Environment(world).observe(state)
    assert_same(changed(state)(observed), observed)
    half = Augmentation(torch.tensor([1.0, -1.0]).repeat(len(state.view) // 2), torch.zeros(len(state.view)))
    seen, mirrored = half(observed), changed(state, side=-1.0)(observed)
    for name in NAMES:
        assert torch.equal(getattr(seen, name)[::2], getattr(observed, name)[::2])
        assert torch.equal(getattr(seen, name)[1::2], getattr(mirrored, name)[1::2])
    some = torch.tensor([1, 4, 7])
    assert torch.equal(half.only(some).side, torch.tensor([-1.0, 1.0, -1.0]))


@given(left=st.floats(0, 0.5), width=st.floats(0.01, 0.5))
def test_a_box_changes_sides(left: float, width: float) -> None:
    box = torch.tensor([left, 0.2, left + width, 0.7, width * 0.5])
    position = torch.stack((box, torch.zeros(5)))[None]
    direction = torch.tensor([[[0.6, 0.8, 0.0, 1.0], [0.0] * 4]])
    seen = VisibleObjects(torch.ones(1, 2, 3), position, direction, torch.tensor([[True, False]]))
    found = Augmentation(torch.tensor([-1.0]), torch.tensor([0.3]))._objects(seen)
    expected = torch.tensor([1 - left - width, 0.2, 1 - left, 0.7, width * 0.5])
    torch.testing.assert_close(found.position[0, 0], expected)
    assert not found.position[0, 1].any()  # padding stays empty
    assert torch.equal(found.direction[0], torch.tensor([[-0.6, 0.8, 0.0, 1.0], [0.0] * 4]))
    assert torch.equal(found.features, seen.features)


def test_words_change_sides() -> None:
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "left", "right", "the", "##left", "Ġright", "Ġleft"]
    table = other_side(tokenizer_of(pieces))
    assert [pieces[number] for number in table.tolist()] == [
        *("[PAD]", "[UNK]", "[CLS]", "[SEP]", "right", "left", "the"),
        *("##left", "Ġleft", "Ġright"),  # a piece whose other side is not there stays
    ]


@pytest.mark.parametrize("tokenizer", [None, tokenizer_of(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "left"])])
def test_without_the_words_it_is_refused(tokenizer: object) -> None:
    with pytest.raises(UsageError, match="needs the words left and right"):
        other_side(tokenizer)
