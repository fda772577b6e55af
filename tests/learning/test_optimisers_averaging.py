"""Averaged weights: what they are, that they are what is validated and kept, and that no kill loses them."""

import random
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from tests.learning.samples import CONFIG, NO_DROPOUT, SCORED, SHAPE, Watcher, go_on, same, trainer, weights
from tests.processes import PROCESSES, together
from vlnbert.data.data import open_data
from vlnbert.errors import DataError, UsageError
from vlnbert.evaluation.evaluate import evaluate_agent
from vlnbert.learning.experiment import Experiment, TrainConfig
from vlnbert.learning.optimisers import AveragedWeights
from vlnbert.learning.run_folder import POINTER, TRAINER, best_weights, last_checkpoint
from vlnbert.learning.runs import begin_run, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage.folder import read_safetensors
from vlnbert.ranks import ALONE, Ranks
from vlnbert.rollout.policy import GreedyAgent

AVERAGED = replace(CONFIG, ema=0.5)  # low, so that the ramp reaches it within ten updates


def by_hand(one: Trainer, updates: int) -> dict[str, Tensor]:
    """The average over the first updates of a run, computed with plain numbers from the weights after each."""
    mean = {name: weight.detach().double() for name, weight in one.model.named_parameters()}
    for number in range(updates):
        one.advance(number)
        decay = min(0.5, (1 + number) / (10 + number))
        for name, weight in one.model.named_parameters():
            mean[name] = decay * mean[name] + (1 - decay) * weight.detach().double()
    return mean


def close(found: dict[str, Tensor], expected: dict[str, Tensor]) -> None:
    assert found.keys() == expected.keys()
    for name, tensor in expected.items():
        torch.testing.assert_close(found[name].double(), tensor, rtol=1e-5, atol=1e-7)


def test_three_updates_by_hand() -> None:
    module = nn.Linear(1, 1, bias=False)
    nn.init.constant_(module.weight, 10.0)
    averaged = AveragedWeights(module, 0.15)
    found = []
    for number, weight in enumerate((20.0, 40.0, 0.0)):
        nn.init.constant_(module.weight, weight)
        averaged.update(number)
        found.append(float(averaged.average["weight"]))
    # Decays 1/10, then 2/11 and 3/12, which 0.15 is below.
    assert found == pytest.approx([0.1 * 10 + 0.9 * 20, 0.15 * 19 + 0.85 * 40, 0.15 * 36.85])


@pytest.mark.parametrize("accumulate", [1, 2])
def test_the_average_is_over_updates(house: Path, tmp_path: Path, accumulate: int) -> None:
    """Not over batches, and in the order of the updates, ramped."""
    one = trainer(house, tmp_path, replace(AVERAGED, accumulate=accumulate))
    expected = by_hand(one, 12)
    close(one.averaged.average, expected)
    live = dict(one.model.named_parameters())
    assert any(not torch.allclose(live[name].double(), expected[name]) for name in live)


def test_learning_is_the_same_with_and_without(house: Path, tmp_path: Path) -> None:
    averaged, plain = (trainer(house, tmp_path / str(config.ema), config) for config in (AVERAGED, CONFIG))
    for one in (averaged, plain):
        one.train()
    assert same(averaged.model.state_dict(), plain.model.state_dict())
    assert not same(weights(tmp_path / "0.5"), weights(tmp_path / "0.0"))


def test_the_averaged_are_validated_and_kept(house: Path, tmp_path: Path) -> None:
    """The scores that are told are those of a navigator that is given the averaged weights by hand."""
    found, one = list[tuple[object, object]](), trainer(house, tmp_path / "run", replace(AVERAGED, iterations=12))
    other = Navigator(one.model.config)

    class Validating(Watcher):
        def updated(self, iteration: int, *_: object) -> None:
            """Before each validation."""
            other.load_state_dict({**one.model.state_dict(), **one.averaged.average})

        def validated(self, iteration: int, scores: object) -> None:
            split = one.validation[SCORED]
            walked = evaluate_agent(
                one.environment, GreedyAgent(other.eval()), split.episodes, split.tokens, CONFIG.max_steps
            )
            assert walked.scores is not None
            found.append((scores, {SCORED: walked.scores.summary()}))
            if one.progress.best is None or scores[SCORED]["spl"] > one.progress.best:  # type: ignore[index]
                self.best = {name: weight.clone() for name, weight in other.state_dict().items()}

    watcher = Validating()
    one.callbacks = [watcher]
    one.train()
    assert len(found) == 6
    for told, expected in found:
        assert told == expected
    assert same(Navigator.from_pretrained(tmp_path / "run" / "best").state_dict(), watcher.best)
    assert same(weights(tmp_path / "run"), other.state_dict()), "the last checkpoint walks with its average too"
    raw, _ = read_safetensors(last_checkpoint(tmp_path / "run") / TRAINER)
    for name, weight in one.model.named_parameters():
        assert torch.equal(raw[f"weights.{name}"], weight)


def test_a_validation_that_breaks_leaves_the_weights(house: Path, tmp_path: Path) -> None:
    one = trainer(house, tmp_path, AVERAGED)
    one.advance(0)
    before = {name: weight.detach().clone() for name, weight in one.model.named_parameters()}
    one.validation[SCORED] = None  # type: ignore[index]
    with pytest.raises(AttributeError), one.averaged.applied():
        one._validate()
    assert same(dict(one.model.named_parameters()), before)


def test_killed_and_resumed_it_ends_with_the_same_bits(house: Path, tmp_path: Path) -> None:
    """Both the average and the weights that go on learning."""
    trainer(house, tmp_path / "whole", AVERAGED).train()
    rng, run, kills = random.Random(1), tmp_path / "killed", 0
    while kills < 3:
        ready = PROCESSES.Event()
        process = PROCESSES.Process(target=go_on, args=(house, run, ready, AVERAGED))
        process.start()
        assert ready.wait(60)
        while process.is_alive() and not (run / POINTER).exists():  # until there is something to resume
            time.sleep(0.01)
        time.sleep(rng.uniform(0.05, 0.3))
        process.kill()
        process.join()
        if process.exitcode == 0:  # it was faster: once more from the start
            shutil.rmtree(run)
            continue
        kills += 1
    go_on(house, run, PROCESSES.Event(), AVERAGED)
    ends = [last_checkpoint(folder) for folder in (tmp_path / "whole", run)]
    for name in ("model.safetensors", TRAINER):
        one, other = (read_safetensors(end / name)[0] for end in ends)
        assert same(one, other)


def test_stopped_and_resumed_it_ends_with_the_same_bits(house: Path, tmp_path: Path) -> None:
    """After four updates of eight, by the run's folder alone."""
    training = replace(AVERAGED, iterations=8, validate_every=8)
    experiment, data = Experiment(validate_on=(SCORED,), navigator=SHAPE, training=training), open_data(house)
    whole = begin_run("mine", experiment, data, tmp_path / "whole")
    whole.train()
    first = begin_run("mine", experiment, data, tmp_path / "halves")
    first.advanced = lambda iteration: setattr(first, "stopping", iteration == 4)
    first.train()
    again = resume_run(tmp_path / "halves", data)
    assert again.progress.iteration == 4
    assert same(again.averaged.average, first.averaged.average)
    again.train()
    assert same(again.averaged.average, whole.averaged.average)
    assert same(again.model.state_dict(), whole.model.state_dict())
    assert same(weights(tmp_path / "halves"), weights(tmp_path / "whole"))


@pytest.mark.parametrize("damage", ["missing", "misshapen", "not asked for"])
def test_a_checkpoint_of_another_kind_is_refused(house: Path, tmp_path: Path, damage: str) -> None:
    short = replace(AVERAGED, iterations=2, keep=1)
    trainer(house, tmp_path, replace(short, ema=0.0) if damage == "missing" else short).train()
    other = replace(short, ema=0.0) if damage == "not asked for" else short
    if damage == "misshapen":
        spoil(last_checkpoint(tmp_path) / TRAINER)
    with pytest.raises(DataError, match="is not whole; begin the training anew"):
        trainer(house, tmp_path, other).resume()


def spoil(path: Path) -> None:
    from safetensors.torch import save_file

    tensors, header = read_safetensors(path)
    name = next(name for name in tensors if name.startswith("weights."))
    save_file({**tensors, name: torch.zeros(3)}, path, header)
    (path.parent / "digests.json").unlink()


def test_a_run_may_start_from_the_average(house: Path, tmp_path: Path) -> None:
    """From the best, or from the last where nothing was validated; with or without an average of its own."""
    training = replace(AVERAGED, iterations=4)
    experiment = Experiment(validate_on=(SCORED,), navigator=replace(SHAPE, **NO_DROPOUT), training=training)
    data = open_data(house)
    first = begin_run("mine", experiment, data, tmp_path / "first")
    first.train()
    for name in ("best", "last"):
        if name == "last":
            shutil.rmtree(tmp_path / "first" / "best")
        expected = Navigator.from_pretrained(best_weights(tmp_path / "first")).state_dict()
        second = begin_run("mine", replace(experiment, start=str(tmp_path / "first")), data, tmp_path / name)
        assert same(second.model.state_dict(), expected)
        assert same(second.averaged.average, dict(second.model.named_parameters()))
        assert not same(second.model.state_dict(), first.model.state_dict())


def learn(ranks: Ranks, house: Path, folder: Path, config: TrainConfig) -> tuple[dict[str, Tensor], object]:
    """The average after a training in double precision, and the scores on the way."""
    shape = replace(SHAPE, **NO_DROPOUT)
    one, watcher = trainer(house, folder / str(ranks.rank), config, ranks, shape, torch.float64), Watcher()
    one.callbacks = [watcher]
    one.train()
    return {name: weight.numpy() for name, weight in one.averaged.average.items()}, watcher.scores  # type: ignore[misc]


@pytest.mark.parametrize("accumulate", [1, 2])
def test_two_ranks_have_one_average(house: Path, tmp_path: Path, accumulate: int) -> None:
    config = replace(AVERAGED, iterations=8, batch=8 // accumulate, accumulate=accumulate, validation_batch=1)
    alone, scores = learn(ALONE, house, tmp_path / "alone", config)
    (first, first_scores), (second, second_scores) = together(2, tmp_path, learn, house, tmp_path / "two", config)
    assert first_scores == second_scores == scores
    for name, expected in alone.items():
        assert (first[name] == second[name]).all()
        assert abs(first[name] - expected).max() < 1e-8


@pytest.mark.parametrize("decay", [-0.1, 1.1, float("nan")])
def test_a_decay_out_of_range_is_refused(decay: float) -> None:
    with pytest.raises(UsageError, match="ema is"):
        TrainConfig(ema=decay)
