"""Metrics of small walks, computed by hand; warping as the textbook's double loop has it."""

import math
from math import exp, nan

import pytest
import torch
from torch import Tensor

from vlnbert.errors import UnknownNameError
from vlnbert.evaluation.metrics import SUMMARY, Scores, dtw, dtw_cost, dtw_table, is_better, measure
from vlnbert.evaluation.options import SplBy
from vlnbert.tasks.episodes import pad_paths
from vlnbert.world.world import World

NAMES = "abcdefs"


def paths(*walks: str) -> tuple[Tensor, Tensor]:
    return pad_paths([[NAMES.index(name) for name in walk] for walk in walks]), torch.tensor(
        [len(walk) for walk in walks]
    )


def score(world: World, walk: str, reference: str, spl_by: SplBy = "shortest") -> Scores:
    return measure(world, *paths(walk), *paths(reference), spl_by=spl_by)


def test_a_walk_that_stops_one_short(hall: World) -> None:
    scores = score(hall, "abc", "abcd")
    coverage = (3 + exp(-2 / 3)) / 4
    expected = {
        "sr": 1.0,
        "osr": 1.0,
        "spl": 1.0,  # 4 m walked where 6 would have been shortest: no better than perfect
        "ndtw": exp(-2 / 12),  # d is matched with c, 2 m away; threshold 3 m, 4 viewpoints
        "sdtw": exp(-2 / 12),
        "cls": coverage * 6 * coverage / (6 * coverage + abs(6 * coverage - 4)),
        "tl": 4.0,
        "ne": 2.0,
        "oracle_error": 2.0,
        "steps": 2.0,
    }
    means = scores.mean()
    assert {name: means[name] for name in expected} == pytest.approx(expected, abs=1e-12)


def test_a_walk_past_the_goal_and_on(hall: World) -> None:
    scores = score(hall, "abcdef", "abcd")
    # e and f are matched with d: 2 + 4 m; all of the reference is covered, 4 m too many were walked
    expected = {"sr": 0, "osr": 1, "spl": 0, "ndtw": exp(-6 / 12), "sdtw": 0, "cls": 6 / (6 + 4), "tl": 10, "ne": 4}
    means = scores.mean()
    assert {name: means[name] for name in expected} == pytest.approx(expected, abs=1e-12)
    assert means["oracle_error"] == 0


def test_a_detour_costs_spl(hall: World) -> None:
    assert float(score(hall, "abcscd", "abcd").spl) == pytest.approx(6 / 12)


def test_spl_by_the_reference_path(hall: World) -> None:
    """The reference takes a detour of 6 m; who takes it as well is perfect by it, and half as good by the graph."""
    assert float(score(hall, "abcscd", "abcscd", "reference").spl) == pytest.approx(1.0)
    assert float(score(hall, "abcscd", "abcscd", "shortest").spl) == pytest.approx(0.5)
    with pytest.raises(UnknownNameError, match="did you mean shortest"):
        score(hall, "ab", "ab", "shortes")  # type: ignore[arg-type]


def test_three_metres_are_too_far(hall: World) -> None:
    scores = score(hall, "abcs", "abc")
    assert float(scores.ne) == 3.0
    assert float(scores.sr) == 0.0
    assert float(scores.osr) == 1.0


def test_oracle_success_counts_the_start(hall: World) -> None:
    """Who starts at the goal and leaves was there once, and who never moves is there; who comes no nearer is not."""
    left, stayed, astray = score(hall, "cdef", "c"), score(hall, "c", "c"), score(hall, "abc", "f")
    assert [float(each.sr) for each in (left, stayed, astray)] == [0, 1, 0]
    assert [float(each.osr) for each in (left, stayed, astray)] == [1, 1, 0]
    assert float(left.oracle_error) == 0
    sighted = torch.tensor([[True, False, False, False]])
    assert float(measure(hall, *paths("abcd"), *paths("abcd"), arrived=sighted).osr) == 1


def test_staying_at_the_start(hall: World) -> None:
    scores = score(hall, "a", "abcd")
    assert (float(scores.tl), float(scores.ne), float(scores.steps)) == (0.0, 6.0, 0.0)
    assert float(scores.ndtw) == pytest.approx(exp(-(0 + 2 + 4 + 6) / 12))
    assert float(score(hall, "a", "ab").spl) == pytest.approx(1.0)  # 2 m away is there: nothing had to be walked


def test_a_reference_without_length_is_finite(hall: World) -> None:
    assert float(score(hall, "a", "aa").cls) == 1.0
    assert float(score(hall, "ab", "aa").cls) == 0.0


def test_turns_in_place_are_steps_without_length(hall: World) -> None:
    turning, straight = score(hall, "aabccd", "abcd"), score(hall, "abcd", "abcd")
    assert float(turning.steps) == 5.0
    for name in ("sr", "osr", "spl", "ndtw", "cls", "tl", "ne"):
        assert torch.equal(getattr(turning, name), getattr(straight, name)), name


def test_dtw_against_a_plain_programme(hall: World) -> None:
    walks, references = paths("abcscdef", "fed", "abab"), paths("abcd", "fedcb", "cs")
    cost = hall.metres(walks[0][:, :, None], references[0][:, None, :])
    found = dtw(cost, walks[1], references[1]).tolist()
    for number, costs in enumerate(cost.tolist()):
        rows, columns = int(walks[1][number]), int(references[1][number])
        table = [[float("inf")] * (columns + 1) for _ in range(rows + 1)]
        table[0][0] = 0.0
        for i in range(1, rows + 1):
            for j in range(1, columns + 1):
                table[i][j] = costs[i - 1][j - 1] + min(table[i - 1][j], table[i][j - 1], table[i - 1][j - 1])
        assert found[number] == pytest.approx(table[rows][columns], abs=1e-12)


def test_reverie_looks_at_what_is_visible(hall: World) -> None:
    walks, references = paths("abcd", "abcd"), paths("abcd", "abcd")
    sighted = torch.tensor([[False, True, False, False], [False, False, False, True]])
    scores = measure(hall, *walks, *references, arrived=sighted, grounded=torch.tensor([True, False]))
    assert scores.sr.tolist() == [0, 1]
    assert scores.osr.tolist() == [1, 1]
    assert scores.rgs is not None
    assert scores.rgspl is not None
    assert scores.rgs.tolist() == scores.rgspl.tolist() == [1, 0]


def test_the_summary_has_the_keys_of_the_command_line(hall: World) -> None:
    summary = measure(hall, *paths("abcd", "a"), *paths("abcd", "abcd")).summary()
    assert list(summary) == [*SUMMARY, "episodes"]
    assert (summary["sr"], summary["episodes"], summary["rgs"], summary["rgspl"]) == (0.5, 2, None, None)


def test_nothing_waits_for_the_device(hall: World) -> None:
    """Tensors without data cannot be looked at: what runs on them never asks the host."""
    walks, references = [tensor.to("meta") for tensor in paths("abc", "ab")], [t.to("meta") for t in paths("abc", "ab")]
    sighted, grounded = torch.ones(2, 3, device="meta") > 0, torch.ones(2, device="meta") > 0
    scores = measure(hall.to("meta"), *walks, *references, arrived=sighted, grounded=grounded)
    assert scores.cls.shape == (2,)
    assert scores.ndtw.dtype == torch.float64


def test_what_is_no_number_is_never_the_best() -> None:
    """Nothing would be better than it from then on."""
    assert not is_better("sr", nan, None)
    assert not is_better("ne", nan, 3.0)
    assert is_better("sr", 0.0, None)


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
