"""The parts into which real labels cut the real train instructions."""

import json
from collections.abc import Callable

import pytest

from vlnbert.sources.instructions import read_word_labels
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.word_labels import Span, SubInstructions, cut_train_instructions, labelled_words, labels_of_parts
from vlnbert.world.world import World


@pytest.fixture(scope="module")
def found(open_data: DataFolder, open_data_world: World) -> SubInstructions:
    return cut_train_instructions(open_data, open_data_world)


def test_counts(found: SubInstructions, open_data: DataFolder, open_data_world: World) -> None:
    """84 more would lead along paths of val_seen."""
    assert (len(found), found.count("beginning"), found.count("end")) == (38_341, 18_150, 20_191)
    assert (found.instructions, found.cut) == (14_039, 12_161)
    assert found.left_out == {"labels of words beyond the text": 27, "parts along paths of val_seen": 84}
    names = {item["path_id"]: item["scan"] for item in found.items(open_data_world)}
    assert len(names) == len(found)
    train = json.loads((open_data.root / "r2r/R2R_train.json").read_text())
    assert {(name.split("_")[0], scan) for name, scan in names.items()} <= {
        (str(item["path_id"]), item["scan"]) for item in train
    }


def test_words_are_due_where_the_whole_instruction_has_them(
    found: SubInstructions,
    open_data: DataFolder,
    open_data_world: World,
    open_data_episodes: Callable[[str, str], Episodes],
) -> None:
    """All but those of 19 viewpoints: paths come by some twice, and their words are due at the first visit."""
    world, labels = open_data_world, read_word_labels(open_data.word_labels)
    train, parts = open_data_episodes("r2r", "train"), found.episodes
    whole = dict(zip(train.ids, zip(train.texts, labelled_words(train, labels, world)[0], strict=True), strict=True))
    due, report = labelled_words(parts, labels_of_parts(parts, train, labels), world)
    assert [line for line in report if "not on the path" not in line] == []
    others = 0
    for name, text, said in zip(parts.ids, parts.texts, due, strict=True):
        source, kind, cut = name.rsplit("_", 2)
        before = int(cut) if kind == "end" else 0
        for hop, spans in said.items():
            own = words(text, spans)
            there = words(whole[source][0], whole[source][1].get(before + hop, []))
            others += own != (there if kind == "end" else there[: len(own)])
    assert others == 19


def words(text: str, spans: list[Span]) -> list[str]:
    return [text[start:end] for start, end in spans]
