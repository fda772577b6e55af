"""REVERIE's objects and the views that show them."""

import pytest

from vlnbert.errors import InvalidFileError
from vlnbert.sources.annotations import BoxedObject, read_box_folder, read_boxes

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


def test_all_faults_of_a_file_at_once(tiny, refuses):
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
