"""A navigator as an agent: it reads its instructions, then takes the best slot at every step."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment, State
from vlnbert.navigator import Instruction, Navigator, Step
from vlnbert.rollout.episodes import (
    Trajectories,
    active_rows,
    encode_tokens,
    narrow_rows,
    scatter_rows,
    select_rows,
)
from vlnbert.world.objects import NONE
from vlnbert.world.world import STOP


@dataclass(frozen=True)
class GreedyMemory:
    """What a greedy navigator carries along."""

    hidden: Tensor  # [active row, hidden] the recurrent state
    instruction: Instruction  # of those rows
    predicted_object: Tensor  # [row] where it stopped: the object's place among those in view; NONE before
    rows: Tensor | None = None  # which rows are active; None for all

    def select(self, kept: Tensor | None) -> "GreedyMemory":
        """Of the active rows, those at some places."""
        if kept is None:
            return self
        return GreedyMemory(
            hidden=self.hidden.index_select(0, kept),
            instruction=self.instruction.only(kept),
            predicted_object=self.predicted_object,
            rows=narrow_rows(self.rows, kept),
        )


class GreedyAgent:
    """A navigator that walks many episodes at once, each with its own instruction."""

    def __init__(self, navigator: Navigator, environment: Environment, tokens: Tensor) -> None:
        """`tokens` [row, token] are the instructions of the rows that will walk."""
        self.navigator, self.environment, self.tokens = navigator, environment, tokens

    def begin(self, state: State, goal: Tensor) -> GreedyMemory:
        instruction = encode_tokens(self.navigator, self.tokens)
        return GreedyMemory(instruction.state, instruction, torch.full_like(state.viewpoint, NONE))

    def act(self, state: State, memory: GreedyMemory) -> tuple[Tensor, GreedyMemory]:
        memory = memory.select(active_rows(state, memory.rows))
        step = self._step(state, memory)
        slot = scatter_rows(step.logits.argmax(dim=1), memory.rows, len(state.viewpoint))
        predicted = memory.predicted_object
        if step.object_logits is not None:
            best = scatter_rows(step.object_logits.argmax(dim=1), memory.rows, len(slot))
            predicted = torch.where((slot == STOP) & ~state.ended, best, predicted)
        return slot, GreedyMemory(step.state, step.instruction, predicted, memory.rows)

    def predict_objects(self, walked: Trajectories) -> Tensor:
        """[row] the object that each row names: its place among those that its last viewpoint shows.

        Who stopped has named one; who came to the limit looks around once more. A place beyond the last is "no object".
        """
        memory: GreedyMemory = walked.memory.select(active_rows(walked.last_state, walked.memory.rows))
        if not len(memory.hidden):
            return memory.predicted_object
        step = self._step(walked.last_state, memory)
        if step.object_logits is None:
            return memory.predicted_object
        best = scatter_rows(step.object_logits.argmax(dim=1), memory.rows, len(walked.ended))
        return torch.where(walked.ended, memory.predicted_object, best)

    def _step(self, state: State, memory: GreedyMemory) -> Step:
        observation = self.environment.observe(select_rows(state, memory.rows))
        return self.navigator.step(memory.hidden, memory.instruction, observation)
