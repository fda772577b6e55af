"""A run's folder as an object: what was trained, how it went, and what came of it."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from vlnbert.api.arguments import checked
from vlnbert.data.data import Data
from vlnbert.errors import DataError, UnknownNameError, UsageError
from vlnbert.evaluation.metrics import shown
from vlnbert.evaluation.options import Checkpoint
from vlnbert.evaluation.walker import LoadedAgent
from vlnbert.features.opening import bank_digest
from vlnbert.features.spec import IN_MEMORY
from vlnbert.learning.callbacks import Callback, read_log
from vlnbert.learning.experiment import Experiment, ExperimentSettings
from vlnbert.learning.recipe import recipe_of
from vlnbert.learning.run_folder import (
    ANEW,
    BEST,
    CHECKPOINTS,
    Progress,
    best_weights,
    has_checkpoint,
    last_checkpoint,
    read_progress,
    while_trained,
)
from vlnbert.learning.run_record import RunRecord, read_record
from vlnbert.navigator import Navigator
from vlnbert.plugins import load_recorded
from vlnbert.progress import say
from vlnbert.records import to_plain
from vlnbert.rollout.policies import RECURRENT, open_weights
from vlnbert.rollout.policy import Policy
from vlnbert.tables import Table
from vlnbert.tasks.splits import task_and_split
from vlnbert.tasks.task import METRICS, TASKS
from vlnbert.world.cache import Key

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOG = "log.jsonl"


@dataclass(eq=False)
class Run:
    """A training in its folder. `vln.train` gives one, and `vln.open_run(folder)` gives it back later."""

    folder: Path
    interrupted: bool = False  # whether training was asked to stop before its end
    stopped_by: int | None = None  # the signal that asked for it, such as 15 for SIGTERM; none where a caller did

    @cached_property
    def record(self) -> RunRecord:
        """What the folder says of itself: preset, settings, data folder, digests of what was read."""
        return read_record(self.folder)

    @property
    def preset(self) -> str:
        return self.record.preset

    @property
    def experiment(self) -> ExperimentSettings:
        return self.record.experiment

    @property
    def navigator_experiment(self) -> Experiment:
        """The experiment of a navigator's run; a speaker's is refused."""
        if not recipe_of(self.experiment).walks:
            problem = f"{self.folder} is a {self.experiment.RECIPE}'s run, and a {self.experiment.RECIPE} does not walk"
            raise UsageError(f"{problem}; let it tell of paths: vlnbert speak {self.folder}")
        return cast("Experiment", self.experiment)

    @property
    def task(self) -> str:
        """The task that it was trained for."""
        return task_and_split(self.experiment.best_on)[0]

    @property
    def progress(self) -> Progress:
        """Updates made so far, the best score and when it was reached."""
        if not has_checkpoint(self.folder):  # killed before the first
            return Progress(0, None, None)
        return read_progress(self.folder)

    @property
    def log(self) -> list[dict[str, Any]]:
        """The lines of its log, those of losses and those of scores, by iteration."""
        path = self.folder / LOG
        if not path.is_file():
            raise DataError(path, "no such log", "train for a while first, with log=True")
        return read_log(path)

    @property
    def weights(self) -> Path:
        """The folder of its best weights, or of its last where none were validated yet."""
        try:
            return best_weights(self.folder)
        except DataError:
            if any((self.folder / CHECKPOINTS).glob("*")):  # a damaged one
                raise
            if has_checkpoint(self.folder):
                remedy = f"put {BEST} back from a copy, or {ANEW}"
                problem = f"has lost its weights: neither {BEST} nor a checkpoint is there"
                raise DataError(self.folder, problem, remedy) from None
            remedy = f"go on with: vlnbert train --resume {self.folder}"
            raise DataError(self.folder, "has no weights yet", remedy) from None

    def describe_weights(self, checkpoint: Checkpoint = "best") -> str:
        """Which weights walk, in words: the best by what, or those of the newest checkpoint."""
        try:
            done = self.progress
        except DataError:  # who keeps a run for its best weights may have deleted the checkpoints
            done = Progress(0, None, None)
        best = checkpoint == "best" and self.weights.name == BEST
        updates = done.best_iteration if best else done.iteration
        which = f"by {METRICS[self.experiment.best_metric].heading} on {self.experiment.best_on}" if best else ""
        words = ("best" if best else "last", "averaged" if self.experiment.training.ema else "", "weights", which)
        return f"the {' '.join(filter(None, words))}" + (f", after {updates:,} updates" if updates else "")

    @cached_property
    def navigator(self) -> Navigator:
        """Its best navigator, as `vln.Navigator.from_pretrained` opens it."""
        if (name := self.navigator_experiment.policy.name) != RECURRENT:
            raise UsageError(f"{self.folder} trained the policy {name}, which is no navigator; take run.policy")
        load_recorded(self.record.plugins)
        return while_trained(self.folder, lambda _: Navigator.from_pretrained(self.weights))

    @cached_property
    def policy(self) -> Policy:
        """Its best policy: `run.navigator` as one that walks, or what a registered policy became."""
        _ = self.navigator_experiment
        load_recorded(self.record.plugins)
        return while_trained(self.folder, lambda _: open_weights(self.weights))

    def load_agent(self, checkpoint: Checkpoint = "best") -> LoadedAgent:
        """Its best policy or its last, with all that is needed to walk as in the training."""
        load_recorded(self.record.plugins)
        experiment = self.navigator_experiment

        def opened(run: Path) -> tuple[Path, Policy]:
            folder = self.weights if checkpoint == "best" else last_checkpoint(run)
            return folder, open_weights(folder)

        folder, policy = while_trained(self.folder, opened)
        if checkpoint == "best" and folder.name != BEST:
            say(f"{self.folder}: nothing was validated yet; walking with the last checkpoint")
        weights = self.describe_weights(checkpoint)
        return LoadedAgent(
            name=self.folder.resolve().name + ("_last" if checkpoint == "last" else ""),
            agent=policy,
            task=self.task,
            data=self.record.data,
            features=experiment.features,
            max_steps=experiment.training.max_steps,
            max_tokens=experiment.max_tokens,
            held_out=self.record.held_out,
            weights=weights,
            settings={"preset": self.preset, "weights": weights, **to_plain(self.experiment)},
            require_data=partial(require_same_bank, self),
        )

    @cached_property
    def speaker(self) -> Any:
        """Its best speaker, as `vln.Speaker.from_pretrained` opens it."""
        if recipe_of(self.experiment).walks:
            problem = f"{self.folder} is a navigator's run, and a navigator does not speak"
            raise UsageError(f"{problem}; train a speaker: vlnbert train speaker-open")
        return while_trained(self.folder, lambda _: recipe_of(self.experiment).open(self.weights))

    def resume(
        self,
        data: Data | str | Path | None = None,
        *,
        iterations: int | None = None,
        device: str | None = None,
        threads: int | None = None,
        rank_timeout: float | None = None,
        callbacks: Sequence[Callback] = (),
        bar: bool = True,
        log: bool = True,
        tensorboard: bool = True,
    ) -> "Run":
        """Go on where the run was left, as `vln.resume` does."""
        from vlnbert.api.training import resume

        return resume(
            self,
            data,
            iterations=iterations,
            device=device,
            threads=threads,
            rank_timeout=rank_timeout,
            callbacks=callbacks,
            bar=bar,
            log=log,
            tensorboard=tensorboard,
        )

    def curves(self, split: str | None = None) -> "Figure":
        """Its losses and scores so far, as `vln.curves` draws them."""
        from vlnbert.api.looking import curves

        return curves(self, split=split)

    def table(self) -> Table:
        """A row for each validation, with the scores on every split."""
        lines = [line for line in read_log(self.folder / LOG) if "scores" in line] if self._logged else []
        splits = self.experiment.validate_on
        keys = [(split, key) for split in splits for key in self._shown_metrics(split)]
        rows = [
            [f"{line['iteration']:,}", *(shown(key, line["scores"].get(split, {}).get(key)) for split, key in keys)]
            for line in lines
        ]
        return Table(["updates", *(f"{METRICS[key].heading} {split}" for split, key in keys)], rows, str(self))

    def _shown_metrics(self, split: str) -> tuple[str, ...]:
        if not recipe_of(self.experiment).walks:
            return (self.experiment.best_metric,)
        task = TASKS.get(task_and_split(split)[0])  # None for a plugin's, which is not loaded to print something
        own = () if task is None else (metric.name for metric in task.metrics)
        return ("sr", "spl", *(("rgs",) if task is not None and task.sees_objects else ()), *own)

    @property
    def _logged(self) -> bool:
        return (self.folder / LOG).is_file()

    def __str__(self) -> str:
        done, total = self.progress, self.experiment.training.iterations
        made = f"{self.folder}: {self.preset}, {done.iteration:,} of {total:,} updates"
        if done.best is None:
            return f"{made}, none of them validated"
        score = f"score {done.best:.3f}"
        with suppress(UnknownNameError):  # the task of a plugin, which is not loaded to print something
            score = f"{METRICS[key := self.experiment.best_metric].heading} {shown(key, done.best)}"
        return f"{made}, best {score} on {self.experiment.best_on} after {done.best_iteration:,}"

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"

    def _repr_html_(self) -> str:
        return self.table().html()


def require_same_bank(run: Run, data: Data) -> None:
    """Features that a run was given in memory must be the same again, in the houses that it knows."""
    if not run.experiment.features.views == data.features.views == IN_MEMORY:
        return
    began, graphs = run.record.fingerprints, list(data.folder.graphs().values())
    same_houses = began.get("connectivity") == Key.of("connectivity", graphs).digest
    if same_houses and began.get("features") != bank_digest(data.world, data.view_bank):
        problem = f"{run.folder} was trained with other features in memory than these"
        raise UsageError(f"{problem}; give those, or see what its navigator makes of these: evaluate run.navigator")


@checked()
def open_run(folder: Run | str | Path) -> Run:
    """A run by its folder; one that is damaged, or of a newer format, says so at once.

    Args:
        folder: What a training wrote; or a run, which is given back.
    """
    run = folder if isinstance(folder, Run) else Run(Path(folder))
    _ = run.record
    return run
