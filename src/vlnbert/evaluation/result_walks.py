"""A result file as an evaluation: the walks of any agent, scored, as if it had walked here."""

from pathlib import Path

from vlnbert.errors import Faults
from vlnbert.evaluation.checking import bind_walks, check_names
from vlnbert.evaluation.evaluate import Evaluation
from vlnbert.evaluation.results import read_results
from vlnbert.evaluation.scoring import score_walks
from vlnbert.evaluation.submission import arrival_views
from vlnbert.rollout.episodes import Trajectories
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import TASKS
from vlnbert.world.world import World


def evaluate_file(path: Path, episodes: Episodes, world: World, folder: DataFolder | None = None) -> Evaluation:
    """Read and check a result file of any dialect; its rows are the instructions that are there, in the split's order.

    A file does not tell whether an agent stopped or ran out of steps, nor what its limit was.
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
