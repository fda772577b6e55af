"""A policy as an agent that does not learn: it takes the best action at every step."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from vlnbert.environment.environment import Observation
from vlnbert.rollout.agents import Agent, EpisodeBatch, Explanation
from vlnbert.rollout.episodes import RowMemory, narrow_rows, select_rows
from vlnbert.rollout.policy import Decision, as_policy, checked_decision, require_rows
from vlnbert.world.objects import NONE


@dataclass(frozen=True)
class GreedyMemory(RowMemory):
    """A policy's memory, of the rows that are active, and its last decision."""

    memory: Any
    rows: Tensor | None = None
    decision: Decision | None = None

    def select(self, kept: Tensor) -> "GreedyMemory":
        return GreedyMemory(select_rows(self.memory, kept), narrow_rows(self.rows, kept))


class GreedyAgent(Agent):
    """A policy, or a navigator, that walks many episodes at once, each with its own instruction."""

    def __init__(self, policy: nn.Module) -> None:
        self.policy = as_policy(policy)
        self.wants = self.policy.wants
        self.goes_back, self.hops_per_step = self.policy.goes_back, self.policy.hops_per_step

    def begin(self, batch: EpisodeBatch) -> GreedyMemory:
        memory = self.policy.begin(batch)
        require_rows(self.policy, memory, len(batch.state.viewpoint))
        return GreedyMemory(memory)

    def act(self, observation: Observation, memory: GreedyMemory) -> tuple[Tensor, GreedyMemory]:
        decision = self.policy.step(observation, memory.memory, attention=True)
        checked_decision(self.policy, decision, observation)
        choice = decision.choice(decision.all_logits.argmax(dim=1))
        return choice, GreedyMemory(decision.memory, memory.rows, decision)

    def name_object(self, observation: Observation, memory: GreedyMemory) -> Tensor:
        """The best real object in view, by the logits of the step; the last place, "no object", where there is none."""
        logits = None if memory.decision is None else memory.decision.object_logits
        if logits is None:
            return torch.full_like(observation.state.viewpoint, NONE)
        last_resort = torch.full_like(logits[:, :1], torch.finfo(logits.dtype).min)  # padding is lower still
        return torch.cat((logits[:, :-1], last_resort), dim=1).argmax(dim=1)

    def explain(self, observation: Observation, memory: GreedyMemory) -> Explanation | None:
        """Logits as probabilities; those of objects are shared with "no object", which comes last."""
        decision = memory.decision
        if decision is None:
            return None
        objects, places = decision.object_logits, decision.places
        probability, slots = decision.all_logits.float().softmax(dim=1), decision.logits.shape[1]
        return Explanation(
            probability=probability[:, :slots],
            language_weights=decision.language_weights,
            object_probability=None if objects is None else objects.float().softmax(dim=1),
            place_probability=None if places is None else probability[:, slots:],
            places=places,
        )
