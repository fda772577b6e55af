"""Houses kept out, and speakers that had seen them: refused, noted or fine, when a training begins."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln
from tests.learning.samples import CONFIG, SHAPE
from vlnbert.data.inventory import take_inventory
from vlnbert.errors import DataError, UsageError
from vlnbert.house import generate
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.runs import begin_run
from vlnbert.sources.instructions import Provenance, provenance_file, write_provenance
from vlnbert.tasks.batches import load_tokenizer

NOBODY = "r2r/told_aug: nobody knows in which houses its speaker learned"
DEV = {"validate_on": ("r2r/dev_unseen",), "best_on": "r2r/dev_unseen", "holdout": 2}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("told") / "house"
    generate(folder, scans=6, paths_per_scan=3)
    tokenizer = load_tokenizer(folder / "vocab.txt")
    items = json.loads((folder / "r2r/R2R_train.json").read_text())
    told = [{**one, "instr_enc": tokenizer.encode(one["instructions"][0]).ids} for one in items]
    (folder / "r2r/told_aug.json").write_text(
        json.dumps([{**one, "instructions": one["instructions"][:1]} for one in told])
    )
    return folder


@pytest.fixture
def house(original: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(original, tmp_path / "house"))


def say_who(house: Path, held_out: tuple[str, ...] | None, name: str = "told_aug", speaker: str = "mine") -> Path:
    file = house / f"r2r/{name}.json"
    about = Provenance(
        speaker=speaker,
        held_out=held_out,
        decoding={"method": "greedy"},
        paths=1,
        tellings=1,
        instructions=1,
        keep_followed=None,
        bytes=file.stat().st_size,
    )
    write_provenance(file, about)
    return provenance_file(file)


def begin(house: Path, run: Path, **changes: Any) -> list[str]:
    told: list[str] = []
    settings: dict[str, Any] = {"train_on": ("r2r/train", "r2r/told_aug"), **DEV, **changes}
    experiment = Experiment(navigator=SHAPE, training=replace(CONFIG, iterations=2), **settings)
    begin_run("mine", experiment, vln.open_data(house), run, tell=told.append)
    return told


def test_a_speaker_that_had_seen_them_is_refused(house: Path, tmp_path: Path) -> None:
    kept_out = tuple(vln.holdout_houses(house, 2, bar=False))
    for seen, known in ((kept_out[1:], kept_out[:1]), (kept_out, ())):
        say_who(house, known, speaker="x" * 900)
        with pytest.raises(UsageError) as caught:
            begin(house, tmp_path / "run")
        line = str(caught.value)
        assert line.startswith("r2r/told_aug was told by xxx")
        assert line.endswith(
            f"which learned in houses that are kept out ({', '.join(seen)}); "
            "train a speaker with the same holdout and holdout_seed"
        )
        assert not (tmp_path / "run").exists()


def test_one_that_had_not_is_fine(house: Path, tmp_path: Path) -> None:
    say_who(house, (*vln.holdout_houses(house, 2, bar=False), "another"))
    assert not [line for line in begin(house, tmp_path / "run") if "told_aug:" in line]


def test_where_nobody_knows_a_line_says_so(house: Path, tmp_path: Path) -> None:
    assert len([line for line in begin(house, tmp_path / "plain") if line.startswith(NOBODY)]) == 1
    say_who(house, None)
    assert len([line for line in begin(house, tmp_path / "unknown") if line.startswith(NOBODY)]) == 1


def test_without_holdout_it_is_not_asked_for(house: Path, tmp_path: Path) -> None:
    say_who(house, ()).write_text("no JSON")
    everywhere = {"validate_on": ("r2r/val_unseen",), "best_on": "r2r/val_unseen", "holdout": 0}
    assert not [line for line in begin(house, tmp_path / "run", **everywhere) if line.startswith(NOBODY)]


def test_a_damaged_one_is_refused(house: Path, tmp_path: Path) -> None:
    say_who(house, ()).write_text("no JSON")
    with pytest.raises(
        DataError, match=r"told_aug.about.json: .*is not whole JSON .*; remove it, or tell the paths again"
    ):
        begin(house, tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_it_is_no_split(house: Path) -> None:
    shutil.copy(house / "r2r/told_aug.json", house / "r2r/R2R_told_aug.json")
    before = vln.open_data(house).splits
    say_who(house, ())
    say_who(house, (), "R2R_told_aug")
    data = vln.open_data(house)
    assert data.splits == before
    assert not [part for part in take_inventory(data.folder) if part.path.name.endswith(".about.json") or part.faults]
