"""`vlnbert show` and `vlnbert compare`: cards and tables that can be read in a pipe, and JSON."""

import json
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln
from tests.cli.conftest import TINY, Run, called
from vlnbert.analysis.card import shaded_instruction

SPLIT = ("--split", "r2r/val_unseen")


@pytest.fixture(scope="module")
def trained(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("show") / "run"
    short = ("--training.iterations", "2", "--training.validate-every", "2", "--training.seed", "2")
    assert called("train", "demo", "--data", house, "--out", folder, *TINY, *short).code == 0
    return folder


@pytest.fixture(scope="module")
def per_episode(trained: Path) -> dict[str, dict[str, float | str]]:
    outcome = called("evaluate", trained, "--splits", "val_unseen", "--per-episode")
    assert outcome.code == 0
    found: dict[str, dict[str, float | str]] = json.loads(outcome.out)["r2r/val_unseen"]
    return found


def test_a_card_in_a_pipe(run: Run, trained: Path, per_episode: dict[str, dict[str, float | str]]) -> None:
    assert {one["outcome"] for one in per_episode.values()} == {"stopped", "ran out of steps"}
    for id in list(per_episode)[::6]:
        outcome = run("show", trained, "--episode", id)
        assert (outcome.code, outcome.err) == (0, "")
        assert "\x1b" not in outcome.out
        lines = outcome.out.splitlines()
        assert lines[0].startswith(f"Episode {id}, r2r/val_unseen in ")
        assert str(per_episode[id]["outcome"]) in lines[1]
        assert f"{per_episode[id]['ne']:.2f} m from the goal" in lines[1]
        assert f"{100 * float(per_episode[id]['ndtw']):.1f}" in outcome.out


def test_a_record_as_json(run: Run, trained: Path, per_episode: dict[str, dict[str, float | str]]) -> None:
    id = next(iter(per_episode))
    record = json.loads(run("show", trained, "--episode", id, "--json").out)
    assert {"outcome": record["outcome"], **record["scores"]} == per_episode[id]
    assert record["max_steps"] == 4
    assert len(record["steps"][0]["attention"]) == len(record["instruction"]["words"])


def test_a_card_as_a_file(run: Run, house: Path, tmp_path: Path) -> None:
    id = json.loads(run("evaluate", "--agent", "stop", "--data", house, "--per-episode").out)["r2r/val_seen"].popitem()[
        0
    ]
    words = ("show", "shortest", "--episode", id, "--split", "r2r/val_seen", "--data", house)
    for name in ("card.html", "card.svg"):
        outcome = run(*words, "--out", tmp_path / name)
        assert (outcome.code, outcome.out) == (0, f"{tmp_path / name}\n")
        assert "0.00 m from the goal" in (tmp_path / name).read_text()


def test_json_beside_a_card_is_json_alone(run: Run, trained: Path, tmp_path: Path, per_episode: dict[str, Any]) -> None:
    card = tmp_path / "card.html"
    outcome = run("show", trained, "--episode", next(iter(per_episode)), "--json", "--out", card)
    assert outcome.code == 0
    assert json.loads(outcome.out)["id"] == next(iter(per_episode))
    assert outcome.err == f"{card}\n"
    assert card.is_file()


def test_words_are_shaded(trained: Path, per_episode: dict[str, dict[str, float | str]]) -> None:
    record = vln.episode(trained, next(iter(per_episode)), bar=False).record
    text = shaded_instruction(record)
    assert text.plain == record.instruction.text.strip()
    assert text.spans, "some words are shaded"


def test_compare(run: Run, trained: Path, house: Path, tmp_path: Path) -> None:
    assert run("evaluate", "--agent", "random", "--data", house, *SPLIT[:1], "val_unseen", "--out", tmp_path).code == 0
    results = tmp_path / "r2r_val_unseen_random.json"
    outcome = run("compare", trained, "random", results, "--episodes", 3)
    assert (outcome.code, outcome.err) == (0, "")
    for words in ("settings that differ", "random less run", "r2r_val_unseen_random less run", "they part in", "more"):
        assert words in outcome.out
    document = json.loads(run("compare", trained, "random", results, "--json").out)
    assert document["agents"] == ["run", "random", "r2r_val_unseen_random"]
    assert document["scores"]["random"] == document["scores"]["r2r_val_unseen_random"]
    assert document["outcomes"]["r2r_val_unseen_random"] == {"ended": 24}


def test_a_split_without_its_task(trained: Path, house: Path, tmp_path: Path) -> None:
    """It is that of a run's task, or of R2R; a result file tells neither."""
    results = tmp_path / "results.json"
    verbs: list[tuple[object, ...]] = [
        ("show", trained, "--episode", "12_0", "--json"),
        ("show", "random", "--episode", "12_0", "--json", "--data", house),
        ("compare", trained, "random", "--json"),
        ("evaluate", trained, "--json"),
        ("evaluate", "--agent", "random", "--task", "r2r", "--json", "--data", house),
    ]
    for words in verbs:
        whole, short = (called(*words, "--split", split) for split in ("r2r/val_unseen", "val_unseen"))
        assert (short.code, short.out) == (0, whole.out)
    for verb in ("report", "curves"):
        assert called(verb, trained, "--split", "val_unseen", "--out", tmp_path / f"{verb}.svg").code == 0
    results.write_text("[]")
    unknown = called("show", results, "--episode", "12_0", "--split", "val_unseen", "--data", house)
    assert unknown.err.startswith("vlnbert: 'val_unseen' does not name a task and a split; ")


@pytest.mark.parametrize(
    "verb", [("evaluate", "--agent", "random"), ("score", "x.json"), ("submit", "x.json", "y.json")]
)
def test_a_split_of_another_task(run: Run, house: Path, verb: tuple[str, ...]) -> None:
    outcome = run(*verb, "--task", "r2r", "--split", "reverie/val_unseen", "--data", house)
    line = "vlnbert: reverie/val_unseen is no split of --task r2r; name the task once\n"
    assert (outcome.code, outcome.out, outcome.err) == (2, "", line)
