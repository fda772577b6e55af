"""The navigator that an experiment starts with: random weights, somebody's, or those of an earlier run."""

from dataclasses import replace
from pathlib import Path
from typing import Literal, cast, get_args

import torch

from vlnbert.data.data import Data
from vlnbert.errors import UsageError
from vlnbert.learning.checkpoints import best_weights, is_run
from vlnbert.learning.experiment import Experiment
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.navigator.model import make_backbone
from vlnbert.navigator.storage.folder import CONFIG, describes_navigator
from vlnbert.tasks.tokens import piece_count
from vlnbert.weights.importing import load_weights
from vlnbert.weights.options import ImportOptions, resolve_source

Importable = Literal["one-stream", "two-stream"]  # the backbones that other people's weights can fill


def initial_navigator(experiment: Experiment, data: Data) -> Navigator:
    """The navigator before its first update, its tokenizer in hand."""
    shape, seed = experiment.navigator, experiment.training.seed
    views, objects = data.view_bank.width, object_width(data)
    torch.manual_seed(seed)
    if experiment.start is None:
        navigator = Navigator(
            replace(shape, feature_width=views, object_width=objects, vocabulary=piece_count(data.tokenizer))
        )
        navigator.tokenizer = navigator.tokenizer or data.tokenizer  # some backbones bring their own
        return navigator
    start = resolve_source(experiment.start)
    if (own := own_weights(Path(start))) is not None:
        return _as_asked(Navigator.from_pretrained(own), shape, data)
    if shape.backbone not in get_args(Importable):
        problem = f"{start} holds no weights of a {shape.backbone} backbone"
        raise UsageError(f"{problem}; start from none (--start None), or from a run of your own")
    options = ImportOptions(
        backbone=cast("Importable", shape.backbone),
        matching=shape.matching,
        language_attention=shape.language_attention,
        angle_width=shape.angle_width,
        feature_width=views,
        object_width=objects,
        seed=seed,
    )
    return _as_asked(load_weights(start, options).navigator, shape, data)


def object_width(data: Data) -> int:
    """The width of an object's feature; 0 where agents see none."""
    return 0 if data.object_bank is None else data.object_bank.width


def own_weights(start: Path) -> Path | None:
    """The navigator in a run's folder (its best) or in a navigator's own; nothing for other people's weights."""
    folder = best_weights(start) if is_run(start) else start
    return folder if describes_navigator(folder / CONFIG) else None


def _as_asked(loaded: Navigator, shape: NavigatorConfig, data: Data) -> Navigator:
    """The loaded weights in float32, in a navigator with the dropout that was asked for.

    One that saw no objects gets new weights for them, where there are some to see.
    """
    seen, width = data.view_bank.width, loaded.config.feature_width
    if width != seen:
        problem = f"the views are {seen} wide, the navigator to start from sees {width}"
        raise UsageError(f"{problem}; give the features that it was trained with")
    dropout = {name: getattr(shape, name) for name in vars(shape) if name.endswith("dropout")}
    objects, weights = object_width(data) or loaded.config.object_width, loaded.state_dict()
    config = replace(loaded.config, **dropout, object_width=objects)
    backbone = make_backbone(config)
    with torch.device("cpu" if objects != loaded.config.object_width else "meta"):  # without new ones, draw none
        navigator = Navigator(config, backbone)
    known = navigator.state_dict()
    fitting = {name: weight for name, weight in weights.items() if known[name].shape == weight.shape}
    navigator.load_state_dict({**known, **fitting}, assign=True)
    navigator.tokenizer = loaded.tokenizer or data.tokenizer
    return navigator.float()
