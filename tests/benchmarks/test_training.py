"""`python -m benchmarks train` tells how fast a preset learns."""

import json
import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from benchmarks.training import StepCounter
from tests.benchmarks.conftest import benched
from tests.learning.samples import write_labels
from vlnbert.environment.environment import State
from vlnbert.learning import losses as terms
from vlnbert.world.world import World

QUICK = ("--updates", "1", "--rounds", "2", "--threads", "1")


def test_rates_fit_together(house: Path) -> None:
    words = ("train", "demo", "--data", house, "--batch", "2", "8", *QUICK, "--updates", "3", "--json")
    found = json.loads(benched(*words).out)
    small, large = found["batches"]
    assert (small["batch"], large["batch"]) == (2, 8)
    for speed in (small, large):
        assert speed["episodes_per_second"] == pytest.approx(speed["batch"] * speed["updates_per_second"])
        assert 1 <= speed["steps_per_second"] / speed["episodes_per_second"] <= 12, "the demo's limit"
        assert 0 < speed["share_of_ceiling"] < 1
        assert speed["peak_bytes"] is speed["times_plain"] is speed["plain_spread"] is None
    assert 2 < large["flops"] / small["flops"] < 8, "more rows cost more; tokens are padded to a bucket"
    assert found["startup_seconds"] > 0


def test_the_plain_way_is_raced(house: Path) -> None:
    words = ("train", "demo", "--data", house, "--batch", "4", *QUICK, "--plain")
    [speed] = json.loads(benched(*words, "--json").out)["batches"]
    assert speed["times_plain"] > 0
    assert speed["plain_spread"] >= 0
    shown = benched(*words).out
    assert "times the plain way" in shown
    assert "start-up, to the end of the first update" in shown
    assert "times the plain way" not in benched(*words[:-1]).out


@pytest.mark.parametrize("labelled", [False, True])
def test_a_preset_of_several_splits_flips_and_labels(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, labelled: bool
) -> None:
    """It is timed on whole instructions alone, with what else it does to them."""
    folder, losses = shutil.copytree(house, tmp_path / "house"), list[Tensor]()
    monkeypatch.setattr(terms, "attention_loss", lambda weights, words: losses.append(words) or weights.sum(dim=1))
    words = ("--data", write_labels(folder) if labelled else folder, "--batch", "2", "--precision", "float32", *QUICK)
    [speed] = json.loads(benched("train", "r2r-open", *words, "--json").out)["batches"]
    assert speed["updates_per_second"] > 0
    assert bool(losses) == labelled


def test_steps_are_those_of_agents_that_walk(world: World) -> None:
    environment = StepCounter(world, None)
    state = environment.reset(torch.tensor([0, 1, 2]), torch.zeros(3))
    state = environment.step(state, torch.tensor([0, 1, 1]))
    environment.step(State(state.viewpoint, state.view, state.ended), torch.tensor([1, 0, 1]))
    assert environment.steps == 3 + 2


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("dmeo",), "did you mean demo"),
        (("--updates", "0"), "--updates 0"),
        (("--rounds", "1"), "--rounds 1"),
        (("--batch", "3"), "a batch of 3 has no two halves"),
        (("--device", "gpu"), "no device 'gpu'"),
        (("--data", "nowhere"), "no such data folder"),
    ],
)
def test_mistakes_end_in_one_line(words: tuple[str, ...], told: str) -> None:
    outcome = benched("train", *words)
    assert outcome.code == 2
    assert outcome.out == ""
    [line] = outcome.err.splitlines()
    assert told in line
