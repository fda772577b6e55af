"""Dynamic time warping of walks onto references, for many episodes at once.

The table is filled by diagonals: cells whose time and place add up to the same do not wait for each other, so that a
walk of n viewpoints and a reference of m take n + m - 1 steps, not n x m.
"""

import math

import torch
from torch import Tensor


def warped(cost: Tensor, counts: Tensor) -> Tensor:
    """[time, episode, place] the cost of warping each walk so far onto the reference up to each of its places.

    `cost` [time, episode, place] is that of each pair of viewpoints. Where `counts` [time, episode] is false, a
    viewpoint is passed over, and all stays as it was; the first always counts.
    """
    times, episodes, places = cost.shape
    place = torch.arange(places, device=cost.device)
    diagonal = torch.arange(times + places - 1, device=cost.device)[:, None]
    time = diagonal - place  # [diagonal, place]; some are beyond a walk
    at = time.clamp(0, times - 1)
    own, counted = cost[at, :, place], counts[at]  # [diagonal, place, episode]
    table = cost.new_full((len(time) + 2, places + 1, episodes), math.inf)  # diagonal and place, both from one before
    table[0, 0] = 0  # only nothing matches nothing, for free
    for number in range(len(time)):
        older, last = table[number], table[number + 1]
        best = torch.minimum(torch.minimum(last[1:], last[:-1]), older[:-1])
        torch.where(counted[number], own[number] + best, last[1:], out=table[number + 2, 1:])
    when = torch.arange(times, device=cost.device)[:, None]
    return table[when + place + 2, place + 1].transpose(1, 2)


def whole(table: Tensor, reference_length: Tensor) -> Tensor:
    """[..., episode] the cost of having matched the whole reference: what lies behind its end does not count."""
    last = (reference_length - 1).expand(table.shape[:-1])
    return table.gather(-1, last[..., None]).squeeze(-1)
