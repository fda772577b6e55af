"""`vlnbert evaluate`: let an agent walk a split, and score it."""

import sys
from pathlib import Path
from typing import Annotated, Literal

import tyro

from vlnbert.cli.devices import Precision, require_device, require_within, usual_batch
from vlnbert.cli.options import DataPath, Flag


def evaluate(
    run: tyro.conf.Positional[Annotated[str | None, tyro.conf.arg(metavar="RUN")]] = None,
    *,
    data: DataPath,
    agent: Literal["random", "stop", "shortest"] | None = None,
    task: Literal["r2r", "reverie"] | None = None,
    splits: Annotated[tuple[str, ...], tyro.conf.arg(aliases=["--split"])] = ("val_seen", "val_unseen"),
    features: str | None = None,
    objects: str | None = None,
    encoder: str | None = None,
    seed: int = 0,
    limit: int | None = None,
    batch: int | None = None,
    precision: Precision = "float32",
    device: str = "cpu",
    out: Path | None = None,
    json: Flag = False,
) -> None:
    """Let a navigator or a baseline agent walk every episode of some splits, and print its scores.

    Example: vlnbert evaluate --agent random --task r2r --splits val_unseen --data data

    Example: vlnbert evaluate runs/r2r-open --data data --splits val_unseen

    Example: vlnbert evaluate my-navigator --data data --features data/features/resnet.hdf5

    Args:
        run: A run's folder, whose best weights walk; or any navigator: its folder, a hub name, or a published agent's
            checkpoint.
        data: Folder with connectivity/ and the task's instructions.
        agent: Instead of a navigator: random (R2R's: a random heading, then five steps forward), stop (stays where it
            starts) or shortest (knows the goal: what the graph allows).
        task: r2r or reverie; by default what a run was trained for, else r2r. The baseline agents name no object.
        splits: The splits to walk. Test splits withhold their goals: they are walked and written, not scored.
        features: What the navigator sees: an image feature file, or the word captions. By default what a run was
            trained with, else the only file in the data folder's features/.
        objects: What it sees of REVERIE's objects: a feature file, or the word names for names and captions. By default
            what a run was trained with, else the only such file in features/.
        encoder: The BERT that turns captions and names into features; by default a run's own, else MiniLM.
        seed: Of the random agent.
        limit: Steps after which an episode ends; by default as in a run's training, else 15.
        batch: Episodes that a navigator walks together; by default 64 on a CPU, 1024 on a GPU.
        precision: Of a navigator's tokens; fastest is what multiplies faster on this device. In bfloat16 scores differ
            by rounding.
        device: Where the tensors are, such as cpu or cuda.
        out: Folder for result files, <task>_<split>_<agent>.json, in the leaderboards' form.
        json: Print one JSON object, keyed by split, instead of a table.
    """
    from dataclasses import replace
    from json import dumps

    from vlnbert.cli.tables import print_scores
    from vlnbert.cli.walkers import baseline_walker, navigator_walker, recipe_of, require_all_goals
    from vlnbert.errors import UsageError
    from vlnbert.evaluation.submission import write_results
    from vlnbert.sources.layout import open_folder
    from vlnbert.tasks.episodes import load_episodes
    from vlnbert.world import open_objects, open_world

    require_within(limit=(1 if limit is None else limit, 1, 1000), batch=(1 if batch is None else batch, 1, 1_000_000))
    require_device(device)
    if (run is None) == (agent is None):
        raise UsageError("name a navigator or an --agent, and not both; for example --agent random")
    if not splits:
        raise UsageError("no split to walk; for example --splits val_unseen")
    folder, known = open_folder(data), recipe_of(run)
    asked, limit = task or known.task, limit or known.limit
    world = open_world(folder, device=device)
    boxed = open_objects(world, folder.boxes) if asked == "reverie" else None
    # All splits are read before any is walked, so that a fault in the last leaves no result file of the first.
    chosen = {split: load_episodes(folder, world, asked, split, boxed).to(device) for split in splits}
    if agent == "shortest":
        require_all_goals(chosen)
    if agent:
        walker = baseline_walker(world, agent, seed, limit)
    else:
        seen = known.looks
        looks = replace(
            seen,
            features=features or seen.features,
            objects=objects or seen.objects,
            encoder=encoder or seen.encoder,
        )
        recipe = replace(known, task=asked, looks=looks, limit=limit, precision=precision)
        walker = navigator_walker(folder, world, recipe, batch or usual_batch(world.device))
    name, summaries = agent or Path(str(run)).resolve().name, {}
    for split, episodes in chosen.items():
        result = walker(episodes)
        if out is not None:
            target = out / f"{asked}_{split}_{name}.json"
            went = (result.walk.viewpoint, result.walk.length, result.walk.view)
            write_results(target, episodes, world, *went, result.objects)
            print(f"wrote {target}", file=sys.stderr)
        if result.scores is not None:
            summaries[split] = result.scores.summary()
    if json:
        print(dumps(summaries))
    elif summaries:
        print_scores(f"{name} on {asked}", summaries)
