"""Optimisers and schedules by name, learning rates for parts of the network, optimiser state by parameter name, and the
moving average of the weights."""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from vlnbert.errors import UnknownNameError, UsageError, listed, setting
from vlnbert.external import ExternalCall, guarded, is_ours
from vlnbert.learning.experiment import TrainingSettings
from vlnbert.registry import Registry, by_name

Thing = TypeVar("Thing", bound=Callable[..., Any])

OPTIMISERS: Registry[Callable[..., Optimizer]] = Registry("optimizer")
SCHEDULES: Registry[Callable[[int, Any], float]] = Registry("schedule")
STATE = "optimiser."  # before the names of what a checkpoint keeps of it


def register_optimizer(name: str) -> Callable[[Thing], Thing]:
    """Decorate an optimiser's class, or a function that makes one, to give it a name.

    It is called with `(params, lr=..., weight_decay=..., **settings)`, as those of `torch.optim` are: `params` are
    groups, and settings those of `training.optimizer_settings`. One that takes `capturable` can be recorded in a CUDA
    graph; updates with any other run eagerly.

    Args:
        name: What the training's setting `optimizer` calls it.
    """
    return by_name(OPTIMISERS, name)


def register_schedule(name: str) -> Callable[[Thing], Thing]:
    """Decorate a function `(iteration, config) -> factor` of the learning rate, to give it a name.

    It is a pure function of the update's number and of the training's settings, so that nothing of it is saved.

    Args:
        name: What the training's setting `schedule` calls it.
    """
    return by_name(SCHEDULES, name)


@register_optimizer("adamw")
def adamw(params: Any, lr: Any, weight_decay: float, capturable: bool = False, **settings: Any) -> Optimizer:
    """AdamW in one fused kernel."""
    return torch.optim.AdamW(params, lr=lr, weight_decay=weight_decay, fused=True, capturable=capturable, **settings)


@register_schedule("constant")
def constant(iteration: int, config: TrainingSettings) -> float:
    """The same learning rate in every update, as in the paper."""
    return 1.0


@register_schedule("cosine")
def cosine(iteration: int, config: TrainingSettings) -> float:
    """A cosine down to a hundredth."""
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (iteration / config.iterations)))


class LearningRate:
    """The learning rate of each update of a training: it rises over the warm-up and follows the schedule."""

    def __init__(self, config: TrainingSettings) -> None:
        schedule = SCHEDULES[config.schedule]
        self.config, self.name = config, f"the schedule '{config.schedule}'"
        self.schedule = schedule if is_ours(schedule) else guarded(self.name, schedule)

    def at(self, iteration: int) -> float:
        """That of an update, from 0."""
        factor: Any = self.schedule(iteration, self.config)
        if not isinstance(factor, int | float) or not 0 <= factor < math.inf:
            problem = f"{self.name} gave {factor!r:.60} for update {iteration}"
            raise UsageError(f"{problem}; give a factor of the learning rate, 0 or more")
        risen = min(1.0, (iteration + 1) / self.config.warmup) if self.config.warmup else 1.0
        return self.config.learning_rate * risen * factor


def make_optimiser(
    config: TrainingSettings, named: Mapping[str, nn.Parameter], device: torch.device
) -> tuple[Optimizer, tuple[str, ...]]:
    """The optimiser of some parameters by their names, and those names in the order in which it numbers them.

    Parameters of a part that has a learning rate of its own make a group, those of the first part that fits.
    """
    groups: dict[str, dict[str, nn.Parameter]] = {"": {}, **{part: {} for part in config.parts}}
    for name, parameter in named.items():
        part = next((part for part in config.parts if belongs(name, part)), "")
        groups[part][name] = parameter
    for part in config.parts:
        if not groups[part]:
            parts = sorted({name.partition(".")[0] for name in named})
            raise UsageError(f"{setting('training.parts')}: {UnknownNameError('part of the network', part, parts)}")
    params = [
        {"params": list(members.values()), "factor": config.parts.get(part, 1.0)}
        for part, members in groups.items()
        if members
    ]
    make = OPTIMISERS[config.optimizer]
    settings, rate = dict(config.optimizer_settings), cast("Any", config.learning_rate)
    if can_be_captured(config.optimizer):
        settings["capturable"] = on_gpu = device.type == "cuda"
        rate = torch.tensor(rate, device=device) if on_gpu else rate
    try:
        with nullcontext() if is_ours(make) else ExternalCall(f"the optimizer '{config.optimizer}'"):
            optimiser = make(params, lr=rate, weight_decay=config.weight_decay, **settings)
    except (TypeError, ValueError) as error:
        problem = f"the optimizer {config.optimizer} cannot be made ({str(error).splitlines()[0]:.200})"
        raise UsageError(f"{problem}; see {setting('training.optimizer_settings')}") from None
    if not isinstance(optimiser, Optimizer):
        raise UsageError(f"the optimizer {config.optimizer} gave a {type(optimiser).__name__}, not a torch Optimizer")
    if not is_ours(make):
        optimiser.step = guarded(f"the optimizer '{config.optimizer}'", optimiser.step)  # type: ignore[assignment,method-assign]
    names = {parameter: name for name, parameter in named.items()}
    taken = [names.pop(weight, None) for group in optimiser.param_groups for weight in group["params"]]
    if names or None in taken:
        wrong = f"leaves out {listed(list(names.values()), 3)}" if names else "has parameters that it was not given"
        raise UsageError(f"the optimizer {config.optimizer} {wrong}; give it the params that it is called with")
    return optimiser, tuple(str(name) for name in taken)


def belongs(name: str, part: str) -> bool:
    """Whether a parameter is of a part of the network: backbone.embeddings.words.weight is of backbone."""
    return name == part or name.startswith(f"{part}.")


def can_be_captured(name: str) -> bool:
    """Whether an optimiser's step can be recorded in a CUDA graph."""
    try:
        return "capturable" in inspect.signature(OPTIMISERS[name]).parameters
    except ValueError:
        # Classes written in C have no signature.
        return False


def set_learning_rate(optimiser: Optimizer, rate: float) -> None:
    """The rate of the next update, where a recorded graph reads it too."""
    for group in optimiser.param_groups:
        own = rate * group.get("factor", 1.0)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(own)
        else:
            group["lr"] = own


def require_saveable(optimiser: Optimizer, name: str) -> None:
    """Refuse an optimiser that keeps what a checkpoint cannot hold."""
    for kept in optimiser.state_dict()["state"].values():
        for what, value in kept.items() if isinstance(kept, dict) else [("its state", kept)]:
            if not isinstance(value, Tensor | int | float | None):
                problem = f"the optimizer {name} keeps a {type(value).__name__} ({what}), which no checkpoint can hold"
                raise UsageError(f"{problem}; let it keep tensors and numbers of each parameter")


def optimiser_tensors(optimiser: Optimizer, names: Sequence[str]) -> dict[str, Tensor]:
    """The state of an optimiser, by the names of its parameters and of what it keeps of each."""
    state: dict[int, dict[str, Any]] = optimiser.state_dict()["state"]
    return {
        f"{STATE}{names[number]}.{what}": torch.as_tensor(value).contiguous()
        for number, kept in state.items()
        for what, value in kept.items()
        if value is not None
    }


def read_state(tensors: Mapping[str, Tensor], names: Sequence[str]) -> dict[int, dict[str, Tensor]]:
    """The state of an optimiser by its numbers of parameters; older checkpoints have numbers for names.

    A KeyError for state of no parameter, a ValueError for state that is there by a name and by a number.
    """
    numbers = {name: number for number, name in enumerate(names)}
    state: dict[int, dict[str, Tensor]] = {}
    for key, value in tensors.items():
        if not key.startswith(STATE):
            raise KeyError(key)
        name, _, what = key.removeprefix(STATE).rpartition(".")
        kept = state.setdefault(int(name) if name.isdigit() and int(name) < len(names) else numbers[name], {})
        if what in kept:
            raise ValueError(f"{key} is there twice")
        kept[what] = value
    return state


def check_state(optimiser: Optimizer, state: Mapping[int, Mapping[str, Tensor]], begun: bool) -> None:
    """State must be that of the weights: an optimiser trusts its shapes, and would write beyond their ends."""
    if begun and not state:
        raise ValueError("no state")
    weights = [weight for group in optimiser.param_groups for weight in group["params"]]
    for number, kept in state.items() if isinstance(optimiser, torch.optim.AdamW) else ():
        shape = weights[number].shape
        expected = {"step": torch.Size(), "exp_avg": shape, "exp_avg_sq": shape}
        floating = all(tensor.is_floating_point() for tensor in kept.values())
        if {name: tensor.shape for name, tensor in kept.items()} != expected or not floating:
            raise ValueError("moments of other weights")


def restore_state(optimiser: Optimizer, state: Mapping[int, Mapping[str, Tensor]]) -> None:
    """Go on with this state."""
    optimiser.load_state_dict({"state": dict(state), "param_groups": optimiser.state_dict()["param_groups"]})


class AveragedWeights:
    """The average of a module's parameters, kept beside them. With a decay of 0 there is none, and nothing to do.

    How fast it forgets follows from the number of the update, so that weights and average are all there is to save. It
    moves after an update, be that replayed or not: a recorded graph knows nothing of it.
    """

    def __init__(self, module: nn.Module, decay: float) -> None:
        self.decay = decay
        self.weights: dict[str, Tensor] = dict(module.named_parameters()) if decay else {}
        self.average = {name: weight.detach().clone() for name, weight in self.weights.items()}

    @torch.no_grad()
    def update(self, iteration: int) -> None:
        """Move the average towards the weights that an update left. Nothing waits for the device."""
        if self.average:
            # The decay rises from 0.1: an average over few updates would hold on to the first.
            share = 1 - min(self.decay, (1 + iteration) / (10 + iteration))
            torch._foreach_lerp_(list(self.average.values()), list(self.weights.values()), share)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """Within the block the module has the averaged weights, in the same memory, as recorded graphs need it."""
        kept = {name: weight.detach().clone() for name, weight in self.weights.items()}
        _copy(self.average, self.weights)
        try:
            yield
        finally:
            _copy(kept, self.weights)

    def restore(self, weights: Mapping[str, Tensor]) -> None:
        """Take the module's weights as the average, and these as the weights that go on learning."""
        _copy(self.weights, self.average)
        _copy(weights, self.weights)


@torch.no_grad()
def _copy(source: Mapping[str, Tensor], target: Mapping[str, Tensor]) -> None:
    for name, tensor in target.items():
        tensor.copy_(source[name])
