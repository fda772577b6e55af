"""Words of action and of landmark, told apart and together."""

from tests.conftest import TinyData
from vlnbert.sources.instructions import LabelledWords, read_labelled_words, read_word_labels

LABELS = {"5": {"id": "5", "a1": {"0": {"action": [4, 1], "landmark": [2, 4]}, "2": {"landmark": [7]}}, "a2": {}}}


def test_both_readings_of_a_file(tiny: TinyData) -> None:
    file = tiny.write("r2r/LAR2R_train.json", LABELS)
    told = {"5_0": {"a1": LabelledWords((4, 1), (2, 4))}, "5_2": {"a1": LabelledWords((), (7,))}}
    assert read_labelled_words(file) == told
    assert read_word_labels(file) == {"5_0": {"a1": (1, 2, 4)}, "5_2": {"a1": (7,)}}


def test_words_before_a_place() -> None:
    assert LabelledWords((4, 1), (2, 4)).before(4) == LabelledWords((1,), (2,))
