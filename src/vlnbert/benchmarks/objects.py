"""What REVERIE's objects cost: time and memory of a step with them and without, trimmed and padded.

The weights are random and the features are noise: the cost does not depend on them. How many objects there are does
matter, so agents stand at random viewpoints of real boxes.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vlnbert.benchmarks.measuring import Timing, peak_memory, race
from vlnbert.benchmarks.workloads import random_features
from vlnbert.environment.environment import Environment, State
from vlnbert.navigator import Instruction, Language, Navigator, NavigatorConfig, Step
from vlnbert.world import ObjectBank, ObjectTable, World
from vlnbert.world.world import VIEWS

BATCHES = 4  # of agents, timed together: how wide a trimmed one is depends on who stands where
WITHOUT, TRIMMED, PADDED = "without", "trimmed", "padded"


@dataclass(frozen=True)
class StepCost:
    """What some work costs, a step of it for each of the batches."""

    timing: Timing  # of all the batches together
    memory: tuple[int, ...]  # [batch] bytes at the peak of its step, beyond what was there before

    @property
    def seconds(self) -> float:
        """The median of a step."""
        return self.timing.median / len(self.memory)

    @property
    def peak(self) -> float:
        """Mean over the batches, in bytes."""
        return statistics.mean(self.memory)


@dataclass(frozen=True)
class ObjectsCost:
    """One way to see objects: what an agent's step costs, and what it costs to learn from one."""

    sees: str
    tokens: float  # visual ones, padding among them; mean over the batches
    step: StepCost
    training: StepCost


def compare_objects(
    world: World, objects: ObjectTable, config: NavigatorConfig, agents: int = 8, tokens: int = 50, rounds: int = 7
) -> list[ObjectsCost]:
    """Race steps without objects against steps that see them, for some agents at once; then training steps."""
    torch.manual_seed(0)
    navigator = Navigator(config).to(world.device)
    words = torch.randint(5, config.vocabulary, (agents, tokens), device=world.device)
    with torch.no_grad():
        read = navigator.eval().encode(words, torch.ones_like(words, dtype=torch.bool))
    instruction = as_leaves(read)
    batches = random_states(world, agents)
    ways = object_environments(world, objects, config)
    navigator.eval()
    steps = _measure(ways, batches, rounds, lambda way, state: inference_step(navigator, instruction, way, state))
    navigator.train()
    trainings = _measure(ways, batches, rounds, lambda way, state: training_step(navigator, instruction, way, state))
    return [ObjectsCost(name, _tokens(ways[name], batches), steps[name], trainings[name]) for name in ways]


def object_environments(world: World, objects: ObjectTable, config: NavigatorConfig) -> dict[str, Environment]:
    """The same world without objects, with as many as the batch needs, and with as many as any viewpoint needs.

    A bank trims on the CPU alone: elsewhere there is no second way. Objects of one name have one feature.
    """
    vectors = torch.randn(len(objects.names), config.object_width, device=world.device)
    bank = ObjectBank.from_codebook(objects, vectors, objects.name)
    views = random_features(world, config.feature_width)
    seen = {WITHOUT: None, TRIMMED: bank, PADDED: replace(bank, fixed=True)}
    if world.device.type != "cpu":
        del seen[TRIMMED]
    return {name: Environment(world, views, each) for name, each in seen.items()}


def random_states(world: World, agents: int) -> list[State]:
    """Batches of agents, each at any viewpoint and facing any view, the same ones in every run."""
    generator = torch.Generator().manual_seed(0)
    places = torch.randint(len(world), (BATCHES, agents), generator=generator).to(world.device)
    views = torch.randint(VIEWS, (BATCHES, agents), generator=generator).to(world.device)
    walking = torch.zeros(agents, dtype=torch.bool, device=world.device)
    return [State(place, view, walking) for place, view in zip(places, views, strict=True)]


def as_leaves(instruction: Instruction) -> Instruction:
    """The same instruction where gradients end: as far as a step has to pass them on."""

    def leaf(tensor: Tensor) -> Tensor:
        return tensor.detach().requires_grad_()

    language = instruction.language
    cache = None if language.kv_cache is None else tuple(leaf(kv) for kv in language.kv_cache)
    return Instruction(leaf(instruction.state), Language(leaf(language.features), language.mask, cache))


@torch.inference_mode()
def inference_step(navigator: Navigator, instruction: Instruction, environment: Environment, state: State) -> Tensor:
    """[agent] the best choice now."""
    return _step(navigator, instruction, environment, state).logits.argmax(dim=1)


def training_step(navigator: Navigator, instruction: Instruction, environment: Environment, state: State) -> None:
    """Step, and pass gradients back from every choice and from the state that the next step would use.

    They add up in those that are there, as when several batches make an update.
    """
    step = _step(navigator, instruction, environment, state)
    choices = step.logits.masked_fill(~step.logits.isfinite(), 0)
    (choices.sum() + step.state.sum()).backward()  # type: ignore[no-untyped-call]


def _step(navigator: Navigator, instruction: Instruction, environment: Environment, state: State) -> Step:
    return navigator.step(instruction.state, instruction, environment.observe(state))


def _measure(
    ways: dict[str, Environment], batches: list[State], rounds: int, work: Callable[[Environment, State], object]
) -> dict[str, StepCost]:
    """Time all ways in turn, then look at the memory of each batch; by then every gradient has its place."""

    def all_batches(way: Environment) -> Callable[[], None]:
        def run() -> None:
            for state in batches:
                work(way, state)

        return run

    device = batches[0].viewpoint.device
    times = race({name: all_batches(way) for name, way in ways.items()}, rounds, device)
    return {
        name: StepCost(times[name], tuple(_peak(work, way, state, device) for state in batches))
        for name, way in ways.items()
    }


def _peak(work: Callable[[Environment, State], object], way: Environment, state: State, device: torch.device) -> int:
    return peak_memory(lambda: work(way, state), device)


def _tokens(way: Environment, batches: list[State]) -> float:
    """Visual tokens of a step: slots, and where there are objects, these and "no object" instead of the stop slot."""
    seen = [way.observe(state) for state in batches]
    widths = [
        each.choosable.shape[1] + (0 if each.visible_objects is None else each.visible_objects.present.shape[1])
        for each in seen
    ]
    return statistics.mean(widths)
