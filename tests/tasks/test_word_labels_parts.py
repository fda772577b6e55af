"""People's instructions cut in parts: where, what remains of words and path, what is left out, and what is refused."""

import json
import math
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

import vlnbert as vln
from tests.cli.conftest import TINY, Outcome, called
from tests.conftest import TinyData
from vlnbert.errors import DataError, UsageError
from vlnbert.features.spec import FeatureSpec
from vlnbert.house import generate
from vlnbert.learning.presets import presets
from vlnbert.learning.runs import fingerprints
from vlnbert.sources.instructions import LabelledWords, read_word_labels, split_words
from vlnbert.tasks.word_labels import Part, cut_in_parts, labels_of_parts

#       0    1    2   3   4 5   6    7    8    9  10  11  12 13 14 15  16     17  18  19
TEXT = "Walk past the sofa, and then turn left at the door. Go up the stairs and stop."
PAST_THE_SOFA = LabelledWords((0, 1), (3,))
TURN_LEFT = LabelledWords((7, 8), (11,))
GO_UP = LabelledWords((13, 14), (16,))
Due = dict[int, LabelledWords]


def parts(due: Due, hops: int = 7, text: str = TEXT) -> list[Part]:
    return list(cut_in_parts(text, [due.get(hop) for hop in range(hops)]))


def test_both_parts_meet_where_words_are_due() -> None:
    end, beginning = parts({1: PAST_THE_SOFA, 3: TURN_LEFT})
    assert end == Part("end", "turn left at the door. Go up the stairs and stop.", 3, 6)
    assert beginning == Part("beginning", "Walk past the sofa.", 0, 3), "without ', and then'"
    assert (end.name, beginning.name) == ("end_3", "beginning_3")
    (_, other) = parts({2: TURN_LEFT, 4: GO_UP})
    assert other.text == "Walk past the sofa, and then turn left at the door.", "one full stop"


def test_every_cut_is_made() -> None:
    found = parts({1: PAST_THE_SOFA, 3: TURN_LEFT, 5: GO_UP})
    assert [part.name for part in found] == ["end_3", "beginning_3", "beginning_5"]


@pytest.mark.parametrize(
    ("due", "hops", "names"),
    [
        ({3: PAST_THE_SOFA, 4: TURN_LEFT}, 7, ["end_4", "beginning_4"]),
        ({3: PAST_THE_SOFA, 5: TURN_LEFT}, 7, ["beginning_5"]),
        ({3: PAST_THE_SOFA, 6: TURN_LEFT}, 7, []),
        ({0: PAST_THE_SOFA, 2: TURN_LEFT}, 5, ["end_2", "beginning_2"]),
        ({0: PAST_THE_SOFA, 1: TURN_LEFT}, 5, ["end_1"]),
        ({2: PAST_THE_SOFA, 3: LabelledWords((16,), ())}, 7, ["beginning_3"]),
        ({2: PAST_THE_SOFA, 3: LabelledWords((15,), ())}, 7, ["end_3", "beginning_3"]),
        ({2: LabelledWords((0,), ()), 3: LabelledWords((3,), ())}, 7, ["end_3"]),
        ({2: LabelledWords((0,), ()), 3: LabelledWords((4,), ())}, 7, ["end_3", "beginning_3"]),
    ],
    ids=[
        *("3 viewpoints at the end", "2 at the end", "the whole path", "3 at the beginning", "2 at the beginning"),
        *("3 words and a full stop at the end", "4 words at the end", "'the' does not count", "4 words before"),
    ],
)
def test_shortest_parts(due: Due, hops: int, names: list[str]) -> None:
    assert [part.name for part in parts(due, hops)] == names


@pytest.mark.parametrize(
    "due",
    [
        {},
        {2: PAST_THE_SOFA},
        {2: TURN_LEFT, 4: PAST_THE_SOFA},
        {2: PAST_THE_SOFA, 4: LabelledWords((8,), (7, 11))},
        {2: PAST_THE_SOFA, 4: LabelledWords((), (7,))},
        {2: LabelledWords((0,), (11,)), 4: TURN_LEFT},
        {2: PAST_THE_SOFA, 4: LabelledWords((20, 21), ())},
    ],
    ids=[
        *("no labels", "one viewpoint", "the other way round", "a landmark first", "no action"),
        *("interwoven", "beyond the text"),
    ],
)
def test_no_cut(due: Due) -> None:
    assert parts(due) == []


def test_words_of_later_viewpoints_may_not_come_before_those_of_earlier_ones() -> None:
    assert [part.name for part in parts({2: TURN_LEFT, 3: GO_UP, 4: PAST_THE_SOFA})] == []
    assert [part.name for part in parts({2: PAST_THE_SOFA, 3: GO_UP, 4: TURN_LEFT})] == ["end_3", "beginning_3"]


@pytest.fixture
def labelled(tiny: TinyData) -> TinyData:
    """One path through alpha: north, east, back south-west, east, and up; evaluations are elsewhere."""
    for name in ("r2r/R2R_test.json", *(f"reverie/REVERIE_{split}.json" for split in ("train", "val_unseen", "test"))):
        tiny.path(name).unlink()
    tiny.edit("r2r/R2R_val_unseen.json", lambda items: items.pop())
    path = ["a0", "a1", "a2", "a3", "a4"]
    item = {"scan": "alpha", "path_id": 5, "heading": 0.25, "path": path, "instructions": [TEXT, TEXT]}
    tiny.write("r2r/R2R_train.json", [item])
    label = {"action": [7, 8], "landmark": [11]}
    first = {"action": [0, 1], "landmark": [3]}
    tiny.write("r2r/LAR2R_train.json", {"5": {"id": "5", "a0": {"0": first}, "a2": {"0": label}}})
    return tiny


def cut(data: TinyData | Path, out: Path, *words: str) -> Outcome:
    root = data.root if isinstance(data, TinyData) else data
    return called("augment", "sub-instructions", "--data", root, "--out", out, *words)


def test_the_file_by_hand(labelled: TinyData) -> None:
    out = labelled.path("r2r/R2R_sub_instructions.json")
    told = cut(labelled, out)
    assert (told.code, told.err) == (0, "")
    assert told.out == (
        f"{out}: 2 sub-instructions, 1 beginnings and 1 ends, of 1 of 2 instructions; "
        "left out: 1 instructions without labels\n"
    )
    end, beginning = json.loads(out.read_text())
    assert end == {
        "path_id": "5_0_end_2",
        "scan": "alpha",
        "heading": pytest.approx(math.pi / 2),
        "distance": round(math.hypot(1, 2) + math.hypot(2, 1), 2),
        "path": ["a2", "a3", "a4"],
        "instructions": ["turn left at the door. Go up the stairs and stop."],
    }
    assert beginning == {
        "path_id": "5_0_beginning_2",
        "scan": "alpha",
        "heading": 0.25,
        "distance": 5.0,
        "path": ["a0", "a1", "a2"],
        "instructions": ["Walk past the sofa."],
    }
    assert vln.open_data(labelled.root).split("r2r/sub_instructions").episodes.ids == (
        *("5_0_end_2_0", "5_0_beginning_2_0"),
    )


def test_instructions_of_one_path_are_cut_each(labelled: TinyData, tmp_path: Path) -> None:
    """Both of the path, into two parts each."""

    def both(labels: dict[str, Any]) -> None:
        for viewpoint in ("a0", "a2"):
            labels["5"][viewpoint]["1"] = labels["5"][viewpoint]["0"]

    labelled.edit("r2r/LAR2R_train.json", both)
    out = tmp_path / "R2R_parts.json"
    told = cut(labelled, out)
    assert told.out == f"{out}: 4 sub-instructions, 2 beginnings and 2 ends, of 2 of 2 instructions\n"


def test_headings_are_within_a_turn(labelled: TinyData, tmp_path: Path) -> None:
    """Westwards, which other conventions would have below zero."""
    labelled.edit("r2r/R2R_train.json", lambda items: items[0].update(path=["a2", "a1", "a0", "a3", "a4"]))
    labels = {"a2": {"0": PAST_THE_SOFA._asdict()}, "a1": {"0": TURN_LEFT._asdict()}}
    labelled.write("r2r/LAR2R_train.json", {"5": labels})
    vln.augment_sub_instructions(labelled.root, tmp_path / "R2R_parts.json")
    (end,) = json.loads((tmp_path / "R2R_parts.json").read_text())
    assert (end["path_id"], end["heading"]) == ("5_0_end_1", pytest.approx(3 * math.pi / 2))


def test_what_does_not_fit_is_counted(labelled: TinyData, tmp_path: Path) -> None:
    def more(labels: dict[str, Any]) -> None:
        labels["5"]["a1"] = {"0": {"action": [20, 400]}}
        labels["5"]["a5"] = {"0": {"action": [2]}}
        labels["6"] = {"a0": {"0": {"action": [0]}, "1": {"landmark": [1]}}}
        labels["7"] = {"a0": {"0": {"action": [0]}}}

    labelled.edit("r2r/LAR2R_train.json", more)
    broken = {"scan": "alpha", "path_id": 6, "heading": 0, "path": ["a0", "a2", "a1"], "instructions": [TEXT] * 2}
    staying = {"scan": "alpha", "path_id": 7, "heading": 0, "path": ["a0", "a0", "a1"], "instructions": [TEXT]}
    labelled.edit("r2r/R2R_train.json", lambda items: items.extend([broken, staying]))
    labelled.edit("r2r/LAR2R_train.json", lambda labels: labels.update({"8": {"a0": {"0": {"action": [0]}}}}))
    told = cut(labelled, tmp_path / "R2R_parts.json", "--json")
    assert json.loads(told.out) == {
        "sub_instructions": 2,
        "beginnings": 1,
        "ends": 1,
        "instructions": 5,
        "cut": 1,
        "left_out": {
            "labels of viewpoints off the path": 1,
            "labels of words beyond the text": 2,
            "instructions without labels": 1,
            "instructions of paths that are not connected": 3,
            "labelled instructions that the train split does not have": 1,
        },
    }


def test_parts_along_a_path_of_val_seen_are_left_out(labelled: TinyData, tmp_path: Path) -> None:
    """People described it there: what is learned from may not lead along it."""
    seen = {"scan": "alpha", "path_id": 9, "heading": 0, "path": ["a2", "a3", "a4"], "instructions": [TEXT]}
    labelled.write("r2r/R2R_val_seen.json", [seen])
    found = vln.augment_sub_instructions(labelled.root, tmp_path / "R2R_parts.json")
    assert found.episodes.ids == ("5_0_beginning_2",)
    assert found.left_out["parts along paths of val_seen"] == 1


def test_labels_that_are_not_there(labelled: TinyData, tmp_path: Path) -> None:
    file = labelled.path("r2r/LAR2R_train.json")
    file.unlink()
    refused = cut(labelled, tmp_path / "R2R_parts.json")
    fetch, there = (
        "vlnbert data fetch DIR --only landmarks",
        "a generated house has none: train demo or demo-reverie there",
    )
    remedy = f"get it with: {fetch}; {there}"
    assert (refused.code, refused.err) == (2, f"vlnbert: {file}: no such file of word labels; {remedy}\n")
    assert not (tmp_path / "R2R_parts.json").exists()


@pytest.mark.parametrize(
    ("labels", "problem"),
    [
        (
            {"5": {"a2": {"0": {"action": [0]}}}},
            "cuts no instruction of r2r/train; take labels and instructions of one",
        ),
        ([], "is no table of paths; fetch the file again"),
        ({"5": {"a2": {"0": {"action": ["0"]}}}}, "has no lists of words"),
    ],
    ids=["one viewpoint", "a list", "words"],
)
def test_labels_that_are_of_no_use(labelled: TinyData, tmp_path: Path, labels: object, problem: str) -> None:
    labelled.write("r2r/LAR2R_train.json", labels)
    refused = cut(labelled, tmp_path / "R2R_parts.json")
    assert refused.code == 2
    assert problem in refused.err
    assert refused.err.count("\n") == 1
    assert not (tmp_path / "R2R_parts.json").exists()


def test_an_older_file_is_kept(labelled: TinyData, tmp_path: Path) -> None:
    file = tmp_path / "R2R_parts.json"
    file.write_text("mine")
    with pytest.raises(DataError, match=r"R2R_parts.json: is there already; remove it, or write to another file"):
        vln.augment_sub_instructions(labelled.root, file)
    assert file.read_text() == "mine"


def test_a_name_that_would_be_read_otherwise(labelled: TinyData, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"parts_aug.json would be read as augmented data, which comes as tokens; "):
        vln.augment_sub_instructions(labelled.root, tmp_path / "parts_aug.json")


def test_the_split_needs_no_file(labelled: TinyData, tmp_path: Path) -> None:
    """It is cut when it is asked for, unless there is a file of its name."""
    data, name = vln.open_data(labelled.root), "r2r/sub_instructions"
    cut = data.split(name)
    vln.augment_sub_instructions(labelled.root, tmp_path / "parts.json")
    assert "left out" in cut.episodes.notes[0]
    written = json.loads((tmp_path / "parts.json").read_text())
    (labelled.root / "r2r/R2R_sub_instructions.json").write_text(json.dumps(written[:1]))
    read = vln.open_data(labelled.root).split(name)
    assert len(cut.episodes) == len(written) > len(read.episodes) == 1
    assert cut.episodes.texts[0] == read.episodes.texts[0]
    assert torch.equal(cut.tokens.ids[0, : read.tokens.ids.shape[1]], read.tokens.ids[0])


def test_parts_have_labels_of_their_own(labelled: TinyData) -> None:
    """An end counts its words from the cut; the label of a comma does not become that of the beginning's full stop."""
    labelled.edit("r2r/LAR2R_train.json", lambda labels: labels["5"].update(a1={"0": {"landmark": [4]}}))
    data = vln.open_data(labelled.root)
    parts, train = (data.episodes(f"r2r/{name}") for name in ("sub_instructions", "train"))
    labels = labels_of_parts(parts, train, read_word_labels(labelled.folder.word_labels))
    assert labels == {"5_0_end_2": {"a2": (0, 1, 4)}, "5_0_beginning_2": {"a0": (0, 1, 3)}}


def test_a_resumed_run_must_find_the_same_parts(labelled: TinyData, tmp_path: Path) -> None:
    """They depend on train, on labels and on what is evaluated, and are others where they have a file."""
    name, folder = "r2r/sub_instructions", labelled.folder
    experiment = replace(presets["demo"].experiment, train_on=("r2r/train", name), features=FeatureSpec("captions"))
    found = [fingerprints(experiment, folder)[name]]
    labelled.edit("r2r/LAR2R_train.json", lambda labels: labels["5"].pop("id"))
    found.append(fingerprints(experiment, folder)[name])
    labelled.write("r2r/R2R_val_seen.json", [])
    found.append(fingerprints(experiment, folder)[name])
    assert len(set(found)) == 3
    vln.augment_sub_instructions(labelled.root, labelled.path("r2r/R2R_sub_instructions.json"))
    assert name not in fingerprints(experiment, folder)
    assert "r2r/R2R_sub_instructions.json" in fingerprints(experiment, folder)


def test_the_split_is_known_by_its_name(labelled: TinyData) -> None:
    assert "r2r/sub_instructions" in vln.open_data(labelled.root).splits
    labelled.path("r2r/LAR2R_train.json").unlink()
    assert "r2r/sub_instructions" not in vln.open_data(labelled.root).splits


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A generated house with labels: as many words for each viewpoint of a path, in its order."""
    folder = tmp_path_factory.mktemp("parts") / "house"
    generate(folder, scans=4, paths_per_scan=10)
    labels: dict[str, dict[str, Any]] = {}
    for item in json.loads((folder / "r2r/R2R_train.json").read_text()):
        said = labels.setdefault(str(item["path_id"]), {"id": item["path_id"]})
        for number, text in enumerate(item["instructions"]):
            share = len(list(split_words(text))) // len(item["path"])
            for hop, viewpoint in enumerate(item["path"]) if share > 1 else ():
                words = {"action": [hop * share], "landmark": [hop * share + 1]}
                said.setdefault(viewpoint, {})[str(number)] = words
    (folder / "r2r/LAR2R_train.json").write_text(json.dumps(labels))
    return folder


def test_from_labels_to_a_training(house: Path, tmp_path: Path) -> None:
    out = house / "r2r/R2R_sub_instructions.json"
    found = json.loads(cut(house, out, "--json").out)
    again = vln.augment_sub_instructions(house, tmp_path / "R2R_again.json")
    assert out.read_bytes() == (tmp_path / "R2R_again.json").read_bytes()
    split = vln.open_data(house).split("r2r/sub_instructions")
    assert len(split.episodes) == found["sub_instructions"] == len(again) > 20
    assert (found["beginnings"], found["ends"]) == (again.count("beginning"), again.count("end"))
    assert min(found["beginnings"], found["ends"]) > 5
    splits = ("--train-on", "r2r/train", "r2r/sub_instructions", "--holdout", 1)
    weights = ("--training.split-weights", 1, 1, "--training.final-split-weights", 1, 0)
    words = ("train", "demo", "--data", house, "--out", tmp_path / "run", *splits, *weights, *TINY)
    trained = called(*words, "--training.iterations", 2, "--training.validate-every", 2)
    assert trained.code == 0, trained.err
    kept_out = set(vln.holdout_houses(house, 1))
    left = sum(item["scan"] not in kept_out for item in json.loads(out.read_text()))
    assert 0 < left < len(again)
    assert f"{left} of r2r/sub_instructions" in trained.err + trained.out


def test_parts_of_somebodys_own_are_held_against_evaluations(house: Path, tmp_path: Path) -> None:
    folder = shutil.copytree(house, tmp_path / "house")
    seen = json.loads((folder / "r2r/R2R_val_seen.json").read_text())[:1]
    (folder / "r2r/R2R_sub_instructions.json").write_text(json.dumps(seen))
    splits = ("--train-on", "r2r/train", "r2r/sub_instructions")
    short = ("--training.iterations", "1", "--training.validate-every", "1", "--training.warmup", "0")
    told = called("train", "demo", "--data", folder, "--out", tmp_path / "run", *splits, *TINY, *short)
    count = len(seen[0]["instructions"])
    assert (
        f"r2r/sub_instructions: {count} of {count} are paths of val_seen; what learns from them" in told.err + told.out
    )


def test_all_of_it_is_of_train(house: Path, tmp_path: Path) -> None:
    vln.augment_sub_instructions(house, tmp_path / "R2R_parts.json")
    train = {str(item["path_id"]): item for item in json.loads((house / "r2r/R2R_train.json").read_text())}
    made = json.loads((tmp_path / "R2R_parts.json").read_text())
    assert len({item["path_id"] for item in made}) == len(made)
    for item in made:
        name, number, kind, hop = item["path_id"].rsplit("_", 3)
        whole = train[name]
        assert item["scan"] == whole["scan"]
        place = int(hop)
        assert item["path"] == (whole["path"][place:] if kind == "end" else whole["path"][: place + 1])
        (text,), told = item["instructions"], whole["instructions"][int(number)]
        assert told.strip().endswith(text) if kind == "end" else told.strip().startswith(text[:-1])
