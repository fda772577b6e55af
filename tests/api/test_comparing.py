"""Agents side by side: what differs in settings, scores and walks, whoever they are."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

import vlnbert as vln
from tests.api.conftest import QUIETLY, SPLIT, TINY


@pytest.fixture(scope="module")
def other(data: vln.Data, tmp_path_factory: pytest.TempPathFactory) -> vln.Run:
    """A run of other settings, which has not learned to stop."""
    short = {**TINY, "iterations": 2, "validate_every": 2, "seed": 2}
    return vln.train("demo", data, tmp_path_factory.mktemp("comparing") / "other", **QUIETLY, **short)


def test_two_runs(trained: vln.Run, other: vln.Run) -> None:
    found = vln.compare([trained, str(other.folder)], bar=False)
    assert found.split == SPLIT
    assert found.settings["training.iterations"] == {"trained": 6, "other": 2}
    assert found.settings["training.seed"] == {"trained": 0, "other": 2}
    assert "training.batch" not in found.settings
    scores = {run.folder.name: vln.evaluate(run, split=SPLIT, bar=False).scores[SPLIT] for run in (trained, other)}
    assert found.scores == scores
    assert found.differences["other"]["ne"] == scores["other"]["ne"] - scores["trained"]["ne"]  # type: ignore[operator]
    for words in ("settings that differ", "training.seed", "other less trained", "they part in"):
        assert words in str(found)
        assert words in found._repr_html_()


def test_where_they_part(trained: vln.Run, other: vln.Run, data: vln.Data) -> None:
    found = vln.compare([trained, other, "shortest"], data, bar=False)
    assert found.divergences
    for divergence in found.divergences:
        paths = [walk.path for walk in divergence.walks.values()]
        together = {path[: divergence.step + 1] for path in paths}
        assert len(together) == 1
        assert together.pop()[-1] == divergence.viewpoint
        assert len({path[: divergence.step + 2] for path in paths}) > 1
        assert divergence.changes_outcome == (len({walk.success for walk in divergence.walks.values()}) == 2)
    decisive = [divergence.changes_outcome for divergence in found.divergences]
    assert decisive == sorted(decisive, reverse=True), "those first that decide"
    document = json.loads(found.to_json())
    assert [one["id"] for one in document["episodes"]] == [divergence.id for divergence in found.divergences]
    assert set(document["episodes"][0]["walks"]) == set(document["agents"]) == {"trained", "other", "shortest"}
    assert document["scores"] == json.loads(json.dumps(found.scores))
    assert sum(document["outcomes"]["other"].values()) == len(data.episodes(SPLIT))
    assert set(document["outcomes"]["other"]) == {"stopped", "ran out of steps"}


def test_long_viewpoints_are_short_in_tables_and_whole_in_json(data: vln.Data) -> None:
    found = vln.compare(["stop", "random"], data, bar=False)
    whole = "0123456789abcdef" * 2
    long = replace(found)
    long.__dict__["divergences"] = [replace(divergence, viewpoint=whole) for divergence in found.divergences]
    assert whole[:8] in str(long)
    assert whole[:9] not in str(long)
    assert json.loads(long.to_json())["episodes"][0]["viewpoint"] == whole


def test_a_file_beside_who_wrote_it(data: vln.Data, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (path,) = vln.evaluate("random", data, SPLIT, bar=False).write(tmp_path)
    found = vln.compare(["random", path], data, bar=False)
    first, second = found.scores.values()
    assert first == second
    assert found.divergences == []
    assert "they part" not in str(found)
    half = tmp_path / "half.json"
    half.write_text(json.dumps(json.loads(path.read_text())[::2]))
    part = vln.compare(["shortest", half], data, SPLIT)
    assert {summary["episodes"] for summary in part.scores.values()} == {12}
    assert "12 episodes of r2r/val_unseen are in all of them; these are compared" in capsys.readouterr().err
    assert set(part.scores) == {"shortest", "half"}


def test_names_that_repeat(data: vln.Data) -> None:
    found = vln.compare(["stop", "stop", "random"], data, bar=False)
    assert list(found.scores) == ["stop (1)", "stop (2)", "random"]


def test_withheld_goals(data: vln.Data) -> None:
    found = vln.compare(["stop", "random"], data, "r2r/test", bar=False)
    assert found.scores == {}
    assert found.differences == {}
    assert {walk.success for divergence in found.divergences for walk in divergence.walks.values()} == {None}
    assert "stopped" in str(found)
    assert not found.divergences[0].changes_outcome


def test_runs_of_different_tasks(trained: vln.Run, data: vln.Data, tmp_path: Path) -> None:
    document = json.loads((trained.folder / "run.json").read_text())
    document["experiment"] |= {"best_on": "r2r/val_seen", "validate_on": ["r2r/val_seen"]}
    (tmp_path / "run.json").write_text(json.dumps(document))
    line = r"^these were trained for r2r/val_unseen and r2r/val_seen; say where to compare: split='r2r/val_unseen'$"
    with pytest.raises(vln.UsageError, match=line):
        vln.compare([trained, tmp_path], data, bar=False)
    document["experiment"] |= {"best_on": "reverie/val_seen", "validate_on": ["reverie/val_seen"]}
    (tmp_path / "run.json").write_text(json.dumps(document))
    with pytest.raises(vln.UsageError, match=r"^these were trained for r2r/val_seen and reverie/val_seen; "):
        vln.compare([trained, tmp_path], data, "val_seen", bar=False)
