"""Policies that learn to navigate: Recurrent VLN-BERT, whose weights are a navigator's, or one that is registered."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tokenizers import Tokenizer
from torch import nn

from vlnbert.data.data import Data
from vlnbert.data.shown import as_kept
from vlnbert.environment.environment import Environment
from vlnbert.errors import DataError, UsageError, setting
from vlnbert.evaluation.evaluate import evaluate_agent
from vlnbert.evaluation.tables import Summary
from vlnbert.learning.batches import BatchStream
from vlnbert.learning.checkpoints import Trained, unfilled_navigator
from vlnbert.learning.experiment import Experiment, PolicyChoice, TrainConfig, best_metric
from vlnbert.learning.losses import LOSSES
from vlnbert.learning.objective import term_names
from vlnbert.learning.recipe import Recipe, require_scored
from vlnbert.learning.rewards import REWARDS
from vlnbert.learning.start import initial_navigator, initial_policy, kept_by_start, trained_shape
from vlnbert.learning.trainer import Trainer
from vlnbert.learning.updates import Learner
from vlnbert.navigator.storage.folder import Limits
from vlnbert.ranks import Ranks
from vlnbert.registry import Registry
from vlnbert.rollout.greedy import GreedyAgent
from vlnbert.rollout.policies import POLICIES, RECURRENT, describes_policy, open_weights, unfilled_policy
from vlnbert.rollout.policy import Policy
from vlnbert.rollout.recurrent import as_policy
from vlnbert.sources.layout import DataFolder
from vlnbert.sources.word_labels import read_word_labels, require_word_labels
from vlnbert.tasks.alignment import LABELLED, align_words
from vlnbert.tasks.splits import Split, task_and_split
from vlnbert.tasks.sub_instructions import is_cut_from_train, labels_of_parts
from vlnbert.tasks.task import TASKS

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
        if experiment.policy.name == RECURRENT:
            return replace(experiment, navigator=trained_shape(experiment, model))
        return replace(experiment, policy=PolicyChoice(model.name, dict(model.settings)))

    def start_notes(self, experiment: Experiment, model: Any) -> Iterator[str]:
        if experiment.policy.name == RECURRENT:
            yield from kept_by_start(experiment.navigator, model)

    def splits(self, record: "RunRecord", data: Data, model: Any) -> tuple[dict[str, Split], list[str]]:
        experiment: Any = record.experiment
        policy = as_policy(model)
        tokenizer = policy.tokenizer or data.tokenizer
        model.limits = Limits(experiment.training.max_steps, experiment.max_tokens)
        model.features = as_kept(experiment.features, sees_objects=policy.inputs.object_width > 0)
        splits = {name: data.split(name, tokenizer, experiment.max_tokens) for name in experiment.splits}
        own = tokenizer.encode("").ids[0] if policy.brings_tokenizer else None  # no BERT's, perhaps
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
            row_policy=batches.row_policy,
        )

    def scores(
        self,
        model: nn.Module,
        environment: Environment,
        validation: Mapping[str, Split],
        config: TrainConfig,
        ranks: Ranks,
    ) -> dict[str, Summary]:
        return validation_scores(environment, model, validation, config, ranks)

    def best_metric(self, best_on: str) -> str:
        return best_metric(best_on)

    def drops(self, model: Any) -> bool:
        shape = vars(model.config) if hasattr(model, "config") else model.settings
        return any(rate for name, rate in shape.items() if name.endswith("dropout"))

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


def validation_scores(
    environment: Environment, model: nn.Module, splits: Mapping[str, Split], config: TrainConfig, ranks: Ranks
) -> dict[str, Summary]:
    """The scores on each of the splits, walked by all ranks together."""
    scores: dict[str, Summary] = {}
    for name, split in splits.items():
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


def aligned(splits: Mapping[str, Split], data: Data, tokenizer: Tokenizer) -> tuple[dict[str, Split], list[str]]:
    """Splits with the words to attend to, by the labels of the data folder; and what does not fit, line by line.

    Parts that are cut from train have labels of their own.
    """
    path, whole = data.folder.word_labels, splits[LABELLED]
    labels = read_word_labels(path)
    found, report = align_words(whole, labels, tokenizer, data.world)
    if found.aligned is None or not found.aligned.any():
        remedy = f"do without: {setting('training.objective.alignment', 0)}, or fetch the file again"
        raise DataError(path, f"no label is of a word that the navigator reads in {whole.name}", remedy)
    labelled = {**splits, LABELLED: found}
    for name, split in splits.items():
        if is_cut_from_train(data.folder, *task_and_split(name)):
            own = labels_of_parts(split.episodes, whole.episodes, labels)
            labelled[name], _ = align_words(split, own, tokenizer, data.world)
    return labelled, [f"{LABELLED}: {line}" for line in report.lines()]
