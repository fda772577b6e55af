"""Batches: nobody is lost, nobody is shared, and a batch is a function of its number."""

from collections import Counter
from contextlib import suppress

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from vlnbert.errors import UsageError
from vlnbert.tasks.batches import BUCKET, TrainingBatches, bucket, evaluation_batches, take
from vlnbert.tasks.episodes import load_episodes
from vlnbert.tasks.tokens import load_tokenizer, tokenise

LENGTHS = st.lists(st.integers(3, 80), min_size=1, max_size=70).map(torch.tensor)
RANKS = st.integers(1, 4)


@given(LENGTHS, st.integers(1, 20), RANKS)
def test_evaluation_takes_everybody_once(lengths, size, ranks):
    batches = [batch for rank in range(ranks) for batch in evaluation_batches(lengths, size, rank, ranks)]
    assert sorted(torch.cat(batches).tolist()) == list(range(len(lengths)))
    assert max(len(batch) for batch in batches) <= size


@given(LENGTHS, st.integers(1, 20))
def test_evaluation_starts_with_the_longest(lengths, size):
    order = lengths[torch.cat(list(evaluation_batches(lengths, size)))]
    assert (order.diff() <= 0).all()


@given(LENGTHS, st.integers(1, 6), RANKS, st.integers(0, 3))
def test_an_epoch_covers_everybody_and_fills_up_its_end(lengths, share, ranks, epoch):
    size = share * ranks
    shares = [TrainingBatches(lengths, size, 7, rank, ranks) for rank in range(ranks)]
    whole = TrainingBatches(lengths, size, 7)
    count = Counter()
    for number in range(epoch * len(whole), (epoch + 1) * len(whole)):
        parts = [batches[number] for batches in shares]
        assert [len(part) for part in parts] == [share] * ranks
        rows = sorted(torch.cat(parts).tolist())
        assert rows == sorted(whole[number].tolist())
        count.update(rows)
    assert count.keys() == set(range(len(lengths)))
    assert sum(count.values()) == len(whole) * size < len(lengths) + size
    assert max(count.values()) - min(count.values()) <= 1


@given(LENGTHS, st.integers(1, 9), st.integers(0, 2**31 - 1), st.integers(0, 500))
def test_a_batch_is_a_function_of_seed_and_number(lengths, size, seed, number):
    one, other = (TrainingBatches(lengths.clone(), size, seed) for _ in range(2))
    for before in range(0, number, 97):
        other[before]  # where a reader has been does not matter
    assert torch.equal(one[number], other[number])


def order(seed, epoch=0, size=4):
    batches = TrainingBatches(torch.full((200,), 10), size, seed)
    return torch.cat([batches[epoch * len(batches) + place] for place in range(len(batches))]).tolist()


def test_seeds_and_epochs_differ():
    orders = [order(seed, epoch) for seed in (0, 1, 2) for epoch in (0, 1, 2)]
    assert len({tuple(rows) for rows in orders}) == len(orders)


@pytest.mark.parametrize("seed", [2**32, 2**40, 2**63, -1])
def test_any_seed_works_or_is_refused(seed):
    with suppress(UsageError):
        assert order(seed) != order(0)


def test_epochs_are_shuffled_and_not_only_sorted():
    lengths = torch.arange(3, 80).repeat(5)
    batches = TrainingBatches(lengths, 5, 0)
    means = torch.stack([lengths[batches[number]].double().mean() for number in range(len(batches))])
    assert (means.diff() > 0).any()
    assert (means.diff() < 0).any()


def test_buckets_waste_less_than_chance():
    lengths = torch.randint(5, 80, (2000,), generator=torch.Generator().manual_seed(0))
    batches = TrainingBatches(lengths, 16, 0)

    def padded(rows):
        return sum(bucket(int(lengths[row].max())) * len(row) for row in rows)

    bucketed = padded([batches[number] for number in range(len(batches))])
    chance = padded(torch.randperm(2000, generator=torch.Generator().manual_seed(1)).split(16))
    assert bucketed < 0.75 * chance
    assert bucketed < 1.2 * lengths.sum()


def test_sixteen_batches_are_sorted_by_length_together():
    """Their batches then hold consecutive lengths, and those of one batch more do not."""

    def spans(count):
        lengths = torch.randperm(4 * count, generator=torch.Generator().manual_seed(0))
        batches = TrainingBatches(lengths, 4, 0)
        return [int(lengths[batches[number]].max() - lengths[batches[number]].min()) for number in range(count)]

    assert spans(16) == [3] * 16
    assert max(spans(17)) > 3


@given(st.integers(1, 80))
def test_buckets(count):
    assert count <= bucket(count) < count + BUCKET
    assert bucket(count) % BUCKET == 0


@pytest.mark.parametrize(
    ("size", "rank", "ranks"), [(0, 0, 1), (-4, 0, 2), (6, 0, 4), (8, 4, 4), (8, -1, 4), (8, 0, 0)]
)
def test_shares_that_do_not_come_out(size, rank, ranks):
    with pytest.raises(UsageError):
        TrainingBatches(torch.ones(3), size, 0, rank, ranks)


def test_nobody_to_train_on():
    with pytest.raises(UsageError, match="no episodes"):
        TrainingBatches(torch.ones(0), 4, 0)


@pytest.mark.parametrize(("size", "rank", "ranks"), [(0, 0, 1), (2, 2, 2), (2, 0, 0)])
def test_evaluation_shares_that_do_not_come_out(size, rank, ranks):
    with pytest.raises(UsageError):
        list(evaluation_batches(torch.ones(3), size, rank, ranks))


def test_take(tiny, world):
    episodes = load_episodes(tiny.folder, world, "r2r", "train")
    tokens = tokenise(episodes, load_tokenizer(tiny.folder.vocabulary), tiny.root)
    batch = take(episodes, tokens, torch.tensor([3, 0]), 8)
    assert batch.index.tolist() == [3, 0]
    assert torch.equal(batch.tokens, tokens.ids[[3, 0], :8])
    for name in ("start", "heading", "goal", "path", "path_length"):
        assert torch.equal(getattr(batch, name), getattr(episodes, name)[[3, 0]]), name
    assert torch.equal(batch.token_count, tokens.count[[3, 0]])


def test_take_is_as_wide_as_the_bucket(tiny, world):
    """Also where no instruction of the split fills it."""
    episodes = load_episodes(tiny.folder, world, "r2r", "train")
    tokens = tokenise(episodes, load_tokenizer(tiny.folder.vocabulary), tiny.root)
    index = torch.arange(4)
    width = bucket(int(tokens.count.max()))
    batch = take(episodes, tokens, index, width)
    assert batch.tokens.shape == (4, width)
    assert not batch.tokens[torch.arange(width) >= batch.token_count[:, None]].any()


def test_the_place_of_a_row_does_not_tell_its_length() -> None:
    """The first half of a batch is taught: the longest instructions must be there as often as any."""
    lengths = torch.arange(400) % 60 + 5
    batches = TrainingBatches(lengths, 16, seed=0)
    longest = lengths >= 60
    taught = torch.zeros(400)
    epochs = 200
    for number in range(epochs * len(batches)):
        taught[batches[number][:8]] += 1
    share = float(taught[longest].sum() / (epochs * longest.sum()))
    assert 0.45 < share < 0.55
