"""How episodes end and where paths are left, counted by hand and over a whole split."""

import pytest
import torch

import vlnbert as vln
from tests.analysis.conftest import SPLIT, Pacing
from vlnbert.analysis.report import (
    BEST,
    ENDINGS,
    OUT_OF_STEPS,
    SUCCESS,
    TYPICAL,
    WORST,
    endings_of,
    find_mistakes,
    moves_along,
    pick_episodes,
)
from vlnbert.api.runs import load_agent
from vlnbert.evaluation.options import WalkOptions
from vlnbert.evaluation.walker import Walker


@pytest.mark.parametrize(
    ("walk", "moves"),
    [
        ([1], None),
        ([1, 2, 3], None),
        ([1, 2, 3, 4], None),
        ([1, 9], 0),
        ([1, 2, 9, 3], 1),
        ([1, 2, 3, 4, 5], 3),  # on past its end
        ([1, 2, 1], 1),
    ],
)
def test_where_a_path_is_left(walk: list[int], moves: int | None) -> None:
    assert moves_along(walk, [1, 2, 3, 4]) == moves


def test_every_episode_ends_in_one_way(house: vln.Data, navigator: vln.Navigator) -> None:
    for agent in (navigator, "random", "shortest", Pacing()):
        evaluation = Walker(load_agent(agent), house, SPLIT, WalkOptions(max_steps=6)).walk(SPLIT)
        assert evaluation.scores is not None
        found = find_mistakes(evaluation)
        total = len(evaluation.episodes)
        assert list(found.endings) == list(ENDINGS)
        assert sum(found.endings.values()) == sum(found.left_path.values()) == total
        assert found.endings[SUCCESS] == int(evaluation.scores.sr.sum())
        for groups in (found.by_path_length, found.by_words, found.by_house):
            assert sum(episodes for _, _, episodes in groups) == total
            assert sum(rate * episodes for _, rate, episodes in groups) == pytest.approx(found.endings[SUCCESS])


def test_who_never_stops_runs_out_of_steps(house: vln.Data) -> None:
    found = find_mistakes(Walker(load_agent(Pacing()), house, SPLIT, WalkOptions(max_steps=3)).walk(SPLIT))
    assert {name for name, number in found.endings.items() if number} <= {SUCCESS, OUT_OF_STEPS}


def test_early_late_and_lost(house: vln.Data) -> None:
    """Of the shortest walker's paths, shortened, lengthened or replaced by hand."""
    evaluation = Walker(load_agent("shortest"), house, SPLIT, WalkOptions(max_steps=15)).walk(SPLIT)
    assert evaluation.scores is not None
    count = len(evaluation.episodes)
    failed = evaluation.scores.select(torch.arange(count))
    failed.sr.zero_()
    references = [[1, 2, 3]] * count
    failed.osr.zero_()
    assert set(endings_of(evaluation, failed, [[1, 2]] * count, references)) == {"too early"}
    assert set(endings_of(evaluation, failed, [[1, 7]] * count, references)) == {"lost"}
    failed.osr.fill_(1)
    assert set(endings_of(evaluation, failed, [[1, 2, 3, 4]] * count, references)) == {"too late"}


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 1000])
def test_episodes_to_show(house: vln.Data, count: int) -> None:
    evaluation = Walker(load_agent("random"), house, SPLIT).walk(SPLIT)
    scores = evaluation.scores
    assert scores is not None
    paths = list(map(tuple, evaluation.episodes.path.tolist()))
    picked = pick_episodes(scores, count, paths)
    rows = [row for _, row in picked]
    assert len(rows) == len(set(rows)) == min(count, len(scores))
    assert len({paths[row] for row in rows}) == min(count, len(set(paths)))
    kinds = [kind for kind, _ in picked]
    assert kinds == sorted(kinds, key=(BEST, TYPICAL, WORST).index)
    assert kinds[0] == BEST
    assert float(scores.spl[rows[0]].round(decimals=2)) == float(scores.spl.max().round(decimals=2))
    if WORST in kinds:
        failures = scores.ne[scores.sr == 0]
        assert float(scores.ne[rows[kinds.index(WORST)]]) == float(failures.max())
