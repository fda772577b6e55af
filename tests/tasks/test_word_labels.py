"""Which words are due where, by hand: 'Walk to the blue door.' and 'Go up the stairs and stop' in a tiny house."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer

from vlnbert.errors import UsageError
from vlnbert.sources.instructions import WordLabels
from vlnbert.tasks.batches import take
from vlnbert.tasks.splits import Split, open_split, without_houses
from vlnbert.tasks.tokens import load_tokenizer
from vlnbert.tasks.word_labels import align_words, words_to_attend
from vlnbert.world.world import World

GO, UP, THE, STAIR, S, AND, STOP = range(1, 8)  # tokens of the second instruction, after [CLS]; 8 is [SEP]
STAIRS = 3  # a word of it, which is two word pieces
ALL = {"10_0": {"a3": (0,)}, "11_0": {"b2": (0,)}, "12_0": {"g4": (0,)}}  # of the other instructions


@pytest.fixture
def tokenizer(tiny: Any) -> Tokenizer:
    return load_tokenizer(tiny.folder.vocabulary)


@pytest.fixture
def split(tiny: Any, world: World, tokenizer: Tokenizer) -> Split:
    return open_split(tiny.folder, world, tokenizer, "r2r/train")


def tokens_by_hop(split: Split, id: str) -> list[list[int]]:
    assert split.aligned is not None
    row = split.episodes.row(id)
    return [split.aligned[row, hop].nonzero().flatten().tolist() for hop in range(split.aligned.shape[1])]


def aligned(split: Split, world: World, tokenizer: Tokenizer, labels: WordLabels) -> tuple[Split, list[str]]:
    return align_words(split, {**ALL, **labels}, tokenizer, world)


def test_words_are_due_at_their_viewpoint(split: Split, world: World, tokenizer: Tokenizer) -> None:
    """10_1 walks a0 a3 a4, and paths of others have a hop more; a word may be of several viewpoints."""
    found, report = aligned(split, world, tokenizer, {"10_1": {"a0": (0,), "a3": (0, 1), "a4": (1, STAIRS, 5)}})
    assert tokens_by_hop(found, "10_1") == [[GO], [GO, UP], [UP, STAIR, S, STOP], []]
    assert report == []


def test_where_nothing_is_due_the_last_words_still_are(split: Split, world: World, tokenizer: Tokenizer) -> None:
    """11_0 walks b3 b2 b1 b0: 'Walk to the blue door.', of which b1 has nothing and b2 an empty list."""
    found, _ = aligned(split, world, tokenizer, {"10_1": {"a4": (0,)}, "11_0": {"b3": (0,), "b2": (), "b0": (4, 5)}})
    assert tokens_by_hop(found, "11_0") == [[1], [1], [1], [5, 6]]


def test_before_the_first_words_they_are_due(split: Split, world: World, tokenizer: Tokenizer) -> None:
    found, _ = aligned(split, world, tokenizer, {"10_1": {"a4": (0,)}, "11_0": {"b2": (0,), "b1": (1,)}})
    assert tokens_by_hop(found, "11_0") == [[1], [1], [2], [2]]


def test_what_does_not_fit_is_counted_and_left_out(split: Split, world: World, tokenizer: Tokenizer) -> None:
    labels = {"10_0": {}, "10_1": {"a4": (5, 6, 99), "a1": (0,)}, "77_0": {"a4": (0,)}, "10_2": {}}
    found, report = aligned(split, world, tokenizer, labels)
    assert tokens_by_hop(found, "10_0") == [[]] * 4
    assert tokens_by_hop(found, "10_1") == [[STOP]] * 3 + [[]]
    assert report == [
        "1 instructions have no word labels",
        "2 instructions that are not there have word labels",
        "1 labelled viewpoints are not on the path, and are left out",
        "2 labelled words are beyond the end of the instruction, and are left out",
    ]


def test_a_cut_instruction_loses_its_last_words(tiny: Any, world: World, tokenizer: Tokenizer) -> None:
    """Of 'Go up the stairs and stop' six tokens are left, and the last of them is [SEP]: a word has lost its end."""
    split = open_split(tiny.folder, world, tokenizer, "r2r/train", max_tokens=6)
    found, report = aligned(split, world, tokenizer, {"10_1": {"a3": (0, STAIRS, 5), "a4": (4, 5)}})
    assert tokens_by_hop(found, "10_1") == [[GO, STAIR]] * 3 + [[]], "a4 has no words that are read, a0 none at all"
    assert report == ["3 labelled words have no token, and are left out"]


def test_too_many_words_at_viewpoints_are_refused(
    split: Split, world: World, tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("vlnbert.tasks.word_labels.MOST_MARKS", 4 * 4 * 9 - 1)
    with pytest.raises(UsageError, match="r2r/train has 144 words at viewpoints, more than 143; shorten its paths"):
        align_words(split, ALL, tokenizer, world)


def test_a_gigabyte_of_words_at_viewpoints_is_the_most(split: Split, world: World, tokenizer: Tokenizer) -> None:
    """Four paths of four viewpoints, with instructions so long that it is just beyond."""
    length = (1 << 30) // 16 + 1
    long = replace(split, tokens=replace(split.tokens, ids=torch.zeros(1, 1, dtype=torch.long).expand(4, length)))
    with pytest.raises(UsageError, match="has 1,073,741,840 words at viewpoints, more than 1,073,741,824;"):
        align_words(long, ALL, tokenizer, world)


def test_who_is_left_keeps_its_words(split: Split, world: World, tokenizer: Tokenizer) -> None:
    found, _ = aligned(split, world, tokenizer, {"10_1": {"a3": (0,), "a4": (1,)}, "12_0": {"g4": (5,)}})
    for some in (found.select(torch.tensor([3, 1])), without_houses(world, found, ("beta",))):
        assert len(some.episodes) < len(found.episodes)
        for id in ("10_1", "12_0"):
            assert tokens_by_hop(some.to("cpu"), id) == tokens_by_hop(found, id)


def test_a_batch_is_as_wide_as_its_words(split: Split, world: World, tokenizer: Tokenizer) -> None:
    found, _ = aligned(split, world, tokenizer, {"10_1": {"a3": (0,), "a4": (1,)}})
    assert found.aligned is not None
    for width in (5, 16):
        rows = torch.tensor([1, 0])
        batch = take(found.episodes, found.tokens, rows, width, aligned=found.aligned)
        assert batch.aligned is not None
        assert batch.aligned.shape == (2, 4, width)
        assert torch.equal(batch.aligned[:, :, :5], found.aligned[rows, :, :5])
        assert not batch.aligned[:, :, 9:].any()


def test_words_to_attend_where_a_row_stands(no_waiting: Any) -> None:
    words = torch.arange(2 * 3 * 4).view(2, 3, 4) % 5 == 0
    path = torch.tensor([[7, 8, 8], [7, 9, 4]])  # the first is padded
    for hop, viewpoint in ((0, (7, 7)), (1, (8, 9))):
        standing = torch.tensor(viewpoint)
        with no_waiting():
            found = words_to_attend(words, path, standing)
        assert torch.equal(found, words[:, hop])
    found = words_to_attend(words, path, torch.tensor([4, 4]))
    assert not found[0].any(), "not on its path"
    assert torch.equal(found[1], words[1, 2])
    assert words[0, 1].tolist() != words[0, 2].tolist(), "padding would tell"
