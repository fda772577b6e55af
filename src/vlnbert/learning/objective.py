"""The objective of a policy: named loss terms, each with a weight, and their sum."""

from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import torch
from torch import Tensor, nn

from vlnbert.errors import UnknownNameError, UsageError, near_names, setting
from vlnbert.external import ExternalCall, is_ours
from vlnbert.learning.losses import LOSSES, Loss, Value, discounted_returns
from vlnbert.learning.rewards import Reward, fault_in
from vlnbert.navigator import fast
from vlnbert.ranks import ALONE, Ranks
from vlnbert.records import require_range
from vlnbert.rollout.mixed import READABLE, Rollout, at_least_float32
from vlnbert.rollout.policy import Policy
from vlnbert.tasks.batches import Batch

if TYPE_CHECKING:
    from vlnbert.learning.experiment import TrainConfig

LARGEST_WEIGHT = 1e6
PAPER_TERMS = ("imitation", "policy", "value", "entropy", "grounding", "alignment")


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
        require_range(
            self, 0.0, LARGEST_WEIGHT, "imitation", "student_forcing", "grounding", "alignment", "value", "entropy"
        )
        require_range(self, 0.0, 1.0, "discount")


class Objective(nn.Module):
    """The loss terms of a training, made for a policy, and their weighted sum."""

    def __init__(
        self,
        config: "TrainConfig",
        policy: Policy,
        reward: Reward,
        ranks: Ranks = ALONE,
        device: torch.device | str = "cpu",
    ) -> None:
        super().__init__()
        self.config, self.reward, self.ranks = config, reward, ranks
        # Parameters and buffers of a reward are saved with those of the losses.
        self.reward_module = getattr(reward, "module", None)
        if self.reward_module is not None:
            self.reward_module.to(device)
        # By name, in the order in which they are summed.
        self.terms: dict[str, Loss] = {}
        for name in term_names(config):
            kind = LOSSES[name]
            with nullcontext() if is_ours(kind) else ExternalCall(f"the loss '{name}'"):
                term = kind(config, policy)
            if not hasattr(term, "weight"):
                raise UsageError(f"the loss '{name}' was not made whole; call super().__init__(config, policy) in it")
            self.add_module(f"{name}_loss", term.to(device))
            fixed = weight_of(name, config)
            # A recorded graph would keep a number as it was.
            term.weight = torch.tensor(fixed, device=device) if name in config.final_losses else fixed
            self.terms[name] = term
        # The names of what `forward` gives.
        self.parts = ("total", *self.terms)
        # Whether a batch was learned; in the first, external terms must not be detached.
        self.learned = False
        self.external = frozenset(name for name, term in self.terms.items() if not is_ours(type(term)))
        self.reads = frozenset(what for term in self.terms.values() for what in term.reads)
        for name, term in self.terms.items():
            for what in term.reads:
                if what not in READABLE:
                    raise UnknownNameError(f"part of a decision that the loss '{name}' could read,", what, READABLE)
        self.needs_rollout = any(term.needs_rollout for term in self.terms.values())
        readers = " and ".join(name for name, term in self.terms.items() if term.needs_returns)
        self.needs_returns = bool(readers)
        values = (term.value for term in self.terms.values() if isinstance(term, Value))
        # That of the value term, where some term reads values.
        self.critic: Callable[[Tensor], Tensor] | None = next(values, None) if readers else None
        if readers and self.critic is None:
            left_out = setting("training.losses", "value=0")
            problem = f"{left_out} leaves out the critic, whose values are read by {readers}"
            raise UsageError(f"{problem}; keep it, or leave out {readers} too")

    def begin_update(self, iteration: int) -> None:
        """Set the weights that change over the training to those of an update."""
        done = min(1.0, iteration / max(1, self.config.iterations - 1))
        for name, term in self.terms.items():
            if isinstance(term.weight, Tensor):
                term.weight.fill_((1 - done) * weight_of(name, self.config) + done * self.config.final_losses[name])

    def unclipped(self) -> list[nn.Parameter]:
        """The parameters whose gradients may be of any size."""
        return [weight for term in self.terms.values() if not term.clipped for weight in term.own_parameters()]

    def forward(self, rollout: Rollout | None, batch: Batch) -> Tensor:
        """[part] the total, which carries the gradient, and the terms as they enter it.

        Sums are divided by the mean counts of all ranks, so that the mean of their objectives is that of the whole
        batch.
        """
        if rollout is not None and self.needs_returns:
            assert rollout.value is not None
            assert rollout.last_value is not None
            reward, discount = self.reward(rollout, batch).to(rollout.value.dtype), self.config.objective.discount
            returns = discounted_returns(reward, rollout.live, rollout.last_value, rollout.ended, discount)
            rollout = replace(rollout, reward=reward, returns=returns)
        totals, parts, counts = dict[str, Tensor](), list[Tensor](), dict[int, tuple[Tensor, Tensor]]()
        for name, term in self.terms.items():
            part = self._part(name, term, rollout, batch, counts)
            group = term.group or name
            if part is not None and group in totals:
                totals[group] = totals[group] - part if term.rewarded else totals[group] + part
            elif part is not None:
                totals[group] = -part if term.rewarded else part
            parts.append(batch.goal.new_zeros((), dtype=torch.float32) if part is None else part.detach())
        if not totals:
            problem = f"the losses {', '.join(self.terms)} find nothing to learn in updates from {batch.task}"
            raise UsageError(f"{problem}; add one that does: {setting('training.losses')}")
        self.learned, total = True, reduce(add, totals.values())
        return torch.stack([total, *(part.to(total.dtype) for part in parts)])

    def _part(
        self, name: str, term: Loss, rollout: Rollout | None, batch: Batch, counts: dict[int, tuple[Tensor, Tensor]]
    ) -> Tensor | None:
        """One term, weighted: the sum over the steps that count, divided by their number."""
        external = name in self.external
        with ExternalCall(f"the loss '{name}'", rollout or (), batch) if external else nullcontext():
            each: Tensor | None = _evaluated(term, rollout, batch)
        if each is None:
            return None
        if external:
            if problem := fault_in(each, None if rollout is None else rollout.slot.shape, or_number=True):
                raise UsageError(f"the loss '{name}' {problem}")
            if not (self.learned or each.requires_grad) and torch.is_grad_enabled() and bool(each.any()):
                problem = f"the loss '{name}' is detached from what is trained, so that nothing is learned from it"
                raise UsageError(f"{problem}; compute it of what the policy gives, without .detach() and no_grad()")
        if each.dim() == 0 or rollout is None:
            return _weighted(term, each)
        steps, count = term.counted(rollout)
        total = _weighted(term, (each * steps).sum())
        if isinstance(count, Tensor):
            # The count is kept beside its mean, so that no other tensor gets its id.
            if id(count) not in counts:
                counts[id(count)] = count, self.ranks.sum(count).clamp(min=1) / self.ranks.count
            count = counts[id(count)][1]
        return total / count


def require_weights(losses: Mapping[str, float], final: Mapping[str, float]) -> None:
    """Refuse weights out of range, weights of 0 that add nothing, and final weights of losses that are not there."""
    for place, weights in (("training.losses", losses), ("training.final_losses", final)):
        for name, weight in weights.items():
            if not 0 <= weight <= LARGEST_WEIGHT:
                problem = f"{setting(place, f'{name}={weight}')} is no weight"
                raise UsageError(f"{problem}; choose 0 to {LARGEST_WEIGHT:,.0f}")
            if place == "training.losses" and not weight and not final.get(name) and name not in PAPER_TERMS:
                near = near_names(name, PAPER_TERMS)
                remedy = f"did you mean {near[0]}?" if near else "leave it out"
                raise UsageError(f"{setting(place, f'{name}={weight}')} adds nothing; {remedy}")
    if all(losses.get(name) == 0 and not final.get(name) for name in PAPER_TERMS) and not any(losses.values()):
        raise UsageError(f"{setting('training.losses')} leaves out every loss, so that nothing is learned; keep one")
    for name in final:
        if name not in PAPER_TERMS and name not in losses:
            problem = f"{setting('training.final_losses', name)} has no weight to begin with"
            raise UsageError(f"{problem}; add it to {setting('training.losses')}")


def term_names(config: "TrainConfig") -> tuple[str, ...]:
    """The loss terms of a training: the paper's, but for those whose weight is and stays 0, then the others."""
    paper = [name for name in PAPER_TERMS if config.losses.get(name) != 0 or config.final_losses.get(name)]
    return (*paper, *(name for name in config.losses if name not in PAPER_TERMS))


def weight_of(name: str, config: "TrainConfig") -> float:
    """The weight of a term: what `losses` says, else `objective`."""
    return config.losses[name] if name in config.losses else float(getattr(config.objective, name, 1.0))


def _evaluated(term: Loss, rollout: Rollout | None, batch: Batch) -> Any:
    """Evaluate a term; one that knows nothing of `fast` is called under autocast to the pass's precision."""
    shared = fast.current()
    if term.uses_fast or shared is None or shared.dtype is None:
        return term(rollout, batch)
    with torch.autocast(batch.goal.device.type, shared.dtype, cache_enabled=False):
        each = term(rollout, batch)
    return at_least_float32(each) if isinstance(each, Tensor) and each.is_floating_point() else each


def _weighted(term: Loss, total: Tensor) -> Tensor:
    """A total times the weight of its term, unless the term applies it or it is 1, which needs no operator."""
    weight = term.weight
    if term.applies_weight or (not isinstance(weight, Tensor) and weight == 1.0):
        return total
    return weight * total
