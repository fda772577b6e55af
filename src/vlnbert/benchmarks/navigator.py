"""What keeping the language's keys and values gives: in steps alone, and in whole episodes with the reading.

The weights are random and the features are noise: speed does not depend on them.
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.benchmarks.measuring import Timing, race
from vlnbert.benchmarks.workloads import NeverStops, random_features
from vlnbert.environment.environment import Environment
from vlnbert.navigator import Instruction, Navigator, NavigatorConfig
from vlnbert.world import World

STEPS = 15  # of an episode, as in the paper


@dataclass(frozen=True)
class CachingSpeedup:
    """The same work with kept keys and values, and with keys and values projected anew at every step."""

    work: str
    kept: Timing
    anew: Timing

    @property
    def ratio(self) -> float:
        return self.anew.median / self.kept.median


@torch.inference_mode()
def compare_caching(
    world: World, config: NavigatorConfig, agents: int = 8, tokens: int = 80, rounds: int = 7
) -> list[CachingSpeedup]:
    """Time steps alone, and greedy episodes from reading the instruction to the last step, for some agents at once."""
    torch.manual_seed(0)
    navigator = NeverStops(config).to(world.device).eval()
    environment = Environment(world, random_features(world, config.feature_width))
    words = torch.randint(5, config.vocabulary, (agents, tokens), device=world.device)
    start = torch.randint(len(world), (agents,), device=world.device)
    read = navigator.encode(words, torch.ones_like(words, dtype=torch.bool))
    seen = environment.observe(environment.reset(start, torch.zeros(agents, device=world.device)))

    def step(instruction: Instruction) -> None:
        for _ in range(STEPS):  # timed together: one alone is too short to time well
            navigator.step(instruction.state, instruction, seen)

    steps = {"kept": lambda: step(read), "anew": lambda: step(read.uncached())}
    episodes = {
        "kept": lambda: walk_greedily(navigator, environment, words, start, keep=True),
        "anew": lambda: walk_greedily(navigator, environment, words, start, keep=False),
    }
    races = {
        f"{STEPS} steps": race(steps, rounds, world.device),
        "reading and an episode": race(episodes, rounds, world.device),
    }
    return [CachingSpeedup(work, times["kept"], times["anew"]) for work, times in races.items()]


def walk_greedily(navigator: Navigator, environment: Environment, words: Tensor, start: Tensor, keep: bool) -> Tensor:
    """Read, then take the best slot at each of 15 steps."""
    instruction = navigator.encode(words, torch.ones_like(words, dtype=torch.bool))
    if not keep:
        instruction = instruction.uncached()
    state = environment.reset(start, torch.zeros(len(start), device=start.device))
    hidden = instruction.state
    for _ in range(STEPS):
        step = navigator.step(hidden, instruction, environment.observe(state))
        hidden, instruction = step.state, step.instruction
        state = environment.step(state, step.logits.argmax(dim=1))
    return state.viewpoint
