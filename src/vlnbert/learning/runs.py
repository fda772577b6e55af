"""Runs: an experiment in a folder of its own, begun or resumed.

A run's folder holds `run.json` (the preset's name, all settings, the data folder and digests of what is read from it),
`checkpoints/` and `last.json`, `best/` (a navigator's folder) and the logs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vlnbert.data.data import Data, open_data
from vlnbert.data.features import object_feature_file, view_feature_file
from vlnbert.data.own import bank_digest
from vlnbert.data.spec import NAMES, OFF
from vlnbert.errors import DataError, UsageError
from vlnbert.learning.checkpoints import POINTER, RECORD, last_checkpoint, unfilled_navigator
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.records import from_plain, moved, to_plain
from vlnbert.learning.rewards import REWARDS
from vlnbert.learning.start import initial_navigator
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage.hub import exists
from vlnbert.perception.sentences import encoder_digest
from vlnbert.ranks import ALONE, Ranks
from vlnbert.registry import load_recorded, loaded_plugins
from vlnbert.sources.boxes import box_files
from vlnbert.sources.files import read_json, write_json
from vlnbert.sources.folders import refuse_full
from vlnbert.sources.formats import FORMAT, format_of
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.splits import task_and_split
from vlnbert.tasks.targets import report_targets
from vlnbert.tasks.task import TASKS
from vlnbert.world.cache import Key
from vlnbert.world.objects import NONE

ANOTHER = "resume it with: vlnbert train --resume {run}, or choose another folder"
NEWEST = 2  # format of run.json
# Settings that format 2 calls otherwise than format 1, by their places in an experiment.
RENAMED = {
    "features": "features.views",
    "feature_width": "features.view_width",
    "objects": "features.objects",
    "most_objects": "features.max_objects",
    "encoder": "features.encoder",
    "tokens": "max_tokens",
    "training.rate": "training.learning_rate",
    "training.clip": "training.grad_clip",
    "training.limit": "training.max_steps",
    "training.objective.guidance": "training.objective.student_forcing",
}


@dataclass(frozen=True)
class RunRecord:
    """What a run's folder says of itself."""

    preset: str
    data: str
    experiment: Experiment
    fingerprints: dict[str, str]
    plugins: tuple[str, ...] = ()
    """The plugins that were loaded when it began, files by their whole paths."""


def begin_run(
    preset: str,
    experiment: Experiment,
    data: Data,
    run: Path,
    ranks: Ranks = ALONE,
    tell: Callable[[str], object] = lambda line: None,
) -> Trainer:
    """A new run in an empty folder, ready to train; `tell` is told, line by line, what in the data does not fit."""
    if exists(run / RECORD):
        raise DataError(run, f"holds a run of {read_record(run).preset}", ANOTHER.format(run=run))
    refuse_full(run)
    experiment = _anchored(experiment)
    digests = fingerprints(experiment, data.folder)
    data = data.seen_as(experiment.seen)
    record = RunRecord(
        preset=preset,
        data=str(data.folder.root.resolve()),
        experiment=experiment,
        fingerprints={**digests, **_own_fingerprint(data)},
        plugins=loaded_plugins(),
    )
    trainer = _trainer(record, run, data, initial_navigator(experiment, data), ranks)
    ranks.wait()  # until all have found the folder empty
    if ranks.writes:
        write_json(run / RECORD, {FORMAT: NEWEST, **to_plain(record)}, indent=2)
        for line in _oddities(data, trainer):
            tell(line)
    return trainer


def resume_run(run: Path, data: Data | None = None, ranks: Ranks = ALONE) -> Trainer:
    """A run where it was left. The data may lie elsewhere now, but must be what it was."""
    record = read_record(run)
    load_recorded(record.plugins)
    if (reward := record.experiment.training.reward) not in REWARDS:
        problem = f"the run learns by the reward '{reward}', which nobody registers here"
        raise UsageError(f"{problem}; give the plugin that does: --plugin FILE")
    data = (open_data(record.data) if data is None else data).seen_as(record.experiment.seen)
    _require_unchanged(record, data)
    if not (run / POINTER).exists():  # killed before the first checkpoint
        return _trainer(record, run, data, initial_navigator(record.experiment, data), ranks)
    trainer = _trainer(record, run, data, unfilled_navigator(last_checkpoint(run)), ranks)
    trainer.resume()
    return trainer


def read_record(run: Path) -> RunRecord:
    """What a run's folder says of itself, checked."""
    path, anew = run / RECORD, f"begin anew in another folder; --start {run} goes on from the weights of this one"
    values: Any = read_json(path, "run", "name the folder that a training wrote", damaged=anew)
    try:
        if isinstance(values, dict):
            version = format_of(path, values, NEWEST)
            values = {name: value for name, value in values.items() if name != FORMAT}
            if version == 1 and isinstance(values.get("experiment"), dict):
                values["experiment"] = moved(values["experiment"], RENAMED)
        return from_plain(RunRecord, values)
    except (UsageError, TypeError) as error:
        raise DataError(path, f"is damaged ({error})", anew) from None


def fingerprints(experiment: Experiment, folder: DataFolder) -> dict[str, str]:
    """A digest of everything that an experiment reads while it learns, by name: a resumed run must find the same."""
    seen = experiment.seen
    files = {"connectivity": list(folder.graphs().values())}
    if folder.vocabulary.exists():
        files[folder.vocabulary.name] = [folder.vocabulary]
    for name in experiment.splits:
        task, split = task_and_split(name)
        path = TASKS[task].file(folder, split)
        files[str(path.relative_to(folder.root))] = [path]
    if any(TASKS[name].sees_objects for name in experiment.tasks):
        files["reverie/BBox"] = box_files(folder.boxes)
    if seen.reads_captions:
        files["captions"] = sorted(folder.captions.glob("*.json"))
    if seen.reads_view_file:
        files["features"] = [view_feature_file(folder, seen)]
    if seen.objects not in (NAMES, OFF):
        files["object features"] = [object_feature_file(folder, seen)]
    digests = {name: Key.of(name, paths).digest for name, paths in files.items()}
    if "captions" in files:
        digests["the encoder"] = encoder_digest(seen.encoder)
    return digests


def _own_fingerprint(data: Data) -> dict[str, str]:
    """The digest of features of somebody's own, whether a function makes them or they are held in memory."""
    return {"features": bank_digest(data.world, data.view_bank)} if data.features.own_views else {}


def _anchored(experiment: Experiment) -> Experiment:
    """Files and folders by their whole paths, so that the run can be resumed from anywhere."""
    seen = experiment.features
    anchored = replace(
        seen,
        views=_whole_path(seen.views) if seen.reads_view_file else seen.views,
        objects=seen.objects if seen.objects in (NAMES, OFF) else _whole_path(seen.objects),
        encoder=_whole_path(seen.encoder) or seen.encoder,
    )
    navigator, settings = experiment.navigator, experiment.navigator.backbone_settings
    if isinstance(encoder := settings.get("encoder"), str):
        navigator = replace(navigator, backbone_settings={**settings, "encoder": _whole_path(encoder) or encoder})
    return replace(experiment, start=_whole_path(experiment.start), features=anchored, navigator=navigator)


def _whole_path(named: str | None) -> str | None:
    return str(Path(named).resolve()) if named is not None and Path(named).exists() else named


def _oddities(data: Data, trainer: Trainer) -> Iterator[str]:
    """What in the data does not fit, though one can train with it: objects' features, and targets out of sight."""
    yield from data.object_notes
    for split in trainer.batches.splits:
        if split.target is not None:
            report = report_targets(data.objects, split.episodes)
            if not report.complete:
                yield f"{split.name}: {'; '.join(report.lines())}"
            shown = int((split.target != NONE).sum())
            if shown < report.at_goal:
                reason = "their objects are beyond --features.max-objects, or have no features"
                yield f"{split.name}: {report.at_goal - shown:,} targets are left out of what is shown; {reason}"


def _trainer(record: RunRecord, run: Path, data: Data, navigator: Navigator, ranks: Ranks) -> Trainer:
    experiment, tokenizer = record.experiment, navigator.tokenizer or data.tokenizer
    splits = {name: data.split(name, tokenizer, experiment.max_tokens) for name in experiment.splits}
    own = tokenizer.encode("").ids[0] if hasattr(navigator.backbone, "tokenizer") else None  # no BERT's, perhaps
    for name, split in splits.items():
        if own is not None and bool((split.tokens.ids[:, 0] != own).any()):
            raise UsageError(f"{name} brings tokens of another tokenizer than the navigator's; leave it out")
        if split.tokens.ids.shape[1] > navigator.config.positions:
            longest, most = split.tokens.ids.shape[1], navigator.config.positions
            problem = f"{name} has {longest} tokens, the navigator reads at most {most}"
            raise UsageError(f"{problem}; cut them: --max-tokens {most}")
        if not split.episodes.scored:
            raise UsageError(f"{name} withholds its goals, so there is nothing to learn or to score; leave it out")
    return Trainer(
        run,
        navigator.float().to(data.device),
        data.environment,
        train=[splits[name] for name in experiment.train_on],
        validation={name: splits[name] for name in experiment.validate_on},
        config=experiment.training,
        best_on=experiment.best_on,
        ranks=ranks,
        card={"preset": record.preset},
    )


def _require_unchanged(record: RunRecord, data: Data) -> None:
    folder = data.folder
    now = {**fingerprints(record.experiment, folder), **_own_fingerprint(data)}
    changed = [name for name, digest in record.fingerprints.items() if now.get(name) != digest]
    if changed:
        problem = f"{', '.join(changed)} changed since the run began"
        raise DataError(folder.root, problem, "give the data it began with (--data DIR), or begin another run")
