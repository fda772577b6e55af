"""A navigator as an agent: it reads its instructions, then takes the best slot at every step."""

from torch import Tensor

from vlnbert.environment.environment import Environment, State
from vlnbert.navigator import Instruction, Navigator

PAD = 0  # the token that fills short instructions up


def read(navigator: Navigator, tokens: Tensor) -> Instruction:
    """Let a navigator read instructions [row, token]."""
    return navigator.encode(tokens, tokens != PAD)


class Greedy:
    """Some navigators' rows walk together, each with its own instruction."""

    def __init__(self, navigator: Navigator, environment: Environment, tokens: Tensor) -> None:
        """`tokens` [row, token] are the instructions of the rows that will walk."""
        self.navigator, self.environment, self.tokens = navigator, environment, tokens

    def begin(self, state: State, goal: Tensor) -> tuple[Tensor, Instruction]:
        instruction = read(self.navigator, self.tokens)
        return instruction.state, instruction

    def choose(self, state: State, memory: tuple[Tensor, Instruction]) -> tuple[Tensor, tuple[Tensor, Instruction]]:
        step = self.navigator.step(*memory, self.environment.observe(state))
        return step.logits.argmax(dim=1), (step.state, step.instruction)
