"""Ranks that die or hang end the others, in a line; a run goes on with another number of ranks, to rounding."""

import os
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from tests.learning.samples import CONFIG, NO_DROPOUT, SHAPE, trainer
from tests.processes import together
from vlnbert.data.data import open_data
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.run_folder import last_checkpoint
from vlnbert.learning.run_record import read_record
from vlnbert.learning.runs import begin_run, resume_notes, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.ranks import ALONE, RankError, Ranks

HALF, WHOLE = 8, 16
STEADY = replace(CONFIG, iterations=WHOLE, batch=8, validate_every=HALF, grad_clip=0.5, validation_batch=1)
TIMEOUT = 5  # seconds


def exact(house: Path, run: Path, ranks: Ranks) -> Trainer:
    """Without dropout, in double precision."""
    return trainer(house, run, STEADY, ranks, replace(SHAPE, **NO_DROPOUT), torch.float64)


def learn_half(ranks: Ranks, house: Path, run: Path) -> None:
    one = exact(house, run, ranks)
    one.advanced = lambda iteration: setattr(one, "stopping", iteration == HALF)
    one.train()


def learn_on(ranks: Ranks, house: Path, run: Path) -> int:
    one = exact(house, run, ranks)
    one.resume()
    began = one.progress.iteration
    one.train()
    return began


@pytest.fixture(scope="module")
def uninterrupted(house: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, torch.Tensor]:
    run = tmp_path_factory.mktemp("uninterrupted") / "run"
    exact(house, run, ALONE).train()
    return load_file(last_checkpoint(run) / "model.safetensors")


@pytest.mark.parametrize(("before", "after"), [(1, 2), (2, 1)])
def test_a_run_goes_on_with_other_ranks(
    house: Path, tmp_path: Path, uninterrupted: dict[str, torch.Tensor], before: int, after: int
) -> None:
    run = tmp_path / "run"
    for count, work in ((before, learn_half), (after, learn_on)):
        (tmp_path / str(count)).mkdir()
        found = [work(ALONE, house, run)] if count == 1 else together(count, tmp_path / str(count), work, house, run)
    assert found == [HALF] * after
    weights = load_file(last_checkpoint(run) / "model.safetensors")
    assert last_checkpoint(run).name == f"{WHOLE:07d}"
    assert weights.keys() == uninterrupted.keys()
    assert {weight.dtype for weight in weights.values()} == {torch.float64}
    assert max(float((weights[name] - uninterrupted[name]).abs().max()) for name in weights) < 1e-9


@dataclass(frozen=True)
class Told:
    text: str
    seconds: float  # from the last update that all made


def learn_until_lost(ranks: Ranks, house: Path, run: Path, trouble: Callable[[], Any], when: int) -> Told | None:
    """Train until the second rank has trouble; what the first is told."""
    one = trainer(house, run, replace(CONFIG, iterations=10**6, validate_every=4), ranks)
    last = [time.monotonic()]

    def advanced(iteration: int) -> None:
        last[0] = time.monotonic()
        if iteration == when and ranks.rank == 1:
            trouble()

    one.advanced = advanced
    try:
        one.train()
    except RankError as error:
        return Told(str(error), time.monotonic() - last[0])
    return None


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hang() -> None:
    time.sleep(600)


def hang_for_a_while() -> None:
    time.sleep(TIMEOUT / 2)
    die()


def test_a_killed_rank_ends_the_others_at_once(house: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    told, dead = together(2, tmp_path, learn_until_lost, house, run, die, 6)
    assert dead is None
    expected = f"another process of this training has ended; go on with: vlnbert train --resume {run}"
    assert told.text == expected
    assert told.seconds < TIMEOUT
    assert last_checkpoint(run).name == "0000004"
    resumed = trainer(house, run)
    resumed.resume()
    assert resumed.progress.iteration == 4, "the last checkpoint is whole"


def test_a_rank_that_hangs_is_given_up(house: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    told = lost_to(hang, house, run, tmp_path)
    assert told.text.startswith("another process of this training does not answer (where one may take so long")
    assert "give more: rank_timeout=SECONDS" in told.text
    assert TIMEOUT * 0.9 < told.seconds < TIMEOUT + 5
    assert last_checkpoint(run).name == "0000004"


def test_a_rank_that_takes_its_time_is_waited_for(house: Path, tmp_path: Path) -> None:
    told = lost_to(hang_for_a_while, house, tmp_path / "run", tmp_path)
    assert "has ended" in told.text
    assert told.seconds > TIMEOUT * 0.45, "it was waited for until it died"


def lost_to(trouble: Callable[[], Any], house: Path, run: Path, folder: Path) -> Told:
    """What the first of two is told; the second may never answer."""
    return together(2, folder, learn_until_lost, house, run, trouble, 6, timeout=TIMEOUT, heard=1)[0]


EXPERIMENT = Experiment(
    train_on=("r2r/train",),
    validate_on=("r2r/val_unseen",),
    best_on="r2r/val_unseen",
    navigator=SHAPE,
    training=replace(CONFIG, iterations=3),
)


def resumed_lines(house: Path, run: Path) -> list[str]:
    lines = list[str]()
    resume_run(run, open_data(house), tell=lines.append)
    return [line for line in lines if "was begun by" in line]


def test_other_ranks_and_threads_are_recorded_and_told(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = tmp_path / "run"
    begin_run("mine", EXPERIMENT, open_data(house), run)
    record = read_record(run)
    assert (record.ranks, record.threads) == (1, torch.get_num_threads())
    assert resumed_lines(house, run) == []
    monkeypatch.setattr(torch, "get_num_threads", lambda: record.threads + 1)
    (line,) = resumed_lines(house, run)
    team = f"1 process of {record.threads} thread{'s' if record.threads > 1 else ''}"
    assert line.startswith(f"{run} was begun by {team} and goes on by 1 process of {record.threads + 1} threads")
    assert line.endswith("the same but for rounding: the bits will differ")
    one = resume_run(run, open_data(house))
    (line,) = resume_notes(run, replace(record, ranks=2, threads=None), one)
    assert "was begun by 2 processes" in line
    assert line.endswith("dropout differs, and so will the weights")
    assert list(resume_notes(run, replace(record, ranks=None, threads=None), one)) == [], "an older run did not say"
    for module in one.model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    (line,) = resume_notes(run, replace(record, ranks=2, threads=None), one)
    assert line.endswith("the same but for rounding: the bits will differ")
    next(one for one in one.model.modules() if hasattr(one, "attention_dropout")).attention_dropout = 0.25
    (line,) = resume_notes(run, replace(record, ranks=2, threads=None), one)
    assert line.endswith("dropout differs, and so will the weights"), "of attention, which is no module"
