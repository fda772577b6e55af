"""An agent on a split: walk every episode once, then score where it went."""

from dataclasses import dataclass

import torch

from vlnbert.environment.environment import Environment
from vlnbert.evaluation.metrics import Scores
from vlnbert.evaluation.scoring import score_walks
from vlnbert.navigator import Navigator, fast
from vlnbert.progress import track
from vlnbert.ranks import ALONE, Ranks
from vlnbert.rollout.episodes import MAX_STEPS, Agent, Trajectories, run_episodes
from vlnbert.rollout.greedy import GreedyAgent
from vlnbert.tasks.batches import evaluation_batches
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.tokens import Tokens
from vlnbert.world.world import World


@dataclass(frozen=True, repr=False)
class Evaluation:
    """Where an agent went in each episode of a split, and how well that was; no scores where goals are withheld."""

    world: World
    episodes: Episodes
    trajectories: Trajectories
    scores: Scores | None
    predicted_objects: list[str | None] | None = None  # what it named, where it sees objects

    def __repr__(self) -> str:
        told = "goals withheld" if self.scores is None else f"SR {100 * float(self.scores.sr.mean()):.1f} %"
        return f"Evaluation({self.episodes.task}/{self.episodes.split}, {len(self.episodes):,} episodes, {told})"


@torch.inference_mode()
def evaluate_agent(
    environment: Environment, agent: Agent, episodes: Episodes, max_steps: int = MAX_STEPS
) -> Evaluation:
    """Let an agent walk all episodes of a split, all at once."""
    walked = run_episodes(environment, agent, episodes.start, episodes.heading, episodes.goal, max_steps=max_steps)
    return _scored(environment, episodes, walked)


@torch.inference_mode()
def evaluate_navigator(
    environment: Environment,
    navigator: Navigator,
    episodes: Episodes,
    tokens: Tokens,
    max_steps: int = MAX_STEPS,
    batch: int = 64,
    ranks: Ranks = ALONE,
    precision: torch.dtype | None = None,
) -> Evaluation:
    """Let a navigator walk all episodes of a split greedily, those with instructions of like length together.

    `precision` is that of tokens; None for that of the weights. Several ranks share the batches out, and each gets what
    all have walked.
    """
    environment = environment.for_task(episodes.task)
    device, count = environment.world.device, tokens.count.cpu()
    viewpoint, view = (torch.zeros(len(episodes), max_steps + 1, dtype=torch.long, device=device) for _ in range(2))
    length, named = (torch.zeros(len(episodes), dtype=torch.long, device=device) for _ in range(2))
    batches = list(evaluation_batches(count, batch, ranks.rank, ranks.count))
    with fast.enabled(precision):  # around all batches: their weights are the same
        for rows in track(batches, f"{episodes.task} {episodes.split}"):
            index = rows.to(device)
            agent = GreedyAgent(navigator, environment, tokens.ids[index, : int(count[rows].max())])
            parts = (episodes.start[index], episodes.heading[index], episodes.goal[index])
            walked = run_episodes(environment, agent, *parts, max_steps=max_steps)
            viewpoint[index], view[index], length[index] = walked.viewpoint, walked.view, walked.length
            if environment.object_bank is not None:
                named[index] = agent.predict_objects(walked)
    walked = Trajectories(*map(ranks.sum, (viewpoint, view, length)))
    predicted = None
    if environment.object_bank is not None:
        predicted = environment.object_bank.object_table.ids_at(walked.viewpoint[:, -1], ranks.sum(named))
    return _scored(environment, episodes, walked, predicted)


def _scored(
    environment: Environment, episodes: Episodes, walked: Trajectories, predicted: list[str | None] | None = None
) -> Evaluation:
    scores = None
    if episodes.scored:
        scores = score_walks(environment.world, episodes, walked.viewpoint, walked.length, predicted)
    return Evaluation(environment.world, episodes, walked, scores, predicted)
