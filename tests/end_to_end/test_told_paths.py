"""From a third of what people said to a navigator that also learned from what a speaker told: end to end, tiny."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln
from tests.cli.conftest import called
from vlnbert.house import generate
from vlnbert.learning.presets import presets
from vlnbert.learning.runs import begin_run

QUIETLY: dict[str, Any] = {"threads": 1, "bar": False, "tensorboard": False}
SPEAKER: dict[str, Any] = {
    **{"hidden": 32, "heads": 2, "inner": 64, "encoder_layers": 1, "decoder_layers": 1, "dropout": 0.0},
    **{"iterations": 60, "batch": 16, "validate_every": 30, "learning_rate": 1e-2, "warmup": 5},
}
NAVIGATOR: dict[str, Any] = {
    **{"hidden": 16, "heads": 2, "inner": 32, "batch": 4, "max_steps": 4, "iterations": 8, "validate_every": 4},
    **{"split_weights": (1.0, 3.0), "final_split_weights": (1.0, 0.0)},
}


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a third of the human data."""
    folder = tmp_path_factory.mktemp("pipeline") / "house"
    generate(folder, scans=3, paths_per_scan=12)
    file = folder / "r2r/R2R_train.json"
    file.write_text(json.dumps(json.loads(file.read_text())[::3]))
    return folder


def test_from_a_third_of_the_human_data_to_a_navigator(house: Path, tmp_path: Path) -> None:
    people = len(vln.open_data(house).episodes("r2r/train"))
    speaker = vln.train("speaker-demo", house, tmp_path / "speaker", **QUIETLY, **SPEAKER)
    made = called("augment", "paths", "--data", house, "--out", tmp_path / "paths.json", "--count", 30, "--json")
    assert json.loads(made.out)["paths"] == 30
    out = house / "r2r/told_aug.json"
    words = ("augment", "speak", speaker.folder, "--paths", tmp_path / "paths.json", "--out", out)
    told = called(*words, "--tellings", 2, "--json")
    assert told.code == 0, told.err
    found = json.loads(told.out)
    assert found["written"] + sum(found["left_out"].values()) == 60
    assert found["written"] > people
    again = called(*words)
    assert (again.code, again.err) == (
        2,
        f"vlnbert: {out}: is there already; remove it, or write to another file\n",
    )
    splits = ("r2r/train", "r2r/told_aug")
    run = vln.train("demo", house, tmp_path / "both", train_on=splits, **QUIETLY, **NAVIGATOR)
    assert run.progress.iteration == 8
    assert run.experiment.train_on == splits
    scored = called(
        "speak", speaker.folder, "--split", "r2r/val_unseen", "--score", "--navigator", run.folder, "--json"
    )
    assert scored.code == 0, scored.err
    scores = json.loads(scored.out)
    assert scores["navigator"] == "both"
    assert scores["told"]["episodes"] == scores["paths"]
    assert "BLEU-4" in called("speak", speaker.folder, "--split", "r2r/val_unseen", "--score").out
    for more, line in (
        (("--navigator", run.folder), "--navigator follows to score a speaker; say so: --score"),
        (("--score", "--out", "a.json"), "--score scores a split, and prints"),
    ):
        refused = called("speak", speaker.folder, "--split", "r2r/val_unseen", *more)
        assert refused.code == 2
        assert line in refused.err


def test_what_others_told_of_is_looked_at(house: Path, tmp_path: Path) -> None:
    """Houses and paths of an evaluation, and steps that no edge joins: told when a training begins."""
    shutil.copytree(house, tmp_path / "house")
    folder = tmp_path / "house/r2r"
    unseen, seen, train = (
        json.loads((folder / f"R2R_{split}.json").read_text()) for split in ("val_unseen", "val_seen", "train")
    )
    del train[0]["path"][1:-1]
    items = [{**item, "instructions": item["instructions"][:1], "instr_enc": [2, 5, 3]} for item in train]
    for items_of, name in ((unseen, "unseen"), (seen, "seen")):
        items += [{**items[0], "path_id": f"{name}_{row}"} | _place(item) for row, item in enumerate(items_of)]
    (folder / "others_aug.json").write_text(json.dumps(items))
    told: list[str] = []
    training = replace(presets.navigator("demo"), train_on=("r2r/train", "r2r/others_aug"))
    begin_run("mine", training, vln.open_data(tmp_path / "house"), tmp_path / "run", tell=told.append)
    assert [line.partition(";")[0] for line in told if line.startswith("r2r/others_aug")] == [
        f"r2r/others_aug: {len(unseen)} of {len(items)} are in houses that nobody trains in",
        f"r2r/others_aug: {len(seen)} of {len(items)} are paths of val_seen",
        f"r2r/others_aug: 1 of {len(items)} paths are not connected",
    ]


def _place(item: dict[str, Any]) -> dict[str, Any]:
    return {name: item[name] for name in ("scan", "path", "heading")}


@pytest.mark.parametrize("others", [(), ("prevalent_aug",), ("prevalent_aug", "earlier_aug", "later_en_aug")])
def test_a_told_file_that_is_not_there_yet(house: Path, tmp_path: Path, others: tuple[str, ...]) -> None:
    """Whatever other augmented files there are."""
    shutil.copytree(house, tmp_path / "house", ignore=shutil.ignore_patterns("*_aug.*"))
    for name in others:
        (tmp_path / f"house/r2r/{name}.json").write_text("[]")
    make = r"later_aug.json: no such file, .*; make it with: vlnbert augment speak \(docs/howto/augment.md\)"
    near = r"; did you mean later_en_aug or earlier_aug\?" if len(others) > 1 else ""
    with pytest.raises(vln.VlnbertError, match=f"{make}{near}$"):
        vln.train("demo", tmp_path / "house", tmp_path / "run", train_on=("r2r/later_aug",), **QUIETLY)
