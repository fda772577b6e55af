"""An agent of one's own walks from Python, from the command line and as a script, in batches of any size."""

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import vlnbert as vln
from tests.cli.conftest import called
from vlnbert.house import generate

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_agent.py"
SPLIT = "r2r/val_unseen"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("own_agent") / "house"
    generate(folder, scans=12, paths_per_scan=20)
    return folder


@pytest.fixture(scope="module")
def example() -> dict[str, Any]:
    return runpy.run_path(str(EXAMPLE))


def test_it_fits_a_page() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60


def test_it_reads(example: dict[str, Any]) -> None:
    right = example["TURNS"]["right"]
    assert example["turns"]("Turn left and enter the hall, then veer right.") == [-right, 0, right]
    assert example["turns"]("Go through the first door on your left") == [0]


def test_it_beats_those_who_do_not_read(example: dict[str, Any], house: Path) -> None:
    data = vln.open_data(house)
    own, random, stop = (
        vln.evaluate(agent, data, SPLIT, bar=False).scores[SPLIT]["sr"]
        for agent in (example["MyAgent"](), "random", "stop")
    )
    assert own > random > stop == 0


@pytest.mark.parametrize("batch", [1, 7])
def test_batches_change_nothing(example: dict[str, Any], house: Path, batch: int) -> None:
    whole, parts = (
        vln.evaluate(example["MyAgent"](), house, SPLIT, batch=size, bar=False)[SPLIT].trajectories
        for size in (None, batch)
    )
    assert torch.equal(whole.viewpoint, parts.viewpoint)
    assert torch.equal(whole.length, parts.length)


def test_it_walks_from_the_command_line(example: dict[str, Any], house: Path, tmp_path: Path) -> None:
    words = ("--data", house, "--split", "val_unseen", "--out", tmp_path, "--json")
    outcome = called("evaluate", "--agent", f"{EXAMPLE}:MyAgent", *words)
    assert outcome.code == 0, outcome.err
    expected = vln.evaluate(example["MyAgent"](), house, SPLIT, bar=False)
    assert json.loads(outcome.out)["r2r/val_unseen"] == expected.scores[SPLIT]
    assert vln.score(tmp_path / "r2r_val_unseen_MyAgent.json", house, SPLIT).summary == expected.scores[SPLIT]


def test_it_is_a_script(house: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", [str(EXAMPLE), str(house)])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    out = capsys.readouterr().out
    assert [line.split()[0] for line in out.splitlines() if "rates in %" in line] == ["MyAgent", "random", "stop"]
