"""Warping by diagonals gives what the textbook's double loop gives."""

import math

import pytest
import torch

from vlnbert.evaluation.metrics import dtw_cost, dtw_table


def by_hand(cost: list[list[float]], counts: list[bool]) -> list[list[float]]:
    """[time][place] row after row; a viewpoint that does not count repeats the row before."""
    rows, before = [], [0.0] + [math.inf] * len(cost[0])
    for costs, counted in zip(cost, counts, strict=True):
        row = [math.inf]
        for place, own in enumerate(costs):
            row.append(own + min(before[place + 1], before[place], row[-1]))
        before = row if counted else before
        rows.append(before[1:])
    return rows


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("unreachable", [0.0, 0.3])
def test_it_is_the_double_loop(seed: int, unreachable: float) -> None:
    generator = torch.Generator().manual_seed(seed)
    times, places = (int(torch.randint(1, 9, (), generator=generator)) for _ in range(2))
    cost = torch.rand(times, 3, places, generator=generator, dtype=torch.float64)
    cost[torch.rand(cost.shape, generator=generator) < unreachable] = math.inf
    counts = torch.rand(times, 3, generator=generator) < 0.7
    counts[0] = True
    found = dtw_table(cost, counts)
    for episode in range(3):
        assert found[:, episode].tolist() == by_hand(cost[:, episode].tolist(), counts[:, episode].tolist())
    length = torch.randint(1, places + 1, (3,), generator=generator)
    assert dtw_cost(found, length)[-1].tolist() == [found[-1, n, length[n] - 1].item() for n in range(3)]
