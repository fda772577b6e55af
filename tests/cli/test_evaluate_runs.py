"""`vlnbert evaluate RUN`: a run's best weights walk as they did when they were validated."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import TINY, called
from tests.learning.samples import same
from vlnbert.api.evaluating import _walker
from vlnbert.learning.callbacks import read_log
from vlnbert.learning.checkpoints import last_checkpoint
from vlnbert.navigator import Navigator

SPLIT = ("--splits", "val_unseen")


@pytest.fixture(scope="module")
def trained(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("evaluate") / "trained"
    words = (*TINY, "--training.iterations", "12", "--training.validate-every", "2", "--max-tokens", "20")
    assert called("train", "demo", "--data", house, "--out", run, *words).code == 0
    return run


@pytest.fixture
def copy(trained: Path, tmp_path: Path) -> Path:
    return shutil.copytree(trained, tmp_path / "copy")


def validations(run: Path) -> list[dict[str, float]]:
    return [line["scores"]["r2r/val_unseen"] for line in read_log(run / "log.jsonl") if "scores" in line]


def test_the_best_scores_what_it_did(run: Callable, house: Path, trained: Path) -> None:
    found = json.loads(run("evaluate", trained, "--data", house, *SPLIT, "--json").out)["val_unseen"]
    expected = max(validations(trained), key=lambda scores: scores["spl"])
    assert {key: value for key, value in found.items() if value is not None} == pytest.approx(
        {key: value for key, value in expected.items() if value is not None}
    )


def test_a_run_walks_as_it_was_trained(trained: Path) -> None:
    known, best = _walker(str(trained)), Navigator.from_pretrained(trained / "best")
    assert same(known.agent.state_dict(), best.state_dict())
    assert (known.task, known.max_steps, known.max_tokens) == ("r2r", 4, 20)
    assert (_walker(trained / "best").max_steps, _walker("random").name) == (None, "random")


def test_scores_are_shown_and_results_written(run: Callable, house: Path, trained: Path, tmp_path: Path) -> None:
    outcome = run("evaluate", trained, "--data", house, *SPLIT, "--out", tmp_path / "out")
    assert outcome.code == 0
    assert "trained (rates in %)" in outcome.out
    assert "r2r/val_unseen" in outcome.out
    assert (tmp_path / "out" / "r2r_val_unseen_trained.json").is_file()


def test_before_there_is_a_best_the_last_walks(run: Callable, house: Path, copy: Path) -> None:
    shutil.rmtree(copy / "best")
    last = Navigator.from_pretrained(last_checkpoint(copy))
    assert same(_walker(str(copy)).agent.state_dict(), last.state_dict())
    found = json.loads(run("evaluate", copy, "--data", house, *SPLIT, "--json").out)["val_unseen"]
    assert found["spl"] == pytest.approx(validations(copy)[-1]["spl"])


def test_other_features_are_used_or_refused(run: Callable, house: Path, trained: Path, tmp_path: Path) -> None:
    for features, expected in ((tmp_path / "none.hdf5", "none.hdf5: no such"), (house / "vocab.txt", "vocab.txt")):
        outcome = run("evaluate", trained, "--data", house, *SPLIT, "--features.views", features)
        assert (outcome.code, outcome.out) == (2, "")
        assert len(outcome.err.splitlines()) == 1, outcome.err
        assert expected in outcome.err


def test_a_run_that_has_not_begun_cannot_walk(run: Callable, house: Path, copy: Path) -> None:
    shutil.rmtree(copy / "best")
    (copy / "last.json").unlink()
    outcome = run("evaluate", copy, "--data", house, *SPLIT)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    (copy / "run.json").write_text("{")
    outcome = run("evaluate", copy, "--data", house, *SPLIT)
    assert outcome.code == 2
    assert "run.json" in outcome.err
