"""Runs: an experiment in a folder of its own, begun or resumed.

A run's folder holds `run.json` (the preset's name, all settings, the data folder and digests of what is read from it),
`checkpoints/` and `last.json`, `best/` (a navigator's folder) and the logs.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError, UsageError
from vlnbert.learning.checkpoints import POINTER, RECORD, last_checkpoint, unfilled_navigator
from vlnbert.learning.experiment import CAPTIONS, NAMES, OFF, Experiment
from vlnbert.learning.fingerprints import fingerprints
from vlnbert.learning.records import from_plain, to_plain
from vlnbert.learning.setting import Looks, Setting, new_navigator, open_setting, open_splits
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage.hub import exists
from vlnbert.ranks import ALONE, Ranks
from vlnbert.sources.files import read_json, write_json
from vlnbert.sources.folders import refuse_full
from vlnbert.sources.layout import DataFolder, open_folder
from vlnbert.tasks.targets import report_targets
from vlnbert.tasks.tokens import load_tokenizer
from vlnbert.world import open_world
from vlnbert.world.objects import NONE

ANOTHER = "resume it with: vlnbert train --resume {run}, or choose another folder"


@dataclass(frozen=True)
class Run:
    """What a run's folder says of itself."""

    preset: str
    data: str
    experiment: Experiment
    fingerprints: dict[str, str]


def begin_run(
    preset: str,
    experiment: Experiment,
    data: Path,
    run: Path,
    device: str = "cpu",
    ranks: Ranks = ALONE,
    tell: Callable[[str], object] = lambda line: None,
) -> Trainer:
    """A new run in an empty folder, ready to train; `tell` is told, line by line, what in the data does not fit."""
    if exists(run / RECORD):
        raise DataError(run, f"holds a run of {read_run(run).preset}", ANOTHER.format(run=run))
    refuse_full(run)
    folder, experiment = open_folder(data), _anchored(experiment)
    record = Run(preset, str(data.resolve()), experiment, fingerprints(experiment, folder))
    setting = open_setting(folder, open_world(folder, device=device), Looks.of(experiment))
    trainer = _trainer(record, run, setting, new_navigator(experiment, setting), ranks)
    ranks.wait()  # until all have found the folder empty
    if ranks.writes:
        write_json(run / RECORD, to_plain(record), indent=2)
        for line in _oddities(setting, trainer):
            tell(line)
    return trainer


def resume_run(run: Path, data: Path | None = None, device: str = "cpu", ranks: Ranks = ALONE) -> Trainer:
    """A run where it was left. The data may lie elsewhere now, but must be what it was."""
    record = read_run(run)
    folder = open_folder(data or record.data)
    _require_unchanged(record, folder)
    world = open_world(folder, device=device)
    setting = open_setting(folder, world, Looks.of(record.experiment))
    if not (run / POINTER).exists():  # killed before the first checkpoint
        return _trainer(record, run, setting, new_navigator(record.experiment, setting), ranks)
    trainer = _trainer(record, run, setting, unfilled_navigator(last_checkpoint(run)), ranks)
    trainer.resume()
    return trainer


def read_run(run: Path) -> Run:
    """What a run's folder says of itself, checked."""
    path, anew = run / RECORD, f"begin anew in another folder; --start {run} goes on from the weights of this one"
    values: Any = read_json(path, "run", "name the folder that a training wrote", damaged=anew)
    try:
        return from_plain(Run, values)
    except (UsageError, TypeError) as error:
        raise DataError(path, f"is damaged ({error})", anew) from None


def _anchored(experiment: Experiment) -> Experiment:
    """Files and folders by their whole paths, so that the run can be resumed from anywhere."""
    named = {name: getattr(experiment, name) for name in ("features", "objects", "encoder", "start")}
    there = {name: Path(value) for name, value in named.items() if value not in (None, CAPTIONS, NAMES, OFF)}
    whole = {name: str(path.resolve()) for name, path in there.items() if path.exists()}
    return replace(experiment, **whole)  # type: ignore[arg-type]  # plain fields by name


def _oddities(setting: Setting, trainer: Trainer) -> Iterator[str]:
    """What in the data does not fit, though one can train with it: objects' features, and targets out of sight."""
    yield from setting.notes
    for split in trainer.feed.splits:
        if split.target is not None and setting.objects is not None:
            report = report_targets(setting.objects, split.episodes)
            if not report.complete:
                yield f"{split.name}: {'; '.join(report.lines())}"
            shown = int((split.target != NONE).sum())
            if shown < report.at_goal:
                reason = "their objects are beyond --most-objects, or have no features"
                yield f"{split.name}: {report.at_goal - shown:,} targets are left out of what is shown; {reason}"


def _trainer(record: Run, run: Path, setting: Setting, navigator: Navigator, ranks: Ranks) -> Trainer:
    experiment, device = record.experiment, setting.world.device
    tokenizer = navigator.tokenizer or load_tokenizer(setting.folder.vocabulary)
    splits = open_splits(setting, tokenizer, experiment.splits, experiment.tokens)
    for name, split in splits.items():
        if split.tokens.ids.shape[1] > navigator.config.positions:
            longest, most = split.tokens.ids.shape[1], navigator.config.positions
            problem = f"{name} has {longest} tokens, the navigator reads at most {most}"
            raise UsageError(f"{problem}; cut them: --tokens {most}")
        if not split.episodes.scored:
            raise UsageError(f"{name} withholds its goals, so there is nothing to learn or to score; leave it out")
    return Trainer(
        run,
        navigator.float().to(device),
        setting.environment,
        [splits[name] for name in experiment.train_on],
        {name: splits[name] for name in experiment.validate_on},
        experiment.training,
        experiment.best_on,
        ranks,
        {"preset": record.preset},
    )


def _require_unchanged(record: Run, folder: DataFolder) -> None:
    now = fingerprints(record.experiment, folder)
    changed = [name for name, digest in record.fingerprints.items() if now.get(name) != digest]
    if changed:
        problem = f"{', '.join(changed)} changed since the run began"
        raise DataError(folder.root, problem, "give the data it began with (--data DIR), or begin another run")
