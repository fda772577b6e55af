"""`vlnbert bench train` tells how fast a preset learns."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

from tests.cli.conftest import called
from tests.learning.samples import trainer
from vlnbert.benchmarks.restless import Restless
from vlnbert.benchmarks.training import Pedometer
from vlnbert.environment.environment import State
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.trainer import Trainer
from vlnbert.world import World

QUICK = ("--updates", "1", "--rounds", "2", "--threads", "1")


def test_rates_fit_together(house: Path) -> None:
    words = ("bench", "train", "demo", "--data", house, "--batch", "2", "8", *QUICK, "--updates", "3", "--json")
    found = json.loads(called(*words).out)
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
    words = ("bench", "train", "demo", "--data", house, "--batch", "4", *QUICK, "--plain")
    [speed] = json.loads(called(*words, "--json").out)["batches"]
    assert speed["times_plain"] > 0
    assert speed["plain_spread"] >= 0
    shown = called(*words).out
    assert "times the plain way" in shown
    assert "start-up, to the end of the first update" in shown
    assert "times the plain way" not in called(*words[:-1]).out


def test_start_up_counts_from_the_start_of_the_process() -> None:
    code = "import time; time.sleep(0.2); from vlnbert.benchmarks.startup import *; print(seconds_since_start())"
    begin = time.perf_counter()
    told = float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout)
    waited = time.perf_counter() - begin
    assert 0.2 < told < waited + 0.05, "a clock tick is a hundredth"


def test_steps_are_those_of_agents_that_walk(world: World) -> None:
    environment = Pedometer(world, None)
    state = environment.reset(torch.tensor([0, 1, 2]), torch.zeros(3))
    state = environment.step(state, torch.tensor([0, 1, 1]))
    environment.step(State(state.viewpoint, state.view, state.ended), torch.tensor([1, 0, 1]))
    assert environment.steps == 3 + 2


def test_the_restless_learn_and_never_stop(house: Path, tmp_path: Path) -> None:
    config = TrainConfig(batch=4, learning_rate=1e-3, max_steps=11)
    usual = trainer(house, tmp_path, config)
    environment = Pedometer(usual.environment.world, usual.environment.view_bank)
    navigator = Restless(usual.navigator.config)
    restless = Trainer(tmp_path, navigator, environment, usual.batches.splits, {}, config, "")
    for iteration in range(2):
        environment.steps = 0
        restless.advance(iteration)
        taught = environment.steps - 2 * config.max_steps  # the other half walked on and on
        assert 2 <= taught <= 2 * 7, "the teacher stops after six hops at most"
    assert torch.stack(restless.unreported).isfinite().all()
    assert all(weight.isfinite().all() for weight in navigator.parameters())


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
    outcome = called("bench", "train", *words)
    assert outcome.code == 2
    assert outcome.out == ""
    [line] = outcome.err.splitlines()
    assert told in line
