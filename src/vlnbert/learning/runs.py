"""Runs: an experiment in a folder of its own, begun or resumed.

A run's folder holds `run.json` (the preset's name, all settings, the data folder and digests of what is read from it),
`checkpoints/` and `last.json`, `best/` (a navigator's folder) and the logs.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from vlnbert.data.data import Data, open_data
from vlnbert.errors import DataError, UsageError, VlnbertError, cut, listed, setting
from vlnbert.evaluation.metrics import try_measure
from vlnbert.features.encoder import encoder_digest
from vlnbert.features.opening import bank_digest, object_feature_file, view_feature_file
from vlnbert.features.spec import OFF
from vlnbert.learning.experiment import ExperimentSettings
from vlnbert.learning.recipe import recipe_of
from vlnbert.learning.run_folder import POINTER, RECORD, has_checkpoint, locked_run, point_to, read_newest
from vlnbert.learning.run_record import (
    RunRecord,
    extended,
    read_record,
    record_format,
    require_agreement,
    write_record,
)
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator.storage.folder import exists
from vlnbert.plugins import load_recorded, loaded_plugins, trust_loaded
from vlnbert.ranks import ALONE, Ranks
from vlnbert.sources.annotations import box_files
from vlnbert.sources.instructions import is_augmented, read_provenance, require_word_labels
from vlnbert.sources.layout import DataFolder
from vlnbert.sources.writing import LOCK, refuse_full
from vlnbert.tasks.episodes import walkable
from vlnbert.tasks.made_paths import files_looked_at, find_leaks
from vlnbert.tasks.splits import (
    DEV,
    choose_houses,
    file_of,
    inside_houses,
    is_cut_from_train,
    report_targets,
    task_and_split,
)
from vlnbert.tasks.task import SUB_INSTRUCTIONS, TASKS
from vlnbert.world.cache import Key
from vlnbert.world.objects import NONE

OF_OBJECTS = ("features.object_width", "features.max_objects")
OWN_PARTS = f"R2R_{SUB_INSTRUCTIONS}.json"  # a user's own; those that are cut from train are checked as they are made
SHOWN = 3  # houses that a line names
LONGEST_NAME = 60  # characters of a speaker's name in it


def begin_run(
    preset: str,
    experiment: ExperimentSettings,
    data: Data,
    run: Path,
    ranks: Ranks = ALONE,
    tell: Callable[[str], object] = lambda line: None,
    asked: Collection[str] = (),
) -> Trainer:
    """A new run in an empty folder, ready to train.

    `tell` is called with notes, line by line, on what in the data or the weights does not fit. `asked` are the places
    of settings that were chosen explicitly, such as navigator.layers: they are kept, or refused by name.
    """
    recipe = recipe_of(experiment)
    with begun_alone(run, ranks):
        _require_used(experiment, asked)
        recipe.require_trainable(experiment)
        experiment = recipe.anchored(_anchored(experiment))
        digests = fingerprints(experiment, data.folder)
        # Names of features were validated when their fingerprints were taken.
        if getattr(experiment.training, "flip", 0.0) and (sided := experiment.seen.sided):
            problem = f"{setting('training.flip')} changes left and right, but {sided} cannot be seen in a mirror"
            raise UsageError(f"{problem}; do without: {setting('training.flip', 0)}")
        held_out = choose_houses(data.folder, experiment.tasks, experiment.holdout, experiment.holdout_seed)
        data = data.seen_as(experiment.seen).holding_out(held_out)
        of_speakers = list(speaker_notes(experiment.train_on, data.folder, held_out))
        model = recipe.initial(experiment, data, asked)
        notes = [*recipe.start_notes(experiment, model), *of_speakers]
        record = RunRecord(
            preset=preset,
            data=str(data.folder.root.resolve()),
            experiment=recipe.as_trained(experiment, model),
            fingerprints={**digests, **_own_fingerprint(data)},
            plugins=loaded_plugins(),
            held_out=held_out,
            asked=tuple(asked),
            ranks=ranks.count,
            threads=torch.get_num_threads(),
        )
        require_agreement(ranks, run, record)
        trainer = recipe.make_trainer(record, run, data, model, ranks)
        for split in trainer.validation.values():
            try_measure(data.world, split.episodes)
        # Wait until all ranks have found the folder empty.
        ranks.wait()
        if ranks.writes:
            write_record(run, record)
            for line in (*notes, *begin_notes(record, data, trainer)):
                tell(line)
        trust_loaded()
        return trainer


def resume_run(
    run: Path,
    data: Data | None = None,
    ranks: Ranks = ALONE,
    iterations: int | None = None,
    tell: Callable[[str], object] = lambda line: None,
) -> Trainer:
    """A run where it was left. The data may lie elsewhere now, but must be what it was.

    `iterations`, where given, is how many updates it shall have in the end; run.json then says so. `tell` is
    called with notes, line by line, on what differs from before.
    """
    # A folder that is not a run gets no lock.
    read_record(run)
    with locked_run(run, ranks):
        record = read_record(run)
        longer = record if iterations is None else extended(record, run, iterations)
        load_recorded(record.plugins)
        recipe = recipe_of(record.experiment)
        recipe.require_trainable(record.experiment, resumed=True)
        data = (open_data(record.data) if data is None else data).seen_as(record.experiment.seen)
        data = data.holding_out(record.held_out)
        now = {**fingerprints(record.experiment, data.folder), **_own_fingerprint(data)}
        if changed := [name for name, digest in record.fingerprints.items() if now.get(name) != digest]:
            problem = f"{', '.join(changed)} changed since the run began"
            remedy = f"give the data it began with ({setting('data', 'DIR')}), or begin another run"
            raise DataError(data.folder.root, problem, remedy)
        lost, newest, damage = not (run / POINTER).exists(), None, None
        if has_checkpoint(run):
            newest, model, damage = read_newest(run, recipe.reopen)
        else:
            model = recipe.initial(record.experiment, data, record.asked)
        require_agreement(ranks, run, longer, newest)
        trainer = recipe.make_trainer(longer, run, data, model, ranks)
        if newest is not None:
            unread = trainer.resume(newest)
            damage = damage or unread
            ranks.agree({"the update to go on from": trainer.saved})
        # The notes read the record's format, so they come before it is rewritten.
        notes = list(resume_notes(run, record, trainer, lost, damage))
        if longer != record and trainer.stale:
            problem = f"{run} stopped since it no longer got better ({setting('training.patience')})"
            raise UsageError(f"{problem}; begin another from its weights: {setting('start', str(run))}")
        # Wait until all ranks have read what may be written now.
        ranks.wait()
        if ranks.writes:
            if longer != record:
                write_record(run, replace(longer, experiment=recipe.as_trained(longer.experiment, model)))
            if (lost or damage) and trainer.saved is not None:
                point_to(run, trainer.checkpoint, trainer.config.keep, trainer.progress if damage else None)
            for line in notes:
                tell(line)
        trust_loaded()
        return trainer


@contextmanager
def begun_alone(run: Path, ranks: Ranks) -> Iterator[None]:
    """Keep a new run's folder to these ranks; it must be new or empty, and stays so where the block fails."""
    # A folder that was never a run's gets no lock.
    if not exists(run / LOCK):
        refuse_used(run)
    with locked_run(run, ranks):
        refuse_used(run)
        yield


def refuse_used(run: Path) -> None:
    """Only a new or an empty folder may become a run; the lock of one that never came to be is no obstacle."""
    if exists(run / RECORD):
        remedy = f"resume it with: vlnbert train --resume {run}, or choose another folder"
        raise DataError(run, f"holds a run of {read_record(run).preset}", remedy)
    refuse_full(run, besides=(LOCK,))


def fingerprints(experiment: ExperimentSettings, folder: DataFolder) -> dict[str, str]:
    """A digest of everything that an experiment reads while it learns, by name: a resumed run must find the same."""
    seen = experiment.seen
    files = {"connectivity": list(folder.graphs().values())}
    if folder.vocabulary.exists():
        files[folder.vocabulary.name] = [folder.vocabulary]
    for name in experiment.splits:
        path = file_of(folder, *task_and_split(name))
        files[str(path.relative_to(folder.root))] = [path]
        if is_cut_from_train(folder, *task_and_split(name)):
            labels = require_word_labels(folder.word_labels)
            # A split with a file of its own has no such entry.
            files[name] = [labels, *files_looked_at(folder)]
    if any(TASKS[name].sees_objects for name in experiment.tasks):
        files["reverie/BBox"] = box_files(folder.boxes)
    if seen.reads_captions:
        files["captions"] = sorted(folder.captions.glob("*.json"))
    if seen.reads_observations:
        files["observations"] = sorted(folder.observations.glob("*.json"))
    files |= recipe_of(experiment).also_read(experiment, folder)
    if seen.reads_view_file:
        files["features"] = [view_feature_file(folder, seen)]
    if seen.reads_object_file:
        files["object features"] = [object_feature_file(folder, seen)]
    digests = {name: Key.of(name, paths).digest for name, paths in files.items()}
    if seen.uses_encoder:
        digests["the encoder"] = encoder_digest(seen.encoder)
    return digests


def _require_used(experiment: ExperimentSettings, asked: Collection[str]) -> None:
    """Refuse, by name, a chosen setting of something that is not there: objects, captions, houses kept out."""
    seen, reasons = experiment.seen, dict[str, str]()
    if not any(TASKS[name].sees_objects for name in experiment.tasks):
        places = ("features.objects", *OF_OBJECTS)
        reasons |= dict.fromkeys(places, f"{' and '.join(experiment.tasks)} shows no objects")
    elif seen.objects == OFF:
        reasons |= dict.fromkeys(OF_OBJECTS, f"{setting('features.objects')} is {OFF}")
    if not seen.uses_encoder:
        reasons["features.encoder"] = "no captions or names are read"
    if not experiment.holdout:
        reasons["holdout_seed"] = f"no houses are kept out ({setting('holdout', 6)} does)"
    for place in asked:
        if place in reasons:
            raise UsageError(f"{setting(place)} was chosen, but {reasons[place]}; leave it out")


def _own_fingerprint(data: Data) -> dict[str, str]:
    """The digest of user-defined features, whether a function makes them or they are held in memory."""
    return {"features": bank_digest(data.world, data.view_bank)} if data.features.user_views else {}


def _anchored(experiment: ExperimentSettings) -> ExperimentSettings:
    """Files and folders by their whole paths, so that the run can be resumed from anywhere."""
    seen = experiment.features
    anchored = replace(
        seen,
        views=_whole_path(seen.views) if seen.reads_view_file else seen.views,
        objects=_whole_path(seen.objects) if seen.reads_object_file else seen.objects,
        encoder=_whole_path(seen.encoder) or seen.encoder,
    )
    return replace(experiment, start=_whole_path(experiment.start), features=anchored)


def _whole_path(named: str | None) -> str | None:
    return str(Path(named).resolve()) if named is not None and Path(named).exists() else named


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


def begin_notes(record: RunRecord, data: Data, trainer: Trainer) -> Iterator[str]:
    """The houses that a new run keeps out, the scores that are of them, and what in its data does not fit.

    What does not fit, such as missing features of objects and targets out of sight, is allowed.
    """
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


def _augmented_paths(data: Data, trainer: Trainer) -> Iterator[str]:
    """Augmented paths that evaluations have too, or that cannot be walked. They are reported, not left out."""
    for split in trainer.batches.splits:
        file = file_of(data.folder, split.episodes.task, split.episodes.split)
        if not is_augmented(file) and file.name != OWN_PARTS:
            continue
        try:
            leaks = find_leaks(data.folder, data.world, split.episodes).lines()
        except VlnbertError as error:
            # The training split may be whole all the same.
            yield f"{split.name} was not held against the splits for evaluation: {error}"
            leaks = []
        for line in leaks:
            yield f"{split.name}: {line}; what learns from them cannot be evaluated there"
        broken = int((~walkable(data.world, split.episodes.path, split.episodes.path_length)).sum())
        if broken:
            yield f"{split.name}: {broken:,} of {len(split.episodes):,} paths are not connected"
