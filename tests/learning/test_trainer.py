"""Training that never loses work: killed at any moment and resumed, it ends with the same bits."""

import random
import signal
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import vlnbert.learning.trainer
from tests.learning.samples import CONFIG, SCORED, Watcher, go_on, same, trainer, weights
from tests.processes import PROCESSES
from vlnbert.evaluation.evaluate import evaluate_agent
from vlnbert.learning.optimisers import LearningRate
from vlnbert.learning.run_folder import POINTER, Progress, TrainingState, last_checkpoint, save_checkpoint
from vlnbert.learning.trainer import Trainer, TrainingError, dropout_seed
from vlnbert.navigator import Navigator
from vlnbert.rollout.policy import GreedyAgent


def test_a_resumed_run_ends_with_the_same_bits(house: Path, tmp_path: Path) -> None:
    trainer(house, tmp_path / "whole").train()
    first = trainer(house, tmp_path / "halves")
    while first.progress.iteration < 9:  # stopped from outside, between validations too
        first.stopping = False
        stop_after(first, 3)
        first.train()
    assert first.progress.iteration == 9
    torch.rand(5)  # whatever happens to the generator in between
    second = trainer(house, tmp_path / "halves")
    second.resume()
    assert second.progress.iteration == first.progress.iteration
    second.train()
    assert same(weights(tmp_path / "whole"), weights(tmp_path / "halves"))


def stop_after(run: Trainer, updates: int) -> None:
    """Ask a run to stop once it has made some more updates."""

    class Stopper(Watcher):
        def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
            super().updated(iteration, learning_rate, parts)
            run.stopping = len(self.losses) >= updates

    run.callbacks = [Stopper()]


@pytest.mark.slow
def test_twenty_kills_lose_nothing(house: Path, tmp_path: Path) -> None:
    trainer(house, tmp_path / "whole").train()
    rng, kills, runs = random.Random(0), 0, [tmp_path / "0"]
    while kills < 20:
        ready = PROCESSES.Event()
        process = PROCESSES.Process(target=go_on, args=(house, runs[-1], ready))
        process.start()
        assert ready.wait(60)
        time.sleep(rng.uniform(0.0, 0.4))
        process.kill()
        process.join()
        kills += process.exitcode == -signal.SIGKILL
        if (runs[-1] / POINTER).exists():
            assert weights(runs[-1]), "every moment leaves a whole checkpoint"
        if process.exitcode == 0:  # it was faster; there are more to be killed
            runs.append(tmp_path / str(len(runs)))
    go_on(house, runs[-1], ready)
    assert all(same(weights(tmp_path / "whole"), weights(run)) for run in runs)


def test_a_checkpoint_is_never_written_over(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kill in between would leave none, and the pointer would name nothing."""
    saved: list[int] = []

    def spy(run: Path, state: TrainingState, progress: Progress, **more: Any) -> Path:
        saved.append(progress.iteration)
        return save_checkpoint(run, state, progress, **more)

    monkeypatch.setattr(vlnbert.learning.trainer, "save_checkpoint", spy)
    config = replace(CONFIG, validate_every=100)
    for _ in range(2):  # begun, and resumed where nothing was done yet
        one = trainer(house, tmp_path / "run", config)
        if saved:
            one.resume()
        one.callbacks = [Failing()]
        with pytest.raises(RuntimeError):
            one.train()
    assert saved == [0]


class Failing(Watcher):
    """Somebody who watches, and breaks."""

    def updated(self, *_: object) -> None:
        raise RuntimeError


@pytest.mark.parametrize("accumulate", [1, 2])
def test_a_loss_that_is_no_number_stops_and_names_the_first_batch(house: Path, tmp_path: Path, accumulate: int) -> None:
    config = replace(CONFIG, iterations=12, report_every=5, validate_every=4, accumulate=accumulate)
    run = trainer(house, tmp_path / "run", config)
    break_after(run, batches=5 * accumulate + 1)  # nobody looks before the validation after 8 updates
    first = 5 * accumulate + 1
    names = ", ".join(run.batches.splits[0].episodes.ids[row] for row in run.batches.rows(first).tolist())
    terms = "policy, value"  # of which each reads the critic
    remedy = f"{tmp_path / 'run'} still holds the last good checkpoint; begin another run with a lower learning rate"
    with pytest.raises(
        TrainingError,
        match=rf"^the loss of batch {first} is nan, in its terms {terms} \(instructions {names}\); {remedy}$",
    ):
        run.train()
    assert last_checkpoint(tmp_path / "run").name == "0000004"
    assert all(value.isfinite().all() for value in weights(tmp_path / "run").values())


@pytest.mark.parametrize(("accumulate", "batches"), [(1, 0), (2, 0), (2, 1)])
def test_a_first_loss_that_is_no_number_is_not_the_learning_rates(
    house: Path, tmp_path: Path, accumulate: int, batches: int
) -> None:
    run = trainer(house, tmp_path / "run", replace(CONFIG, accumulate=accumulate))
    break_after(run, batches)
    with pytest.raises(TrainingError) as caught:
        run.train()
    [line] = str(caught.value).splitlines()
    assert line.startswith(f"the loss of batch {batches} is nan, in its terms policy, value (instructions ")
    assert line.endswith(
        "; nothing was learned yet: the features or the weights started from may not be finite; check both"
    )
    assert "learning rate" not in line


def break_after(run: Trainer, batches: int) -> None:
    """Let the critic break once some batches are learned."""
    learn, seen = run.eager.accumulate, []

    def learn_or_break(*words: Any, **options: Any) -> Tensor:
        if len(seen) == batches:
            with torch.no_grad():
                run.model.critic[3].bias.fill_(torch.nan)
        seen.append(None)
        return learn(*words, **options)

    run.eager.accumulate = learn_or_break


def test_the_best_is_kept(house: Path, tmp_path: Path) -> None:
    run = trainer(house, tmp_path / "run", card={"preset": "mine"})
    watcher = Watcher()
    run.callbacks = [watcher]
    run.train()
    scores = {iteration: found[SCORED]["spl"] for iteration, found in watcher.scores.items()}
    assert run.progress.best == max(scores.values())
    assert run.progress.best_iteration == min(number for number, score in scores.items() if score == run.progress.best)
    best = Navigator.from_pretrained(tmp_path / "run" / "best")
    assert best.config == run.model.config
    shown = (tmp_path / "run" / "best" / "README.md").read_text()
    assert "preset `mine`" in shown
    assert f"| {SCORED} |" in shown
    split = run.validation[SCORED]
    found = evaluate_agent(run.environment, GreedyAgent(best), split.episodes, split.tokens, CONFIG.max_steps).scores
    assert found.summary()["spl"] == run.progress.best


def test_patience_ends_a_run_that_does_not_improve(house: Path, tmp_path: Path) -> None:
    config = replace(CONFIG, learning_rate=0.0, warmup=0, patience=2, iterations=100)
    run = trainer(house, tmp_path / "run", config)
    run.train()
    assert run.progress.iteration == run.progress.best_iteration + 4
    again = trainer(house, tmp_path / "run", config)
    again.resume()
    again.train()
    assert again.progress == run.progress, "a run that has ended is left as it is"


def test_reports_are_means_since_the_last(house: Path, tmp_path: Path) -> None:
    watchers = {1: Watcher(), 3: Watcher()}
    for every, watcher in watchers.items():
        run = trainer(house, tmp_path / str(every), replace(CONFIG, iterations=7, report_every=every))
        run.callbacks = [watcher]
        run.train()
    each = [parts["total"] for parts in watchers[1].losses.values()]
    found = {iteration: parts["total"] for iteration, parts in watchers[3].losses.items()}
    assert list(found) == [2, 3, 4, 6, 7]  # every third, each validation and the last
    expected = [sum(each[:2]) / 2, each[2], each[3], sum(each[4:6]) / 2, each[6]]
    assert list(found.values()) == pytest.approx(expected)


def test_dropout_differs_between_updates_ranks_and_seeds() -> None:
    seeds = {dropout_seed(seed, iteration, rank) for seed in range(3) for iteration in range(3) for rank in range(3)}
    assert len(seeds) == 27
    assert dropout_seed(1, 2, 0) == dropout_seed(1, 2, 0)


def test_the_rate_warms_up_and_falls() -> None:
    config = replace(CONFIG, iterations=100, warmup=10, learning_rate=1.0)
    rates = [LearningRate(config).at(iteration) for iteration in range(100)]
    assert rates[0] == pytest.approx(0.1, rel=0.01)
    assert max(rates) == pytest.approx(1.0, rel=0.05)
    assert rates[-1] < 0.02
    assert LearningRate(replace(config, schedule="constant")).at(50) == 1.0


def test_every_update_is_told_from_the_first_on(house: Path, tmp_path: Path) -> None:
    """Though losses are looked at in passing."""
    one, told = trainer(house, tmp_path / "run", replace(CONFIG, iterations=5, report_every=4, validate_every=5)), []
    one.advanced = told.append
    one.train()
    assert told == [1, 2, 3, 4, 5]
