"""Houses kept out of a training must be unseen by those too who told what it learns from."""

from collections.abc import Iterator, Sequence

from vlnbert.errors import UsageError, cut, listed, setting
from vlnbert.sources.instructions import is_augmented, read_provenance
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.splits import file_of, task_and_split

SHOWN = 3  # houses that a line names
LONGEST_NAME = 60  # characters of a speaker's name in it


def speaker_notes(train_on: Sequence[str], folder: DataFolder, held_out: Sequence[str]) -> Iterator[str]:
    """Refuse augmented splits whose speaker learned in houses kept out; a line for each where nobody knows."""
    for name in train_on if held_out else ():
        file = file_of(folder, *task_and_split(name))
        if not is_augmented(file):
            continue
        told = read_provenance(file)
        if told is None or told.held_out is None:
            yield f"{name}: nobody knows in which houses its speaker learned, be it in those that are kept out"
        elif seen := sorted(set(held_out) - set(told.held_out)):
            who = f"{cut(told.speaker, LONGEST_NAME)}, which learned in houses that are kept out"
            remedy = f"train a speaker with the same {setting('holdout')} and {setting('holdout_seed')}"
            raise UsageError(f"{name} was told by {who} ({listed(seen, SHOWN)}); {remedy}")
