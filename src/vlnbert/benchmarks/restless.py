"""A navigator that never stops, so that every walk is as long as its limit: what is timed is then the same for all."""

from dataclasses import replace

from torch import Tensor
from torch.nn.functional import pad

from vlnbert.environment.environment import Observation
from vlnbert.navigator import Instruction, Navigator, Step

AWAY = -1e4  # the logit of stopping: never the best nor ever sampled, and yet a number, so that losses are numbers


class Restless(Navigator):
    """The same network; where there is anywhere to go, it goes."""

    def step(
        self, state: Tensor, instruction: Instruction, observation: Observation, attention_maps: bool = False
    ) -> Step:
        step = super().step(state, instruction, observation, attention_maps)
        return replace(step, logits=pad(step.logits[:, 1:], (1, 0), value=AWAY))
