"""A navigator as an agent: it reads its instructions, then takes the best slot at every step."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.environment.environment import Observation
from vlnbert.navigator import Instruction, Navigator
from vlnbert.rollout.agents import Agent, EpisodeBatch, Explanation
from vlnbert.rollout.episodes import RowMemory, encode_tokens, narrow_rows
from vlnbert.world.objects import NONE


@dataclass(frozen=True)
class GreedyMemory(RowMemory):
    """What a greedy navigator carries along, of the rows that are active."""

    hidden: Tensor  # [active row, hidden] the recurrent state
    instruction: Instruction
    object_logits: Tensor | None = None  # [active row, object + 1] of the last step, where there are objects
    rows: Tensor | None = None
    logits: Tensor | None = None  # [active row, slot] of the last step, and
    language_weights: Tensor | None = None  # [active row, token] what it attended to, for `explain` alone

    def select(self, kept: Tensor) -> "GreedyMemory":
        return GreedyMemory(
            hidden=self.hidden.index_select(0, kept),
            instruction=self.instruction.only(kept),
            rows=narrow_rows(self.rows, kept),
        )


class GreedyAgent(Agent):
    """A navigator that walks many episodes at once, each with its own instruction."""

    def __init__(self, navigator: Navigator) -> None:
        self.navigator = navigator

    def begin(self, batch: EpisodeBatch) -> GreedyMemory:
        instruction = encode_tokens(self.navigator, batch.tokens)
        return GreedyMemory(instruction.state, instruction)

    def act(self, observation: Observation, memory: GreedyMemory) -> tuple[Tensor, GreedyMemory]:
        step = self.navigator.step(memory.hidden, memory.instruction, observation)
        remembered = GreedyMemory(
            hidden=step.state,
            instruction=step.instruction,
            object_logits=step.object_logits,
            rows=memory.rows,
            logits=step.logits,
            language_weights=step.language_weights,
        )
        return step.logits.argmax(dim=1), remembered

    def name_object(self, observation: Observation, memory: GreedyMemory) -> Tensor:
        """The best real object in view, by the logits of the step; the last place, "no object", where there is none."""
        logits = memory.object_logits
        if logits is None:
            return torch.full_like(observation.state.viewpoint, NONE)
        last_resort = torch.full_like(logits[:, :1], torch.finfo(logits.dtype).min)  # padding is lower still
        return torch.cat((logits[:, :-1], last_resort), dim=1).argmax(dim=1)

    def explain(self, observation: Observation, memory: GreedyMemory) -> Explanation | None:
        """Logits as probabilities; those of objects are shared with "no object", which comes last."""
        if memory.logits is None:
            return None
        objects = memory.object_logits
        return Explanation(
            probability=memory.logits.float().softmax(dim=1),
            language_weights=memory.language_weights,
            object_probability=None if objects is None else objects.float().softmax(dim=1),
        )
