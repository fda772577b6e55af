"""What a data folder says of a view, for people: from the nearest heading, the surest first, or nothing."""

import pytest

from tests.conftest import TinyData
from vlnbert.errors import DataError
from vlnbert.perception.view_texts import NEAREST, TextReader


def test_each_view_takes_the_nearest_heading() -> None:
    assert NEAREST[:12] == [0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7]  # of 45 degrees each, for views of 30
    assert NEAREST[:12] * 3 == NEAREST


def test_texts(tiny: TinyData) -> None:
    reader = TextReader(tiny.folder)
    assert reader.of("alpha", "a0", 14) == {
        "captions": "view 2 of a",
        "detections": ["table", "chair"],
        "observations": "a table in a",
    }
    assert reader.of("alpha", "a0", 27)["observations"] == "a ceiling and a lamp"
    assert reader.of("alpha", "a0", 3)["detections"] == ["chair"], "each once"
    assert reader.of("alpha", "nowhere", 3) == reader.of("omega", "a0", 3) == {}


def test_files_are_read_once_and_damage_is_told(tiny: TinyData) -> None:
    reader = TextReader(tiny.folder)
    before = reader.of("alpha", "a0", 14)
    tiny.cut("captions/alpha.json", 40)
    assert reader.of("alpha", "a0", 14) == before
    with pytest.raises(DataError, match=r"captions/alpha.json: .*is not whole JSON"):
        TextReader(tiny.folder).of("alpha", "a0", 14)
