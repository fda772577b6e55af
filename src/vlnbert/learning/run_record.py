"""A run's record, `run.json`: the experiment as it is trained, its data and what was read of it.

Processes that learn together compare theirs before the first update. One that learned by another seed, from other data
or by another version would otherwise add its gradients to those of the others, in silence.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from vlnbert.errors import DataError, UsageError, setting
from vlnbert.learning.experiment import ExperimentSettings
from vlnbert.learning.recipe import RECIPES
from vlnbert.learning.run_folder import RECORD
from vlnbert.ranks import Ranks
from vlnbert.records import from_plain, leaves, missing, moved, to_plain
from vlnbert.sources.files import FORMAT, format_of, read_json
from vlnbert.sources.writing import write_json

# Of run.json. From 4 on every field is there, also those at their defaults; 3 keeps the shape that was trained, 2 the
# one asked for.
RECORD_FORMAT = 8
# Fields by the format that brought them. Older records lack them, and their runs were trained as the defaults say.
ADDED = {
    5: ("experiment.training.flip",),
    6: ("experiment.training.objective.alignment",),
    7: ("experiment.training.objective.grounding_rows",),
    8: (
        "recipe",
        "experiment.policy",
        "experiment.training.keep",
        "experiment.training.callbacks",
        "experiment.training.losses",
        "experiment.training.final_losses",
        "experiment.training.optimizer",
        "experiment.training.optimizer_settings",
        "experiment.training.parts",
    ),
}
# Settings renamed in format 2, by their places in an experiment.
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
    """The record of a run, `run.json`."""

    preset: str
    data: str
    experiment: ExperimentSettings
    fingerprints: dict[str, str]
    recipe: str = ""
    """What trains it, by name: that of the experiment."""
    plugins: tuple[str, ...] = ()
    """The plugins that were loaded when it began, files by their whole paths."""
    asked: tuple[str, ...] = ()
    """Places of the settings that were chosen explicitly, beside the preset's."""
    held_out: tuple[str, ...] = ()
    """The houses that are kept out of training."""
    ranks: int | None = None
    """How many processes it was begun with; older versions did not say."""
    threads: int | None = None
    """How many CPU threads each of them had."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "recipe", self.experiment.RECIPE)
        if len(self.held_out) != self.experiment.holdout:
            raise UsageError(f"{self.experiment.holdout} houses are kept out, {len(self.held_out)} are named")


def record_format(run: Path) -> int:
    """The format that a run's folder was written in."""
    values: Any = read_json(run / RECORD, "run", "name the folder that a training wrote")
    return format_of(run / RECORD, values, RECORD_FORMAT)


def read_record(run: Path) -> RunRecord:
    """Read the record of a run, checked."""
    path, version = run / RECORD, RECORD_FORMAT
    try:
        absent = list[str]()
        values: Any = read_json(path, "run", "name the folder that a training wrote", damaged="")
        if isinstance(values, dict):
            version = format_of(path, values, RECORD_FORMAT)
            values = {name: value for name, value in values.items() if name != FORMAT}
            absent = list(missing(RunRecord, values))
            if isinstance(values.get("experiment"), dict):
                experiment = _experiment_of(values, version)
                absent += missing(type(experiment), values["experiment"], "experiment.")
                values = {**values, "experiment": experiment}
        record = from_plain(RunRecord, values)
        later = {place for added, places in ADDED.items() if added > version for place in places}
        if version >= 4 and (lost := sorted(set(absent) - later)):
            raise UsageError(f"it lacks {', '.join(lost)}")
        return record
    except DataError as error:
        if error.remedy:
            raise
        raise DataError(path, error.problem, _anew(run), error.place) from None
    except (UsageError, TypeError) as error:
        raise DataError(path, f"is damaged ({error})", _anew(run)) from None


def _anew(run: Path) -> str:
    """The remedy where a run's record is damaged; its weights are not."""
    return f"begin anew in another folder; {setting('start', str(run))} goes on from the weights of this one"


def _experiment_of(values: Mapping[str, Any], version: int) -> ExperimentSettings:
    """The experiment of a record, of its recipe's kind; older formats did not name that."""
    settings, recipe = values["experiment"], values.get("recipe")
    if version == 1:
        settings = moved(settings, RENAMED)
    if recipe is None and version < 8:
        recipe = next((name for name in RECIPES if name in settings), "navigator")
    if not isinstance(recipe, str) or recipe not in RECIPES:
        raise UsageError(f"it names no recipe that is known here, {recipe!r:.60}")
    return from_plain(RECIPES[recipe].experiment, settings, "experiment")


def write_record(run: Path, record: RunRecord) -> None:
    """Write what a run is, in today's format."""
    write_json(run / RECORD, {FORMAT: RECORD_FORMAT, **to_plain(record)}, indent=2, lasting=True)


def extended(record: RunRecord, run: Path, iterations: int) -> RunRecord:
    """The same run with more updates; one whose learning rate comes down to its end cannot be extended."""
    training = record.experiment.training
    if iterations < training.iterations:
        problem = f"{setting('training.iterations')} is {iterations:,}, fewer than the {training.iterations:,} of {run}"
        raise UsageError(f"{problem}; choose more to extend it")
    length, reason = f"over {training.iterations:,} updates", ""
    if training.schedule != "constant":
        reason = f"its {training.schedule} learning rate comes down {length}, to its end with the last of them"
    elif training.final_split_weights and training.final_split_weights != training.split_weights:
        reason = f"the weights of its splits change {length}"
    if reason and iterations > training.iterations:
        remedy = f"begin another from its weights: {setting('start', str(run))}"
        raise UsageError(f"{run} cannot be extended: {reason}; {remedy}")
    # A copy is of the same class, such as TrainConfig.
    longer: Any = replace(training, iterations=iterations)
    return replace(record, experiment=replace(record.experiment, training=longer))


PACKAGE = Path(__file__).parents[1]


def require_agreement(ranks: Ranks, run: Path, record: RunRecord, checkpoint: Path | None = None) -> None:
    """Refuse, on all ranks, to train a run of which they have different settings; `checkpoint` is where it resumes."""
    if ranks.count == 1:
        return
    facts: dict[str, object] = {
        "the number of processes": ranks.count,
        "the files of vlnbert": _digest(*_package_files(PACKAGE)),
        "the version of torch": torch.__version__,
    }
    for plugin in map(Path, record.plugins):
        facts[f"the plugin {plugin.name}"] = _digest(plugin) if plugin.is_file() else str(plugin)
    for place, value in leaves(to_plain(record.experiment)):
        # Folders may lie elsewhere on other machines, and their content has a digest among the data's.
        whole = isinstance(value, str) and Path(value).is_absolute()
        facts[setting(place)] = Path(value).name if whole else value
    facts["the houses kept out of training"] = " ".join(record.held_out)
    facts |= {f"the data ({name})": digest for name, digest in record.fingerprints.items()}
    facts["the run's folder"] = run.resolve().name
    facts["the checkpoint to go on from"] = "none" if checkpoint is None else checkpoint.name
    ranks.agree(facts)


def _package_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file() and path.parent.name != "__pycache__")


def _digest(*files: Path) -> str:
    digest = blake2b(digest_size=8)
    for path in files:
        digest.update(f"{path.name} {path.stat().st_size}\n".encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()
