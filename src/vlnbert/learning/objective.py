"""What a navigator learns from a rollout: imitation where rows followed the teacher, A2C where they explored."""

from dataclasses import dataclass
from typing import ClassVar, Literal

import torch
from torch import Tensor

from vlnbert.learning.losses import actor_critic_loss, discounted_returns, imitation_loss
from vlnbert.learning.records import require_range
from vlnbert.ranks import ALONE, Ranks
from vlnbert.rollout.mixed import SAMPLE, TEACHER, Rollout


@dataclass(frozen=True)
class ObjectiveConfig:
    """The weights of the objective; the defaults are those of the paper's R2R recipe."""

    PLACE: ClassVar[str] = "training.objective"

    imitation: float = 0.2
    """Weight of the imitation loss beside the actor-critic one."""
    student_forcing: float = 0.0
    """Weight of imitation on the rows that explore; the paper has none."""
    grounding: float = 1.0
    """Weight, in REVERIE, of naming the target wherever the teacher stops."""
    grounding_rows: Literal["teacher-forced", "all"] = "all"
    """Rows that learn to name the target: the teacher-forced ones, divided by their number, as in published agents and
    the paper's presets; or all, sampled rows too, divided by the number of all."""
    alignment: float = 0.0
    """Weight, in R2R, of attending to the words that are due at a viewpoint, as LAR2R's labels have them
    (r2r/LAR2R_train.json); the paper has none."""
    discount: float = 0.9
    """Worth of a reward one step later."""
    value: float = 0.5
    """Weight of the critic's error."""
    entropy: float = 0.01
    """Weight of the policy's entropy, which is rewarded."""

    def __post_init__(self) -> None:
        require_range(self, 0.0, 1e6, "imitation", "student_forcing", "grounding", "alignment", "value", "entropy")
        require_range(self, 0.0, 1.0, "discount")


@dataclass(frozen=True)
class Objective:
    """The total to be minimised, and its parts as they enter it."""

    total: Tensor
    imitation: Tensor
    policy: Tensor
    value: Tensor
    entropy: Tensor
    grounding: Tensor
    alignment: Tensor


def navigation_objective(
    rollout: Rollout,
    row_policy: Tensor,
    reward: Tensor,
    config: ObjectiveConfig,
    ranks: Ranks = ALONE,
) -> Objective:
    """The objective of a mixed rollout; `row_policy` [row] says which rows imitate and which explore.

    `reward` [time, row] is what each choice earned.

    Sums are divided by the mean counts of all ranks, so that the mean of their objectives is that of the whole batch.
    """
    taught, sampled = row_policy == TEACHER, row_policy == SAMPLE
    weight = (config.imitation * taught + config.student_forcing * sampled) * rollout.live
    rows = ranks.sum(taught.sum()).clamp(min=1) / ranks.count
    imitation = imitation_loss(rollout.logits, rollout.teacher, weight, rows)
    reward = reward.to(rollout.value.dtype)
    returns = discounted_returns(reward, rollout.live, rollout.last_value, rollout.ended, config.discount)
    log_policy = rollout.logits.log_softmax(dim=-1)
    chosen = log_policy.gather(-1, rollout.slot[..., None]).squeeze(-1)
    finite = torch.where(rollout.logits.isneginf(), 0.0, log_policy)
    entropy = -(finite.exp() * finite * ~rollout.logits.isneginf()).sum(dim=-1)
    live = rollout.live & sampled
    count = ranks.sum(live.sum()).clamp(min=1) / ranks.count
    loss = actor_critic_loss(chosen, entropy, rollout.value, returns, live, config.value, config.entropy, count)
    named = rollout.grounding_loss * rollout.live
    if config.grounding_rows == "teacher-forced":
        grounding = config.grounding * (named * taught).sum() / rows
    else:
        grounding = config.grounding * named.sum() / len(row_policy)
    alignment = config.alignment * (rollout.alignment_loss * rollout.live).sum() / len(row_policy)
    total = imitation + loss.total + grounding + alignment
    return Objective(total, imitation, loss.policy, loss.value, loss.entropy, grounding, alignment)
