"""Two processes that learn together learn what one would: the same weights to rounding, and the same scores."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from tests.learning.samples import CONFIG, NO_DROPOUT, SHAPE, Watcher, trainer
from tests.processes import together
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.trainer import TrainingError
from vlnbert.ranks import ALONE, Ranks

# Clipped, so that the norm of all gradients counts; one episode a batch in validation, so that both ranks have some.
TOGETHER = replace(CONFIG, iterations=20, batch=8, grad_clip=0.5, validate_every=10, validation_batch=1)
VARIANTS = {
    "plain": TOGETHER,
    "accumulated": replace(TOGETHER, accumulate=2, batch=4),
    "one row each": replace(TOGETHER, batch=2),  # one rank follows the teacher, the other explores
    "nothing to validate": replace(TOGETHER, validation_batch=256),  # for the second rank
    "word labels": replace(TOGETHER, objective=ObjectiveConfig(alignment=2.0)),
}


@dataclass(frozen=True)
class Learned:
    weights: dict[str, NDArray[Any]]
    losses: dict[int, dict[str, float]]
    scores: dict[int, Any]
    best: tuple[object, ...]


class Selfish(Ranks):
    """A rank that divides by its own counts."""

    def sum(self, tensor: Tensor) -> Tensor:
        return tensor * self.count if tensor.dim() == 0 else super().sum(tensor)


def learn(ranks: Ranks, house: Path, folder: Path, config: TrainConfig, kind: type[Ranks] = Ranks) -> Learned:
    """Train without dropout, in double precision; each rank has a folder of its own that it might write to."""
    shape, ranks = replace(SHAPE, **NO_DROPOUT), kind(ranks.rank, ranks.count)
    one = trainer(house, folder / str(ranks.rank), config, ranks, shape, torch.float64)
    watcher = Watcher()
    one.callbacks = [watcher]
    one.train()
    found = {name: value.numpy() for name, value in one.model.state_dict().items()}
    return Learned(found, watcher.losses, watcher.scores, (one.progress.best, one.progress.best_iteration))


def distance(one: Learned, other: Learned) -> float:
    return max(float(np.abs(one.weights[name] - other.weights[name]).max()) for name in one.weights)


@pytest.mark.parametrize("variant", VARIANTS)
def test_two_learn_what_one_would(labelled_house: Path, tmp_path: Path, variant: str) -> None:
    alone = learn(ALONE, labelled_house, tmp_path / "alone", VARIANTS[variant])
    first, second = together(2, tmp_path, learn, labelled_house, tmp_path / "two", VARIANTS[variant])
    assert distance(first, second) == 0
    assert distance(first, alone) < 1e-8
    for iteration, parts in alone.losses.items():
        assert first.losses[iteration] == pytest.approx(parts, abs=1e-8)
        assert (parts["alignment"] > 0) == (variant == "word labels")
    assert first.scores == second.scores == alone.scores
    assert first.best == second.best == alone.best
    assert (tmp_path / "two" / "0" / "last.json").exists()
    assert not (tmp_path / "two" / "1").exists(), "one rank writes"


def test_who_counts_only_its_own_learns_something_else(house: Path, tmp_path: Path) -> None:
    """The comparison above can fail: rollouts of different lengths must be weighed together."""
    alone = learn(ALONE, house, tmp_path / "alone", TOGETHER)
    first, second = together(2, tmp_path, learn, house, tmp_path / "two", TOGETHER, Selfish)
    assert distance(first, second) == 0
    assert distance(first, alone) > 1e-6


def learn_until(ranks: Ranks, house: Path, folder: Path, trouble: str) -> tuple[int, bool, str]:
    """Train until something happens on the second rank alone."""
    one, told = trainer(house, folder / str(ranks.rank), replace(TOGETHER, report_every=3), ranks), ""
    if ranks.rank == 1 and trouble == "asked":
        one.stopping = True
    if ranks.rank == 1 and trouble == "broken":
        torch.nn.init.constant_(one.model.critic[3].bias, torch.nan)
    try:
        one.train()
    except TrainingError as error:
        told = str(error)
    return one.progress.iteration, one.stopping, told


def test_one_who_is_asked_to_stop_stops_all(house: Path, tmp_path: Path) -> None:
    first, second = together(2, tmp_path, learn_until, house, tmp_path / "two", "asked")
    assert first == second == (1, True, ""), "after the update under way, and all know why"
    assert (tmp_path / "two" / "0" / "checkpoints" / "0000001").is_dir()


def test_a_loss_that_is_no_number_on_one_stops_all(house: Path, tmp_path: Path) -> None:
    found = together(2, tmp_path, learn_until, house, tmp_path / "two", "broken")
    assert all("the loss of batch 0 is nan" in told for _, _, told in found)
    assert (tmp_path / "two" / "0" / "checkpoints" / "0000000").is_dir()
