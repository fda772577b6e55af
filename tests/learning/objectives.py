"""The objective of a rollout that a test made or collected, term by term."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.losses import Alignment, Grounding
from vlnbert.learning.objective import Objective, ObjectiveConfig
from vlnbert.ranks import ALONE, Ranks
from vlnbert.rollout.mixed import LANGUAGE_WEIGHTS, OBJECT_LOGITS, MixedAgent, Rollout, collect_rollout
from vlnbert.rollout.policy import Policy

CRITIC = Policy()  # one that has hidden vectors, of which nothing is asked here
CRITIC.hidden_width = 1


@dataclass(frozen=True)
class Costed(Rollout):
    """A rollout, and what naming the target and attending elsewhere cost at each step."""

    grounding_loss: Tensor | None = None
    alignment_loss: Tensor | None = None


def made(row_mode: Tensor, **given: Any) -> Costed:
    """A rollout of numbers that a test chose; nobody walked."""
    return Costed(row_mode=row_mode, goal=given["viewpoint"][-1], world=None, **given)


def collected(
    environment: Environment,
    agent: MixedAgent,
    start: Tensor,
    heading: Tensor,
    goal: Tensor,
    *,
    target: Tensor | None = None,
    aligned: Tensor | None = None,
    path: Tensor | None = None,
) -> Costed:
    """What an agent does, with the critic of its navigator, and what the terms that read its decisions make of it."""
    reads = {OBJECT_LOGITS: target, LANGUAGE_WEIGHTS: aligned}
    agent.reads = frozenset(name for name, needed in reads.items() if needed is not None)
    rollout = collect_rollout(environment, agent, start, heading, goal, agent.policy.value)
    batch: Any = SimpleNamespace(target=target, aligned=aligned, path=path)
    settings, nothing = TrainConfig(), torch.zeros_like(rollout.value)
    found = [term(settings, agent.policy)(rollout, batch) for term in (Grounding, Alignment)]
    grounding, alignment = (nothing if loss is None else loss for loss in found)
    return Costed(**vars_of(rollout), grounding_loss=grounding, alignment_loss=alignment)


def vars_of(rollout: Rollout) -> dict[str, Any]:
    return {name: getattr(rollout, name) for name in Rollout.__dataclass_fields__}


def navigation_objective(
    rollout: Costed, row_mode: Tensor, reward: Tensor, config: ObjectiveConfig, ranks: Ranks = ALONE
) -> Any:
    """The total of the paper's terms and each of them, by name; `reward` [time, row] is what each choice earned."""
    objective = Objective(TrainConfig(objective=config), CRITIC, lambda rollout, batch: reward, ranks)
    for name, term in objective.terms.items():
        if name in ("grounding", "alignment"):
            term.forward = lambda rollout, batch, name=name: getattr(rollout, f"{name}_loss")
    found = objective(replace(rollout, row_mode=row_mode), SimpleNamespace(goal=rollout.viewpoint[0]))
    return SimpleNamespace(**dict(zip(objective.parts, found.unbind(), strict=True)))
