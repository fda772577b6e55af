"""`vlnbert score`."""

import json
from pathlib import Path
from typing import Any

import pytest

from vlnbert.cli.main import VERBS
from vlnbert.errors import DataError, InvalidFileError, UnknownNameError

KEYS = ["sr", "osr", "spl", "ndtw", "sdtw", "cls", "rgs", "rgspl", "tl", "ne", "episodes"]


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three viewpoints in a row, 2 m apart, with two R2R instructions and a REVERIE one."""
    monkeypatch.setenv("VLNBERT_CACHE", str(tmp_path / "cache"))
    flags = [[False, True, False], [True, False, True], [False, True, False]]
    graph = [
        {"image_id": name, "pose": [0] * 7 + [2 * n] + [0] * 8, "included": True, "visible": seen, "unobstructed": seen}
        for n, (name, seen) in enumerate(zip("abc", flags, strict=True))
    ]
    episode = {"scan": "hall", "heading": 0.0, "path": ["a", "b", "c"]}
    write(tmp_path / "data/connectivity/hall_connectivity.json", graph)
    write(tmp_path / "data/r2r/R2R_val.json", [episode | {"path_id": 1, "instructions": ["Go.", "Go on."]}])
    write(tmp_path / "data/r2r/R2R_test.json", [episode | {"path_id": 2, "path": ["a"], "instructions": ["Go."]}])
    write(
        tmp_path / "data/reverie/REVERIE_val.json", [episode | {"id": "1_7", "objId": 7, "instructions": ["Dust it."]}]
    )
    boxes = {"c": {"7": {"name": "lamp", "visible_pos": [1], "bbox2d": [[0, 0, 9, 9]]}}}
    write(tmp_path / "data/reverie/BBox/hall_c.json", boxes)
    return tmp_path / "data"


def write(path: Path, document: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document))
    return path


def results(data: Path, **trajectories: str) -> Path:
    items = [{"instr_id": name, "trajectory": list(way)} for name, way in trajectories.items()]
    return write(data.parent / "results.json", items)


def score(file: Path, task: str, split: str, data: Path, *more: str) -> None:
    VERBS["score"].run([str(file), "--task", task, "--split", split, "--data", str(data), *more])


def test_json_is_one_clean_object(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score(results(data, **{"1_0": "abc", "1_1": "a"}), "r2r", "val", data, "--json")
    printed = capsys.readouterr()
    summary = json.loads(printed.out)
    assert list(summary) == KEYS
    assert (summary["sr"], summary["tl"], summary["ne"], summary["episodes"]) == (0.5, 2.0, 2.0, 2)
    assert summary["rgs"] is summary["rgspl"] is None
    assert printed.err == f"{data.parent / 'results.json'}: 2 trajectories of viewpoints alone\n"


def test_reverie_json(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = write(data.parent / "results.json", [{"instr_id": "1_7_0", "trajectory": ["a", "b", "c"], "predObjId": "7"}])
    score(file, "reverie", "val", data, "--json")
    summary = json.loads(capsys.readouterr().out)
    assert (summary["sr"], summary["rgs"], summary["rgspl"]) == (1.0, 1.0, 1.0)


def test_the_table_is_for_people(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    score(results(data, **{"1_0": "abc", "1_1": "a"}), "r2r", "val", data)
    table = capsys.readouterr().out
    for words in ("r2r val (rates in %)", "50.00", "TL m", "2.00", "nDTW"):
        assert words in table
    assert "RGS" not in table


def test_options(data: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = results(data, **{"1_0": "ab"})
    with pytest.raises(InvalidFileError, match="say --allow-missing"):
        score(file, "r2r", "val", data)
    score(file, "r2r", "val", data, "--json", "--allow-missing", "--spl-by", "reference")
    assert json.loads(capsys.readouterr().out)["episodes"] == 1


def test_help_teaches(capsys: pytest.CaptureFixture[str]) -> None:
    VERBS["score"].run(["--help"])
    text = capsys.readouterr().out
    assert "examples:\n  vlnbert score results.json" in text
    assert "--json" in text
    assert "--no-json" not in text


def test_splits_without_goals_are_refused(data: Path) -> None:
    with pytest.raises(DataError, match="withholds its goals; score another split"):
        score(results(data, **{"2_0": "ab"}), "r2r", "test", data)


def test_an_unknown_split_is_named(data: Path) -> None:
    with pytest.raises(UnknownNameError, match="did you mean val"):
        score(results(data, **{"1_0": "abc"}), "r2r", "vall", data)
