"""Loss terms: what one is, those of the paper, and two that public agents and labels add.

A term is registered by a name, ours like anybody's; a training sums those that it names, each with a weight. Eq. 19 of
the paper is imitation plus A2C: the policy's gradient, the critic's error and the entropy. REVERIE adds naming the
target; word labels add attending to the words that are due.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vlnbert.errors import UsageError, setting
from vlnbert.navigator.model.navigator import Critic
from vlnbert.registry import Registry, require_name
from vlnbert.rollout.episodes import scatter_rows, select_rows
from vlnbert.rollout.mixed import LANGUAGE_WEIGHTS, OBJECT_LOGITS, Rollout, at_least_float32
from vlnbert.rollout.policy import Policy
from vlnbert.tasks.batches import Batch
from vlnbert.tasks.word_labels import words_to_attend
from vlnbert.world.objects import NONE
from vlnbert.world.world import STOP

if TYPE_CHECKING:
    from vlnbert.learning.experiment import TrainConfig


ACTOR_CRITIC = "actor-critic"  # the group of A2C's terms
TINY = 1e-6  # of attention, so that its logarithm stays finite


class Loss(nn.Module):
    """A term of the objective; derive from it and register it by a name.

    It is made of the training's settings and of the policy. Its parameters are optimised with the policy's, after them,
    and saved and resumed with its buffers. It is called within the rollout's fast path, in the training's precision.
    On a GPU it runs inside a recorded graph: it may not wait for the device.
    """

    clipped: ClassVar[bool] = True
    """Whether the gradients of its parameters count in the norm that training.grad_clip bounds."""
    needs_rollout: ClassVar[bool] = True
    """Whether it reads a rollout. Where no term of a training does, nobody walks, and `forward` is given None; where
    another one does, it is given that rollout all the same."""
    reads: ClassVar[tuple[str, ...]] = ()
    """Parts of each decision that are kept for it in `rollout.kept`: object_logits or language_weights."""
    needs_returns: ClassVar[bool] = False
    """Whether it reads `rollout.value` and `rollout.returns`, for which the training's reward is computed."""
    rewarded: ClassVar[bool] = False
    """Whether more of it is better: its value is subtracted."""
    uses_fast: ClassVar[bool] = False
    """Whether it keeps the contract of `navigator.fast` by itself; any other is called under autocast."""
    applies_weight: ClassVar[bool] = False
    """Whether `counted` multiplies by `self.weight` itself, so that the objective need not."""
    group: ClassVar[str] = ""
    """Terms of one group are added up with each other first: the order of a sum decides about its last bits."""

    def __init__(self, config: "TrainConfig", policy: Policy) -> None:
        """The settings of the training, and what is trained."""
        super().__init__()
        # Set by the objective; a tensor on the device where it changes.
        self.weight: float | Tensor = 1.0

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
        # A row that has stopped earns nothing more.
        ahead = torch.where(alive, now + discount * ahead, ahead)
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


@register_loss("imitation")
class Imitation(Loss):
    """Cross-entropy with the teacher's choices, of teacher-forced rows and, by student forcing, of sampled ones."""

    uses_fast = True
    applies_weight = True

    def __init__(self, config: "TrainConfig", policy: Policy) -> None:
        super().__init__(config, policy)
        self.student_forcing = config.objective.student_forcing

    def forward(self, rollout: Rollout, batch: Batch) -> Tensor:
        return teacher_cross_entropy(rollout.logits, rollout.teacher)

    def counted(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """Both kinds of rows, each by its weight, divided by the number of teacher-forced ones."""
        weight = self.weight * rollout.taught + self.student_forcing * rollout.sampled
        return weight * rollout.live, rollout.taught_rows


class ActorCriticTerm(Loss):
    """A term of A2C, over the live steps of sampled rows."""

    uses_fast = True
    group = ACTOR_CRITIC

    def counted(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        return rollout.explored, rollout.explored_steps


@register_loss("policy")
class PolicyGradient(ActorCriticTerm):
    """A2C's policy gradient: minus the log-probability of what was sampled, times its advantage."""

    needs_returns = True

    def forward(self, rollout: Rollout, batch: Batch) -> Tensor:
        assert rollout.value is not None
        assert rollout.returns is not None
        return policy_gradient(rollout.log_probability, rollout.value, rollout.returns)


@register_loss("value")
class Value(ActorCriticTerm):
    """The critic's squared error. It has the policy's own critic, or makes one of the width of hidden vectors."""

    clipped = False  # as in the published code
    needs_returns = True

    def __init__(self, config: "TrainConfig", policy: Policy) -> None:
        super().__init__(config, policy)
        self.critic: Critic | None = None
        critic = policy.critic
        if critic is None:
            if not policy.hidden_width:
                problem = f"{type(policy).__name__} gives no hidden vectors, which the critic of the value loss reads"
                remedy = "give Decision.hidden and hidden_width, or do without the losses value and policy"
                raise UsageError(f"{problem}; {remedy}")
            self.critic = critic = Critic(policy.hidden_width, 512, 0.5)
        self.policy_value, self.critic_parameters = policy.value, list(critic.parameters())

    def value(self, hidden: Tensor) -> Tensor:
        """[...] what the critic expects of hidden vectors [..., width]."""
        if self.critic is None:
            return self.policy_value(hidden)
        value: Tensor = self.critic(hidden)
        return value.squeeze(-1)

    def forward(self, rollout: Rollout, batch: Batch) -> Tensor:
        assert rollout.value is not None
        assert rollout.returns is not None
        return value_error(rollout.value, rollout.returns)

    def own_parameters(self) -> list[nn.Parameter]:
        return self.critic_parameters


@register_loss("entropy")
class Entropy(ActorCriticTerm):
    """The policy's entropy on what is explored, which is rewarded."""

    rewarded = True

    def forward(self, rollout: Rollout, batch: Batch) -> Tensor:
        return rollout.entropy


@register_loss("grounding")
class Grounding(Loss):
    """REVERIE: the cross-entropy of the target among the objects in view, wherever the teacher stops."""

    uses_fast = True
    reads = (OBJECT_LOGITS,)

    def __init__(self, config: "TrainConfig", policy: Policy) -> None:
        super().__init__(config, policy)
        self.all_rows = config.objective.grounding_rows == "all"

    def forward(self, rollout: Rollout, batch: Batch) -> Tensor | None:
        if batch.target is None:
            return None
        losses, count = list[Tensor](), len(batch.target)
        for step in rollout.kept:
            if step.object_logits is None:
                return None
            target = select_rows(batch.target, step.rows)
            losses.append(scatter_rows(naming_loss(step.object_logits, target, step.teacher), step.rows, count))
        return torch.stack(losses)

    def counted(self, rollout: Rollout) -> tuple[Tensor, Tensor | int]:
        """All rows, divided by their number; or, as published agents do it, the teacher-forced ones by theirs."""
        if self.all_rows:
            return rollout.live, len(rollout.row_mode)
        return rollout.live & rollout.taught, rollout.taught_rows


@register_loss("alignment")
class Alignment(Loss):
    """Word labels: minus the log of the share of attention that the words have which are due where a row stands."""

    uses_fast = True
    reads = (LANGUAGE_WEIGHTS,)

    def forward(self, rollout: Rollout, batch: Batch) -> Tensor | None:
        if batch.aligned is None:
            return None
        losses, count = list[Tensor](), len(batch.aligned)
        for step in rollout.kept:
            aligned, path = (select_rows(part, step.rows) for part in (batch.aligned, batch.path))
            words = words_to_attend(aligned, path, step.viewpoint)
            if step.language_weights is None:
                problem = "the policy says nothing of its attention to words"
                raise UsageError(f"{problem}; do without: {setting('training.objective.alignment', 0)}")
            losses.append(scatter_rows(attention_loss(step.language_weights, words), step.rows, count))
        return torch.stack(losses)

    def counted(self, rollout: Rollout) -> tuple[Tensor, int]:
        return rollout.live, len(rollout.row_mode)


def naming_loss(logits: Tensor, target: Tensor, teacher: Tensor) -> Tensor:
    """[row] the cross-entropy of the target where the teacher stops, which is where the target's place is known."""
    known = (teacher == STOP) & (target != NONE)
    # "No object" can always be chosen, so that nothing becomes infinite.
    no_object = logits.shape[1] - 1
    return cross_entropy(at_least_float32(logits), torch.where(known, target, no_object), reduction="none") * known


def attention_loss(weights: Tensor, words: Tensor) -> Tensor:
    """[row] minus the log of the share that the state attends to `words` [row, token]; 0 where there are none.

    `weights` [row, token] are of the words after [CLS].
    """
    words = words[:, 1:]
    if weights.shape != words.shape:
        problem = f"the backbone weighs {weights.shape[1]} words of an instruction that has {words.shape[1]}"
        raise UsageError(f"{problem}; do without: {setting('training.objective.alignment', 0)}")
    attended = (at_least_float32(weights) * words).sum(dim=1)
    return torch.where(words.any(dim=1), -(attended + TINY).log(), 0.0)
