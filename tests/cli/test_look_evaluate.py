"""`vlnbert evaluate RUN`: a run's best weights walk as they did when they were validated."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from tests.cli.conftest import TINY, called
from tests.learning.samples import same
from vlnbert.api.runs import load_agent
from vlnbert.learning import run_record
from vlnbert.learning.run_folder import last_checkpoint, read_log
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
    found = json.loads(run("evaluate", trained, "--data", house, *SPLIT, "--json").out)["r2r/val_unseen"]
    expected = max(validations(trained), key=lambda scores: scores["spl"])
    assert {key: value for key, value in found.items() if value is not None} == pytest.approx(
        {key: value for key, value in expected.items() if value is not None}
    )


def test_a_run_walks_as_it_was_trained(trained: Path) -> None:
    known, best = load_agent(str(trained)), Navigator.from_pretrained(trained / "best")
    assert same(known.agent.trained.state_dict(), best.state_dict())
    assert (known.task, known.max_steps, known.max_tokens) == ("r2r", 4, 20)
    for way in (trained / "best", best):  # the limits travel with the navigator
        assert (load_agent(way).max_steps, load_agent(way).max_tokens) == (4, 20)
    assert (load_agent("random").name, load_agent("random").max_steps) == ("random", None)


def test_scores_are_shown_and_results_written(run: Callable, house: Path, trained: Path, tmp_path: Path) -> None:
    outcome = run("evaluate", trained, "--data", house, *SPLIT, "--out", tmp_path / "out")
    assert outcome.code == 0
    assert "trained (rates in %)" in outcome.out
    assert "r2r/val_unseen" in outcome.out
    assert (tmp_path / "out" / "r2r_val_unseen_trained.json").is_file()


def test_before_there_is_a_best_the_last_walks(run: Callable, house: Path, copy: Path) -> None:
    shutil.rmtree(copy / "best")
    last = Navigator.from_pretrained(last_checkpoint(copy))
    assert same(load_agent(str(copy)).agent.trained.state_dict(), last.state_dict())
    found = json.loads(run("evaluate", copy, "--data", house, *SPLIT, "--json").out)["r2r/val_unseen"]
    assert found["spl"] == pytest.approx(validations(copy)[-1]["spl"])


def test_other_features_are_used_or_refused(run: Callable, house: Path, trained: Path, tmp_path: Path) -> None:
    for features, expected in ((tmp_path / "none.hdf5", "none.hdf5: no such"), (house / "vocab.txt", "vocab.txt")):
        outcome = run("evaluate", trained, "--data", house, *SPLIT, "--features.views", features)
        assert (outcome.code, outcome.out) == (2, "")
        assert len(outcome.err.splitlines()) == 1, outcome.err
        assert expected in outcome.err


def test_a_run_that_has_not_begun_cannot_walk(run: Callable, house: Path, copy: Path) -> None:
    for name in ("best", "checkpoints"):
        shutil.rmtree(copy / name)
    (copy / "last.json").unlink()
    outcome = run("evaluate", copy, "--data", house, *SPLIT)
    assert outcome.code == 2
    assert len(outcome.err.splitlines()) == 1
    (copy / "run.json").write_text("{")
    outcome = run("evaluate", copy, "--data", house, *SPLIT)
    assert outcome.code == 2
    assert "run.json" in outcome.err


def test_a_run_knows_its_data_and_is_read_once(
    run: Callable, house: Path, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    named = json.loads(run("evaluate", trained, "--data", house, *SPLIT, "--json").out)
    read, real = list[Path](), run_record.read_json
    monkeypatch.setattr(
        run_record, "read_json", lambda path, *more, **how: read.append(path) or real(path, *more, **how)
    )
    assert json.loads(run("evaluate", trained, *SPLIT, "--json").out) == named
    assert read == [trained / "run.json"]


def test_who_knows_no_data_is_told_to_give_some(run: Callable, trained: Path) -> None:
    for words in (("--agent", "random"), (trained / "best",)):
        outcome = run("evaluate", *words, *SPLIT)
        assert (outcome.code, outcome.out) == (2, "")
        assert outcome.err == "vlnbert: no data to walk in; give a data folder: --data DIR\n"


def test_a_run_and_its_best_score_alike(run: Callable, house: Path, trained: Path) -> None:
    """The limit of the training, four steps, travels with the navigator."""
    found = [run("evaluate", way, "--data", house, *SPLIT, "--json").out for way in (trained, trained / "best")]
    assert found[0] == found[1]
    assert run("evaluate", trained, *SPLIT, "--max-steps", "1", "--json").out != found[0]


@pytest.mark.parametrize("validated", [True, False])
def test_the_weights_of_a_run_are_its_best(run: Callable, copy: Path, tmp_path: Path, validated: bool) -> None:
    if not validated:
        shutil.rmtree(copy / "best")
    weights = copy / "best" if validated else last_checkpoint(copy)
    told = json.loads(run("weights", "inspect", copy, "--json").out)
    assert told["source"] == str(weights / "model.safetensors")
    assert run("weights", "export", copy, tmp_path / "one.pt").code == 0
    run("weights", "export", weights, tmp_path / "other.pt")
    one, other = (torch.load(tmp_path / name, weights_only=True)["vln_bert"] for name in ("one.pt", "other.pt"))
    assert same(one["state_dict"], other["state_dict"])


def test_goals_that_are_withheld_leave_files_or_nothing(run: Callable, trained: Path, tmp_path: Path) -> None:
    said = "r2r/test: the goals are withheld, so nothing was scored; nothing was written either: --out DIR writes"
    for words in ((), ("--json",)):
        outcome = run("evaluate", trained, "--split", "test", *words)
        assert outcome.code == 0
        assert said in outcome.err
    outcome = run("evaluate", trained, "--split", "test", "--out", tmp_path / "out")
    assert "nothing was written" not in outcome.err
    assert (tmp_path / "out" / "r2r_test_trained.json").is_file()
