"""Who speaks: a run, a speaker, or where one is; and the same made ready to tell of paths in some data."""

from dataclasses import dataclass
from pathlib import Path

from vlnbert.api.arguments import require_one_of
from vlnbert.api.runs import Run, open_run
from vlnbert.data.data import Data, open_data
from vlnbert.errors import UsageError, setting
from vlnbert.evaluation.options import Checkpoint
from vlnbert.evaluation.walker import Walker
from vlnbert.learning.run_folder import is_run, last_checkpoint, while_trained
from vlnbert.plugins import load_recorded
from vlnbert.runtime import Precision, chosen_precision
from vlnbert.speaker.generation import InstructionGenerator
from vlnbert.speaker.speaker import Speaker, shown_to_speaker
from vlnbert.tasks.task import R2R


@dataclass(frozen=True)
class FoundSpeaker:
    """A speaker, and what is known of it."""

    name: str
    speaker: Speaker
    data: str | None = None
    held_out: tuple[str, ...] | None = None  # the houses of dev_unseen; None where nobody knows
    task: str = R2R.name  # what a run was trained for


@dataclass(frozen=True)
class PreparedSpeaker:
    """A speaker and all that it tells with."""

    name: str
    speaker: Speaker
    opened: Data  # as it was given
    data: Data  # as the speaker sees it
    generator: InstructionGenerator
    held_out: tuple[str, ...] | None
    task: str


def prepare_speaker(
    source: object,
    data: Data | str | Path | None,
    *,
    checkpoint: Checkpoint = "best",
    precision: Precision = "float32",
    device: str | None = None,
) -> PreparedSpeaker:
    """A speaker ready to tell of paths; the arguments are those of `vln.speak`."""
    require_one_of("precision", precision, Precision)
    require_one_of("checkpoint", checkpoint, Checkpoint)
    found = find_speaker(source, checkpoint)
    where = data if data is not None else found.data
    if where is None:
        raise UsageError(f"no data to tell of; give a data folder: {setting('data', 'DIR')}")
    opened = open_data(where, device=device)
    opened = opened.holding_out(found.held_out) if found.held_out else opened
    shown = shown_to_speaker(found.speaker, opened, found.name)
    chosen = chosen_precision(precision, shown.device, found.speaker.config.hidden)
    generator = InstructionGenerator(found.speaker, shown.environment, chosen)
    return PreparedSpeaker(found.name, found.speaker, opened, shown, generator, found.held_out, found.task)


def _last_speaker(run: Path) -> Speaker:
    return Speaker.from_pretrained(last_checkpoint(run))


def find_speaker(source: object, checkpoint: Checkpoint = "best") -> FoundSpeaker:
    """Who speaks: a speaker, or where one is; of a run, its best weights or its last."""
    if isinstance(source, Speaker):
        return FoundSpeaker("the speaker", source)
    if isinstance(source, str | Path) and is_run(Path(source)):
        source = open_run(source)
    if isinstance(source, Run):
        load_recorded(source.record.plugins)
        speaker = source.speaker if checkpoint == "best" else while_trained(source.folder, _last_speaker)
        record, name = source.record, source.folder.resolve().name
        return FoundSpeaker(name, speaker, record.data, record.held_out, source.task)
    if checkpoint == "last":
        raise UsageError(f"{source} is no run, so it has no last checkpoint; name a run's folder")
    if not isinstance(source, str | Path):
        raise UsageError(f"{source!r:.60} is no speaker; give a run's folder, or what Speaker.from_pretrained gave")
    return FoundSpeaker(Path(source).resolve().name, Speaker.from_pretrained(source))


def require_same_houses(speaker: PreparedSpeaker, walker: Walker, split: str) -> None:
    """Of dev_unseen, speaker and navigator must mean the same: what one has not seen, the other has not either."""
    if walker.loaded.held_out != (speaker.held_out or ()):
        problem = f"{speaker.name} and {walker.name} kept other houses out, so {split} is not the same for both"
        raise UsageError(f"{problem}; keep the same out of both: {setting('holdout', 'N')}")
