"""A navigator as an agent: it reads its instructions, then takes the best slot at every step."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment, State
from vlnbert.navigator import Instruction, Navigator
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

    hidden: Tensor
    instruction: Instruction
    best_object: Tensor  # [row] the place of the object it stopped at, among those in view; NONE while walking


class Greedy:
    """Some navigators' rows walk together, each with its own instruction."""

    def __init__(self, navigator: Navigator, environment: Environment, tokens: Tensor) -> None:
        """`tokens` [row, token] are the instructions of the rows that will walk."""
        self.navigator, self.environment, self.tokens = navigator, environment, tokens

    def begin(self, state: State, goal: Tensor) -> Memory:
        instruction = read(self.navigator, self.tokens)
        return Memory(instruction.state, instruction, torch.full_like(state.viewpoint, NONE))

    def choose(self, state: State, memory: Memory) -> tuple[Tensor, Memory]:
        step = self.navigator.step(memory.hidden, memory.instruction, self.environment.observe(state))
        slot, named = step.logits.argmax(dim=1), memory.best_object
        if step.object_logits is not None:
            stops = (slot == STOP) & ~state.ended
            named = torch.where(stops, step.object_logits.argmax(dim=1), named)
        return slot, Memory(step.state, step.instruction, named)

    def named_objects(self, walked: Walk) -> Tensor:
        """[row] the place of the object that each row names, among those that its last viewpoint shows.

        Who stopped has named one; who came to the limit looks around once more. A place beyond the last is "no object".
        """
        memory: Memory = walked.memory
        walking = memory.best_object == NONE
        state = State(walked.viewpoint[:, -1], walked.view[:, -1], ~walking)
        step = self.navigator.step(memory.hidden, memory.instruction, self.environment.observe(state))
        if step.object_logits is None:
            return memory.best_object
        return torch.where(walking, step.object_logits.argmax(dim=1), memory.best_object)
