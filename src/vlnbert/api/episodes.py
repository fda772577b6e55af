"""One episode in detail: the instruction, the choices of each step with their probabilities, and the outcome."""

from collections.abc import Sequence
from dataclasses import dataclass
from json import dumps
from pathlib import Path

from vlnbert.analysis.card import card_text, tables, write_card
from vlnbert.api.agents import AnyAgent, as_run, chosen_split, is_results, load_agent, require_data
from vlnbert.data.data import Data, open_data
from vlnbert.errors import UnknownNameError, UsageError, setting
from vlnbert.evaluation.evaluate import evaluate_file
from vlnbert.evaluation.options import WalkOptions
from vlnbert.evaluation.recording import RecordedEpisode, Recorder
from vlnbert.evaluation.results import guess_split
from vlnbert.evaluation.walker import Walker
from vlnbert.tasks.splits import task_and_split


@dataclass(frozen=True, repr=False)
class Episode:
    """One episode that was walked and scored: `print` it, look at it in a notebook, or take its `record`."""

    record: RecordedEpisode
    data: Data

    def to_json(self, indent: int | None = None) -> str:
        """The record as a JSON object."""
        return dumps(self.record.to_json(), indent=indent)

    def write(self, path: str | Path) -> Path:
        """Write its card: by its ending a page (.html) or a picture of the floor plan (.svg, .png, .pdf)."""
        write_card(Path(path), self.record, self.data)
        return Path(path)

    def __repr__(self) -> str:
        return card_text(self.record)

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in tables(self.record))


def walk_episode(
    agent: AnyAgent, id: str, data: Data | str | Path | None, split: str | None, options: WalkOptions
) -> Episode:
    """One episode of an agent, or of its result file."""
    agent = as_run(agent)
    name = chosen_split(agent, split)
    opened = open_data(require_data(agent, data), device=options.device)
    if is_results(agent):
        path = Path(str(agent))
        evaluation = evaluate_file(path, opened.episodes(name), opened.world, opened.folder)
        require_episode(evaluation.episodes.ids, id, str(path))
        return Episode(Recorder(opened, path.stem).episode(evaluation, evaluation.episodes.row(id)), opened)
    walker = Walker(load_agent(agent, options.checkpoint), opened, name, options)
    require_episode(walker.episodes[name].ids, id, name, walker.data)
    evaluation = walker.walk(name, record=True, only=[id])
    return Episode(walker.recorder.episode(evaluation, 0), opened)


def require_episode(known: Sequence[str], id: str, where: str, data: Data | None = None) -> None:
    """Refuse an episode that is not there, with the split of `data` that has it, or with near names."""
    if id in known:
        return
    task = task_and_split(where)[0] if data is not None else ""
    home = guess_split({id}, task, data.folder) if data is not None else None
    if home and home[0] == task:  # the same id in another task is another episode
        other = setting("split", "/".join(home))
        raise UsageError(f"no episode '{id}' in {where}; it is in another split: {other}")
    raise UnknownNameError("episode", id, known, where)
