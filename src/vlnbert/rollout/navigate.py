"""A navigator as an agent: it reads its instructions, then takes the best slot at every step."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment, State
from vlnbert.navigator import Instruction, Navigator, Step
from vlnbert.rollout.rows import among_all, narrowed, of_rows, walking
from vlnbert.rollout.walk import Walk
from vlnbert.world.objects import NONE
from vlnbert.world.world import STOP

PAD = 0  # the token that fills short instructions up


def read(navigator: Navigator, tokens: Tensor) -> Instruction:
    """Let a navigator read instructions [row, token]."""
    return navigator.encode(tokens, tokens != PAD)


@dataclass(frozen=True)
class Memory:
    """What a greedy navigator carries along."""

    hidden: Tensor  # [row that still walks, hidden]
    instruction: Instruction  # of those rows
    best_object: Tensor  # [row] the place of the object it stopped at, among those in view; NONE while walking
    rows: Tensor | None = None  # which rows still walk; None for all

    def only(self, kept: Tensor | None) -> "Memory":
        """Without those who have stopped."""
        if kept is None:
            return self
        theirs = (self.hidden.index_select(0, kept), self.instruction.only(kept))
        return Memory(*theirs, self.best_object, narrowed(self.rows, kept))


class Greedy:
    """Some navigators' rows walk together, each with its own instruction."""

    def __init__(self, navigator: Navigator, environment: Environment, tokens: Tensor) -> None:
        """`tokens` [row, token] are the instructions of the rows that will walk."""
        self.navigator, self.environment, self.tokens = navigator, environment, tokens

    def begin(self, state: State, goal: Tensor) -> Memory:
        instruction = read(self.navigator, self.tokens)
        return Memory(instruction.state, instruction, torch.full_like(state.viewpoint, NONE))

    def choose(self, state: State, memory: Memory) -> tuple[Tensor, Memory]:
        memory = memory.only(walking(state, memory.rows))
        step = self._step(state, memory)
        slot, named = among_all(step.logits.argmax(dim=1), memory.rows, len(state.viewpoint)), memory.best_object
        if step.object_logits is not None:
            best = among_all(step.object_logits.argmax(dim=1), memory.rows, len(slot))
            named = torch.where((slot == STOP) & ~state.ended, best, named)
        return slot, Memory(step.state, step.instruction, named, memory.rows)

    def named_objects(self, walked: Walk) -> Tensor:
        """[row] the place of the object that each row names, among those that its last viewpoint shows.

        Who stopped has named one; who came to the limit looks around once more. A place beyond the last is "no object".
        """
        state = State(walked.viewpoint[:, -1], walked.view[:, -1], walked.ended)
        memory: Memory = walked.memory.only(walking(state, walked.memory.rows))
        if not len(memory.hidden):
            return memory.best_object
        step = self._step(state, memory)
        if step.object_logits is None:
            return memory.best_object
        best = among_all(step.object_logits.argmax(dim=1), memory.rows, len(walked.ended))
        return torch.where(walked.ended, memory.best_object, best)

    def _step(self, state: State, memory: Memory) -> Step:
        seen = self.environment.observe(of_rows(state, memory.rows))
        return self.navigator.step(memory.hidden, memory.instruction, seen)
