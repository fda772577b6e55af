"""The loss terms of the paper, and two that public agents and labels add: each as anybody would write one.

Eq. 19 of the paper is imitation plus A2C: the policy's gradient, the critic's error and the entropy. REVERIE adds
naming the target; word labels add attending to the words that are due.
"""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from vlnbert.errors import UsageError, setting
from vlnbert.learning.losses import Loss, policy_gradient, register_loss, teacher_cross_entropy, value_error
from vlnbert.navigator.model.navigator import Critic
from vlnbert.rollout.episodes import scatter_rows, select_rows
from vlnbert.rollout.mixed import LANGUAGE_WEIGHTS, OBJECT_LOGITS, Rollout, at_least_float32
from vlnbert.rollout.policy import Policy
from vlnbert.tasks.batches import Batch
from vlnbert.tasks.word_labels import words_to_attend
from vlnbert.world.objects import NONE
from vlnbert.world.world import STOP

if TYPE_CHECKING:
    from vlnbert.learning.experiment import TrainConfig

ACTOR_CRITIC = "actor-critic"
TINY = 1e-6  # of attention, so that its logarithm stays finite


@register_loss("imitation")
class Imitation(Loss):
    """Cross-entropy with the teacher's choices, of teacher-forced rows and, by student forcing, of sampled ones."""

    uses_fast = True
    weighs_rows = True

    def __init__(self, config: "TrainConfig", policy: Policy) -> None:
        super().__init__(config, policy)
        self.student_forcing = config.objective.student_forcing

    def forward(self, rollout: Rollout, batch: Batch) -> Tensor:
        return teacher_cross_entropy(rollout.logits, rollout.teacher)

    def counted(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        """Both kinds of rows, each by its weight, divided by the number of teacher-forced ones."""
        weight = self.weight * rollout.taught + self.student_forcing * rollout.sampled
        return weight * rollout.live, rollout.taught_rows


@register_loss("policy")
class PolicyGradient(Loss):
    """A2C's policy gradient: minus the log-probability of what was sampled, times its advantage."""

    uses_fast = True
    needs_returns = True
    group = ACTOR_CRITIC

    def forward(self, rollout: Rollout, batch: Batch) -> Tensor:
        assert rollout.value is not None
        assert rollout.returns is not None
        return policy_gradient(rollout.log_probability, rollout.value, rollout.returns)

    def counted(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        return rollout.explored, rollout.explored_steps


@register_loss("value")
class Value(Loss):
    """The critic's squared error. It has the policy's own critic, or makes one of the width of hidden vectors."""

    uses_fast = True
    clipped = False  # as in the published code
    needs_returns = True
    group = ACTOR_CRITIC

    def __init__(self, config: "TrainConfig", policy: Policy) -> None:
        super().__init__(config, policy)
        self.policy_critic = (policy,) if policy.critic is not None else ()  # a tuple: no module of this one's
        self.critic = None if self.policy_critic else new_critic(policy)

    def value(self, hidden: Tensor) -> Tensor:
        """[...] what the critic expects of hidden vectors [..., width]."""
        for policy in self.policy_critic:
            return policy.value(hidden)
        assert self.critic is not None
        value: Tensor = self.critic(hidden)
        return value.squeeze(-1)

    def forward(self, rollout: Rollout, batch: Batch) -> Tensor:
        assert rollout.value is not None
        assert rollout.returns is not None
        return value_error(rollout.value, rollout.returns)

    def counted(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        return rollout.explored, rollout.explored_steps

    def own_parameters(self) -> list[nn.Parameter]:
        critic = self.policy_critic[0].critic if self.policy_critic else self.critic
        assert critic is not None
        return list(critic.parameters())


@register_loss("entropy")
class Entropy(Loss):
    """The policy's entropy on what is explored, which is rewarded."""

    uses_fast = True
    rewarded = True
    group = ACTOR_CRITIC

    def forward(self, rollout: Rollout, batch: Batch) -> Tensor:
        return rollout.entropy

    def counted(self, rollout: Rollout) -> tuple[Tensor, Tensor]:
        return rollout.explored, rollout.explored_steps


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
            return rollout.live, len(rollout.row_policy)
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
        return rollout.live, len(rollout.row_policy)


def new_critic(policy: Policy) -> Critic:
    """A critic of the width of a policy's hidden vectors."""
    if not policy.hidden_width:
        problem = f"{type(policy).__name__} gives no hidden vectors, which the critic of the value loss reads"
        raise UsageError(f"{problem}; give Decision.hidden and hidden_width, or do without the losses value and policy")
    return Critic(policy.hidden_width, 512, 0.5)


def naming_loss(logits: Tensor, target: Tensor, teacher: Tensor) -> Tensor:
    """[row] the cross-entropy of the target where the teacher stops, which is where the target's place is known."""
    known = (teacher == STOP) & (target != NONE)
    no_object = logits.shape[1] - 1  # always there to be chosen, so that nothing becomes infinite
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
