"""Which split an update comes from: by weights, fading, and the same whenever it is asked for."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.learning.samples import SCORED, SHAPE, same, weights
from vlnbert.data.data import open_data
from vlnbert.errors import UsageError
from vlnbert.learning.batches import SplitSchedule
from vlnbert.learning.experiment import Experiment, TrainConfig
from vlnbert.learning.runs import begin_run, resume_run

TRAINING = TrainConfig(iterations=6, batch=4, learning_rate=1e-3, validate_every=2, max_steps=5)
EXPERIMENT = Experiment(
    train_on=("r2r/train", "r2r/val_seen"), validate_on=(SCORED,), navigator=SHAPE, training=TRAINING
)


def order(schedule: SplitSchedule, count: int) -> list[int]:
    return [schedule.place(update)[0] for update in range(count)]


def test_equal_weights_are_turns() -> None:
    assert order(SplitSchedule((1, 1, 1), (1, 1, 1), 100), 7) == [0, 1, 2, 0, 1, 2, 0]
    assert order(SplitSchedule((0.1, 0.1), (0.1, 0.1), 10_000), 10_000) == [0, 1] * 5_000


def test_weights_by_hand() -> None:
    """Credits 1/4 and 3/4: the second; 2/4, 2/4: the first of equals; -1/4, 5/4; 0, 4/4; then anew."""
    assert order(SplitSchedule((1, 3), (1, 3), 8), 8) == [1, 0, 1, 1] * 2


def test_places_count_what_came_from_a_split() -> None:
    schedule = SplitSchedule((2, 5, 1), (2, 5, 1), 800)
    places = [schedule.place(update) for update in range(800)]
    assert Counter(split for split, _ in places) == {0: 200, 1: 500, 2: 100}
    for split in range(3):
        assert [turn for one, turn in places if one == split] == list(range((200, 500, 100)[split]))


def test_a_split_fades() -> None:
    """From half of all updates to none: a quarter of them over the whole, most of these early."""
    came = order(SplitSchedule((1, 1), (1, 0), 1000), 1000)
    assert sum(came) == pytest.approx(250, abs=2)
    quarters = [sum(came[start : start + 250]) for start in range(0, 1000, 250)]
    assert quarters == sorted(quarters, reverse=True)
    assert quarters[-1] < 20
    assert SplitSchedule((1, 1), (1, 0), 1000).shares(999) == [1.0, 0.0]
    assert SplitSchedule((1, 1), (1, 0), 1000).shares(5000) == [1.0, 0.0], "beyond its end it stays"


def test_whoever_asks_late_gets_the_same() -> None:
    early, late = (SplitSchedule((3, 1), (1, 4), 500) for _ in range(2))
    expected = [early.place(update) for update in range(500)]
    assert [late.place(update) for update in reversed(range(500))] == expected[::-1]


def test_a_training_by_weights_resumes_to_the_same_bits(house: Path, tmp_path: Path) -> None:
    faded = replace(TRAINING, split_weights=(1.0, 2.0), final_split_weights=(1.0, 0.0))
    begin_run("mine", replace(EXPERIMENT, training=faded), open_data(house), tmp_path / "whole").train()
    trainer = begin_run("mine", replace(EXPERIMENT, training=faded), open_data(house), tmp_path / "run")
    trainer.advanced = lambda iteration: setattr(trainer, "stopping", iteration == 3)
    trainer.train()
    assert trainer.progress.iteration == 3
    resume_run(tmp_path / "run").train()
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "run"))
    begin_run("mine", EXPERIMENT, open_data(house), tmp_path / "turns").train()
    assert not same(weights(tmp_path / "whole"), weights(tmp_path / "turns"))
    with pytest.raises(UsageError, match="cannot be extended: the weights of its splits change over 6 updates"):
        resume_run(tmp_path / "run", iterations=9)


@pytest.mark.parametrize("given", [(-1.0, 1.0), (0.0, 0.0), (float("nan"), 1.0), (float("inf"), 1.0)], ids=str)
def test_weights_that_are_none(given: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match=r"split_weights=.* must be 0 or more|split_weights must be 0 or more"):
        TrainConfig(split_weights=given)


def test_one_weight_for_each_split() -> None:
    with pytest.raises(UsageError, match="has 3, train_on 2; give one weight for each split"):
        replace(EXPERIMENT, training=replace(TRAINING, final_split_weights=(1.0, 1.0, 1.0)))


def test_splits_are_counted() -> None:
    with pytest.raises(UsageError, match=r"train_on names 100,001 splits; name at most 100"):
        replace(EXPERIMENT, train_on=("r2r/train",) * 100_001)
    with pytest.raises(UsageError, match=r"validate_on names 101 splits; name at most 100"):
        replace(EXPERIMENT, validate_on=(SCORED,) * 101)


def test_old_trainings_are_as_before() -> None:
    schedule = SplitSchedule((1.0, 1.0), (1.0, 1.0), TRAINING.iterations)
    assert [schedule.place(update) for update in range(4)] == [(0, 0), (1, 0), (0, 1), (1, 1)]
    assert torch.tensor(schedule.shares(0)).sum() == 1
