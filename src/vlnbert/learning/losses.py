"""Returns and losses of learning to navigate: tensors in; the total and its parts out."""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy


@dataclass(frozen=True)
class ActorCriticLoss:
    """Sums over live steps, divided by their number."""

    total: Tensor
    policy: Tensor
    value: Tensor  # weighted
    entropy: Tensor  # weighted; it lowers the total


def discounted_returns(reward: Tensor, live: Tensor, last_value: Tensor, ended: Tensor, discount: float) -> Tensor:
    """[time, row] the discounted sum of the rewards still to come.

    Args:
        reward: [time, row].
        live: [time, row] bool, true up to and including the step at which a row stops.
        last_value: [row] the critic's value after the last step: what rows that were cut off would still earn.
        ended: [row] bool, rows that stopped in time and are not bootstrapped.
        discount: the worth of a reward one step later.
    """
    ahead = torch.where(ended, 0.0, last_value.detach())
    returns = []
    for now, alive in zip(reward.flip(0), live.flip(0), strict=True):
        ahead = torch.where(alive, now + discount * ahead, ahead)  # a row that has stopped earns nothing more
        returns.append(ahead)
    return torch.stack(returns[::-1])


def actor_critic_loss(
    log_probability: Tensor,
    entropy: Tensor,
    value: Tensor,
    returns: Tensor,
    live: Tensor,
    value_weight: float = 0.5,
    entropy_weight: float = 0.01,
    count: Tensor | None = None,
) -> ActorCriticLoss:
    """A2C over [time, row] tensors; `live` is true where a row had not stopped before. Advantages carry no gradient.

    `count` is what the sums are divided by where the live steps here are not all there are.
    """
    count = live.sum().clamp(min=1) if count is None else count
    advantage = (returns - value).detach()
    policy = -(log_probability * advantage * live).sum() / count
    error = value_weight * ((returns.detach() - value).square() * live).sum() / count
    bonus = entropy_weight * (entropy * live).sum() / count
    return ActorCriticLoss(policy + error - bonus, policy, error, bonus)


def imitation_loss(logits: Tensor, teacher: Tensor, weight: Tensor, rows: Tensor | int) -> Tensor:
    """Cross-entropy with the teacher's slots, summed over [time, row] with weights and divided by the rows."""
    each = cross_entropy(logits.flatten(0, 1), teacher.flatten(), reduction="none").view_as(teacher)
    return (each * weight).sum() / rows
