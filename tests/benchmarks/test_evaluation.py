"""`python -m benchmarks evaluate` tells how fast a preset's navigator walks."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks.evaluation import time_evaluation
from benchmarks.plain.agents import walk_plainly
from benchmarks.plain.observations import PlainObserver
from tests.benchmarks.conftest import benched
from tests.learning.samples import trainer
from vlnbert.benchmarking import NeverStops
from vlnbert.evaluation.evaluate import evaluate_agent
from vlnbert.rollout.policy import GreedyAgent

QUICK = ("--rounds", "2", "--threads", "1", "--episodes", "10")


def test_rates_fit_together(house: Path) -> None:
    words = ("evaluate", "demo", "--data", house, *QUICK, "--batch", "3", "10", "--plain", "--json")
    found = json.loads(benched(*words).out)
    assert (found["split"], found["episodes"]) == ("val_unseen", 10)
    assert [speed["batch"] for speed in found["batches"]] == [3, 10]
    for speed in found["batches"]:
        assert speed["episodes_per_second"] == pytest.approx(10 / speed["seconds"])
        assert speed["steps_per_second"] == pytest.approx(15 * speed["episodes_per_second"]), "nobody stops"
        assert speed["peak_bytes"] is None
        assert speed["times_plain"] > 0


def test_people_are_told(house: Path) -> None:
    words = ("evaluate", "demo", "--data", house, *QUICK, "--precision", "bfloat16", "--split", "val_seen")
    shown = benched(*words).out
    assert "demo, 6 episodes of r2r/val_seen, bfloat16, on cpu" in shown, "there are no ten"
    assert "times the plain way" not in shown


def test_who_never_stops_walks_to_the_limit_both_ways(house: Path, tmp_path: Path) -> None:
    ours = trainer(house, tmp_path)
    environment, split = ours.environment, ours.batches.splits[0]
    torch.manual_seed(0)
    navigator = NeverStops(ours.model.config).eval()
    walked = evaluate_agent(environment, GreedyAgent(navigator), split.episodes, split.tokens, max_steps=6).trajectories
    observer = PlainObserver(environment.world, environment.view_bank, navigator.config.angle_width)
    plain = walk_plainly(navigator, observer, split.episodes, split.tokens, limit=6)
    assert walked.length.tolist() == plain.length.tolist() == [7] * len(split.episodes)
    assert torch.equal(walked.viewpoint, plain.viewpoint)


def test_without_the_rival_there_is_no_ratio(house: Path, tmp_path: Path) -> None:
    ours = trainer(house, tmp_path)
    given = (ours.environment.world, ours.batches.splits[0], ours.model.config)
    speed = time_evaluation(*given, batch=8, precision="float32", rounds=2, limit=4)
    assert speed.plain is speed.times_plain is None
    assert speed.steps == 4 * speed.episodes == 4 * 12


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("dmeo",), "did you mean demo"),
        (("--split", "val_unsen"), "did you mean val_unseen"),
        (("--batch", "0"), "--batch 0"),
        (("--episodes", "0"), "--episodes 0"),
        (("--rounds", "1"), "--rounds 1"),
        (("--threads", "0"), "--threads 0"),
        (("--device", "gpu"), "no device 'gpu'"),
    ],
)
def test_mistakes_end_in_one_line(house: Path, words: tuple[str, ...], told: str) -> None:
    outcome = benched("evaluate", *words, "--data", house)
    assert outcome.code == 2
    assert outcome.out == ""
    [line] = outcome.err.splitlines()
    assert told in line
