"""`vlnbert evaluate`: let an agent walk a split, and score it."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import tyro

from vlnbert.cli.devices import require_device, require_within
from vlnbert.cli.options import DataPath, Flag

if TYPE_CHECKING:
    from vlnbert.evaluation.evaluate import Evaluation
    from vlnbert.navigator import Navigator
    from vlnbert.sources.layout import DataFolder
    from vlnbert.tasks.episodes import Episodes
    from vlnbert.world import World

Evaluate = Callable[["Episodes"], "Evaluation"]


def evaluate(
    run: tyro.conf.Positional[Annotated[str | None, tyro.conf.arg(metavar="RUN")]] = None,
    *,
    data: DataPath,
    agent: Literal["random", "stop", "shortest"] | None = None,
    task: Literal["r2r", "reverie"] = "r2r",
    splits: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--split"])] = ("val_seen", "val_unseen"),
    features: Path | None = None,
    seed: int = 0,
    limit: int = 15,
    batch: int = 64,
    device: str = "cpu",
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Let a navigator or a baseline agent walk every episode of some splits, and print its scores.

    Example: vlnbert evaluate --agent random --task r2r --splits val_unseen --data data

    Example: vlnbert evaluate my-navigator --data data --features data/features/resnet.hdf5

    Args:
        run: A navigator: its folder, a hub name, or a published agent's checkpoint.
        data: Folder with connectivity/ and the task's instructions.
        agent: Instead of a navigator: random (R2R's: a random heading, then five steps forward), stop (stays where it
            starts) or shortest (knows the goal: what the graph allows).
        task: r2r or reverie. The baseline agents name no object.
        splits: The splits to walk. Test splits withhold their goals: they are walked and written, not scored.
        features: The navigator's image features; by default the only file in the data folder's features/.
        seed: Of the random agent.
        limit: Steps after which an episode ends.
        batch: Episodes that a navigator walks together.
        device: Where the tensors are, such as cpu or cuda.
        out: Folder for result files, <task>_<split>_<agent>.json, in the leaderboards' form.
        json: Print one JSON object, keyed by split, instead of a table.
    """
    from json import dumps

    from vlnbert.cli.tables import print_scores
    from vlnbert.errors import UsageError
    from vlnbert.evaluation.submission import write_results
    from vlnbert.sources.layout import open_folder
    from vlnbert.tasks.episodes import load_episodes
    from vlnbert.world.build import open_world

    require_within(limit=(limit, 1, 1000), batch=(batch, 1, 1_000_000))
    require_device(device)
    if (run is None) == (agent is None):
        raise UsageError("name a navigator or an --agent, and not both; for example --agent random")
    if not splits:
        raise UsageError("no split to walk; for example --splits val_unseen")
    folder = open_folder(data)
    world = open_world(folder, device=device)
    # All splits are read before any is walked, so that a fault in the last leaves no result file of the first.
    chosen = {split: load_episodes(folder, world, task, split).to(device) for split in splits}
    if agent == "shortest":
        _require_goals(chosen)
    walker = (
        _baseline(world, agent, seed, limit) if agent else _navigator(folder, world, str(run), features, limit, batch)
    )
    name, summaries = agent or Path(str(run)).stem, {}
    for split, episodes in chosen.items():
        result = walker(episodes)
        if out is not None:
            target = out / f"{task}_{split}_{name}.json"
            write_results(target, episodes, world, result.walk.viewpoint, result.walk.length, result.walk.view)
            print(f"wrote {target}", file=sys.stderr)
        if result.scores is not None:
            summaries[split] = result.scores.summary()
    if json:
        print(dumps(summaries))
    elif summaries:
        print_scores(f"{name} on {task}", summaries)


def _baseline(world: "World", name: str, seed: int, limit: int) -> Evaluate:
    from vlnbert.environment.environment import Environment
    from vlnbert.evaluation.evaluate import evaluate_agent
    from vlnbert.rollout.baselines import baseline

    environment = Environment(world)
    return lambda episodes: evaluate_agent(environment, baseline(name, world, seed), episodes, limit)


def _require_goals(splits: dict[str, "Episodes"]) -> None:
    from vlnbert.errors import UsageError

    for split, episodes in splits.items():
        if not episodes.scored:
            raise UsageError(f"{split} withholds its goals, so nobody knows the shortest path; leave it out")


def _navigator(
    folder: "DataFolder", world: "World", source: str, features: Path | None, limit: int, batch: int
) -> Evaluate:
    from vlnbert.environment.environment import Environment
    from vlnbert.evaluation.evaluate import evaluate_navigator
    from vlnbert.tasks.tokens import load_tokenizer, tokenise
    from vlnbert.weights.importing import open_navigator
    from vlnbert.world import open_features

    navigator = open_navigator(source).to(world.device)
    tokenizer = navigator.tokenizer or load_tokenizer(folder.vocabulary)
    _check_fit(navigator, source, max(tokenizer.get_vocab().values()) + 1)
    bank = open_features(world, features or _only_features(folder), navigator.config.feature_width)
    environment = Environment(world, bank)

    def walk(episodes: "Episodes") -> "Evaluation":
        tokens = tokenise(episodes, tokenizer, folder.split(episodes.task, episodes.split)).to(world.device)
        return evaluate_navigator(environment, navigator, episodes, tokens, limit, batch)

    return walk


def _check_fit(navigator: "Navigator", source: str, pieces: int) -> None:
    from vlnbert.errors import UsageError

    if pieces > navigator.config.vocabulary:
        problem = f"{source} knows {navigator.config.vocabulary:,} word pieces, the vocabulary has {pieces:,}"
        raise UsageError(f"{problem}; keep its own with it: vlnbert weights import --vocabulary FILE")
    if navigator.objects is not None:
        raise UsageError(f"{source} looks for objects, which the environment does not show yet; choose one without")


def _only_features(folder: "DataFolder") -> Path:
    from vlnbert.errors import DataError

    files = folder.feature_files()
    if len(files) != 1:
        found = f"holds {len(files)} feature files" if files else "holds no feature file"
        raise DataError(folder.features, found, "name one with --features FILE")
    return files[0]
