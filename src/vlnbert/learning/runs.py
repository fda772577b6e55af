"""Runs: an experiment in a folder of its own, begun or resumed.

A run's folder holds `run.json` (the preset's name, all settings, the data folder and digests of what is read from it),
`checkpoints/` and `last.json`, `best/` (a navigator's folder) and the logs.
"""

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import torch

from vlnbert.data.data import Data, open_data
from vlnbert.errors import DataError, UsageError, setting
from vlnbert.evaluation.metrics import try_measure
from vlnbert.features.encoder import encoder_digest
from vlnbert.features.opening import bank_digest, object_feature_file, view_feature_file
from vlnbert.features.spec import OFF
from vlnbert.learning.experiment import ExperimentSettings
from vlnbert.learning.recipe import recipe_of
from vlnbert.learning.run_folder import POINTER, RECORD, has_checkpoint, kept, point_to, read_newest
from vlnbert.learning.run_notes import begin_notes, resume_notes, speaker_notes
from vlnbert.learning.run_record import RunRecord, extended, read_record, require_agreement, write_record
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator.storage.folder import exists
from vlnbert.plugins import load_recorded, loaded_plugins, trust_loaded
from vlnbert.ranks import ALONE, Ranks
from vlnbert.sources.annotations import box_files
from vlnbert.sources.instructions import require_word_labels
from vlnbert.sources.layout import DataFolder
from vlnbert.sources.writing import LOCK, refuse_full
from vlnbert.tasks.made_paths import files_looked_at
from vlnbert.tasks.splits import choose_houses, file_of, is_cut_from_train, task_and_split
from vlnbert.tasks.task import TASKS
from vlnbert.world.cache import Key

ANOTHER = "resume it with: vlnbert train --resume {run}, or choose another folder"
OF_OBJECTS = ("features.object_width", "features.max_objects")


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
        _require_mirror(experiment)  # of features that are there: what names no file and no channel was refused above
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
        ranks.wait()  # until all have found the folder empty
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
    read_record(run)  # what is no run gets no lock
    with kept(run, ranks):
        record = read_record(run)
        longer = record if iterations is None else extended(record, run, iterations)
        load_recorded(record.plugins)
        recipe = recipe_of(record.experiment)
        recipe.require_trainable(record.experiment, resumed=True)
        data = (open_data(record.data) if data is None else data).seen_as(record.experiment.seen)
        data = data.holding_out(record.held_out)
        _require_unchanged(record, data)
        lost = not (run / POINTER).exists()
        damage: DataError | None = None
        if has_checkpoint(run):
            newest, model, unread = read_newest(run, recipe.reopen)
            require_agreement(ranks, run, longer, newest)
            trainer = recipe.make_trainer(longer, run, data, model, ranks)
            damage = trainer.resume(newest)
            damage = unread or damage
            ranks.agree({"the update to go on from": trainer.saved})
        else:
            model = recipe.initial(record.experiment, data, record.asked)
            require_agreement(ranks, run, longer)
            trainer = recipe.make_trainer(longer, run, data, model, ranks)
        notes = list(resume_notes(run, record, trainer, lost, damage))  # before the record is of today's format
        if longer != record and trainer.stale:
            problem = f"{run} stopped since it no longer got better ({setting('training.patience')})"
            raise UsageError(f"{problem}; begin another from its weights: {setting('start', str(run))}")
        ranks.wait()  # until all have read what may be written now
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
    if not exists(run / LOCK):  # a folder that was never a run's gets no lock
        refuse_used(run)
    with kept(run, ranks):
        refuse_used(run)
        yield


def refuse_used(run: Path) -> None:
    """Only a new or an empty folder may become a run; the lock of one that never came to be is no obstacle."""
    if exists(run / RECORD):
        raise DataError(run, f"holds a run of {read_record(run).preset}", ANOTHER.format(run=run))
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
            files[name] = [labels, *files_looked_at(folder)]  # gone where it has a file of its own
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


def _require_mirror(experiment: ExperimentSettings) -> None:
    """Refuse flips of what cannot be seen in a mirror."""
    if getattr(experiment.training, "flip", 0.0) and (sided := experiment.seen.sided):
        problem = f"{setting('training.flip')} changes left and right, but {sided} cannot be seen in a mirror"
        raise UsageError(f"{problem}; do without: {setting('training.flip', 0)}")


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


def _require_unchanged(record: RunRecord, data: Data) -> None:
    folder = data.folder
    now = {**fingerprints(record.experiment, folder), **_own_fingerprint(data)}
    changed = [name for name, digest in record.fingerprints.items() if now.get(name) != digest]
    if changed:
        problem = f"{', '.join(changed)} changed since the run began"
        raise DataError(
            folder.root, problem, f"give the data it began with ({setting('data', 'DIR')}), or begin another run"
        )
