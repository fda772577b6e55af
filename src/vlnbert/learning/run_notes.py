"""Notes on a run that begins or resumes, line by line: oddities of its data, and what differs from before."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import torch
from torch import nn

from vlnbert.data.data import Data
from vlnbert.errors import DataError, UsageError, VlnbertError, cut, listed, setting
from vlnbert.learning.recipe import recipe_of
from vlnbert.learning.run_folder import POINTER
from vlnbert.learning.run_record import RunRecord, record_format
from vlnbert.learning.trainer import Trainer
from vlnbert.sources.instructions import is_augmented, read_provenance
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import walkable
from vlnbert.tasks.made_paths import find_leaks
from vlnbert.tasks.splits import DEV, file_of, inside_houses, report_targets, task_and_split
from vlnbert.tasks.task import SUB_INSTRUCTIONS
from vlnbert.world.objects import NONE

OWN_PARTS = f"R2R_{SUB_INSTRUCTIONS}.json"  # a user's own; those that are cut from train are checked as they are made

SHOWN = 3  # houses that a line names
LONGEST_NAME = 60  # characters of a speaker's name in it


def speaker_notes(train_on: Sequence[str], folder: DataFolder, held_out: Sequence[str]) -> Iterator[str]:
    """Refuse augmented splits whose speaker learned in held-out houses; a line for each of an unknown speaker."""
    for name in train_on if held_out else ():
        file = file_of(folder, *task_and_split(name))
        if not is_augmented(file):
            continue
        provenance = read_provenance(file)
        if provenance is None or provenance.held_out is None:
            yield f"{name}: nobody knows in which houses its speaker learned, be it in those that are kept out"
        elif seen := sorted(set(held_out) - set(provenance.held_out)):
            who = f"{cut(provenance.speaker, LONGEST_NAME)}, which learned in houses that are kept out"
            remedy = f"train a speaker with the same {setting('holdout')} and {setting('holdout_seed')}"
            raise UsageError(f"{name} was told by {who} ({listed(seen, SHOWN)}); {remedy}")


def begin_notes(record: RunRecord, data: Data, trainer: Trainer) -> Iterator[str]:
    """Which houses a new run keeps out, and what in its data does not fit."""
    yield from _choice(record, data, trainer)
    yield from _oddities(data, trainer)


def resume_notes(
    run: Path, record: RunRecord, trainer: Trainer, lost: bool = False, damage: DataError | None = None
) -> Iterator[str]:
    """Where a run goes on whose pointer is `lost`, or whose newest checkpoint has a `damage`; in what one goes on
    otherwise: by others, or of an older version."""
    if lost and trainer.saved is None:
        yield f"{run} holds no checkpoint; it begins with its first update"
    elif lost:
        yield f"{run / POINTER} is missing; going on from the newest checkpoint, after {trainer.saved:,} updates"
    if damage is not None:
        yield f"{damage.path}: {damage.problem}; going on from the checkpoint before, after {trainer.saved:,} updates"
    if trainer.progress.iteration >= trainer.config.iterations:
        return
    yield from _other_ranks(run, record, trainer)
    yield from recipe_of(record.experiment).resume_notes(trainer, record_format(run))


def _other_ranks(run: Path, record: RunRecord, trainer: Trainer) -> Iterator[str]:
    """Sums are rounded otherwise where others add them up, and each process draws dropout of its own."""
    count, threads = trainer.ranks.count, torch.get_num_threads()
    on_cpu = trainer.device.type == "cpu"
    before = (record.ranks or count, (record.threads or threads) if on_cpu else threads)
    if before == (count, threads):
        return
    dropped = count != before[0] and _drops(trainer.model)
    same = "dropout differs, and so will the weights" if dropped else "the same but for rounding: the bits will differ"
    yield f"{run} was begun by {_team(*before)} and goes on by {_team(count, threads)}: {same}"


def _drops(model: nn.Module) -> bool:
    """Whether some module drops at random: `nn.Dropout`, or one with a rate of its own, such as an LSTM."""
    for module in model.modules():
        own = ("p",) if isinstance(module, nn.modules.dropout._DropoutNd) else ("dropout", "attention_dropout")
        if any(isinstance(rate := getattr(module, name, None), float) and rate > 0 for name in own):
            return True
    return False


def _team(ranks: int, threads: int) -> str:
    processes = f"{ranks} process{'es' if ranks > 1 else ''}"
    return f"{processes} of {threads} thread{'s' if threads > 1 else ''}"


def _choice(record: RunRecord, data: Data, trainer: Trainer) -> Iterator[str]:
    """Which houses are kept out of training, and which scores are of them."""
    if record.held_out:
        learned = ", ".join(f"{len(split.episodes):,} of {split.name}" for split in trainer.batches.splits)
        yield f"kept out of training: {', '.join(record.held_out)}; instructions to learn from: {learned}"
        if task_and_split(trainer.best_on)[1] != DEV:
            chosen = f"the best weights are chosen on {trainer.best_on}, not on the houses kept out"
            yield f"{chosen}; see {setting('best_on')}"
        for name, split in trainer.validation.items():
            count = int(inside_houses(data.world, split.episodes, record.held_out).sum())
            if count and split.episodes.split != DEV:
                houses = f"{count:,} of its {len(split.episodes):,} episodes are in houses kept out of training"
                yield f"{name}: {houses}, so its score is partly of unseen houses"


def _augmented_paths(data: Data, trainer: Trainer) -> Iterator[str]:
    """Augmented paths that evaluations have too, or that cannot be walked. They are reported, not left out."""
    for split in trainer.batches.splits:
        file = file_of(data.folder, split.episodes.task, split.episodes.split)
        if not is_augmented(file) and file.name != OWN_PARTS:
            continue
        try:
            leaks = find_leaks(data.folder, data.world, split.episodes).lines()
        except VlnbertError as error:  # what is learned from may be whole all the same
            yield f"{split.name} was not held against the splits for evaluation: {error}"
            leaks = []
        for line in leaks:
            yield f"{split.name}: {line}; what learns from them cannot be evaluated there"
        broken = int((~walkable(data.world, split.episodes.path, split.episodes.path_length)).sum())
        if broken:
            yield f"{split.name}: {broken:,} of {len(split.episodes):,} paths are not connected"


def _oddities(data: Data, trainer: Trainer) -> Iterator[str]:
    """Oddities of the data that training allows: missing features of objects, and targets out of sight."""
    yield from data.object_notes
    yield from trainer.notes
    yield from _augmented_paths(data, trainer)
    for split in trainer.batches.splits:
        yield from (f"{split.name}: {line}" for line in split.episodes.notes)
        if split.target is not None:
            report = report_targets(data.objects, split.episodes)
            if not report.complete:
                yield f"{split.name}: {'; '.join(report.lines())}"
            shown = int((split.target != NONE).sum())
            if shown < report.at_goal:
                reason = f"their objects are beyond {setting('features.max_objects')}, or have no features"
                yield f"{split.name}: {report.at_goal - shown:,} targets are left out of what is shown; {reason}"
