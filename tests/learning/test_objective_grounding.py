"""Which rows the grounding loss counts and what it is divided by, in numbers that were computed by hand."""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.learning.objectives import made, navigation_objective
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.presets import presets
from vlnbert.ranks import ALONE, Ranks
from vlnbert.rollout.mixed import SAMPLE, TEACHER

POLICY = torch.tensor([TEACHER, SAMPLE, TEACHER, SAMPLE, TEACHER])
LIVE = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 1, 0], [1, 1, 0, 1, 0]], dtype=torch.bool)
# Row 1 comes by its goal twice, row 4 still looks at its target after it has stopped, row 2's goal does not show it.
NAMED = torch.tensor([[0, 0, 0, 0, 0.5], [0, 2.0, 0, 0, 7.0], [1.5, 3.0, 0, 0.25, 7.0]], dtype=torch.float64)
BY_HAND = {"all": (0.5 + 2 + 1.5 + 3 + 0.25) / 5, "teacher-forced": (0.5 + 1.5) / 3}


@dataclass(frozen=True)
class Two(Ranks):
    """One of two ranks, with what the other counts at each sum."""

    count: int = 2
    theirs: Iterator[Tensor] = field(default_factory=lambda: iter(()))

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor + next(self.theirs)


def beside(other: slice) -> Two:
    """The rank that has all rows but these."""
    return Two(theirs=iter([(POLICY[other] == TEACHER).sum(), (LIVE[:, other] & (POLICY[other] == SAMPLE)).sum()]))


def objective(rows: slice, ranks: Ranks = ALONE, **settings: Any) -> Any:
    live, named = LIVE[:, rows], NAMED[:, rows].clone().requires_grad_()
    nothing = torch.zeros(live.shape, dtype=torch.float64)
    at = torch.zeros(len(live) + 1, live.shape[1], dtype=torch.long)
    rollout = made(
        POLICY[rows],
        viewpoint=at,
        view=at,
        slot=at[:-1],
        teacher=at[:-1],
        live=live,
        logits=torch.zeros(*live.shape, 3, dtype=torch.float64),
        value=nothing,
        grounding_loss=named,
        alignment_loss=nothing,
        last_value=nothing[0],
        ended=torch.ones(live.shape[1], dtype=torch.bool),
    )
    return navigation_objective(rollout, POLICY[rows], nothing, ObjectiveConfig(**settings), ranks)


@pytest.mark.parametrize("which", BY_HAND)
def test_the_rows_that_count_and_what_divides_their_sum(which: str) -> None:
    found = objective(slice(None), grounding=2.0, grounding_rows=which)
    assert found.grounding.item() == pytest.approx(2 * BY_HAND[which], rel=1e-12)
    other = objective(slice(None), grounding=0.0, grounding_rows=which)
    assert (found.total - other.total).item() == pytest.approx(found.grounding.item(), rel=1e-12)


def test_all_rows_count_unless_a_preset_says_otherwise() -> None:
    """Runs of before have no such setting, and were trained so."""
    assert objective(slice(None)).grounding.item() == pytest.approx(BY_HAND["all"], rel=1e-12)


@pytest.mark.parametrize("which", BY_HAND)
def test_without_teacher_forced_rows_nothing_is_divided_by_zero(which: str) -> None:
    found = objective(slice(3, 4), grounding_rows=which)
    assert found.grounding.item() == (0.25 if which == "all" else 0.0)


@pytest.mark.parametrize("cut", [1, 2, 4])
def test_the_mean_over_two_ranks_is_that_of_the_whole_batch(cut: int) -> None:
    """Whichever share of the teacher-forced rows each of them has."""
    left, right = slice(0, cut), slice(cut, 5)
    parts = [objective(left, beside(right), grounding_rows="teacher-forced")]
    parts.append(objective(right, beside(left), grounding_rows="teacher-forced"))
    mean = sum(part.grounding.item() for part in parts) / 2
    assert mean == pytest.approx(BY_HAND["teacher-forced"], rel=1e-12)


def test_the_paper_s_presets_ground_as_the_public_agents_do_and_ours_as_before() -> None:
    names = [name for name in presets if "reverie" in name and "speaker" not in name]
    found = {name: presets.navigator(name).training.objective for name in names}
    assert {name: objective.grounding_rows for name, objective in found.items()} == {
        "demo-reverie": "all",
        "reverie-open": "all",
        "reverie-one-stream": "teacher-forced",
        "reverie-two-stream": "teacher-forced",
    }
    for name in ("reverie-one-stream", "reverie-two-stream"):
        assert replace(found[name], grounding_rows="all") == ObjectiveConfig(), "weighted as there, by 1"
