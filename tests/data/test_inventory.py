"""What a data folder holds: everything is read, faults are told and never raised."""

import json

import h5py
import numpy as np
import pytest

from vlnbert.data.inventory import describe_need, meets, take_inventory
from vlnbert.learning.presets import presets


def faults(folder):
    return {part.need: part.faults for part in take_inventory(folder) if part.faults}


def test_a_good_folder(tiny):
    holds = {part.need: part.holds for part in take_inventory(tiny.folder)}
    assert holds["graphs"] == "3 scans, 17 viewpoints"
    assert holds["vocabulary"] == "22 word pieces"
    assert holds["r2r train"] == "4 instructions"
    assert holds["r2r test"] == "4 instructions, goals withheld"
    assert holds["augmented"] == "1 instructions"
    assert holds["boxes"] == "3 visible objects, 5 sightings"
    assert holds["captions"] == f"{36 * 17} captioned views"
    assert holds["observations"] == f"{24 * 17} captions in 8 directions at 3 elevations"
    assert holds["features"] == "17 panoramas, 6 wide"
    assert faults(tiny.folder) == {}


def test_paths_that_nobody_can_walk(tiny):
    notes = {part.need: part.notes for part in take_inventory(tiny.folder)}
    assert notes["r2r train"] == ()
    path = tiny.path("r2r/R2R_train.json")
    items = json.loads(path.read_text())
    long = next(item for item in items if len(item["path"]) > 2)
    long["path"] = [long["path"][0], long["path"][-1]]
    path.write_text(json.dumps(items))
    notes = {part.need: part.notes for part in take_inventory(tiny.folder)}
    assert f"paths step where no edge is, so that nobody can walk them: {long['path_id']}_0" in notes["r2r train"][0]


LABELS = {"10": {"a3": {"0": {"action": [0]}, "1": {"landmark": [2, 3]}}, "a4": {"0": {"action": [9]}}}}


def test_word_labels(tiny):
    assert "landmarks" not in {part.need for part in take_inventory(tiny.folder)}
    tiny.write(
        "r2r/LAR2R_train.json", {**LABELS, "11": {"a0": {"0": {"action": [0]}}}, "99": {"a0": {"0": {"action": [0]}}}}
    )
    [part] = [part for part in take_inventory(tiny.folder) if part.need == "landmarks"]
    assert part.holds == "4 instructions with 5 labelled viewpoints"
    assert part.notes == (
        "1 instructions have no word labels",
        "1 instructions that are not there have word labels",
        "1 labelled viewpoints are not on the path, and are left out",
        "1 labelled words are beyond the end of the instruction, and are left out",
    )
    assert part.faults == ()
    assert meets("landmarks", [part])
    for split in ("train", "val_unseen"):
        tiny.cut(f"r2r/R2R_{split}.json", 10)
    found = {part.need: part for part in take_inventory(tiny.folder)}
    assert found["landmarks"].notes == ("was not held against r2r/train, which cannot be read",)
    assert not found["landmarks"].faults, "the fault is the other file's"


def test_object_features(tiny):
    path = tiny.path("features/objects.hdf5")
    with h5py.File(path, "w") as file:
        file["alpha_a3"] = np.ones((1, 9))
        file["alpha_a3"].attrs["obj_ids"] = [7]
        file["delta_d0"] = np.ones((2, 9))
        file["delta_d0"].attrs["obj_ids"] = [1, 2]
    holds = {part.need: part.holds for part in take_inventory(tiny.folder)}
    assert holds["object features"] == "1 objects at 1 viewpoints, 9 wide"
    tiny.cut("features/objects.hdf5", 10)
    assert set(faults(tiny.folder)) == {"object features"}


@pytest.mark.parametrize(
    ("need", "file"),
    [
        ("graphs", "connectivity/gamma_connectivity.json"),
        ("vocabulary", "vocab.txt"),
        ("r2r train", "r2r/R2R_train.json"),
        ("reverie val_unseen", "reverie/REVERIE_val_unseen.json"),
        ("augmented", "r2r/prevalent_aug.json"),
        ("boxes", "reverie/BBox/alpha_a1.json"),
        ("captions", "captions/beta.json"),
        ("observations", "observations/beta.json"),
        ("landmarks", "r2r/LAR2R_train.json"),
        ("features", "features/tiny.hdf5"),
        ("features", "features/tiny.tsv"),
    ],
)
def test_one_damaged_file(tiny, need, file):
    tiny.write("r2r/LAR2R_train.json", LABELS)
    path = tiny.cut(file, 10)
    found = faults(tiny.folder)
    assert str(path) in found[need][0]
    assert set(found) == {need}


def test_what_a_speaker_told_is_needed_by_who_learns_from_it(tiny):
    need, needs = "r2r told_aug", presets["r2r-open-told"].experiment.needs
    assert set(needs) - set(presets["r2r-open"].experiment.needs) == {need}
    assert not meets(need, take_inventory(tiny.folder))
    tiny.path("r2r/prevalent_aug.json").rename(tiny.path("r2r/told_aug.json"))
    assert meets(need, take_inventory(tiny.folder))
    assert describe_need(need) == "r2r/told_aug.json, as vlnbert augment speak writes it"


def test_an_empty_folder(tiny):
    for path in tiny.folder.connectivity.iterdir():
        path.unlink()
    graphs, vocabulary = take_inventory(tiny.folder)
    assert "holds no <scan>_connectivity.json" in graphs.faults[0]
    assert vocabulary.faults == ()


def test_needs(tiny):
    parts = take_inventory(tiny.folder)
    assert meets("captions", parts)
    assert not meets("r2r", parts), "there is no val_seen"
    tiny.write("r2r/R2R_val_seen.json", tiny.read("r2r/R2R_train.json"))
    assert meets("r2r", take_inventory(tiny.folder))
    tiny.cut("r2r/R2R_train.json", 10)
    assert not meets("r2r", take_inventory(tiny.folder))


def test_boxes_out_of_range_are_counted_and_said(tiny):
    notes = {part.need: part.notes for part in take_inventory(tiny.folder)}
    assert notes["captions"] == ()
    boxes = ["-5 0 20 20", "0 0 641 20", "0 20 640 490", "700 0 720 20", "20 20 10 30", "0 -30 10 -10"]

    def spread(document):
        for view, box in enumerate(boxes):
            entry = {"obj_class": "chair", "coordinates": box, "confidence": "0.5", "caption": "a chair"}
            document["a1"][str(view)]["dense_cap"] = [entry]

    tiny.edit("captions/alpha.json", spread)
    found = {"a": {str(n): {"name": "bed", "visible_pos": [3], "bbox2d": [box]} for n, box in enumerate(BOXES)}}
    tiny.edit("reverie/BBox/alpha_a1.json", lambda document: document["a1"].update(found["a"]))
    notes = {part.need: part.notes for part in take_inventory(tiny.folder)}
    assert notes["captions"] == (
        "3 boxes of detections reach beyond the 640 x 480 view and are cut to it",
        "3 boxes of detections show nothing of the 640 x 480 view",
    )
    before = {part.need: part.notes for part in take_inventory(tiny.folder)}["boxes"]
    assert "boxes of objects show nothing of the 640 x 480 view" in before[-1]


BOXES = ([600, 400, 100, 100], [0, 0, 0, 10], [640, 0, 10, 10])


def test_plans_are_counted_and_their_faults_told(tiny):
    square = [[0, 0], [1, 0], [1, 1]]
    plan = {"format": 1, "floors": [{"z": 0}], "rooms": [{"name": "hall", "floor": 0, "polygon": square}]}
    tiny.folder.plans.mkdir()
    tiny.write("plans/alpha.json", {**plan, "doors": [], "stairs": [], "objects": []})
    assert {part.need: part.holds for part in take_inventory(tiny.folder)}["plans"] == (
        "1 houses with 1 rooms and 0 objects, to look at"
    )
    tiny.write("plans/alpha.json", plan)
    assert "'doors' is not a list" in faults(tiny.folder)["plans"][0]
