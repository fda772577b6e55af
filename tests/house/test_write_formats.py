"""The files have the layout, fields and types of the real ones."""

import json
import re
from pathlib import Path

import h5py
import numpy as np
import pytest

REAL = Path(__file__).parents[2] / "data"
R2R_FIELDS = {"distance": float, "scan": str, "path_id": int, "path": list, "heading": float, "instructions": list}
REVERIE_FIELDS = {**R2R_FIELDS, "ix": int, "id": str, "instructions_l": list, "objId": int}
R2R_TEST = {name: R2R_FIELDS[name] for name in ("scan", "path_id", "path", "heading", "instructions")}
REVERIE_TEST = {name: REVERIE_FIELDS[name] for name in ("scan", "id", "path", "heading", "instructions")}


def fields_of(records):
    shapes = {tuple(sorted((key, type(value).__name__) for key, value in record.items())) for record in records}
    assert len(shapes) == 1
    return dict(next(iter(shapes)))


@pytest.mark.parametrize("split", ["train", "val_seen", "val_unseen", "test"])
@pytest.mark.parametrize(
    ("task", "fields", "test_fields"), [("R2R", R2R_FIELDS, R2R_TEST), ("REVERIE", REVERIE_FIELDS, REVERIE_TEST)]
)
def test_records_have_the_real_fields(folder, task, split, fields, test_fields):
    expected = {name: kind.__name__ for name, kind in (test_fields if split == "test" else fields).items()}
    assert fields_of(folder.records(task, split)) == expected


@pytest.mark.skipif(not REAL.exists(), reason="the real data is not at hand")
@pytest.mark.parametrize(
    "name", ["r2r/R2R_train", "r2r/R2R_test", "reverie/REVERIE_val_unseen", "reverie/REVERIE_test"]
)
def test_the_expected_fields_are_those_of_the_real_files(folder, name):
    assert fields_of(folder.json(f"{name}.json")) == fields_of(json.loads((REAL / f"{name}.json").read_text()))


def test_connectivity_files(folder):
    assert len(folder.scans) == len(set(folder.scans)) == 6
    for scan in folder.scans:
        assert re.fullmatch(r"[0-9A-Za-z]{11}", scan)
        rows = folder.graphs[scan].rows
        for row in rows:
            assert list(row) == ["image_id", "pose", "included", "visible", "unobstructed", "height"]
            assert re.fullmatch(r"[0-9a-f]{32}", row["image_id"])
            assert len(row["pose"]) == 16
            assert len(row["visible"]) == len(row["unobstructed"]) == len(rows)
            axes = np.array(row["pose"]).reshape(4, 4)[:3, :3]
            assert axes @ axes.T == pytest.approx(np.eye(3), abs=1e-5)


def test_every_included_viewpoint_has_boxes_in_the_image(folder):
    written = {path.stem for path in (folder.path / "reverie" / "BBox").iterdir()}
    expected = {f"{s}_{row['image_id']}" for s in folder.scans for row in folder.graphs[s].rows if row["included"]}
    assert written == expected
    hidden = 0
    for key in sorted(written):
        for entry in folder.boxes(*key.split("_")).values():
            assert list(entry) == ["name", "visible_pos", "bbox2d"]
            assert re.fullmatch(r"[a-z]+(#[a-z]+)+", entry["name"])
            assert len(entry["visible_pos"]) == len(entry["bbox2d"])
            assert all(0 <= view < 36 for view in entry["visible_pos"])
            assert all(x >= 0 and y >= 0 and x + w <= 640 and y + h <= 480 for x, y, w, h in entry["bbox2d"])
            hidden += not entry["visible_pos"]
    assert hidden > 0  # as in the real files, an object behind a wall is listed without a view


def test_captions_describe_every_view_of_every_included_viewpoint(folder):
    for scan in folder.scans:
        captions = folder.json(f"captions/{scan}.json")
        assert set(captions) == {row["image_id"] for row in folder.graphs[scan].rows if row["included"]}
        for views in captions.values():
            assert list(views) == [str(view) for view in range(36)]
            for view in views.values():
                assert list(view) == ["global_cap", "dense_cap"]
                for found in view["dense_cap"]:
                    assert list(found) == ["obj_class", "coordinates", "confidence", "caption"]
                    left, top, right, bottom = map(int, found["coordinates"].split())
                    assert 0 <= left < right <= 640
                    assert 0 <= top < bottom <= 480
                    assert 0.0 < float(found["confidence"]) < 1.0


def test_features_of_the_included_viewpoints(folder):
    with h5py.File(folder.path / "features" / "views.hdf5") as features:
        boxes = {path.stem for path in (folder.path / "reverie" / "BBox").iterdir()}
        assert set(features) == boxes
        for key in features:
            assert features[key].shape == (36, 128)
            assert features[key].dtype == np.float16
            assert np.isfinite(features[key][:]).all()


def test_object_features_name_what_the_boxes_show(folder):
    with h5py.File(folder.path / "features" / "objects.hdf5") as features:
        keys = {path.stem for path in (folder.path / "reverie" / "BBox").iterdir()}
        shown = {key: visible_objects(folder, key) for key in keys}
        assert set(features) == {key for key, entries in shown.items() if entries}
        for key in features:
            ids, boxes, views = (features[key].attrs[name] for name in ("obj_ids", "bboxes", "viewindexs"))
            assert list(map(str, ids)) == list(shown[key])
            assert features[key].shape == (len(ids), 128)
            assert features[key].dtype == np.float16
            for entry, box, view in zip(shown[key].values(), boxes, views, strict=True):
                areas = {at: w * h for at, (_, _, w, h) in zip(entry["visible_pos"], entry["bbox2d"], strict=True)}
                assert view == max(areas, key=areas.get)
                assert box.tolist() == entry["bbox2d"][entry["visible_pos"].index(view)]


def visible_objects(folder, key):
    return {number: entry for number, entry in folder.boxes(*key.split("_")).items() if entry["visible_pos"]}


def test_ids_are_unique_and_belong_together(folder):
    numbers = [
        r["path_id"] for split in ("train", "val_seen", "val_unseen", "test") for r in folder.records("R2R", split)
    ]
    assert len(numbers) == len(set(numbers))
    for split in ("train", "val_seen", "val_unseen"):
        walks = {record["path_id"]: record for record in folder.records("R2R", split)}
        requests = folder.records("REVERIE", split)
        assert len({request["id"] for request in requests}) == len(requests)
        for request in requests:
            assert request["id"] == f"{request['path_id']}_{request['objId']}"
            assert request["path"] == walks[request["path_id"]]["path"]
            assert request["instructions_l"] == walks[request["path_id"]]["instructions"]
    tests = folder.records("REVERIE", "test")
    assert len({request["id"] for request in tests}) == len(tests)
    assert all(len(record["path"]) == 1 for record in [*tests, *folder.records("R2R", "test")])


def test_the_summary_counts_what_was_written(written):
    folder, summary = written
    assert summary.scans == len(folder.scans)
    assert summary.viewpoints == sum(int(graph.included.sum()) for graph in folder.graphs.values())
    for task, counts in summary.episodes.items():
        for split, count in counts.items():
            assert count == sum(len(record["instructions"]) for record in folder.records(task, split)) > 0
