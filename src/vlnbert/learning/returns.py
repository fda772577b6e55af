"""Discounted returns with bootstrapping."""

import torch
from torch import Tensor


def discounted_returns(reward: Tensor, live: Tensor, last_value: Tensor, ended: Tensor, discount: float) -> Tensor:
    """[time, row] the discounted sum of what is still to come.

    Args:
        reward: [time, row].
        live: [time, row] bool, true up to and including the step at which a row stops.
        last_value: [row] what the critic expects after the last step; it stands in for what rows that go on would earn.
        ended: [row] bool, rows that stopped in time and need no such guess.
        discount: the worth of a reward one step later.
    """
    ahead = torch.where(ended, 0.0, last_value.detach())
    returns = []
    for now, alive in zip(reward.flip(0), live.flip(0), strict=True):
        ahead = torch.where(alive, now + discount * ahead, ahead)  # a row that has stopped earns nothing more
        returns.append(ahead)
    return torch.stack(returns[::-1])
