"""Time the walk of a whole R2R split, 15 steps in each episode: episodes and steps a second.

Weights are random and features are noise as wide as the preset's navigator sees; the navigator never stops, so that
every walk is as long as it may be. Reading, walking and scoring are timed together, after one time that does not count.
Memory is what torch has allocated on a GPU at its peak, weights and features included.

With --plain, each time takes turns with one the plain way: that of the published code, eight episodes at once in their
order, 80 tokens to every instruction, keys and values projected at every step and a Python loop over agents for what
they see, in float32.
"""

from argparse import ArgumentParser
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.measuring import Timing, race
from benchmarks.options import MOST, RACED, Found, add_data, add_machine, add_preset, gibibytes, use_machine
from benchmarks.plain.agents import walk_plainly
from benchmarks.plain.observations import PlainObserver
from vlnbert.benchmarking import (
    NeverStops,
    first_episodes,
    folder_or_house,
    open_setup,
    random_environment,
    random_features,
)
from vlnbert.evaluation.evaluate import Evaluation, evaluate_agent
from vlnbert.evaluation.metrics import score_walks
from vlnbert.learning.presets import presets
from vlnbert.navigator import Navigator, NavigatorConfig, fast
from vlnbert.rollout.episodes import MAX_STEPS
from vlnbert.rollout.policy import GreedyAgent
from vlnbert.runtime import chosen_precision, require_within, usual_batch
from vlnbert.tables import Table
from vlnbert.tasks.splits import Split
from vlnbert.world.banks import FeatureBank
from vlnbert.world.world import World


def add_options(parser: ArgumentParser) -> None:
    add_preset(parser)
    add_data(parser)
    parser.add_argument("--split", default="val_unseen", help="whose episodes, such as val_seen (val_unseen)")
    parser.add_argument("--episodes", type=int, help="walk the first so many of them (all)")
    parser.add_argument("--batch", type=int, nargs="*", default=(), help="episodes at once, one or several sizes")
    parser.add_argument("--precision", choices=("float32", "bfloat16", "fastest"), default="float32")
    parser.add_argument("--plain", action="store_true", help="race against the plain way, over the same episodes")
    add_machine(parser, rounds=5)


def measure(
    preset: str,
    data: Path | None,
    split: str,
    episodes: int | None,
    batch: Sequence[int],
    precision: Any,
    plain: bool,
    rounds: int,
    threads: int | None,
    device: str,
) -> Found:
    """Time the walk of a split for each size of batch."""
    experiment = presets.navigator(preset)
    require_within(episodes=(MOST if episodes is None else episodes, 1, MOST))
    for rows in batch:
        require_within(batch=(rows, 1, MOST))
    use_machine(device, threads, rounds)
    with folder_or_house(data) as folder:
        setup = open_setup(folder, f"r2r/{split}", experiment.navigator, device)
    walked = first_episodes(setup.split, episodes or MOST)
    chosen = chosen_precision(precision, setup.world.device, setup.shape.hidden)
    speeds = [
        time_evaluation(
            world=setup.world,
            split=walked,
            shape=setup.shape,
            batch=rows,
            precision=chosen,
            rounds=rounds,
            plain=plain,
        )
        for rows in batch or (usual_batch(setup.world.device),)
    ]
    facts = {"preset": preset, "split": split, "episodes": len(walked.episodes), "precision": chosen, "device": device}
    names = ("rows", "seconds", "episodes/s", "steps/s", "spread", "peak GiB")
    title = f"{preset}, {len(walked.episodes):,} episodes of {walked.name}, {chosen}, on {device}"
    return Found(
        {**facts, "batches": [_as_json(speed) for speed in speeds]},
        Table((*names, *(RACED if plain else ())), [_cells(speed) for speed in speeds], title),
    )


@dataclass(frozen=True)
class EvaluationSpeed:
    """A split, so many of its episodes at once."""

    batch: int
    episodes: int
    steps: int  # that were walked in all episodes
    whole: Timing  # of the split
    plain: Timing | None  # the same the plain way, where they were raced
    peak_bytes: int | None  # allocated on the device, where it tells

    @property
    def episodes_per_second(self) -> float:
        return self.episodes / self.whole.median

    @property
    def steps_per_second(self) -> float:
        return self.steps / self.whole.median

    @property
    def times_plain(self) -> float | None:
        """How often the split is walked while the plain way walks it once."""
        return None if self.plain is None else self.plain.median / self.whole.median


def _as_json(speed: EvaluationSpeed) -> dict[str, Any]:
    return {
        "batch": speed.batch,
        "seconds": speed.whole.median,
        "episodes_per_second": speed.episodes_per_second,
        "steps_per_second": speed.steps_per_second,
        "spread": speed.whole.spread,
        "peak_bytes": speed.peak_bytes,
        "times_plain": speed.times_plain,
        "plain_spread": None if speed.plain is None else speed.plain.spread,
    }


def _cells(speed: EvaluationSpeed) -> tuple[str, ...]:
    return (
        f"{speed.batch:,}",
        f"{speed.whole.median:,.2f}",
        f"{speed.episodes_per_second:,.1f}",
        f"{speed.steps_per_second:,.0f}",
        f"{speed.whole.spread:.0%}",
        gibibytes(speed.peak_bytes),
        *(() if speed.plain is None else (f"{speed.times_plain:.2f}", f"{speed.plain.spread:.0%}")),
    )


def time_evaluation(
    world: World,
    split: Split,
    shape: NavigatorConfig,
    batch: int,
    precision: str,
    rounds: int,
    plain: bool = False,
    limit: int = MAX_STEPS,
) -> EvaluationSpeed:
    """Walk and score a split several times over, in turn with the plain way where asked for."""
    device, width = world.device, shape.feature_width
    environment = random_environment(world, width, precision)
    torch.manual_seed(0)
    navigator = NeverStops(shape).to(device).eval()

    def ours() -> Evaluation:
        episodes, tokens = split.episodes, split.tokens
        return evaluate_agent(
            environment, GreedyAgent(navigator), episodes, tokens, limit, batch, dtype=fast.dtype_of(precision)
        )

    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    walked = ours().trajectories
    peak = torch.cuda.max_memory_allocated(device) if device.type == "cuda" else None
    rivals: dict[str, Callable[[], object]] = {"ours": ours}
    if plain:
        bank = random_features(world, width)
        rivals["plain"] = _plain(world=world, bank=bank, navigator=navigator, split=split, limit=limit)
    times = race(rivals, rounds, device)
    steps = int((walked.length - 1).sum())
    return EvaluationSpeed(
        batch=batch,
        episodes=len(split.episodes),
        steps=steps,
        whole=times["ours"],
        plain=times.get("plain"),
        peak_bytes=peak,
    )


def _plain(world: World, bank: FeatureBank, navigator: Navigator, split: Split, limit: int) -> Callable[[], object]:
    observer = PlainObserver(world, bank, navigator.config.angle_width)

    def run() -> None:
        walked = walk_plainly(navigator, observer, split.episodes, split.tokens, limit=limit)
        if split.episodes.scored:  # as the other rival does
            score_walks(world, split.episodes, walked.viewpoint, walked.length)

    return run
