"""What a loss term is, and the sums that the paper's are made of: tensors in, tensors out.

A term is registered by a name, ours like anybody's; a training sums those that it names, each with a weight.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vlnbert.errors import UsageError
from vlnbert.registry import Registry, require_name
from vlnbert.rollout.mixed import Rollout
from vlnbert.rollout.policy import Policy
from vlnbert.tasks.batches import Batch

if TYPE_CHECKING:
    from vlnbert.learning.experiment import TrainConfig


class Loss(nn.Module):
    """A term of the objective; derive from it and register it by a name.

    It is made of the training's settings and of the policy. Its parameters are optimised with the policy's, after them,
    and saved and resumed with its buffers. It is called within the rollout's fast path, in the training's precision.
    On a GPU it runs inside a recorded graph: it may not wait for the device.
    """

    clipped: ClassVar[bool] = True
    """Whether the gradients of its parameters count in the norm that training.grad_clip bounds."""
    needs_rollout: ClassVar[bool] = True
    """Whether it reads a rollout; where no term does, nobody walks, and `forward` is given None."""
    reads: ClassVar[tuple[str, ...]] = ()
    """What is kept of each decision for it, in `rollout.kept`: object_logits or language_weights."""
    needs_returns: ClassVar[bool] = False
    """Whether it reads `rollout.value` and `rollout.returns`, for which the training's reward is asked."""
    rewarded: ClassVar[bool] = False
    """Whether more of it is better: its value is subtracted."""
    uses_fast: ClassVar[bool] = False
    """Whether it keeps the contract of `navigator.fast` by itself; any other is called under autocast."""
    weighs_rows: ClassVar[bool] = False
    """Whether the weights that `counted` gives have `self.weight` in them already."""
    group: ClassVar[str] = ""
    """Neighbouring terms of one group are summed before the rest."""

    def __init__(self, config: "TrainConfig", policy: Policy) -> None:
        """The settings of the training, and what is trained."""
        super().__init__()
        self.weight: float | Tensor = 1.0  # set by the objective; a tensor on the device where it changes

    def forward(self, rollout: Rollout, batch: Batch) -> Tensor | None:
        """[time, row] what each step costs, or one number for all; None where this batch has nothing for it."""
        raise NotImplementedError

    def counted(self, rollout: Rollout) -> tuple[Tensor, Tensor | int]:
        """Which steps count, [time, row] bool or weights, and by what their sum is divided.

        A tensor is a count of this process's, and is summed over all that learn together; here all live steps.
        """
        return rollout.live, rollout.live.sum()

    def own_parameters(self) -> Iterable[nn.Parameter]:
        """The parameters that `clipped` speaks of: here the term's own."""
        return self.parameters()


AnyLoss = TypeVar("AnyLoss", bound=type[Loss])
LOSSES: Registry[type[Loss]] = Registry("loss")


def register_loss(name: str) -> Callable[[AnyLoss], AnyLoss]:
    """A decorator that gives a loss a name: `vln.train(..., losses={"progress": 0.5})` then adds it.

    Args:
        name: What the training's setting `losses` calls it.
    """
    require_name(LOSSES.kind, name)

    def register(loss: AnyLoss) -> AnyLoss:
        if not issubclass(loss, Loss):
            raise UsageError(f"the loss '{name}' is no class of losses; derive it from vln.Loss")
        LOSSES.register(name, loss)
        return loss

    return register


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


def policy_gradient(log_probability: Tensor, value: Tensor, returns: Tensor) -> Tensor:
    """[time, row] minus the log-probability of each choice, times its advantage, which carries no gradient."""
    return -(log_probability * (returns - value).detach())


def value_error(value: Tensor, returns: Tensor) -> Tensor:
    """[time, row] the squared difference of values and returns; the latter carry no gradient."""
    return (returns.detach() - value).square()


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
    """A2C over [time, row] tensors; `live` is true where a row had not stopped before.

    `count` is what the sums are divided by where the live steps here are not all there are.
    """
    count = live.sum().clamp(min=1) if count is None else count
    policy = (policy_gradient(log_probability, value, returns) * live).sum() / count
    error = value_weight * (value_error(value, returns) * live).sum() / count
    bonus = entropy_weight * (entropy * live).sum() / count
    return ActorCriticLoss(policy + error - bonus, policy, error, bonus)


def teacher_cross_entropy(logits: Tensor, teacher: Tensor) -> Tensor:
    """[time, row] the cross-entropy of [time, row, slot] logits with the teacher's slots."""
    return cross_entropy(logits.flatten(0, 1), teacher.flatten(), reduction="none").view_as(teacher)


def imitation_loss(logits: Tensor, teacher: Tensor, weight: Tensor, rows: Tensor | int) -> Tensor:
    """Cross-entropy with the teacher's slots, summed over [time, row] with weights and divided by the rows."""
    return (teacher_cross_entropy(logits, teacher) * weight).sum() / rows
