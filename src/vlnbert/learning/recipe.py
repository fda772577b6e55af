"""Recipes: the first model of a training, its splits, its losses and its scores.

A run names its recipe. The trainer, the checkpoints and the run's folder know the model by this contract alone.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from vlnbert.data.data import Data
from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError
from vlnbert.evaluation.metrics import Summary
from vlnbert.learning.batches import BatchStream
from vlnbert.learning.callbacks import CALLBACKS
from vlnbert.learning.experiment import ExperimentSettings
from vlnbert.learning.optimisers import OPTIMISERS, SCHEDULES
from vlnbert.learning.run_folder import Trained
from vlnbert.learning.trainer import Trainer
from vlnbert.plugins import LOAD_PLUGIN
from vlnbert.ranks import Ranks
from vlnbert.registry import Registry
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.splits import Split, without_houses

if TYPE_CHECKING:
    from vlnbert.learning.run_record import RunRecord


class Recipe(ABC):
    """A kind of training; one object serves all runs of it."""

    name: ClassVar[str]
    """Also the field of the experiment that says what is trained, such as navigator."""
    experiment: ClassVar[type[ExperimentSettings]]
    walks: ClassVar[bool] = False
    """Whether what it trains is an agent, which can be evaluated, shown and explored."""

    @abstractmethod
    def initial(self, experiment: Any, data: Data, asked: Collection[str] = ()) -> Trained:
        """Make the model before its first update; `asked` are the places of settings that were chosen explicitly."""

    @abstractmethod
    def reopen(self, checkpoint: Path) -> Trained:
        """Make a model in the shape of a checkpoint's; `load_checkpoint` must give it weights."""

    @abstractmethod
    def open(self, folder: Path) -> Any:
        """Open the model in a folder: a run's best, or one of its checkpoints."""

    @abstractmethod
    def as_trained(self, experiment: Any, model: Any) -> ExperimentSettings:
        """The experiment with the shape that is trained, as a run's folder keeps it."""

    @abstractmethod
    def splits(self, record: "RunRecord", data: Data, model: Any) -> tuple[dict[str, Split], list[str]]:
        """The splits of an experiment, ready for a model; and, line by line, what in them does not fit."""

    @abstractmethod
    def learner(self, model: Any, environment: Environment, batches: BatchStream, config: Any, ranks: Ranks) -> Any:
        """Make the module that gradients are taken of; called with a batch and the keys of its noise, it gives losses.

        These are [part], named by its `parts`; the first is the total, which carries the gradient. Its
        `begin_update(iteration)` sets what changes over the training, and `unclipped()` gives the parameters whose
        gradients may be of any size.
        """

    @abstractmethod
    def scores(
        self, model: Any, environment: Environment, validation: Mapping[str, Split], config: Any, ranks: Ranks
    ) -> dict[str, Summary]:
        """The scores on each of the validation splits, shared out over all ranks."""

    def anchored(self, experiment: Any) -> Any:
        """The experiment with the files that it names beside features and start by their whole paths."""
        return experiment

    def also_read(self, experiment: Any, folder: DataFolder) -> dict[str, list[Path]]:
        """Files that an experiment reads beside splits and features, by what they are called in a fingerprint."""
        return {}

    def names(self, experiment: Any) -> Iterator[tuple[Registry[Any], str]]:
        """The names that an experiment uses, each with the registry that it must be in."""
        training = experiment.training
        yield OPTIMISERS, training.optimizer
        yield SCHEDULES, training.schedule
        yield from ((CALLBACKS, name) for name in training.callbacks)

    def require_trainable(self, experiment: Any, resumed: bool = False) -> None:
        """Refuse an experiment that names what nobody registers here, before anything is opened or written."""
        for registry, name in self.names(experiment):
            # A plugin is missing; the name is not misspelt.
            if resumed and name not in registry:
                problem = f"the run learns by the {registry.kind} '{name}', which nobody registers here"
                raise UsageError(f"{problem}; {LOAD_PLUGIN}")
            _ = registry[name]

    def start_notes(self, experiment: Any, model: Any) -> Iterator[str]:
        """In words, which settings weights to start from keep although the experiment has others."""
        yield from ()

    def resume_notes(self, trainer: Trainer, version: int) -> Iterator[str]:
        """In words, in what a run of an older format resumes with different behaviour."""
        yield from ()

    def make_trainer(self, record: "RunRecord", run: Path, data: Data, model: Any, ranks: Ranks) -> Trainer:
        """The trainer of a run, its splits opened."""
        experiment = record.experiment
        splits, notes = self.splits(record, data, model)
        trainer = Trainer(
            self,
            run,
            model.float().to(data.device),
            data.environment,
            train=[without_houses(data.world, splits[name], record.held_out) for name in experiment.train_on],
            validation={name: splits[name] for name in experiment.validate_on},
            config=experiment.training,
            best_on=experiment.best_on,
            best_metric=experiment.best_metric,
            ranks=ranks,
            card={"preset": record.preset},
        )
        trainer.notes = [*notes, *trainer.notes]
        return trainer


def require_scored(name: str, split: Split) -> None:
    """Refuse a split without goals."""
    if not split.episodes.scored:
        raise UsageError(f"{name} withholds its goals, so there is nothing to learn or to score; leave it out")


RECIPES: Registry[Recipe] = Registry("recipe")
RECIPES.announce("navigator", "vlnbert.learning.navigator_recipe", "NAVIGATOR")
RECIPES.announce("speaker", "vlnbert.speaker.recipe", "RECIPE")


def recipe_of(experiment: ExperimentSettings) -> Recipe:
    """The recipe of an experiment."""
    return RECIPES[experiment.RECIPE]
