"""Policies that learn to navigate: Recurrent VLN-BERT, whose weights are a navigator's, or one that is registered.

A training starts from random weights, from others' or from those of an earlier run.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import torch
from tokenizers import Tokenizer
from torch import nn

from vlnbert.data.data import Data
from vlnbert.environment.environment import Environment
from vlnbert.errors import DataError, UsageError, setting
from vlnbert.evaluation.evaluate import evaluate_agent
from vlnbert.evaluation.metrics import Summary
from vlnbert.features.opening import as_kept
from vlnbert.learning.batches import BatchStream
from vlnbert.learning.experiment import Experiment, PolicyChoice, TrainConfig
from vlnbert.learning.losses import LOSSES
from vlnbert.learning.objective import term_names
from vlnbert.learning.recipe import Recipe, require_scored
from vlnbert.learning.rewards import REWARDS
from vlnbert.learning.run_folder import Trained, best_weights, is_run, unfilled_navigator, while_trained
from vlnbert.learning.trainer import Trainer
from vlnbert.learning.updates import Learner
from vlnbert.navigator import Navigator, NavigatorConfig
from vlnbert.navigator.model.backbone import make_backbone
from vlnbert.navigator.storage.folder import CONFIG, Limits, describes_navigator, describes_speaker
from vlnbert.ranks import Ranks
from vlnbert.registry import Registry
from vlnbert.rollout.policies import (
    POLICIES,
    RECURRENT,
    describes_policy,
    make_policy,
    open_policy,
    open_weights,
    unfilled_policy,
)
from vlnbert.rollout.policy import GreedyAgent, Inputs, Policy, as_policy
from vlnbert.sources.instructions import read_word_labels, require_word_labels
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.splits import Split, is_cut_from_train, task_and_split
from vlnbert.tasks.task import TASKS
from vlnbert.tasks.tokens import piece_count, require_fit
from vlnbert.tasks.word_labels import LABELLED, align_words, labels_of_parts
from vlnbert.weights.importing import load_weights
from vlnbert.weights.options import ImportOptions, resolve_source

if TYPE_CHECKING:
    from vlnbert.learning.run_record import RunRecord


class NavigatorRecipe(Recipe):
    """A policy learns from rollouts, by the teacher and by itself, and is scored by how it walks."""

    name = "navigator"
    experiment = Experiment
    walks = True

    def initial(self, experiment: Experiment, data: Data, asked: Collection[str] = ()) -> Trained:
        if experiment.policy.name == RECURRENT:
            return initial_navigator(experiment, data, asked)
        return initial_policy(experiment, data, asked)

    def reopen(self, checkpoint: Path) -> Trained:
        return unfilled_policy(checkpoint) if describes_policy(checkpoint) else unfilled_navigator(checkpoint)

    def open(self, folder: Path) -> Policy:
        return open_weights(folder)

    def as_trained(self, experiment: Experiment, model: Any) -> Experiment:
        if experiment.policy.name != RECURRENT:
            return replace(experiment, policy=PolicyChoice(model.name, dict(model.settings)))
        shape, settings = model.config, experiment.navigator.backbone_settings
        # Settings of a new backbone stay as they were chosen.
        if experiment.start is None:
            shape = replace(shape, backbone_settings=settings)
        return replace(experiment, navigator=shape)

    def start_notes(self, experiment: Experiment, model: Any) -> Iterator[str]:
        for name in WORDS if experiment.policy.name == RECURRENT else ():
            kept, said = getattr(model.config, name), getattr(experiment.navigator, name)
            if kept != said:
                weights = "as in the weights to start from"
                yield f"{setting(PLACE + name)} stays {kept}, {weights}; the experiment has {said}"

    def splits(self, record: "RunRecord", data: Data, model: Any) -> tuple[dict[str, Split], list[str]]:
        experiment: Any = record.experiment
        policy = as_policy(model)
        tokenizer = policy.tokenizer or data.tokenizer
        model.limits = Limits(experiment.training.max_steps, experiment.max_tokens)
        model.features = as_kept(experiment.features, sees_objects=policy.inputs.object_width > 0)
        splits = {name: data.split(name, tokenizer, experiment.max_tokens) for name in experiment.splits}
        # The first token may differ from BERT's.
        own = tokenizer.encode("").ids[0] if policy.brings_tokenizer else None
        for name, split in splits.items():
            if own is not None and bool((split.tokens.ids[:, 0] != own).any()):
                raise UsageError(f"{name} brings tokens of another tokenizer than the navigator's; leave it out")
            longest, most = split.tokens.ids.shape[1], policy.max_tokens
            if most is not None and longest > most:
                problem = f"{name} has {longest} tokens, the navigator reads at most {most}"
                raise UsageError(f"{problem}; cut them: {setting('max_tokens', most)}")
            require_scored(name, split)
        return aligned(splits, data, tokenizer) if experiment.aligns_words else (splits, [])

    def learner(
        self, model: nn.Module, environment: Environment, batches: BatchStream, config: TrainConfig, ranks: Ranks
    ) -> Learner:
        return Learner(
            model,
            environment,
            config,
            ranks=ranks,
            teacher_rows=batches.teacher_rows(environment.world),
            row_mode=batches.row_mode,
        )

    def scores(
        self,
        model: nn.Module,
        environment: Environment,
        validation: Mapping[str, Split],
        config: TrainConfig,
        ranks: Ranks,
    ) -> dict[str, Summary]:
        scores: dict[str, Summary] = {}
        for name, split in validation.items():
            result = evaluate_agent(
                environment,
                GreedyAgent(model),
                split.episodes,
                split.tokens,
                max_steps=config.max_steps or TASKS[split.episodes.task].max_steps,
                batch=config.validation_batch,
                ranks=ranks,
            )
            scores[name] = result.scores.summary() if result.scores is not None else {}
        return scores

    def anchored(self, experiment: Experiment) -> Experiment:
        navigator, settings = experiment.navigator, experiment.navigator.backbone_settings
        encoder = settings.get("encoder")
        if isinstance(encoder, str) and Path(encoder).exists():
            settings = {**settings, "encoder": str(Path(encoder).resolve())}
        return replace(experiment, navigator=replace(navigator, backbone_settings=settings))

    def also_read(self, experiment: Experiment, folder: DataFolder) -> dict[str, list[Path]]:
        if not experiment.aligns_words:
            return {}
        return {str(folder.word_labels.relative_to(folder.root)): [require_word_labels(folder.word_labels)]}

    def names(self, experiment: Experiment) -> Iterator[tuple[Registry[Any], str]]:
        yield from super().names(experiment)
        yield from ((LOSSES, name) for name in term_names(experiment.training))
        yield REWARDS, experiment.training.reward
        if experiment.policy.name != RECURRENT:
            yield POLICIES, experiment.policy.name

    def resume_notes(self, trainer: Trainer, version: int) -> Iterator[str]:
        if version >= 3:
            return
        shape: Any = trainer.model.config
        changes = list[str]()
        if shape.backbone == "one-stream" and shape.hidden_dropout > 0:
            changes.append("dropout stands elsewhere in the one-stream navigator")
        if trainer.config.accumulate > 1 and len(trainer.batches.splits) > 1:
            changes.append("all batches of an update come from one split")
        if changes:
            yield f"{trainer.run} was begun by an older version and goes on otherwise: {', and '.join(changes)}"


def aligned(splits: Mapping[str, Split], data: Data, tokenizer: Tokenizer) -> tuple[dict[str, Split], list[str]]:
    """Splits with the words to attend to, by the labels of the data folder; and what does not fit, line by line.

    Parts that are cut from train have labels of their own.
    """
    path, whole = data.folder.word_labels, splits[LABELLED]
    labels = read_word_labels(path)
    found, misfits = align_words(whole, labels, tokenizer, data.world)
    if found.aligned is None or not found.aligned.any():
        remedy = f"do without: {setting('training.objective.alignment', 0)}, or fetch the file again"
        raise DataError(path, f"no label is of a word that the navigator reads in {whole.name}", remedy)
    labelled = {**splits, LABELLED: found}
    for name, split in splits.items():
        if is_cut_from_train(data.folder, *task_and_split(name)):
            own = labels_of_parts(split.episodes, whole.episodes, labels)
            labelled[name], _ = align_words(split, own, tokenizer, data.world)
    return labelled, [f"{LABELLED}: {line}" for line in misfits]


Importable = Literal["one-stream", "two-stream"]  # the backbones that other people's weights can fill
PLACE = "navigator."  # of a navigator's settings in an experiment
SEEN = ("feature_width", "object_width")  # what the data decides, whatever the weights
TAKEN = ("layers", "cross_layers", "heads", "critic_width")  # what may be chosen of a BERT
WORDS = ("backbone", "matching", "language_attention")  # what a preset says of its shape beside sizes


def initial_navigator(experiment: Experiment, data: Data, asked: Collection[str] = ()) -> Navigator:
    """The navigator before its first update, its tokenizer in hand.

    `asked` are the places of settings that were chosen explicitly, such as navigator.layers: one that the data or the
    weights decide otherwise is refused by name.
    """
    torch.manual_seed(experiment.training.seed)
    named = {place.removeprefix(PLACE) for place in asked if place.startswith(PLACE)}
    if experiment.start is None:
        views, objects, pieces = data.view_bank.width, data.object_width, piece_count(data.tokenizer)
        shape = replace(experiment.navigator, feature_width=views, object_width=objects, vocabulary=pieces)
        navigator = Navigator(shape)
        # Some backbones bring a tokenizer.
        navigator.tokenizer = navigator.tokenizer or data.tokenizer
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
    """The loaded weights in float32, in a navigator with the requested dropout.

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
    # Without new weights, draw none.
    with torch.device("cpu" if objects != loaded.config.object_width else "meta"):
        navigator = Navigator(config, backbone)
    known = navigator.state_dict()
    fitting = {name: weight for name, weight in weights.items() if known[name].shape == weight.shape}
    navigator.load_state_dict({**known, **fitting}, assign=True)
    navigator.tokenizer = loaded.tokenizer or data.tokenizer
    if loaded.tokenizer is None:
        require_fit(data.folder.vocabulary, data.tokenizer, config.vocabulary)
    return navigator.float()


NAVIGATOR = NavigatorRecipe()
