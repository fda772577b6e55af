"""How fast a navigator walks a split: episodes and steps a second, against the plain way where asked for.

The weights are random, the features are noise, and nobody stops before the limit: speed does not depend on what is
learned, and every walk is equally long.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from vlnbert.benchmarks.measuring import Timing, race
from vlnbert.benchmarks.plain.agents import walk_plainly
from vlnbert.benchmarks.plain.observations import PlainObserver
from vlnbert.benchmarks.workloads import NeverStops, random_environment, random_features
from vlnbert.evaluation.evaluate import Evaluation, evaluate_agent
from vlnbert.evaluation.metrics import score_walks
from vlnbert.navigator import Navigator, NavigatorConfig, fast
from vlnbert.rollout.episodes import MAX_STEPS
from vlnbert.rollout.greedy import GreedyAgent
from vlnbert.tasks.splits import Split
from vlnbert.world import FeatureBank, World


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
