"""REVERIE through the command line: trained, evaluated, scored and submitted; and data that does not fit together."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import h5py
import pytest

from tests.cli.conftest import TINY, called
from tests.features.samples import write_bert
from vlnbert.learning.run_folder import read_log
from vlnbert.sources.layout import open_folder

# Two updates, with steps enough to come to any goal.
SHORT = (*TINY, *("--training.iterations", "2", "--training.validate-every", "2", "--training.max-steps", "8"))
ONE_VERSION = "use annotations and boxes of one version"
UNKNOWN = 100_000  # added to an object's id, it names none


@pytest.fixture(scope="module")
def trained(house: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    run = tmp_path_factory.mktemp("reverie") / "run"
    outcome = called("train", "demo-reverie", "--data", house, "--out", run, *SHORT)
    assert outcome.code == 0
    assert "targets" not in outcome.err, "all is in sight"
    assert "features" not in outcome.err
    return run


@pytest.fixture
def data(house: Path, tmp_path: Path) -> Path:
    """A copy of the house, to be changed."""
    return shutil.copytree(house, tmp_path / "data")


def edit(path: Path, change: Callable[[Any], object]) -> Path:
    document = json.loads(path.read_text())
    change(document)
    path.write_text(json.dumps(document))
    return path


def rename_targets(data: Path, split: str, count: int | None = None) -> list[str]:
    """Let the first items of a split ask for objects that the boxes do not know; what is then asked for."""
    told: list[str] = []

    def change(items: list[dict[str, Any]]) -> None:
        for item in items[:count]:
            before = str(item["objId"])
            item["objId"] = int(before) + UNKNOWN
            if "id" in item:
                item["id"] = item["id"].removesuffix(before) + str(item["objId"])
            name = item.get("id", f"{item['path_id']}_{item['objId']}")
            told.extend(f"{name}_{number}" for number in range(len(item["instructions"])))

    edit(data / "reverie" / f"REVERIE_{split}.json", change)
    return told


def named(ids: list[str]) -> str:
    return f"{len(ids):,} are visible nowhere: {', '.join(ids[:5])}{', ...' if len(ids) > 5 else ''}; {ONE_VERSION}"


def test_results_score_as_they_were_evaluated(run: Callable, house: Path, trained: Path, tmp_path: Path) -> None:
    words = (trained, "--data", house, "--splits", "val_unseen", "--max-steps", "3", "--out", tmp_path, "--json")
    said = json.loads(run("evaluate", *words).out)["reverie/val_unseen"]
    file = tmp_path / "reverie_val_unseen_run.json"
    items = json.loads(file.read_text())
    assert len(items) == said["episodes"]
    assert {type(item["predObjId"]) for item in items} <= {int, type(None)}
    assert any(item["predObjId"] is not None for item in items)
    options = ("--task", "reverie", "--split", "val_unseen", "--data", house, "--json")
    assert json.loads(run("score", file, *options).out) == pytest.approx(said)
    right = {item["instr_id"]: item["instr_id"].split("_")[-2] for item in items}  # <path>_<object>_<k>
    edit(file, lambda items: [item.update(predObjId=int(right[item["instr_id"]])) for item in items])
    again = json.loads(run("score", file, *options).out)
    assert (again["rgs"], again["sr"], again["spl"]) == (1.0, said["sr"], said["spl"])


def test_success_is_by_sight(run: Callable, house: Path, tmp_path: Path) -> None:
    """Who stops at the goal of a target that is out of sight there does not succeed."""
    hidden = shutil.copytree(house, tmp_path / "hidden")
    for path in (hidden / "reverie" / "BBox").glob("*.json"):
        edit(path, lambda boxes: [o.update(visible_pos=[], bbox2d=[]) for o in next(iter(boxes.values())).values()])
    words = ("evaluate", "--agent", "shortest", "--task", "reverie", "--splits", "val_unseen", "--json")
    for folder, success in ((house, 1.0), (hidden, 0.0)):
        assert json.loads(run(*words, "--data", folder).out)["reverie/val_unseen"]["sr"] == success


def test_a_test_split_is_submitted(run: Callable, house: Path, trained: Path, tmp_path: Path) -> None:
    outcome = run("evaluate", trained, "--data", house, "--splits", "test", "--out", tmp_path, "--json")
    assert json.loads(outcome.out) == {}
    file = tmp_path / "reverie_test_run.json"
    outcome = run("submit", file, tmp_path / "up.json", "--task", "reverie", "--data", house)
    assert outcome.code == 0
    assert json.loads((tmp_path / "up.json").read_text()) == json.loads(file.read_text())


def test_one_navigator_walks_both_tasks(run: Callable, house: Path, tmp_path: Path) -> None:
    outcome = run("train", "demo-both", "--data", house, "--out", tmp_path / "run", *SHORT)
    assert outcome.code == 0
    lines = [line for line in read_log(tmp_path / "run" / "log.jsonl") if "scores" not in line]
    assert [line["grounding"] > 0 for line in lines] == [True, False]
    for task, objects in (("reverie", True), ("r2r", False)):
        words = ("evaluate", tmp_path / "run", "--task", task, "--data", house, "--split", "val_unseen", "--json")
        summary = json.loads(run(*words).out)[f"{task}/val_unseen"]
        assert (summary["rgs"] is not None) == objects


def test_targets_that_nothing_shows_are_counted_and_named(
    run: Callable, data: Path, trained: Path, tmp_path: Path
) -> None:
    """Some of a split's, as when annotations and boxes are of different versions."""
    asked, scored = rename_targets(data, "train", 2), rename_targets(data, "val_unseen")
    outcome = run("train", "demo-reverie", "--data", data, "--out", tmp_path / "run", *SHORT)
    assert outcome.code == 0
    (told,) = [line for line in outcome.err.splitlines() if "targets" in line]
    assert told.startswith("reverie/train: ")
    assert told.endswith(f" targets are visible at the goal; {named(asked)}")
    summary = json.loads(run("evaluate", trained, "--data", data, "--split", "val_unseen", "--json").out)[
        "reverie/val_unseen"
    ]
    assert (summary["sr"], summary["osr"], summary["rgs"]) == (0.0, 0.0, 0.0)
    checked = run("data", "check", data)
    assert checked.code == 0
    assert f"{data / 'reverie' / 'REVERIE_train.json'}: {named(asked)}" in checked.out.splitlines()
    assert f"{data / 'reverie' / 'REVERIE_val_unseen.json'}: {named(scored)}" in checked.out.splitlines()
    parts = {part["part"]: part for part in json.loads(run("data", "check", data, "--json").out)["parts"]}
    assert parts["reverie train"]["notes"][-1] == named(asked)
    assert parts["reverie val_seen"]["notes"] == []


def test_a_split_of_which_no_target_is_in_sight(run: Callable, data: Path, tmp_path: Path) -> None:
    """Its way is learned, its objects are not."""
    asked = rename_targets(data, "train")
    outcome = run("train", "demo-reverie", "--data", data, "--out", tmp_path / "run", *SHORT)
    assert outcome.code == 0
    assert f"reverie/train: {named(asked)}" in outcome.err.splitlines()
    lines = [line for line in read_log(tmp_path / "run" / "log.jsonl") if "scores" not in line]
    assert [line["grounding"] for line in lines] == [0.0, 0.0]
    assert all(line["imitation"] > 0 for line in lines)


def test_features_objects_tells_the_same(run: Callable, data: Path, tmp_path: Path) -> None:
    asked = rename_targets(data, "train", 2)
    bert = write_bert(tmp_path / "bert", data / "vocab.txt")
    outcome = run("features", "objects", "--data", data, "--encoder", bert)
    assert outcome.code == 0
    assert f"train: {named(asked)}" in outcome.out.splitlines()


def test_boxes_of_an_unknown_viewpoint(run: Callable, data: Path, trained: Path, tmp_path: Path) -> None:
    boxes = next((data / "reverie" / "BBox").glob("*.json"))
    scan, _, viewpoint = boxes.stem.rpartition("_")
    stray = boxes.with_name(f"{scan}_nowhere.json")
    stray.write_text(json.dumps({"nowhere": json.loads(boxes.read_text())[viewpoint]}))
    bert = write_bert(tmp_path / "bert", data / "vocab.txt")
    for words in (
        ("train", "demo-reverie", "--data", data, "--out", tmp_path / "run"),
        ("evaluate", trained, "--data", data, "--split", "val_unseen"),
        ("features", "objects", "--data", data, "--encoder", bert),
        ("data", "check", data),
    ):
        outcome = run(*words)
        assert outcome.code == 2
        (line,) = outcome.err.splitlines()
        assert line == f"vlnbert: {stray}: its viewpoint is not in the graph; use the boxes and graphs of one data set"
    assert not (tmp_path / "run").exists()


def test_object_features_without_ids(run: Callable, data: Path, trained: Path, tmp_path: Path) -> None:
    path = open_folder(data).object_feature_files()[0]
    with h5py.File(path, "r+") as file:
        name = next(iter(file))
        del file[name].attrs["obj_ids"]
    for words in (
        ("train", "demo-reverie", "--data", data, "--out", tmp_path / "run"),
        ("evaluate", trained, "--data", data, "--split", "val_unseen"),
        ("data", "check", data),
    ):
        outcome = run(*words)
        assert outcome.code == 2
        (line,) = outcome.err.splitlines()
        assert line.startswith(f"vlnbert: {path}: ")
        assert f"{name}: has no attribute 'obj_ids'; " in line
    assert not (tmp_path / "run").exists()


def test_object_features_of_other_objects_are_counted(run: Callable, data: Path, tmp_path: Path) -> None:
    """One viewpoint's are of objects that the boxes do not know; all of another's are missing."""
    path = open_folder(data).object_feature_files()[0]
    with h5py.File(path, "r+") as file:
        strange, missing, *_ = sorted(file, key=lambda name: -len(file[name]))
        counts = [len(file[name]) for name in (strange, missing)]
        file[strange].attrs["obj_ids"] = [int(id) + UNKNOWN for id in file[strange].attrs["obj_ids"]]
        del file[missing]
    expected = [
        f"{sum(counts)} objects have a box and no feature; they are left out",
        f"{counts[0]} features are of objects that no view shows there",
        f"2 viewpoints show objects none of which has a feature: {', '.join(sorted((strange, missing)))}",
    ]
    outcome = run("train", "demo-reverie", "--data", data, "--out", tmp_path / "run", *SHORT)
    assert outcome.code == 0
    assert [line for line in outcome.err.splitlines() if line.startswith(f"{path}: ")] == [
        f"{path}: {line}" for line in expected
    ]
    parts = {part["part"]: part for part in json.loads(run("data", "check", data, "--json").out)["parts"]}
    assert parts["object features"]["notes"] == expected


def test_features_of_no_object_at_all(run: Callable, data: Path, tmp_path: Path) -> None:
    path = open_folder(data).object_feature_files()[0]
    with h5py.File(path, "r+") as file:
        for dataset in file.values():
            dataset.attrs["obj_ids"] = [int(id) + UNKNOWN for id in dataset.attrs["obj_ids"]]
    outcome = run("train", "demo-reverie", "--data", data, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert f"{path}: has a feature of none of the objects that the boxes show" in outcome.err


def test_no_object_features_is_one_line_that_says_what_to_do(run: Callable, data: Path, tmp_path: Path) -> None:
    open_folder(data).object_feature_files()[0].unlink()
    outcome = run("train", "demo-reverie", "--data", data, "--out", tmp_path / "run")
    assert outcome.code == 2
    (line,) = outcome.err.splitlines()
    assert (
        "holds no object feature file; name one with --features.objects FILE, or see by --features.objects names"
        in line
    )
    blind = run("train", "demo-reverie", "--data", data, "--out", tmp_path / "run", *SHORT, "--features.objects", "off")
    assert blind.code == 0
    for navigator in (tmp_path / "run", tmp_path / "run" / "best"):  # who sees no objects needs none to walk
        words = ("evaluate", navigator, "--task", "reverie", "--data", data, "--split", "val_unseen", "--json")
        assert json.loads(run(*words).out)["reverie/val_unseen"]["rgs"] == 0.0
