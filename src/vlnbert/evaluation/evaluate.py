"""An agent on a split: walk every episode once, then score where it went."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError
from vlnbert.evaluation.metrics import Scores
from vlnbert.evaluation.scoring import score_walks
from vlnbert.navigator import fast
from vlnbert.progress import track
from vlnbert.ranks import ALONE, Ranks
from vlnbert.rollout.agents import Agent, EpisodeBatch, agent_name, names_objects
from vlnbert.rollout.episodes import MAX_STEPS, Trajectories, run_episodes
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
    predicted_objects: list[str | None] | None = None  # what it named, where it was asked

    def __repr__(self) -> str:
        told = "goals withheld" if self.scores is None else f"SR {100 * float(self.scores.sr.mean()):.1f} %"
        return f"Evaluation({self.episodes.task}/{self.episodes.split}, {len(self.episodes):,} episodes, {told})"


@torch.inference_mode()
def evaluate_agent(
    environment: Environment,
    agent: Agent,
    episodes: Episodes,
    tokens: Tokens | None = None,
    max_steps: int = MAX_STEPS,
    batch: int = 64,
    ranks: Ranks = ALONE,
    dtype: torch.dtype | None = None,
) -> Evaluation:
    """Let an agent walk all episodes of a split, those with instructions of like length together.

    Whatever modules it has, such as a navigator, walk in evaluation mode and are left in the mode that they were in.
    `dtype` is that of a navigator's tokens; None for that of its weights. Several ranks share the batches out, and each
    gets what all have walked.
    """
    if tokens is None and agent.reads_tokens:
        raise UsageError(f"{agent_name(agent)} reads tokens; give those of the split, or say reads_tokens = False")
    environment = environment.for_task(episodes.task)
    device, bank = environment.world.device, environment.object_bank
    viewpoint, view = (torch.zeros(len(episodes), max_steps + 1, dtype=torch.long, device=device) for _ in range(2))
    length, named = (torch.zeros(len(episodes), dtype=torch.long, device=device) for _ in range(2))
    count = torch.zeros(len(episodes), dtype=torch.long) if tokens is None else tokens.count.cpu()
    batches = list(evaluation_batches(count, batch, ranks.rank, ranks.count))
    asked = bank is not None and names_objects(agent)
    with evaluation_mode(agent), fast.enabled(dtype):  # around all batches: their weights are the same
        for rows in track(batches, f"{episodes.task} {episodes.split}"):
            index = rows.to(device)
            ids = rows.new_zeros(len(rows), 0) if tokens is None else tokens.ids[index, : int(count[rows].max())]
            start = _episode_batch(environment, agent, episodes, ids=ids, rows=rows)
            walked = run_episodes(environment, agent, start, max_steps=max_steps, name_objects=asked)
            viewpoint[index], view[index], length[index] = walked.viewpoint, walked.view, walked.length
            if walked.named is not None:
                named[index] = walked.named
    walked, predicted = Trajectories(*map(ranks.sum, (viewpoint, view, length))), None
    if bank is not None and asked:
        predicted = bank.object_table.ids_at(walked.viewpoint[:, -1], ranks.sum(named))
    scores = None
    if episodes.scored:
        scores = score_walks(environment.world, episodes, walked.viewpoint, walked.length, predicted)
    return Evaluation(environment.world, episodes, walked, scores, predicted)


@contextmanager
def evaluation_mode(agent: object) -> Iterator[None]:
    """Within the block nothing is dropped by an agent that is a module, or holds some."""
    held = [agent, *getattr(agent, "__dict__", {}).values()]
    modules = [module for one in held if isinstance(one, nn.Module) for module in one.modules()]
    before = [(module, module.training) for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


def _episode_batch(
    environment: Environment, agent: Agent, episodes: Episodes, ids: Tensor, rows: Tensor
) -> EpisodeBatch:
    """What an agent may know of some rows of a split."""
    index = rows.to(environment.world.device)
    return EpisodeBatch(
        state=environment.reset(episodes.start[index], episodes.heading[index]),
        tokens=ids.to(index.device),
        index=rows,
        texts=tuple(episodes.texts[row] for row in rows.tolist()),
        goal=episodes.goal[index] if agent.oracle else None,
        path=episodes.path[index] if agent.oracle else None,
    )
