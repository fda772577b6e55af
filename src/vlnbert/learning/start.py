"""The navigator that an experiment starts with: random weights, somebody's, or those of an earlier run."""

from collections.abc import Collection, Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Literal, cast, get_args

import torch

from vlnbert.data.data import Data
from vlnbert.errors import UsageError, setting
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.run_folder import best_weights, is_run, while_trained
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.navigator.model import make_backbone
from vlnbert.navigator.storage.folder import CONFIG, describes_navigator, describes_speaker
from vlnbert.rollout.policies import make_policy, open_policy
from vlnbert.rollout.policy import Inputs, Policy
from vlnbert.tasks.tokens import piece_count, require_fit
from vlnbert.weights.importing import load_weights
from vlnbert.weights.options import ImportOptions, resolve_source

Importable = Literal["one-stream", "two-stream"]  # the backbones that other people's weights can fill
PLACE = "navigator."  # of a navigator's settings in an experiment
SEEN = ("feature_width", "object_width")  # what the data decides, whatever the weights
TAKEN = ("layers", "cross_layers", "heads", "critic_width")  # what may be chosen of a BERT
WORDS = ("backbone", "matching", "language_attention")  # what a preset says of its shape beside sizes


def initial_navigator(experiment: Experiment, data: Data, asked: Collection[str] = ()) -> Navigator:
    """The navigator before its first update, its tokenizer in hand.

    `asked` are the places of settings that somebody chose, such as navigator.layers: what of its shape the data or the
    weights decide otherwise is refused by its name.
    """
    torch.manual_seed(experiment.training.seed)
    named = {place.removeprefix(PLACE) for place in asked if place.startswith(PLACE)}
    if experiment.start is None:
        navigator = _new_navigator(experiment.navigator, data)
    else:
        navigator = _started_navigator(experiment, resolve_source(experiment.start), data, named)
    _require_as_asked(experiment, navigator.config, named)
    return navigator


def initial_policy(experiment: Experiment, data: Data, asked: Collection[str] = ()) -> Policy:
    """The registered policy before its first update: of the experiment's settings, or of the weights to start from."""
    if chosen := next((place for place in asked if place.startswith(PLACE)), None):
        problem = f"{setting(chosen)} is of recurrent, but {experiment.policy.name} is trained"
        raise UsageError(f"{problem}; leave it out, or see {setting('policy.settings')}")
    torch.manual_seed(experiment.training.seed)
    tokenizer = data.tokenizer
    inputs = Inputs(
        feature_width=data.view_bank.width,
        object_width=data.object_width,
        vocabulary=piece_count(tokenizer),
        tasks=experiment.tasks,
        tokenizer=tokenizer,
    )
    if experiment.start is None:
        return make_policy(experiment.policy.name, experiment.policy.settings, inputs)
    start = Path(experiment.start)
    opened = while_trained(start, lambda path: open_policy(best_weights(path) if is_run(path) else path))
    if opened.name != experiment.policy.name:
        raise UsageError(f"{start} holds the policy {opened.name}, not {experiment.policy.name}; name that one")
    for name in ("feature_width", "object_width", "vocabulary"):
        if (was := getattr(opened.inputs, name)) != (now := getattr(inputs, name)):
            problem = f"{start} was made for a {name.replace('_', ' ')} of {was}, and it is {now}"
            raise UsageError(f"{problem}; give the data that it was trained with")
    return opened.float()


def trained_shape(experiment: Experiment, navigator: Navigator) -> NavigatorConfig:
    """The shape that is trained, as a run's folder keeps it; what a new backbone reads stays as it was asked for."""
    if experiment.start is not None:
        return navigator.config
    return replace(navigator.config, backbone_settings=experiment.navigator.backbone_settings)


def kept_by_start(shape: NavigatorConfig, navigator: Navigator) -> Iterator[str]:
    """In words, what a navigator to start from keeps although the experiment has it otherwise; sizes are its own."""
    for name in WORDS:
        if (kept := getattr(navigator.config, name)) != (said := getattr(shape, name)):
            yield f"{setting(PLACE + name)} stays {kept}, as in the weights to start from; the experiment has {said}"


def _new_navigator(shape: NavigatorConfig, data: Data) -> Navigator:
    views, objects, pieces = data.view_bank.width, data.object_width, piece_count(data.tokenizer)
    navigator = Navigator(replace(shape, feature_width=views, object_width=objects, vocabulary=pieces))
    navigator.tokenizer = navigator.tokenizer or data.tokenizer  # some backbones bring their own
    return navigator


def _started_navigator(experiment: Experiment, start: str | Path, data: Data, named: Collection[str]) -> Navigator:
    """The navigator that some weights make, ours or other people's."""
    shape = experiment.navigator
    if (own := while_trained(Path(start), own_navigator)) is not None:
        return _fitted(own, shape, data)
    if shape.backbone not in get_args(Importable):
        problem = f"{start} holds no weights of a {shape.backbone} backbone"
        raise UsageError(f"{problem}; start from none ({setting('start', 'None')}), or from a run of your own")
    options = ImportOptions(
        backbone=cast("Importable", shape.backbone),
        matching=shape.matching,
        language_attention=shape.language_attention,
        angle_width=shape.angle_width,
        feature_width=data.view_bank.width,
        object_width=data.object_width,
        seed=experiment.training.seed,
        **{name: getattr(shape, name) or None for name in TAKEN if name in named},
    )
    return _fitted(load_weights(start, options).navigator, shape, data)


def _require_as_asked(experiment: Experiment, made: NavigatorConfig, named: Collection[str]) -> None:
    """Refuse, by its name, a setting of the shape that the navigator does not have."""
    decided = {field.name for field in fields(made)} - (set() if experiment.start else {"backbone_settings"})
    for name in sorted(decided & set(named)):
        asked, found = getattr(experiment.navigator, name), getattr(made, name)
        if asked != found:
            owner = "the weights to start from" if experiment.start is not None else f"the backbone {made.backbone}"
            if name in SEEN or (name == "vocabulary" and experiment.start is None):
                owner = "the data"
            raise UsageError(f"{setting(PLACE + name)} is {asked}, but {owner} decided on {found}; leave it out")


def own_navigator(start: Path) -> Navigator | None:
    """The navigator in a run's folder (its best) or in a navigator's own; nothing for other people's weights."""
    run = is_run(start)
    folder = best_weights(start) if run else start
    if describes_speaker(folder):
        raise UsageError(f"{start} is a speaker's, from which no navigator can start; name a navigator's weights")
    return Navigator.from_pretrained(folder) if run or describes_navigator(folder / CONFIG) else None


def _fitted(loaded: Navigator, shape: NavigatorConfig, data: Data) -> Navigator:
    """The loaded weights in float32, in a navigator with the dropout that was asked for.

    One that saw no objects gets new weights for them, where there are some to see.
    """
    seen, width = data.view_bank.width, loaded.config.feature_width
    if width != seen:
        problem = f"the views are {seen} wide, the navigator to start from sees {width}"
        raise UsageError(f"{problem}; give the features that it was trained with")
    dropout = {name: getattr(shape, name) for name in vars(shape) if name.endswith("dropout")}
    objects, weights = data.object_width or loaded.config.object_width, loaded.state_dict()
    config = replace(loaded.config, **dropout, object_width=objects)
    backbone = make_backbone(config)
    with torch.device("cpu" if objects != loaded.config.object_width else "meta"):  # without new ones, draw none
        navigator = Navigator(config, backbone)
    known = navigator.state_dict()
    fitting = {name: weight for name, weight in weights.items() if known[name].shape == weight.shape}
    navigator.load_state_dict({**known, **fitting}, assign=True)
    navigator.tokenizer = loaded.tokenizer or data.tokenizer
    if loaded.tokenizer is None:
        require_fit(data.folder.vocabulary, data.tokenizer, config.vocabulary)
    return navigator.float()
