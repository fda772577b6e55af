"""The batches of a training: from each split in turn, shared out over ranks, the same whenever they are asked for."""

from collections import Counter
from pathlib import Path

import pytest
import torch

from vlnbert.learning.batches import BatchStream
from vlnbert.learning.experiment import TrainConfig
from vlnbert.ranks import ALONE, Ranks
from vlnbert.rollout.mixed import SAMPLE, TEACHER
from vlnbert.sources.layout import open_folder
from vlnbert.tasks.splits import Split, open_split
from vlnbert.tasks.tokens import load_tokenizer
from vlnbert.world.build import open_world

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def splits(house: Path) -> list[Split]:
    folder = open_folder(house)
    world, tokenizer = open_world(folder), load_tokenizer(folder.vocabulary)
    return [open_split(folder, world, tokenizer, name) for name in ("r2r/train", "r2r/val_seen")]


def stream(splits: list[Split], ranks: Ranks = ALONE, **settings: int) -> BatchStream:
    return BatchStream(splits, TrainConfig(**{"batch": 4, "seed": 7, **settings}), ranks, CPU)


def test_splits_take_turns(splits: list[Split]) -> None:
    feed = stream(splits)
    assert [feed.split_of(number).name for number in range(4)] == ["r2r/train", "r2r/val_seen"] * 2
    for number in range(4):
        batch, _ = feed[number]
        episodes = splits[number % 2].episodes
        assert torch.equal(batch.start, episodes.start[feed.rows(number)])
        assert torch.equal(batch.path, episodes.path[feed.rows(number)])


def test_all_batches_of_an_update_come_from_one_split(splits: list[Split]) -> None:
    """As the published code alternates: a whole update from R2R, the next from the augmented paths."""
    feed, alone = stream(splits, accumulate=3), stream(splits)
    names = [feed.split_of(number).name for number in range(12)]
    assert names == [name for name in ("r2r/train", "r2r/val_seen") * 2 for _ in range(3)]
    for place, numbers in enumerate(([0, 1, 2, 6, 7, 8], [3, 4, 5, 9, 10, 11])):
        for turn, number in enumerate(numbers):  # each split's batches in its own order, none left out
            assert torch.equal(feed.rows(number), alone.rows(2 * turn + place))
            batch, _ = feed[number]
            assert torch.equal(batch.path, splits[place].episodes.path[feed.rows(number)])


def test_each_split_is_gone_through_at_its_own_pace(splits: list[Split]) -> None:
    """Epoch by epoch: every episode once before any comes again, but for what fills the last batch up."""
    feed, size = stream(splits), 4
    for place, split in enumerate(splits):
        count = -(-len(split.episodes) // size)
        seen = Counter(row for n in range(count) for row in feed.rows(2 * n + place).tolist())
        assert set(seen) == set(range(len(split.episodes)))
        assert sum(seen.values()) == count * size


def test_a_batch_is_a_pure_function_of_its_number(splits: list[Split]) -> None:
    one, other = (stream(splits) for _ in range(2))
    later, key = one[5]
    for number in range(5):
        _ = other[number]
    again, same_key = other[5]
    assert torch.equal(later.tokens, again.tokens)
    assert torch.equal(key, same_key)
    assert not torch.equal(key, stream(splits, seed=8)[5][1]), "the seed counts"


def test_half_follows_the_teacher(splits: list[Split]) -> None:
    assert stream(splits).row_mode.tolist() == [TEACHER, TEACHER, SAMPLE, SAMPLE]


def test_ranks_share_a_batch_out(splits: list[Split]) -> None:
    """The rows of all ranks are those of one alone, each with its own way to choose and its own noise."""
    whole, parts = (
        stream(splits, batch=8),
        [stream(splits, batch=8, ranks=Ranks(rank, 2)) for rank in range(2)],
    )
    for number in range(4):
        batch, key = whole[number]
        expected = sorted(zip(batch.index.tolist(), whole.row_mode.tolist(), key.tolist(), strict=True))
        found = []
        for feed in parts:
            own, own_key = feed[number]
            found += zip(own.index.tolist(), feed.row_mode.tolist(), own_key.tolist(), strict=True)
        assert sorted(found) == expected
