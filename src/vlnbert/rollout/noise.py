"""Random numbers that depend on what they are for, and on nothing else.

Noise is a hash of a key and a counter, computed where it is needed. It is the same whatever the batch, the device or
the number of processes, and there is no generator whose state could be lost.
"""

import torch
from torch import Tensor

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15  # splitmix64's increment and multipliers, below
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def keys(seed: int, iteration: int, episode: Tensor) -> Tensor:
    """[row] a key for each episode in one iteration of one run."""
    return mix(episode + _signed(seed * GOLDEN + iteration * SECOND))


def gumbel(key: Tensor, steps: int, slots: int) -> Tensor:
    """[time, row, slot] standard Gumbel noise: added to a step's logits, its argmax is a sample of their softmax."""
    counter = torch.arange(steps * slots, device=key.device).view(steps, 1, slots)
    return -torch.log(-torch.log(uniform(key[:, None], counter)))


def uniform(key: Tensor, counter: Tensor) -> Tensor:
    """Float64 numbers between 0 and 1, one for each pair of a key and a counter, whose shapes broadcast."""
    bits = mix(key + counter * _signed(GOLDEN))
    return (((bits >> 11) & ((1 << 53) - 1)).double() + 0.5) * 2.0**-53


def mix(value: Tensor) -> Tensor:
    """splitmix64's finaliser on int64, whose overflow wraps as it should."""
    value = value + _signed(GOLDEN)
    value = (value ^ _shifted(value, 30)) * _signed(FIRST)
    value = (value ^ _shifted(value, 27)) * _signed(SECOND)
    return value ^ _shifted(value, 31)


def _shifted(value: Tensor, by: int) -> Tensor:
    """A logical shift to the right; torch's own keeps the sign."""
    return (value >> by) & ((1 << (64 - by)) - 1)


def _signed(number: int) -> int:
    """The int64 with the same bits."""
    number &= MASK
    return number - (1 << 64) if number >> 63 else number
