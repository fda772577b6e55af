"""Curves of a training, and the trace of what a navigator attended to."""

from dataclasses import replace

import torch

from tests.navigator.samples import TWO, make
from vlnbert.analysis import figure_svg
from vlnbert.analysis.curves import draw_curves
from vlnbert.analysis.trace import trace_episode
from vlnbert.environment.environment import Environment
from vlnbert.evaluation.evaluate import evaluate_agent
from vlnbert.rollout.greedy import GreedyAgent
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.tokens import Tokens
from vlnbert.world import FeatureBank, World
from vlnbert.world.sights import facing_views

LOG = [
    {"iteration": 10, "total": 9.0, "imitation": 8.0, "value": 1.0},
    {"iteration": 20, "total": 5.0, "imitation": 4.5, "value": 0.5},
    {"iteration": 20, "scores": {"val_unseen": {"sr": 0.25}, "val_seen": {"sr": 0.5}}},
]


def test_curves_show_the_losses_and_the_split() -> None:
    figure = draw_curves(LOG, "val_unseen", {"random": 0.1})
    left, right = figure.axes
    assert [line.get_ydata().tolist() for line in left.lines] == [[8.0, 4.5], [1.0, 0.5]]
    assert right.lines[0].get_ydata().tolist() == [25.0]
    assert right.texts[0].get_text() == "random"
    assert figure_svg(figure) == figure_svg(draw_curves(LOG, "val_unseen", {"random": 0.1}))


def test_curves_of_a_run_that_has_just_begun() -> None:
    assert "<svg" in figure_svg(draw_curves([], "val_unseen", {}))


def test_a_trace_is_the_walk_with_its_attention(world: World) -> None:
    views = facing_views(world)
    table = torch.randn(views.count + 1, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    environment = Environment(world, FeatureBank(table, views.row))
    navigator = make(replace(TWO, feature_width=7))
    path = torch.tensor([[0, 1], [1, 2]])
    shared = {"task": "r2r", "split": "val", "ids": ("a", "b"), "texts": ("", ""), "sightings": None}
    episodes = Episodes(
        **shared,
        tokens=(None, None),
        targets=(None, None),
        start=path[:, 0],
        heading=torch.zeros(2, dtype=torch.float64),
        path=path,
        path_length=torch.tensor([2, 2]),
    )
    tokens = Tokens(torch.tensor([[4, 5, 6, 7], [8, 9, 10, 0]]), torch.tensor([4, 3]))
    walked = evaluate_agent(environment, GreedyAgent(navigator), episodes, tokens, max_steps=6).trajectories
    for row in range(2):
        trace = trace_episode(navigator, environment, episodes=episodes, tokens=tokens, row=row, max_steps=6)
        assert trace.viewpoint == walked.viewpoint[row, : len(trace.viewpoint)].tolist()
        assert trace.weights.shape == (len(trace.viewpoint), int(tokens.count[row]) - 1)
        torch.testing.assert_close(trace.weights.sum(dim=1), torch.ones(len(trace.viewpoint), dtype=torch.float64))
