"""Agents that `vlnbert evaluate` can send through a split: baselines, runs and navigators from anywhere."""

import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from vlnbert.cli.devices import Precision, chosen_precision
from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError
from vlnbert.evaluation.evaluate import Evaluation, evaluate_agent, evaluate_navigator
from vlnbert.learning.checkpoints import BEST, best_weights, is_run
from vlnbert.learning.experiment import OFF
from vlnbert.learning.runs import read_run
from vlnbert.learning.setting import Looks, open_setting
from vlnbert.navigator import Navigator, fast
from vlnbert.rollout.baselines import baseline
from vlnbert.rollout.walk import LIMIT
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.splits import task_and_split
from vlnbert.tasks.tokens import LIMITS, load_tokenizer, piece_count, tokenise
from vlnbert.weights.importing import open_navigator
from vlnbert.world import World

Walker = Callable[[Episodes], Evaluation]


@dataclass(frozen=True)
class Recipe:
    """What is known of how a navigator is to walk."""

    source: str = ""  # of its weights
    task: str = "r2r"
    looks: Looks = field(default_factory=lambda: Looks(objects=None))
    limit: int = LIMIT
    tokens: int | None = None
    precision: Precision = "float32"


def recipe_of(source: str | None) -> Recipe:
    """What a run's folder tells, or nothing but the name of the weights."""
    if source is None or not is_run(Path(source)):
        return Recipe(source or "")
    experiment = read_run(Path(source)).experiment
    task, _ = task_and_split(experiment.best_on)
    weights, limit = best_weights(Path(source)), experiment.training.limit
    if weights.name != BEST:
        print(f"{source}: nothing was validated yet; walking with the last checkpoint", file=sys.stderr)
    return Recipe(str(weights), task, Looks.of(experiment), limit, experiment.tokens)


def baseline_walker(world: World, name: str, seed: int, limit: int) -> Walker:
    environment = Environment(world)
    return lambda episodes: evaluate_agent(environment, baseline(name, world, seed), episodes, limit)


def navigator_walker(folder: DataFolder, world: World, recipe: Recipe, batch: int) -> Walker:
    navigator = open_navigator(recipe.source).to(world.device)
    sees = recipe.task == "reverie" and navigator.object_embedding is not None
    looks = recipe.looks if sees else replace(recipe.looks, objects=OFF)
    tokenizer = navigator.tokenizer or load_tokenizer(folder.vocabulary)
    _check_fit(navigator, recipe.source, piece_count(tokenizer))
    setting = open_setting(folder, world, looks, navigator.config.feature_width, navigator.config.object_width or None)

    precision = chosen_precision(recipe.precision, world.device, navigator.config.hidden)

    def walk(episodes: Episodes) -> Evaluation:
        instructions = folder.split(episodes.task, episodes.split)
        limit = recipe.tokens or LIMITS[episodes.task]
        tokens = tokenise(episodes, tokenizer, instructions, limit).to(world.device)
        given = (setting.environment, navigator, episodes, tokens, recipe.limit, batch)
        return evaluate_navigator(*given, precision=fast.dtype_of(precision))

    return walk


def require_all_goals(splits: dict[str, Episodes]) -> None:
    """Who knows the shortest path must know the goals."""
    for split, episodes in splits.items():
        if not episodes.scored:
            raise UsageError(f"{split} withholds its goals, so nobody knows the shortest path; leave it out")


def _check_fit(navigator: Navigator, source: str, pieces: int) -> None:
    if pieces > navigator.config.vocabulary:
        problem = f"{source} knows {navigator.config.vocabulary:,} word pieces, the vocabulary has {pieces:,}"
        raise UsageError(f"{problem}; keep its own with it: vlnbert weights import --vocabulary FILE")
