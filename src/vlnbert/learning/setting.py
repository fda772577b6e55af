"""A data folder, opened for an experiment: the world with what views and objects look like, and splits to walk."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from vlnbert.environment.environment import Environment
from vlnbert.errors import DataError, UsageError
from vlnbert.learning.checkpoints import best_weights, is_run
from vlnbert.learning.experiment import CAPTIONS, NAMES, OFF, Experiment
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.navigator.storage.folder import CONFIG, describes_navigator
from vlnbert.perception.captions import open_captions
from vlnbert.perception.objects import open_object_names
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.splits import Split, open_split, task_and_split
from vlnbert.tasks.tokens import load_tokenizer, piece_count
from vlnbert.weights.importing import load_weights
from vlnbert.weights.named import MINILM, resolve
from vlnbert.weights.options import Options
from vlnbert.world import Bank, World, open_features
from vlnbert.world.object_bank import ObjectBank
from vlnbert.world.object_features import open_object_features
from vlnbert.world.objects import Objects, open_objects


@dataclass(frozen=True)
class Looks:
    """What views and objects look like; the names are those of an experiment's fields."""

    features: str | None = None
    feature_width: int | None = None
    objects: str | None = OFF
    most_objects: int | None = None
    encoder: str = MINILM

    @classmethod
    def of(cls, experiment: Experiment) -> "Looks":
        objects = experiment.objects if "reverie" in experiment.tasks else OFF
        views = experiment.features, experiment.feature_width
        return cls(*views, objects, experiment.most_objects, experiment.encoder)


@dataclass(frozen=True)
class Setting:
    """Where agents walk and what they see there."""

    folder: DataFolder
    environment: Environment
    feature_width: int
    objects: Objects | None = None  # all that the folder has, where agents see any
    notes: tuple[str, ...] = ()  # what of the objects' features does not fit, in words

    @property
    def world(self) -> World:
        return self.environment.world

    @property
    def object_width(self) -> int:
        return self.environment.objects.width if self.environment.objects is not None else 0


def open_setting(
    folder: DataFolder, world: World, looks: Looks, width: int | None = None, object_width: int | None = None
) -> Setting:
    """A world with what an experiment names; the widths are what features must have."""
    bank = _open_bank(world, folder, looks, width)
    if looks.objects == OFF:
        return Setting(folder, Environment(world, bank), bank.width)
    objects = open_objects(world, folder.boxes)
    shown, notes = _open_object_bank(world, folder, objects, looks, object_width)
    return Setting(folder, Environment(world, bank, shown), bank.width, objects, notes)


def open_splits(setting: Setting, tokenizer: Tokenizer, names: Iterable[str], limit: int | None) -> dict[str, Split]:
    """Splits by their full names, such as r2r/val_unseen; instructions are cut to `limit` tokens."""
    folder, world, seen, every = setting.folder, setting.world, setting.environment.objects, setting.objects
    objects, names = None if seen is None else seen.objects, tuple(names)
    if every is None and "reverie" in (task_and_split(name)[0] for name in names):
        every = open_objects(world, folder.boxes)  # agents see none, but episodes tell where their targets are
    return {name: open_split(folder, world, tokenizer, name, limit, objects, every) for name in names}


def new_navigator(experiment: Experiment, setting: Setting) -> Navigator:
    """The navigator that an experiment starts with, its tokenizer in hand."""
    shape, seed = experiment.navigator, experiment.training.seed
    views, objects = setting.feature_width, setting.object_width
    torch.manual_seed(seed)
    if experiment.start is None:
        tokenizer = load_tokenizer(setting.folder.vocabulary)
        pieces = piece_count(tokenizer)
        navigator = Navigator(replace(shape, feature_width=views, object_width=objects, vocabulary=pieces))
        navigator.tokenizer = tokenizer
        return navigator
    start = resolve(experiment.start)
    if (own := own_weights(Path(start))) is not None:
        return _as_asked(Navigator.from_pretrained(own), shape, setting)
    options = Options(
        backbone=shape.backbone,
        matching=shape.matching,
        language_attention=shape.language_attention,
        angle_width=shape.angle_width,
        feature_width=views,
        object_width=objects,
        seed=seed,
    )
    return _as_asked(load_weights(start, options).navigator, shape, setting)


def own_weights(start: Path) -> Path | None:
    """The navigator in a run's folder (its best) or in a navigator's own; nothing for other people's weights."""
    folder = best_weights(start) if is_run(start) else start
    return folder if describes_navigator(folder / CONFIG) else None


def feature_file(folder: DataFolder, named: str | None) -> Path:
    """The feature file that is named, or the only one in the data folder."""
    files, instead = folder.feature_files(), "--features captions sees by captions"
    return Path(named) if named is not None else _only(folder, files, "feature file", "--features FILE", instead)


def object_feature_file(folder: DataFolder, named: str | None) -> Path:
    """The same for the features of objects."""
    files, instead = folder.object_feature_files(), "--objects names sees by names and captions"
    return Path(named) if named is not None else _only(folder, files, "object feature file", "--objects FILE", instead)


def _only(folder: DataFolder, files: list[Path], what: str, option: str, instead: str) -> Path:
    if len(files) != 1:
        found = f"holds {len(files)} {what}s" if files else f"holds no {what}"
        raise DataError(folder.features, found, f"name one with {option}; {instead}")
    return files[0]


def _open_bank(world: World, folder: DataFolder, looks: Looks, width: int | None) -> Bank:
    if looks.features != CAPTIONS:
        return open_features(world, feature_file(folder, looks.features), width or looks.feature_width)
    bank = open_captions(world, folder.captions, looks.encoder, world.device)
    _check_width("captions'", bank.width, width)
    return bank


def _open_object_bank(
    world: World, folder: DataFolder, objects: Objects, looks: Looks, width: int | None
) -> tuple[ObjectBank, tuple[str, ...]]:
    """The bank of objects, and what does not fit."""
    if looks.objects != NAMES:
        path = object_feature_file(folder, looks.objects)
        bank, fit = open_object_features(world, objects, path, width, looks.most_objects)
        return bank, tuple(f"{path}: {line}" for line in fit.lines())
    bank = open_object_names(world, objects, folder.captions, looks.encoder, world.device, looks.most_objects)
    _check_width("objects'", bank.width, width)
    return bank, ()


def _check_width(whose: str, found: int, expected: int | None) -> None:
    if expected is not None and found != expected:
        problem = f"the {whose} features are {found} wide, the navigator sees {expected}"
        raise UsageError(f"{problem}; name what it was trained with (--features, --objects, --encoder)")


def _as_asked(loaded: Navigator, shape: NavigatorConfig, setting: Setting) -> Navigator:
    """The loaded weights in float32, in a navigator with the dropout that was asked for.

    One that saw no objects gets new weights for them, where there are some to see.
    """
    if (width := loaded.config.feature_width) != setting.feature_width:
        problem = f"the views are {setting.feature_width} wide, the navigator to start from sees {width}"
        raise UsageError(f"{problem}; give the features that it was trained with")
    dropout = {name: getattr(shape, name) for name in vars(shape) if name.endswith("dropout")}
    objects, weights = setting.object_width or loaded.config.object_width, loaded.state_dict()
    with torch.device("cpu" if objects != loaded.config.object_width else "meta"):  # without new ones, draw none
        navigator = Navigator(replace(loaded.config, **dropout, object_width=objects))
    known = navigator.state_dict()
    fitting = {name: weight for name, weight in weights.items() if known[name].shape == weight.shape}
    navigator.load_state_dict({**known, **fitting}, assign=True)
    navigator.tokenizer = loaded.tokenizer or load_tokenizer(setting.folder.vocabulary)
    return navigator.float()
