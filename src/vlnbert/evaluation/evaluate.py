"""An agent on a split: walk every episode once, then score where it went."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment
from vlnbert.evaluation.metrics import Scores
from vlnbert.evaluation.scoring import score_walks
from vlnbert.navigator import Navigator
from vlnbert.rollout.navigate import Greedy
from vlnbert.rollout.walk import LIMIT, Agent, Walk, walk
from vlnbert.sources.files import progress
from vlnbert.tasks.batches import evaluation_batches
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.tokens import Tokens


@dataclass(frozen=True)
class Evaluation:
    """Where an agent went in each episode of a split, and how well that was; no scores where goals are withheld."""

    episodes: Episodes
    walk: Walk
    scores: Scores | None


@torch.inference_mode()
def evaluate_agent(environment: Environment, agent: Agent, episodes: Episodes, limit: int = LIMIT) -> Evaluation:
    """Let an agent walk all episodes of a split, all at once."""
    walked = walk(environment, agent, episodes.start, episodes.heading, episodes.goal, limit)
    return _scored(environment, episodes, walked)


@torch.inference_mode()
def evaluate_navigator(
    environment: Environment,
    navigator: Navigator,
    episodes: Episodes,
    tokens: Tokens,
    limit: int = LIMIT,
    batch: int = 64,
) -> Evaluation:
    """Let a navigator walk all episodes of a split greedily, those with instructions of like length together."""
    order, walks = list[Tensor](), list[Walk]()
    batches = list(evaluation_batches(tokens.count.cpu(), batch))
    for rows in progress(batches, f"{episodes.task} {episodes.split}"):
        width = int(tokens.count[rows].max())
        agent = Greedy(navigator, environment, tokens.ids[rows, :width])
        parts = (episodes.start[rows], episodes.heading[rows], episodes.goal[rows])
        walks.append(walk(environment, agent, *parts, limit))
        order.append(rows)
    place = torch.cat(order).argsort()  # back into the order of the split
    names = ("viewpoint", "view", "length")
    merged = Walk(*(torch.cat([getattr(part, name) for part in walks])[place] for name in names))
    return _scored(environment, episodes, merged)


def _scored(environment: Environment, episodes: Episodes, walked: Walk) -> Evaluation:
    scores = None
    if episodes.scored:
        scores = score_walks(environment.world, episodes, walked.viewpoint, walked.length)
    return Evaluation(episodes, walked, scores)
