"""An agent that reads what views show and goes where that overlaps its instruction."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import vlnbert as vln
from tests.cli.conftest import called
from tests.examples.conftest import EXAMPLES
from vlnbert.house import generate

EXAMPLE = EXAMPLES / "reading_agent.py"
SPLIT = "r2r/val_unseen"


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("reading_agent") / "house"
    generate(folder, scans=6, paths_per_scan=10)
    return folder


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def test_it_fits_a_page() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60


def test_it_is_better_than_who_does_not_read(example: dict[str, Any], wide: Path) -> None:
    data = vln.open_data(wide)
    agents = example["ReadingAgent"](data.texts), "random"
    reading, random = (vln.evaluate(agent, data, SPLIT, bar=False).scores[SPLIT]["sr"] for agent in agents)
    assert reading > 2 * random > 0


def test_batches_change_nothing(example: dict[str, Any], wide: Path) -> None:
    data = vln.open_data(wide)
    whole, parts = (
        vln.evaluate(example["ReadingAgent"](data.texts), data, SPLIT, batch=size, bar=False)[SPLIT].trajectories
        for size in (None, 7)
    )
    assert torch.equal(whole.viewpoint, parts.viewpoint)


def test_it_walks_from_the_command_line(example: dict[str, Any], wide: Path) -> None:
    words = ("--data", wide, "--split", "val_unseen", "--json")
    outcome = called("evaluate", "--agent", f"{EXAMPLE}:ReadingAgent", *words)
    assert outcome.code == 0, outcome.err
    data = vln.open_data(wide)
    expected = vln.evaluate(example["ReadingAgent"](data.texts), data, SPLIT, bar=False)
    assert json.loads(outcome.out)["r2r/val_unseen"] == expected.scores[SPLIT]


def test_without_words_it_is_told_in_a_line(wide: Path, tmp_path: Path) -> None:
    bare = tmp_path / "bare"
    bare.mkdir()
    for part in wide.iterdir():
        if part.name not in ("captions", "observations"):
            (bare / part.name).symlink_to(part)
    outcome = called("evaluate", "--agent", f"{EXAMPLE}:ReadingAgent", "--data", bare, "--split", "val_unseen")
    assert (outcome.code, outcome.out) == (2, "")
    (line,) = [line for line in outcome.err.splitlines() if line.startswith("vlnbert: ")]
    assert "holds no words of views; get them with: vlnbert data fetch DIR --only captions observations" in line


def test_it_is_a_script(wide: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(wide)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if "rates in %" in line] == ["ReadingAgent", "random", "stop"]
