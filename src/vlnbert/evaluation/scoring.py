"""Scores of walks, of results and of result files."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor

from vlnbert.errors import Faults, UsageError, setting
from vlnbert.evaluation.checking import Walks, bind_walks, check_complete, check_names
from vlnbert.evaluation.metrics import Scores, SplBy, measure
from vlnbert.evaluation.results import Notes, Result, ResultFile, read_results
from vlnbert.evaluation.tables import meaning_table
from vlnbert.sources.layout import DataFolder
from vlnbert.tables import Table
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import TASKS, Metric, Walked
from vlnbert.world.world import World

TRIED = 3  # episodes in which a measure is tried out


@dataclass(frozen=True, repr=False)
class ScoredFile:
    """The scores of a result file: row n of `scores` is instruction `ids[n]`, in the order of the split."""

    split: str  # as task/split
    ids: tuple[str, ...]
    scores: Scores
    notes: Notes

    @property
    def summary(self) -> dict[str, float | int | None]:
        """Means over the episodes: rates as fractions, TL and NE in metres."""
        return self.scores.summary()

    def table(self) -> Table:
        """A row for each metric, with what it means."""
        return meaning_table(self.split.replace("/", " "), self.summary)

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def score_walks(
    world: World,
    episodes: Episodes,
    walked: Tensor,
    walked_length: Tensor,
    predicted_objects: Sequence[str | None] | None = None,
    spl_by: SplBy = "shortest",
) -> Scores:
    """Score one walk [hop] an episode, and in REVERIE one object (or None); all on the world's device."""
    asked, grounded = TASKS[episodes.task], None
    if asked.sees_objects:
        named = zip(predicted_objects or [None] * len(episodes), episodes.targets, strict=True)
        right = [name is not None and name == target for name, target in named]
        grounded = torch.tensor(right, dtype=torch.bool, device=walked.device)
    reference, length = episodes.path, episodes.path_length
    scores = measure(
        world,
        walked,
        walked_length,
        reference,
        length,
        arrived=asked.arrived(world, walked, episodes),
        grounded=grounded,
        spl_by=spl_by,
        goals=episodes.goals,
    )
    if not asked.metrics:
        return scores
    named_objects = tuple(predicted_objects or [None] * len(episodes))
    return replace(scores, own=measure_own(world, episodes, Walked(walked, walked_length, named_objects)))


def measure_own(world: World, episodes: Episodes, walked: Walked) -> dict[str, Tensor]:
    """[episode] by name, in float64, what the task's own `measure` gives, if it is what it should be."""
    task = TASKS[episodes.task]
    given: object = task.measure(world, episodes, walked)
    names = [metric.name for metric in task.metrics]
    if isinstance(given, Mapping):
        given = {key.name if isinstance(key, Metric) else key: value for key, value in given.items()}
    if not isinstance(given, Mapping) or set(given) != set(names):
        gave = ", ".join(map(str, given)) or "nothing" if isinstance(given, Mapping) else f"a {type(given).__name__}"
        problem = f"the task {task.name} measures {gave:.200}, where its metrics are {', '.join(names)}"
        raise UsageError(f"{problem}; let measure return a dict with each of these names")
    return {name: _checked_measure(task.name, name, given[name], episodes, world.device) for name in names}


def _checked_measure(task: str, name: str, given: object, episodes: Episodes, device: torch.device) -> Tensor:
    """A finite number for each episode, as float64."""
    problem, remedy = "", f"give one number for each of the {len(episodes):,} episodes"
    try:
        found = torch.as_tensor(given, dtype=torch.float64, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"the task {task} measures '{name}' as a {type(given).__name__}; {remedy}") from None
    if found.shape != (len(episodes),):
        problem = f"as a tensor of the shape {list(found.shape)}"
    elif not bool((finite := found.isfinite()).all()):
        row = int((~finite).nonzero()[0])
        problem = f"as {float(found[row])} in episode {episodes.ids[row]}"
    if problem:
        raise UsageError(f"the task {task} measures '{name}' {problem}; {remedy}")
    return found


def try_measure(world: World, episodes: Episodes) -> None:
    """Refuse a task whose own metrics do not fit, before anybody has walked: some agents that stay where they are."""
    some = episodes.select(torch.arange(min(TRIED, len(episodes))))
    if len(some) and some.scored and TASKS[some.task].metrics:
        staying = some.start[:, None].repeat(1, 2)
        measure_own(world, some, Walked(staying, torch.ones_like(some.start), (None,) * len(some)))


def score_results(
    results: Iterable[Result],
    episodes: Episodes,
    world: World,
    spl_by: SplBy = "shortest",
    allow_missing: bool = False,
) -> Scores:
    """Check and score results that are in memory, one an instruction; the rows are in the order of the split."""
    results = list(results)
    file, faults = ResultFile(results, {result.id for result in results}), Faults(Path("results"))
    if repeated := len(results) - len(file.ids):
        faults.add("", f"{repeated:,} results repeat an instruction", "give one result an instruction")
    walks = _checked(file, episodes, world, faults, allow_missing)
    return _scores(walks, episodes, world, spl_by)


def score_file(
    path: Path,
    episodes: Episodes,
    world: World,
    spl_by: SplBy = "shortest",
    allow_missing: bool = False,
    folder: DataFolder | None = None,
) -> ScoredFile:
    """Read, check and score a result file of any dialect; all its faults are raised together.

    `folder` is where to look for the split that a file belongs to when it is not the one expected.
    """
    faults = Faults(path)
    file = read_results(path, faults)
    walks = _checked(file, episodes, world, faults, allow_missing, folder)
    scores = _scores(walks, episodes, world, spl_by)
    split = f"{episodes.task}/{episodes.split}"
    return ScoredFile(split, tuple(result.id for result in walks.results), scores, file.notes)


def _checked(
    file: ResultFile,
    episodes: Episodes,
    world: World,
    faults: Faults,
    allow_missing: bool,
    folder: DataFolder | None = None,
) -> Walks:
    check_names(file, episodes, faults, folder)
    there = len(file.ids.intersection(episodes.ids))
    if there < len(episodes) and not allow_missing:
        remedy = f"say {setting('allow_missing', True)} to score the {there:,} that are there"
        check_complete(file, episodes, faults, remedy)
    elif there < len(episodes):
        file.notes.more.append(f"{there:,} of {len(episodes):,} instructions scored, the others are missing")
    walks = bind_walks(file.results, episodes, world, faults)
    faults.raise_if_any()
    return walks


def _scores(walks: Walks, episodes: Episodes, world: World, spl_by: SplBy) -> Scores:
    predicted = [result.predicted_object for result in walks.results]
    return score_walks(world, episodes.select(walks.row), walks.walked, walks.length, predicted, spl_by)
