"""A reward in a file of its own: from Python, from the command line, resumed and evaluated."""

import runpy
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln
from tests.api.conftest import QUIETLY, SPLIT
from tests.api.conftest import TINY as CHANGES
from tests.api.test_training import Interrupter
from tests.cli.conftest import TINY, called
from tests.examples.conftest import EXAMPLES
from tests.learning.samples import same, weights

EXAMPLE = EXAMPLES / "own_reward.py"
UPDATES = ("--training.iterations", CHANGES["iterations"], "--training.validate-every", CHANGES["validate_every"])


def train(data: vln.Data, out: Path, **changes: Any) -> vln.Run:
    return runpy.run_path(str(EXAMPLE))["train"](data, out, **QUIETLY, **{**CHANGES, **changes})


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60


@pytest.mark.parametrize("reward", ["metres", "fewer-hops"])
def test_both_ways_train_the_same(
    reward: str, data: vln.Data, house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    run = train(data, tmp_path / "python", reward=reward)
    usual = vln.train("demo", data, tmp_path / "usual", **QUIETLY, **CHANGES)
    assert not same(weights(run.folder), weights(usual.folder))
    forget_plugins()
    words = (
        "train",
        "demo",
        "--training.reward",
        reward,
        "--data",
        house,
        "--out",
        tmp_path / "words",
        *TINY,
        *UPDATES,
    )
    outcome = called("--plugin", EXAMPLE, *words)
    assert outcome.code == 0, outcome.err
    by_words = vln.open_run(tmp_path / "words")
    assert same(weights(by_words.folder), weights(run.folder))
    assert by_words.record.plugins == (str(EXAMPLE),)
    forget_plugins()
    scored = called("evaluate", by_words.folder, "--data", house, "--splits", "val_unseen")
    assert scored.code == 0, scored.err


def test_it_resumes_to_the_same_bits(
    data: vln.Data, house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    whole = train(data, tmp_path / "whole")
    run = train(data, tmp_path / "run", callbacks=[Interrupter(2)])
    assert run.interrupted
    forget_plugins()
    missed = called("train", "--resume", run.folder)
    assert (missed.code, "reward 'metres', which nobody registers here" in missed.err) == (2, True)
    outcome = called("train", "--resume", run.folder, "--plugin", EXAMPLE)
    assert outcome.code == 0, outcome.err
    assert same(weights(run.folder), weights(whole.folder))
    assert vln.evaluate(run, split=SPLIT, bar=False).scores == vln.evaluate(whole, split=SPLIT, bar=False).scores


def test_it_is_a_script(
    house: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    forget_plugins: Callable[[], None],
) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(house), str(tmp_path / "run"), "1"])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert SPLIT in capsys.readouterr().out
    assert vln.open_run(tmp_path / "run").experiment.training.reward == "metres"
