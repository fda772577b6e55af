"""Boxes, captions and observations: read as they are, and every fault named."""

from typing import Any

import pytest

from vlnbert.errors import InvalidFileError
from vlnbert.sources.annotations import (
    BoxedObject,
    Detection,
    read_box_folder,
    read_boxes,
    read_captions,
    read_observations,
)

BOXES = "reverie/BBox/alpha_a3.json"


def test_objects_with_a_box_for_each_view(tiny):
    found = read_boxes(tiny.path(BOXES))
    assert (found.scan, found.viewpoint) == ("alpha", "a3")
    chair = BoxedObject("7", "chair", (3, 15), ((0, 0, 10, 20), (5, 6.5, 7, 8)))
    assert found.objects == (chair, BoxedObject("8", "lamp", (), ()))


def test_a_folder_in_alphabetical_order(tiny):
    found = [(place.scan, place.viewpoint) for place in read_box_folder(tiny.folder.boxes)]
    assert found == sorted(set(tiny.features) - {("beta", "b4")})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"name": 3}, "has no 'name'"),
        ({"visible_pos": None}, "'visible_pos' is not a list of views 0 to 35"),
        ({"visible_pos": [3, 36]}, "'visible_pos' is not a list of views 0 to 35"),
        ({"visible_pos": [-1, 3]}, "'visible_pos' is not a list of views 0 to 35"),
        ({"visible_pos": [3, 3.5]}, "'visible_pos' is not a list of views 0 to 35"),
        ({"visible_pos": [3, True]}, "'visible_pos' is not a list of views 0 to 35"),
        ({"visible_pos": [3]}, "'bbox2d' is not one [x, y, w, h] for each"),
        ({"bbox2d": None}, "'bbox2d' is not one [x, y, w, h] for each"),
        ({"bbox2d": [[1, 2, 3, 4], [1, 2, 3]]}, "'bbox2d' is not one [x, y, w, h] for each"),
        ({"bbox2d": [[1, 2, 3, 4], [1, 2, 3, "4"]]}, "'bbox2d' is not one [x, y, w, h] for each"),
        ({"bbox2d": [[1, 2, 3, 4], [1, 2, 3, float("nan")]]}, "'bbox2d' is not one [x, y, w, h] for each"),
        ({"bbox2d": [[1, 2, 3, 4], [1, 2, 3, True]]}, "'bbox2d' is not one [x, y, w, h] for each"),
    ],
)
def test_a_wrong_object(tiny, refuses, change, words):
    path = tiny.edit(BOXES, lambda document: document["a3"]["7"].update(change))
    refuses(path, lambda: read_boxes(path), f"object 7: {words}")


def test_all_faults_of_a_box_file_at_once(tiny, refuses):
    path = tiny.edit(BOXES, lambda document: document.update(a3={"7": None, "8": {"name": "x"}}))
    refuses(path, lambda: read_boxes(path), "object 7: has no 'name'", "object 8: 'visible_pos'")


@pytest.mark.parametrize("document", [[], {}, {"a4": {}}, {"a3": []}, None])
def test_another_viewpoints_file(tiny, refuses, document):
    path = tiny.write(BOXES, document)
    refuses(path, lambda: read_boxes(path), "does not hold the objects of a3")


def test_all_faults_of_a_folder_at_once(tiny):
    paths = [tiny.cut(BOXES, -3), tiny.write("reverie/BBox/beta_b0.json", {"b0": {"7": None, "8": None}})]
    with pytest.raises(InvalidFileError) as caught:
        list(read_box_folder(tiny.folder.boxes))
    assert [fault.path for fault in caught.value.faults] == [paths[0], paths[1], paths[1]]
    assert caught.value.path == tiny.folder.boxes


def test_damaged_and_missing(tiny, refuses):
    refuses(tiny.cut(BOXES, -3), lambda: list(read_box_folder(tiny.folder.boxes)), "is not whole JSON")
    empty = tiny.root / "nothing"
    refuses(
        empty,
        lambda: list(read_box_folder(empty)),
        "holds no <scan>_<viewpoint>.json; get them with: vlnbert data fetch",
    )


CAPTIONED = "captions/alpha.json"


def test_captions_in_the_order_of_the_views(tiny):
    panoramas = read_captions(tiny.path(CAPTIONED))
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
    path = tiny.edit(CAPTIONED, lambda document: document["a1"]["5"].update(change))
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
    path = tiny.edit(CAPTIONED, lambda document: document["a0"]["1"]["dense_cap"][0].update({field: value}))
    refuses(path, lambda: read_captions(path), "viewpoint a0 view 1: ")


def test_all_faults_of_a_caption_file_at_once(tiny, refuses):
    def break_it(document):
        del document["a0"]["35"]
        document["a1"] = []
        document["a2"]["36"] = document["a2"]["0"]
        document["a3"]["0"] = None

    path = tiny.edit(CAPTIONED, break_it)
    views = "does not hold views '0' to '35'"
    expected = [f"viewpoint a0: {views}", f"viewpoint a1: {views}", f"viewpoint a2: {views}", "viewpoint a3 view 0: "]
    refuses(path, lambda: read_captions(path), *expected)


def test_damaged_and_missing_caption_files(tiny, refuses):
    refuses(tiny.write(CAPTIONED, []), lambda: read_captions(tiny.path(CAPTIONED)), "does not hold an object")
    refuses(tiny.cut(CAPTIONED, 1), lambda: read_captions(tiny.path(CAPTIONED)), "is not whole JSON")
    tiny.path(CAPTIONED).unlink()
    refuses(
        tiny.path(CAPTIONED),
        lambda: read_captions(tiny.path(CAPTIONED)),
        "no such caption file; get them with: vlnbert data fetch",
    )


@pytest.mark.parametrize("confidence", ["-0.1", "1.5", "83", "1e9"])
def test_a_confidence_is_a_share(tiny, refuses, confidence):
    path = tiny.edit(CAPTIONED, lambda document: document["a1"]["2"]["dense_cap"][0].update(confidence=confidence))
    words = f"viewpoint a1 view 2: detects chair with a confidence of {float(confidence):g}, not of 0 to 1"
    refuses(path, lambda: read_captions(path), words)


@pytest.mark.parametrize("confidence", ["0", "1"])
def test_a_confidence_may_be_none_or_whole(tiny, confidence):
    path = tiny.edit(CAPTIONED, lambda document: document["a1"]["2"]["dense_cap"][0].update(confidence=confidence))
    assert read_captions(path)[1].views[2].detections[0].confidence == float(confidence)


OBSERVED = "observations/alpha.json"


def test_captions_by_heading_and_elevation(tiny: Any) -> None:
    panoramas = read_observations(tiny.path(OBSERVED))
    assert [(panorama.scan, panorama.viewpoint) for panorama in panoramas][:2] == [("alpha", "a0"), ("alpha", "a1")]
    assert len(panoramas[0].captions) == 8
    assert panoramas[0].captions[2] == ("a rug and a lamp", "a lamp in a", "a ceiling and a lamp")


def test_white_space_and_the_order_of_lines_do_not_matter(tiny: Any) -> None:
    loose = "\r\n top :  a ceiling \n\nDown: a  rug\t\n middle: a lamp: it is on\n"
    path = tiny.edit(OBSERVED, lambda document: document["a1"].__setitem__(0, loose))
    assert read_observations(path)[1].captions[0] == ("a rug", "a lamp: it is on", "a ceiling")


@pytest.mark.parametrize(
    "entry",
    [
        None,
        7,
        ["down: a", "middle: b", "top: c"],
        "",
        "a sofa",
        "down: a\nmiddle: b",
        "down: a\nmiddle: b\ntop: c\ntop: d",
        "down: a\nmiddle: b\nabove: c",
        "down: \ud800\nmiddle: b\ntop: c",
    ],
)
def test_a_wrong_heading(tiny: Any, refuses: Any, entry: Any) -> None:
    path = tiny.edit(OBSERVED, lambda document: document["a1"].__setitem__(5, entry))
    refuses(path, lambda: read_observations(path), "viewpoint a1 heading 5: is not a text of the lines 'down: ...'")


def test_all_faults_of_an_observation_file_at_once(tiny: Any, refuses: Any) -> None:
    def break_it(document: Any) -> None:
        document["a0"].pop()
        document["a1"] = {"0": "down: a"}
        document["a2"].append(document["a2"][0])
        document["a3"][7] = "down: a\nmiddle:  \ntop:"

    path = tiny.edit(OBSERVED, break_it)
    expected = (
        "viewpoint a0: holds 7 headings, not 8",
        "viewpoint a1: holds no list of headings, not 8",
        "viewpoint a2: holds 9 headings, not 8",
        "viewpoint a3 heading 7: 'middle' has an empty caption",
        "viewpoint a3 heading 7: 'top' has an empty caption",
    )
    refuses(path, lambda: read_observations(path), *expected)


def test_damaged_and_missing_observation_files(tiny: Any, refuses: Any) -> None:
    path = tiny.path(OBSERVED)
    refuses(tiny.write(OBSERVED, []), lambda: read_observations(path), "does not hold an object")
    refuses(tiny.cut(OBSERVED, 1), lambda: read_observations(path), "is not whole JSON")
    path.unlink()
    refuses(
        path,
        lambda: read_observations(path),
        "no such observation file; get them with: vlnbert data fetch DIR --only observations",
    )
