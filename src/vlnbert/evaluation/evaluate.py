"""An agent on a split: walk every episode once, then score where it went."""

from dataclasses import dataclass

import torch

from vlnbert.environment.environment import Environment
from vlnbert.evaluation.metrics import Scores
from vlnbert.evaluation.scoring import score_walks
from vlnbert.rollout.walk import LIMIT, Agent, Walk, walk
from vlnbert.tasks.episodes import Episodes


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
    if not episodes.scored:
        return Evaluation(episodes, walked, None)
    return Evaluation(episodes, walked, score_walks(environment.world, episodes, walked.viewpoint, walked.length))
