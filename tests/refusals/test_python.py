"""What a user can get wrong in Python is one exception of ours, of one line that says what to do."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import vlnbert as vln
from tests.api.conftest import QUIETLY, SPLIT, TINY


def refused(call: Callable[[], object], *words: str) -> None:
    with pytest.raises(vln.VlnbertError) as caught:
        call()
    text = str(caught.value)
    assert len(text.splitlines()) == 1, text
    for word in words:
        assert word in text, text


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"batchsize": 4}, ["no setting 'batchsize'; did you mean batch"]),
        ({"batch_size": 4}, ["the setting batch_size is called batch now"]),
        ({"rate": 1e-3}, ["the setting rate is called learning_rate now"]),
        ({"clip": 1.0}, ["the setting clip is called grad_clip now"]),
        ({"steps": 3}, ["the setting steps is called iterations now"]),
        ({"training.bach": 4}, ["no setting 'training.bach'; did you mean training.batch"]),
        ({"batch": "many"}, ["training.batch is 'many', where int is expected"]),
        ({"training.batch": 2.5}, ["training.batch is 2.5, where int is expected"]),
        ({"batch": 3}, ["a batch of 3 has no two halves; choose an even number"]),
        ({"precision": "half"}, ["training.precision is 'half', where float32 or bfloat16 is expected"]),
        ({"iterations": 0}, ["iterations is 0; choose 1 to "]),
        ({"learning_rate": float("nan")}, ["learning_rate is nan; choose 0.0 to 1.0"]),
        ({"flip": 2}, ["flip is 2; choose 0.0 to 1.0"]),
        ({"flip": float("nan")}, ["flip is nan; choose 0.0 to 1.0"]),
        ({"flip": -0.1}, ["flip is -0.1; choose 0.0 to 1.0"]),
        ({"hidden": 15}, ["2 heads cannot share a width of 15; choose a divisor of it"]),
        ({"training": 3}, ["training is 3, where settings are expected"]),
        ({"train_on": "r2r/trian"}, ["no r2r split in", "did you mean train?"]),
        ({"best_on": "r2r/val_seen"}, ["the best weights are chosen on r2r/val_seen, which is not validated; add it"]),
        ({"features": "nowhere.hdf5"}, ["nowhere.hdf5: no such feature file; check the path"]),
        ({"device": "gpu"}, ["no device 'gpu' here; choose one of cpu"]),
        ({"threads": 0}, ["threads=0 is out of range; choose 1 to 256"]),
    ],
    ids=lambda given: " ".join(f"{k}={v}" for k, v in given.items()) if isinstance(given, dict) else "",
)
def test_a_training_that_cannot_be(changes: dict[str, Any], words: list[str], data: vln.Data, tmp_path: Path) -> None:
    out = tmp_path / "run"
    refused(lambda: vln.train("demo", data, out, **{**QUIETLY, **TINY, **changes}), *words)
    assert not out.exists(), "nothing is left behind"


def test_no_such_preset(data: vln.Data, tmp_path: Path) -> None:
    refused(lambda: vln.train("demmo", data, tmp_path / "run"), "no preset 'demmo'; did you mean demo")


def test_a_folder_that_holds_a_run(data: vln.Data, trained: vln.Run) -> None:
    refused(lambda: vln.train("demo", data, trained.folder, **QUIETLY), "holds a run of demo; resume it with")


VERBS: list[Callable[[Path, Path], object]] = [
    lambda folder, out: vln.open_data(folder),
    lambda folder, out: vln.train("demo", str(folder), out, **QUIETLY),
    lambda folder, out: vln.evaluate("random", folder, bar=False),
    lambda folder, out: vln.check_world(folder),
    lambda folder, out: vln.candidates(folder, "alpha"),
    lambda folder, out: vln.caption_features(folder, bar=False),
]


@pytest.mark.parametrize("verb", VERBS, ids=["open", "train", "evaluate", "check_world", "candidates", "captions"])
def test_no_data_folder(verb: Callable[[Path, Path], object], tmp_path: Path) -> None:
    missing, file, empty = tmp_path / "missing", tmp_path / "file", tmp_path / "empty"
    file.write_text("")
    empty.mkdir()
    refused(lambda: verb(missing, tmp_path / "run"), f"{missing}: no such data folder; ", "make a house")
    refused(lambda: verb(file, tmp_path / "run"), f"{file}: is a file, not a data folder; ", "make a house")
    refused(lambda: verb(empty, tmp_path / "run"), "connectivity: holds no <scan>_connectivity.json; ", "make a house")


def test_no_run(data: vln.Data, house: Path, tmp_path: Path) -> None:
    for folder in (tmp_path / "missing", house):
        for verb in (vln.open_run, vln.resume, vln.report, vln.curves):
            refused(lambda verb=verb, folder=folder: verb(folder), "no such run; name the folder that a training wrote")
    file = tmp_path / "file"
    file.write_text("")
    refused(lambda: vln.open_run(file), str(file))


def test_a_run_of_a_newer_format(trained: vln.Run, tmp_path: Path) -> None:
    shutil.copytree(trained.folder, tmp_path / "run")
    record = tmp_path / "run" / "run.json"
    values = json.loads(record.read_text())
    record.write_text(json.dumps({**values, "format": 99}))
    for verb in (vln.open_run, vln.resume, vln.evaluate, vln.report, vln.curves):
        refused(lambda verb=verb: verb(tmp_path / "run"), "run.json", "99", "; ")
    values["experiment"]["training"]["batch"] = "many"
    record.write_text(json.dumps(values))
    refused(lambda: vln.open_run(tmp_path / "run"), "is damaged (experiment.training.batch is 'many'", "begin anew")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"split": "r2r/val_unsen"}, ["no r2r split in", "'val_unsen'; did you mean val_unseen"]),
        ({"split": "val_unsen"}, ["no r2r split in", "'val_unsen'; did you mean val_unseen"]),
        ({"split": "r3r/val_unseen"}, ["no task 'r3r'; did you mean r2r or r4r?"]),
        ({"device": "cuda:99"}, ["no device 'cuda:99' here; choose one of cpu"]),
        ({"precision": "half"}, ["no precision 'half'; "]),
        ({"batch": 0}, ["batch=0 is out of range; choose 1 to"]),
        ({"max_steps": 0}, ["max_steps=0 is out of range; choose 1 to"]),
        ({"features": "nowhere.hdf5"}, ["nowhere.hdf5: no such feature file; check the path"]),
        ({"data": "nowhere"}, ["nowhere: no such data folder; "]),
    ],
    ids=lambda given: " ".join(f"{k}={v}" for k, v in given.items()) if isinstance(given, dict) else "",
)
def test_an_evaluation_that_cannot_be(options: dict[str, Any], words: list[str], trained: vln.Run) -> None:
    refused(lambda: vln.evaluate(trained, bar=False, **options), *words)


def test_evaluating_nowhere(trained: vln.Run, data: vln.Data) -> None:
    for agent in ("random", trained.navigator, trained.folder / "best"):
        refused(lambda agent=agent: vln.evaluate(agent, bar=False), "no data to walk in; give a data folder: data=DIR")
    refused(
        lambda: vln.evaluate("shortest", data, "r2r/test", bar=False), "r2r/test withholds its goals", "leave it out"
    )
    refused(lambda: vln.evaluate("nowhere/to/be/found", data, bar=False), "nowhere/to/be/found: no such file or folder")


def test_unknown_devices(house: Path) -> None:
    assert vln.evaluate("stop", house, SPLIT, device=torch.device("cpu"), bar=False).scores  # type: ignore[arg-type]
    for device in ("cuda:99", "quantum", "cpu:x", 3.5):
        refused(lambda device=device: vln.open_data(house, device=device), f"no device '{device}' here; choose one of")
        refused(lambda device=device: vln.caption_features(house, device=device), f"no device '{device}' here")


def test_a_report_that_cannot_be(trained: vln.Run, tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    unvalidated = "was not validated on r2r/val_seen; choose one that it was: split='r2r/val_unseen'"
    refused(lambda: vln.report(trained, out, split="r2r/val_seen", bar=False), unvalidated)
    refused(lambda: vln.curves(trained, split="r2r/val_seen"), unvalidated)
    refused(lambda: vln.report(trained, out, episodes=0, bar=False), "episodes=0 is out of range; choose 1 to")
    refused(lambda: vln.curves(trained, tmp_path / "curves.doc"), "choose one of", "svg")
    assert list(tmp_path.glob("*.html")) == []


def test_the_rest(data: vln.Data, house: Path, tmp_path: Path) -> None:
    refused(lambda: vln.generate_house(house), "the folder is not empty; choose a new folder")
    refused(lambda: vln.generate_house(tmp_path / "house", scans=2), "ask for 3 or more")
    refused(lambda: vln.demo(tmp_path / "demo", "r3r"), "no task 'r3r'; did you mean r2r?")  # type: ignore[arg-type]
    refused(lambda: vln.demo(tmp_path / "demo", iterations=0), "iterations=0 is out of range; choose 1 to")
    refused(lambda: vln.candidates(data, "nowhere"), "no scan 'nowhere'; ")
    refused(lambda: vln.score(tmp_path / "none.json", data, SPLIT), "no such result file; check the path")
    refused(lambda: vln.score(tmp_path / "none.json", data, "r2r/test"), "goals")
    refused(lambda: vln.submit(tmp_path / "none.json", tmp_path / "out.json", data, "r2r/test"), "no such result file")
    refused(lambda: vln.export_weights(house, tmp_path / "out.pt"), str(house))


WRONG_TYPES: dict[str, tuple[Callable[[vln.Data, Path], object], str]] = {
    "train(3)": (
        lambda data, out: vln.train(3, data, out),  # type: ignore[arg-type]
        "experiment is 3, where str, Path, Preset",
    ),
    "train without data": (lambda data, out: vln.train("demo"), "vln.train: missing a required argument: 'data'"),  # type: ignore[call-arg]
    "train(data=None)": (
        lambda data, out: vln.train("demo", None, out),  # type: ignore[arg-type]
        "data is None, where Data, str or Path is expected",
    ),
    "train(out=None)": (
        lambda data, out: vln.train("demo", data, None),  # type: ignore[arg-type]
        "out is None, where str or Path is expected",
    ),
    "train(seed=...)": (lambda data, out: vln.train("demo", data, out, seed="x"), "training.seed is 'x', where int is"),
    "evaluate(seed=...)": (
        lambda data, out: vln.evaluate("random", data, SPLIT, seed="x"),  # type: ignore[arg-type]
        "seed is 'x', where int is expected",
    ),
    "evaluate(seed=True)": (lambda data, out: vln.evaluate("random", data, seed=True), "seed is True, where int"),
    "evaluate(split=3)": (
        lambda data, out: vln.evaluate("random", data, 3),  # type: ignore[arg-type]
        "split is 3, where str or a list of str is expected",
    ),
    "evaluate(split=[3])": (
        lambda data, out: vln.evaluate("random", data, [3]),  # type: ignore[list-item]
        "split is [3], where str or a list of str is expected",
    ),
    "evaluate(None)": (lambda data, out: vln.evaluate(None, data), "is no agent; give an object with begin"),  # type: ignore[arg-type]
    "open_data(None)": (lambda data, out: vln.open_data(None), "the data folder is None; give its path"),  # type: ignore[arg-type]
    "open_run(7)": (lambda data, out: vln.open_run(7), "folder is 7, where Run, str or Path is expected"),  # type: ignore[arg-type]
    "resume(data)": (lambda data, out: vln.resume(data), "run is a Data, where Run, str or Path"),  # type: ignore[arg-type]
    "score(None)": (lambda data, out: vln.score(None, data, SPLIT), "file is None, where str or Path"),  # type: ignore[arg-type]
    "view_features(views=[...])": (
        lambda data, out: vln.view_features(data, views=["captions"]),  # type: ignore[arg-type]
        "views is ['captions'], where str is expected",
    ),
    "fetch_data(3)": (lambda data, out: vln.fetch_data(3), "folder is 3, where str or Path is expected"),  # type: ignore[arg-type]
    "fetch_data(only=3)": (
        lambda data, out: vln.fetch_data(out, only=3),  # type: ignore[arg-type]
        "only is 3, where str or a list of str is expected",
    ),
    "demo(scans=...)": (lambda data, out: vln.demo(out, scans="3"), "scans is '3', where int is expected"),  # type: ignore[arg-type]
    "an unknown argument": (lambda data, out: vln.report(out, folder=3), "vln.report: got an unexpected keyword"),  # type: ignore[call-arg]
}


@pytest.mark.parametrize("kind", WRONG_TYPES)
def test_wrong_types_are_told_by_the_name_of_the_argument(kind: str, data: vln.Data, tmp_path: Path) -> None:
    call, words = WRONG_TYPES[kind]
    refused(lambda: call(data, tmp_path / "out"), words)
    assert not (tmp_path / "out").exists()


class Deaf:
    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None: ...


@pytest.mark.parametrize(
    ("callbacks", "words"),
    [
        ([Deaf()], "has no validated; give objects with updated(iteration, learning_rate, parts) and validated("),
        ([print], "has no updated and no validated; give objects"),
        ([Deaf], "is a class, not an object of it; give objects"),
        (Deaf(), "callbacks is a Deaf, not a list of those who watch; put it into one: callbacks=[...]"),
        (None, "callbacks is a NoneType, not a list"),
    ],
    ids=["half", "a function", "a class", "no list", "none"],
)
def test_bad_callbacks_are_told_before_anything_is_written(
    callbacks: Any, words: str, data: vln.Data, trained: vln.Run, tmp_path: Path
) -> None:
    refused(lambda: vln.train("demo", data, tmp_path / "run", callbacks=callbacks, **QUIETLY, **TINY), words)
    assert not (tmp_path / "run").exists()
    refused(lambda: vln.resume(trained, callbacks=callbacks, **QUIETLY), words)
