"""A data folder, opened for an experiment: the world with what views look like in it, and splits to walk."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from tokenizers import Tokenizer

from vlnbert.environment.environment import Environment
from vlnbert.errors import DataError, UsageError
from vlnbert.learning.experiment import CAPTIONS, Experiment
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.perception.captions import open_captions
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.splits import Split, open_split, task_and_split
from vlnbert.tasks.tokens import load_tokenizer
from vlnbert.weights.importing import load_weights
from vlnbert.weights.named import resolve
from vlnbert.weights.options import Options
from vlnbert.world import Bank, World, open_features
from vlnbert.world.cache import Key


@dataclass(frozen=True)
class Setting:
    """Where agents walk and what they see there."""

    folder: DataFolder
    environment: Environment
    feature_width: int

    @property
    def world(self) -> World:
        return self.environment.world


def open_setting(
    folder: DataFolder, world: World, features: str | None, encoder: str, width: int | None = None
) -> Setting:
    """A world with the features that an experiment names; `width` is what they must have."""
    bank = _open_bank(world, folder, features, encoder, width)
    return Setting(folder, Environment(world, bank), bank.width)


def open_splits(setting: Setting, tokenizer: Tokenizer, names: Iterable[str], limit: int) -> dict[str, Split]:
    """Splits by their full names, such as r2r/val_unseen; instructions are cut to `limit` tokens."""
    return {name: open_split(setting.folder, setting.world, tokenizer, name, limit) for name in names}


def new_navigator(experiment: Experiment, setting: Setting) -> Navigator:
    """The navigator that an experiment starts with, its tokenizer in hand."""
    shape, seed = experiment.navigator, experiment.training.seed
    if experiment.start is None:
        tokenizer = load_tokenizer(setting.folder.vocabulary)
        pieces = 1 + max(tokenizer.get_vocab().values())
        torch.manual_seed(seed)
        navigator = Navigator(replace(shape, feature_width=setting.feature_width, vocabulary=pieces))
        navigator.tokenizer = tokenizer
        return navigator
    options = Options(
        backbone=shape.backbone,
        feature_width=setting.feature_width,
        matching=shape.matching,
        language_attention=shape.language_attention,
        angle_width=shape.angle_width,
        seed=seed,
    )
    return _as_asked(load_weights(resolve(experiment.start), options).navigator, shape, setting)


def fingerprints(experiment: Experiment, folder: DataFolder) -> dict[str, str]:
    """A digest of everything in a data folder that an experiment reads, by name."""
    found = {"connectivity": Key.of("graphs", folder.graphs().values()).digest}
    for name in dict.fromkeys((*experiment.train_on, *experiment.validate_on)):
        path = folder.split(*task_and_split(name))
        found[str(path.relative_to(folder.root))] = Key.of("instructions", [path]).digest
    if experiment.features == CAPTIONS:
        found["captions"] = Key.of("captions", sorted(folder.captions.glob("*.json"))).digest
    else:
        found["features"] = Key.of("features", [feature_file(folder, experiment.features)]).digest
    return found


def feature_file(folder: DataFolder, named: str | None) -> Path:
    """The feature file that is named, or the only one in the data folder."""
    if named is not None:
        return Path(named)
    files = folder.feature_files()
    if len(files) != 1:
        found = f"holds {len(files)} feature files" if files else "holds no feature file"
        remedy = "name one with --features FILE" + (", or see by captions: --features captions" if not files else "")
        raise DataError(folder.features, found, remedy)
    return files[0]


def _open_bank(world: World, folder: DataFolder, features: str | None, encoder: str, width: int | None) -> Bank:
    if features != CAPTIONS:
        return open_features(world, feature_file(folder, features), width)
    bank = open_captions(world, folder.captions, encoder, world.device)
    if width is not None and bank.width != width:
        problem = f"the captions' features are {bank.width} wide, the navigator sees {width}"
        raise UsageError(f"{problem}; name the encoder that it was trained with: --encoder BERT")
    return bank


def _as_asked(loaded: Navigator, shape: NavigatorConfig, setting: Setting) -> Navigator:
    """The loaded weights in float32, in a navigator with the dropout that was asked for."""
    dropout = {name: getattr(shape, name) for name in vars(shape) if name.endswith("dropout")}
    navigator = Navigator(replace(loaded.config, **dropout))
    navigator.load_state_dict(loaded.state_dict())
    navigator.tokenizer = loaded.tokenizer or load_tokenizer(setting.folder.vocabulary)
    return navigator
