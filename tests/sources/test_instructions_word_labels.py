"""Word labels: by instruction and viewpoint; whatever is damaged is named."""

from typing import Any

import pytest

from tests.conftest import TinyData
from vlnbert.sources.instructions import LONGEST_TEXT, LabelledWords, read_labelled_words, read_word_labels, split_words

FILE = "r2r/LAR2R_train.json"
GOOD = {
    "10": {
        "a3": {"0": {"action": [1, 0], "landmark": [4, 3, 4]}, "1": {"landmark": [2]}},
        "id": 10,
        "a4": {"0": {"action": []}},
    },
    "11": {"b1": {"0": {}}},
}


def test_labels_by_instruction_and_viewpoint(tiny: Any) -> None:
    labels = read_word_labels(tiny.write(FILE, GOOD))
    assert labels == {"10_0": {"a3": (0, 1, 3, 4)}, "10_1": {"a3": (2,)}}, "labels without a word are none"


def test_words_are_letters_and_marks() -> None:
    text = "Don't  stop, l'été_2.\n"
    words = [text[begin:end] for begin, end in split_words(text)]
    assert words == ["Don", "'", "t", "stop", ",", "l", "'", "été_2", "."]


@pytest.mark.parametrize(
    "label",
    [
        None,
        [],
        "walk",
        {"action": None},
        {"action": 1},
        {"action": [1, None]},
        {"action": [1.0]},
        {"action": [True]},
        {"action": [-1]},
        {"action": [LONGEST_TEXT]},
        {"action": [10**30]},
        {"action": [[1]]},
        {"action": [1], "landmarks": [2]},
        {"\ud800": [1]},
    ],
    ids=repr,
)
def test_a_wrong_label(tiny: Any, refuses: Any, label: Any) -> None:
    path = tiny.write(FILE, {**GOOD, "12": {"g4": {"0": {"action": [0]}, "1": label}}})
    problem = "path 12 viewpoint g4 instruction 1: has no lists of words by action and landmark, each from 0 to 65,535"
    refuses(path, lambda: read_word_labels(path), problem)


def test_the_last_place_that_an_instruction_can_have(tiny: Any) -> None:
    path = tiny.write(FILE, {"10": {"a3": {"0": {"action": [LONGEST_TEXT - 1]}}}})
    assert read_word_labels(path) == {"10_0": {"a3": (LONGEST_TEXT - 1,)}}


def test_all_faults_of_a_file_at_once(tiny: Any, refuses: Any) -> None:
    broken = {"10": [], "11": {"b1": None, "b0": {"0": {"action": "0"}}}, "12": GOOD["10"]}
    path = tiny.write(FILE, broken)
    expected = (
        "path 10: is no table of viewpoints; fetch the file again",
        "path 11 viewpoint b1: is no table of instructions; fetch the file again",
        "path 11 viewpoint b0 instruction 0: has no lists of words",
    )
    refuses(path, lambda: read_word_labels(path), *expected)


def test_damaged_and_missing_files(tiny: Any, refuses: Any) -> None:
    path = tiny.path(FILE)
    refuses(tiny.write(FILE, []), lambda: read_word_labels(path), "is no table of paths")
    refuses(tiny.write(FILE, {"10": {"id": 10}}), lambda: read_word_labels(path), "holds no labels")
    refuses(tiny.cut(FILE, 5), lambda: read_word_labels(path), "is not whole JSON")
    path.unlink()
    remedy = "no such file of word labels; get it with: vlnbert data fetch DIR --only landmarks"
    refuses(path, lambda: read_word_labels(path), remedy)


LABELS = {"5": {"id": "5", "a1": {"0": {"action": [4, 1], "landmark": [2, 4]}, "2": {"landmark": [7]}}, "a2": {}}}


def test_both_readings_of_a_file(tiny: TinyData) -> None:
    file = tiny.write("r2r/LAR2R_train.json", LABELS)
    told = {"5_0": {"a1": LabelledWords((4, 1), (2, 4))}, "5_2": {"a1": LabelledWords((), (7,))}}
    assert read_labelled_words(file) == told
    assert read_word_labels(file) == {"5_0": {"a1": (1, 2, 4)}, "5_2": {"a1": (7,)}}


def test_words_before_a_place() -> None:
    assert LabelledWords((4, 1), (2, 4)).before(4) == LabelledWords((1,), (2,))
