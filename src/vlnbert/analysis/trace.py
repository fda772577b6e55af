"""What a navigator attended to while it walked."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment, Observation
from vlnbert.navigator import Instruction, Navigator
from vlnbert.rollout.agents import Agent, EpisodeBatch
from vlnbert.rollout.episodes import MAX_STEPS, encode_tokens, run_episodes
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.tokens import Tokens


@dataclass(frozen=True)
class Trace:
    """One episode: where the agent was, and how it weighed the words before each choice."""

    viewpoint: list[int]  # as many as there were choices, and the last one repeats where it stopped
    weights: Tensor  # [choice, token] over the words after [CLS]


class _TracedNavigator(Agent):
    """A greedy navigator that remembers its attention to the words."""

    def __init__(self, navigator: Navigator) -> None:
        self.navigator = navigator

    def begin(self, batch: EpisodeBatch) -> tuple[Tensor, Instruction, list[Tensor]]:
        instruction = encode_tokens(self.navigator, batch.tokens)
        return instruction.state, instruction, []

    def act(
        self, observation: Observation, memory: tuple[Tensor, Instruction, list[Tensor]]
    ) -> tuple[Tensor, tuple[Tensor, Instruction, list[Tensor]]]:
        hidden, instruction, seen = memory
        step = self.navigator.step(hidden, instruction, observation)
        return step.logits.argmax(dim=1), (step.state, step.instruction, [*seen, step.language_weights])


@torch.inference_mode()
def trace_episode(
    navigator: Navigator,
    environment: Environment,
    *,
    episodes: Episodes,
    tokens: Tokens,
    row: int,
    max_steps: int = MAX_STEPS,
) -> Trace:
    """Walk one episode greedily and record what was attended to."""
    one, environment = slice(row, row + 1), environment.for_task(episodes.task)
    batch = EpisodeBatch(
        state=environment.reset(episodes.start[one], episodes.heading[one]),
        tokens=tokens.ids[one, : int(tokens.count[row])],
        index=torch.tensor([row]),
    )
    walked = run_episodes(environment, _TracedNavigator(navigator), batch, max_steps=max_steps)
    weights = torch.cat(walked.memory[2])
    return Trace(walked.viewpoint[0, : len(weights)].tolist(), weights)
