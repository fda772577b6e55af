"""Observations: eight headings, three elevations; whatever is not there is named."""

from typing import Any

import pytest

from vlnbert.sources.annotations import read_observations

ALPHA = "observations/alpha.json"


def test_captions_by_heading_and_elevation(tiny: Any) -> None:
    panoramas = read_observations(tiny.path(ALPHA))
    assert [(panorama.scan, panorama.viewpoint) for panorama in panoramas][:2] == [("alpha", "a0"), ("alpha", "a1")]
    assert len(panoramas[0].captions) == 8
    assert panoramas[0].captions[2] == ("a rug and a lamp", "a lamp in a", "a ceiling and a lamp")


def test_white_space_and_the_order_of_lines_do_not_matter(tiny: Any) -> None:
    loose = "\r\n top :  a ceiling \n\nDown: a  rug\t\n middle: a lamp: it is on\n"
    path = tiny.edit(ALPHA, lambda document: document["a1"].__setitem__(0, loose))
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
    path = tiny.edit(ALPHA, lambda document: document["a1"].__setitem__(5, entry))
    refuses(path, lambda: read_observations(path), "viewpoint a1 heading 5: is not a text of the lines 'down: ...'")


def test_all_faults_of_a_file_at_once(tiny: Any, refuses: Any) -> None:
    def break_it(document: Any) -> None:
        document["a0"].pop()
        document["a1"] = {"0": "down: a"}
        document["a2"].append(document["a2"][0])
        document["a3"][7] = "down: a\nmiddle:  \ntop:"

    path = tiny.edit(ALPHA, break_it)
    expected = (
        "viewpoint a0: holds 7 headings, not 8",
        "viewpoint a1: holds no list of headings, not 8",
        "viewpoint a2: holds 9 headings, not 8",
        "viewpoint a3 heading 7: 'middle' has an empty caption",
        "viewpoint a3 heading 7: 'top' has an empty caption",
    )
    refuses(path, lambda: read_observations(path), *expected)


def test_damaged_and_missing_files(tiny: Any, refuses: Any) -> None:
    path = tiny.path(ALPHA)
    refuses(tiny.write(ALPHA, []), lambda: read_observations(path), "does not hold an object")
    refuses(tiny.cut(ALPHA, 1), lambda: read_observations(path), "is not whole JSON")
    path.unlink()
    refuses(
        path,
        lambda: read_observations(path),
        "no such observation file; get them with: vlnbert data fetch DIR --only observations",
    )
