"""Noise that is keyed: the same for the same purpose, independent otherwise, and of the right distribution."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from vlnbert.rollout.mixed import gumbel, keys, mix


def splitmix(value: int) -> int:
    """The published algorithm, on Python's whole numbers."""
    mask = (1 << 64) - 1
    value = (value + 0x9E3779B97F4A7C15) & mask
    value = ((value ^ (value >> 30)) * 0xBF58476D1CE4E5B9) & mask
    value = ((value ^ (value >> 27)) * 0x94D049BB133111EB) & mask
    return value ^ (value >> 31)


@given(st.integers(-(2**63), 2**63 - 1))
def test_it_mixes_as_splitmix64_does(number: int) -> None:
    assert int(mix(torch.tensor(number))) % 2**64 == splitmix(number % 2**64)


def test_a_row_has_its_noise_whatever_the_batch() -> None:
    episodes = torch.tensor([5, 9, 2])
    together = gumbel(keys(1, 7, episodes), steps=3, slots=6)
    for row, episode in enumerate(episodes):
        assert torch.equal(gumbel(keys(1, 7, episode[None]), 3, 6)[:, 0], together[:, row])


def test_seeds_iterations_episodes_and_steps_differ() -> None:
    episodes = torch.arange(4)
    noises = [gumbel(keys(seed, iteration, episodes), 2, 5) for seed in (0, 1) for iteration in (0, 1)]
    assert len(torch.stack(noises).flatten().unique()) == 8 * 4 * 5


def test_any_seed_serves() -> None:
    assert gumbel(keys(10**30, 10**9, torch.arange(2)), 1, 3).isfinite().all()


def test_its_argmax_samples_the_softmax() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, -torch.inf])
    drawn = (logits + gumbel(keys(0, 0, torch.arange(40_000)), 1, 4)[0]).argmax(dim=1)
    shares = drawn.bincount(minlength=4) / len(drawn)
    torch.testing.assert_close(shares, logits.softmax(dim=0), atol=0.01, rtol=0)
