"""Score result files of any agent, and write them as the leaderboards take them."""

from dataclasses import dataclass
from pathlib import Path

from vlnbert.api.arguments import checked
from vlnbert.data.data import Data, open_data
from vlnbert.evaluation.metrics import SplBy
from vlnbert.evaluation.results import Notes
from vlnbert.evaluation.scoring import ScoredFile, score_file
from vlnbert.evaluation.submission import write_submission
from vlnbert.tasks.episodes import bind, require_goals
from vlnbert.tasks.splits import task_and_split
from vlnbert.tasks.task import TASKS


@dataclass(frozen=True)
class Submission:
    """A file for a leaderboard, and what was converted to make it."""

    path: Path
    results: int
    notes: Notes


@checked()
def score(
    file: str | Path,
    data: Data | str | Path,
    split: str,
    *,
    spl_by: SplBy = "shortest",
    allow_missing: bool = False,
) -> ScoredFile:
    """Score a result file of any dialect against a split: `vln.score("results.json", "data", "r2r/val_unseen")`.

    The result prints as a table; `scores` are those of each episode, `summary` their means, and `notes` say what was
    converted.

    Args:
        file: Results, commonly a JSON list of {"instr_id", "trajectory": [[viewpoint, heading, elevation], ...]}.
        data: The data folder, or what `vln.open_data` gave.
        split: The split that the results are of, such as r2r/val_unseen. Test splits withhold their goals.
        spl_by: SPL by the shortest path to the goal (the leaderboards) or by the reference path's length (some logs).
        allow_missing: Score the instructions that are there when the file lacks some of the split.
    """
    opened = open_data(data)
    task, name = task_and_split(split)
    path = TASKS[task].file(opened.folder, name)
    episodes = opened.episodes(split)
    require_goals(episodes, path)
    return score_file(
        Path(file), episodes, opened.world, spl_by=spl_by, allow_missing=allow_missing, folder=opened.folder
    )


@checked()
def submit(file: str | Path, out: str | Path, data: Data | str | Path, split: str) -> Submission:
    """Check a result file of any dialect and write it as the R2R and REVERIE leaderboards take it.

    The results must be of the whole split, begin at its starts and walk along edges of the graph; angles that the file
    leaves out are filled in. Nothing is written unless all is well.

    Args:
        file: Results in any dialect that `vln.score` reads.
        out: Where to write the submission; an older file there is replaced.
        data: The data folder, or what `vln.open_data` gave.
        split: The split that the leaderboard asks for, such as r2r/test.
    """
    opened, (task, name) = open_data(data), task_and_split(split)
    path = TASKS[task].file(opened.folder, name)
    # Where targets are visible is the leaderboard's business, so the box files are not read.
    episodes = bind(path, TASKS[task].read(path), opened.world, task=task, split=name)
    notes = write_submission(Path(file), Path(out), episodes, opened.world, folder=opened.folder)
    return Submission(Path(out), len(episodes), notes)
