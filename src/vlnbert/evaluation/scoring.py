"""Scores of results in memory and of result files, and result files as evaluations."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from vlnbert.errors import Faults, setting
from vlnbert.evaluation.evaluate import Evaluation
from vlnbert.evaluation.metrics import Scores, score_walks
from vlnbert.evaluation.options import SplBy
from vlnbert.evaluation.results import (
    Notes,
    Result,
    ResultFile,
    Walks,
    bind_walks,
    check_complete,
    check_names,
    read_results,
)
from vlnbert.evaluation.submission import arrival_views
from vlnbert.evaluation.tables import meaning_table
from vlnbert.rollout.episodes import Trajectories
from vlnbert.sources.layout import DataFolder
from vlnbert.tables import Table, Tabular
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import TASKS
from vlnbert.world.world import World


@dataclass(frozen=True, repr=False)
class ScoredFile(Tabular):
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


def evaluate_file(path: Path, episodes: Episodes, world: World, folder: DataFolder | None = None) -> Evaluation:
    """Read and check a result file of any dialect; its rows are the instructions that it has, in the split's order.

    A file does not say whether an agent stopped or ran out of steps, nor what its limit was.
    """
    faults = Faults(path)
    file = read_results(path, faults)
    check_names(file, episodes, faults, folder)
    walks = bind_walks(file.results, episodes, world, faults)
    faults.raise_if_any()
    there = episodes.select(walks.row)
    named = [result.predicted_object for result in walks.results] if TASKS[episodes.task].sees_objects else None
    scores = score_walks(world, there, walks.walked, walks.length, named) if episodes.scored else None
    views = arrival_views(world, there.heading, walks.walked)
    return Evaluation(world, there, Trajectories(walks.walked, views, walks.length), scores, named)
