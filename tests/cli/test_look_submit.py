"""`vlnbert submit`."""

import json
from pathlib import Path
from typing import Any

import pytest

from vlnbert.cli.main import VERBS
from vlnbert.errors import InvalidFileError


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two viewpoints, and test splits of both tasks that withhold their goals; there are no box files."""
    monkeypatch.setenv("VLNBERT_CACHE", str(tmp_path / "cache"))
    graph = [
        {"image_id": name, "pose": [0] * 7 + [2 * n] + [0] * 8, "included": True, "visible": seen, "unobstructed": seen}
        for n, (name, seen) in enumerate([("a", [False, True]), ("b", [True, False])])
    ]
    episode = {"scan": "hall", "heading": 0.0, "path": ["a"], "instructions": ["Go.", "Go on."]}
    write(tmp_path / "data/connectivity/hall_connectivity.json", graph)
    write(tmp_path / "data/r2r/R2R_test.json", [episode | {"path_id": 1}])
    write(tmp_path / "data/reverie/REVERIE_test.json", [episode | {"id": "1"}])
    return tmp_path / "data"


def write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def submit(file: Path, out: Path, task: str, data: Path, *more: str) -> None:
    VERBS["submit"].run([str(file), str(out), "--task", task, "--data", str(data), *more])


def test_a_test_split_becomes_a_leaderboard_file(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, out = write(data.parent / "in.json", {"1_1": ["a"], "1_0": ["a", "b"]}), data.parent / "new" / "out.json"
    submit(file, out, "r2r", data, "--split", "test")
    assert json.loads(out.read_text()) == [
        {"instr_id": "1_0", "trajectory": [["a", 0.0, 0.0], ["b", 0.0, 0.0]]},
        {"instr_id": "1_1", "trajectory": [["a", 0.0, 0.0]]},
    ]
    printed = capsys.readouterr()
    assert printed.out == f"{out}: 2 results of r2r test\n"
    assert "2 trajectories keyed by instruction" in printed.err


def test_reverie_says_what_grounds_nothing(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    items = [{"instr_id": "1_0", "trajectory": ["a"], "pred_objid": "9"}, {"instr_id": "1_1", "trajectory": ["a"]}]
    out = data.parent / "out.json"
    submit(write(data.parent / "in.json", items), out, "reverie", data)
    assert [item["predObjId"] for item in json.loads(out.read_text())] == [9, None]
    assert "1 of 2 results have no predObjId" in capsys.readouterr().err


def test_half_a_split_is_refused(data: Path) -> None:
    out = data.parent / "out.json"
    with pytest.raises(InvalidFileError, match=r"lacks 1 of the 2 .* a leaderboard takes only whole splits"):
        submit(write(data.parent / "in.json", {"1_0": ["a"]}), out, "r2r", data)
    assert not out.exists()
