"""Captions and detections of every view."""

import pytest

from vlnbert.sources.annotations import Detection, read_captions

ALPHA = "captions/alpha.json"


def test_captions_in_the_order_of_the_views(tiny):
    panoramas = read_captions(tiny.path(ALPHA))
    assert [(panorama.scan, panorama.viewpoint) for panorama in panoramas][:2] == [("alpha", "a0"), ("alpha", "a1")]
    assert [view.text for view in panoramas[0].views] == [f"view {view % 6} of a" for view in range(36)]
    table = Detection("table", 0.75, (0.0, 0.0, 639.0, 479.0), "a table")
    assert panoramas[0].views[2].detections[1] == table


@pytest.mark.parametrize(
    "change",
    [
        {"global_cap": None},
        {"global_cap": ["a"]},
        {"dense_cap": None},
        {"dense_cap": 3},
        {"dense_cap": ""},
        {"dense_cap": {}},
        {"dense_cap": [None]},
        {"dense_cap": ["chair"]},
    ],
)
def test_a_wrong_view(tiny, refuses, change):
    path = tiny.edit(ALPHA, lambda document: document["a1"]["5"].update(change))
    refuses(path, lambda: read_captions(path), "viewpoint a1 view 5: is not a 'global_cap'")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("coordinates", "1 2 3"),
        ("coordinates", "1 2 3 four"),
        ("coordinates", [1, 2, 3, 4]),
        ("coordinates", "nan 1 2 3"),
        ("confidence", "sure"),
        ("confidence", None),
        pytest.param("confidence", 10**400, id="confidence-huge"),
        ("confidence", "nan"),
        ("confidence", "inf"),
        ("obj_class", None),
        ("obj_class", ["chair"]),
        ("caption", {}),
    ],
)
def test_a_wrong_detection(tiny, refuses, field, value):
    path = tiny.edit(ALPHA, lambda document: document["a0"]["1"]["dense_cap"][0].update({field: value}))
    refuses(path, lambda: read_captions(path), "viewpoint a0 view 1: ")


def test_all_faults_of_a_file_at_once(tiny, refuses):
    def break_it(document):
        del document["a0"]["35"]
        document["a1"] = []
        document["a2"]["36"] = document["a2"]["0"]
        document["a3"]["0"] = None

    path = tiny.edit(ALPHA, break_it)
    views = "does not hold views '0' to '35'"
    expected = [f"viewpoint a0: {views}", f"viewpoint a1: {views}", f"viewpoint a2: {views}", "viewpoint a3 view 0: "]
    refuses(path, lambda: read_captions(path), *expected)


def test_damaged_and_missing_files(tiny, refuses):
    refuses(tiny.write(ALPHA, []), lambda: read_captions(tiny.path(ALPHA)), "does not hold an object")
    refuses(tiny.cut(ALPHA, 1), lambda: read_captions(tiny.path(ALPHA)), "is not whole JSON")
    tiny.path(ALPHA).unlink()
    refuses(
        tiny.path(ALPHA),
        lambda: read_captions(tiny.path(ALPHA)),
        "no such caption file; get them with: vlnbert data fetch",
    )


@pytest.mark.parametrize("confidence", ["-0.1", "1.5", "83", "1e9"])
def test_a_confidence_is_a_share(tiny, refuses, confidence):
    path = tiny.edit(ALPHA, lambda document: document["a1"]["2"]["dense_cap"][0].update(confidence=confidence))
    words = f"viewpoint a1 view 2: detects chair with a confidence of {float(confidence):g}, not of 0 to 1"
    refuses(path, lambda: read_captions(path), words)


@pytest.mark.parametrize("confidence", ["0", "1"])
def test_a_confidence_may_be_none_or_whole(tiny, confidence):
    path = tiny.edit(ALPHA, lambda document: document["a1"]["2"]["dense_cap"][0].update(confidence=confidence))
    assert read_captions(path)[1].views[2].detections[0].confidence == float(confidence)
