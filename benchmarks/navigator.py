"""Measure what keeping the language's keys and values gives: in 15 steps alone, and in a greedy episode of 15.

Each is timed with keys and values kept from reading the instruction, and projected anew at every step. The weights are
random and the features are noise: speed does not depend on them.
"""

from argparse import ArgumentParser
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.measuring import Timing, race
from benchmarks.options import MOST, Found, add_machine, add_sizes, use_machine
from benchmarks.workloads import opened_world
from vlnbert.benchmarking import NeverStops, random_features
from vlnbert.environment.environment import Environment
from vlnbert.navigator import Instruction, Navigator, NavigatorConfig, named_size
from vlnbert.runtime import require_within
from vlnbert.tables import Table
from vlnbert.world.world import World

STEPS = 15  # of an episode, as in the paper


def add_options(parser: ArgumentParser) -> None:
    add_sizes(parser, tokens=80)
    add_machine(parser, rounds=7)


def measure(
    size: str, backbone: str | None, agents: int, tokens: int, rounds: int, threads: int | None, device: str
) -> Found:
    """Time both ways for one backbone or both."""
    require_within(agents=(agents, 1, MOST), tokens=(tokens, 3, 512))
    use_machine(device, threads, rounds)
    names = ["one-stream", "two-stream"] if backbone is None else [backbone]
    configs = {name: named_size(size, name) for name in names}
    with opened_world(None) as (_, world, _):
        speedups = {
            name: compare_caching(world.to(device), config, agents=agents, tokens=tokens, rounds=rounds)
            for name, config in configs.items()
        }
    rows = [
        (
            f"{name}, {each.work}",
            f"{1000 * each.kept.median:,.1f}",
            f"{1000 * each.anew.median:,.1f}",
            f"{each.ratio:.2f}",
            f"{each.kept.spread:.0%}",
        )
        for name, found in speedups.items()
        for each in found
    ]
    title = f"{size}, {agents} agents, {tokens} tokens, on {device}"
    return Found(
        {name: {each.work: _as_json(each) for each in found} for name, found in speedups.items()},
        Table(("", "kept, ms", "anew, ms", "times faster", "spread"), rows, title),
    )


@dataclass(frozen=True)
class CachingSpeedup:
    """The same work with kept keys and values, and with keys and values projected anew at every step."""

    work: str
    kept: Timing
    anew: Timing

    @property
    def ratio(self) -> float:
        return self.anew.median / self.kept.median


def _as_json(speedup: CachingSpeedup) -> dict[str, float]:
    kept, anew = speedup.kept, speedup.anew
    return {"kept_s": kept.median, "anew_s": anew.median, "ratio": speedup.ratio, "spread": kept.spread}


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
