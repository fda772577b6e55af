"""A run's folder as an object, and agents as callers give them: runs, navigators, policies, names, result files."""

import re
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from vlnbert.api.arguments import checked
from vlnbert.data.data import Data
from vlnbert.errors import DataError, UnknownNameError, UsageError, near_names, setting
from vlnbert.evaluation.metrics import shown
from vlnbert.evaluation.options import Checkpoint
from vlnbert.evaluation.walker import LoadedAgent
from vlnbert.features.opening import bank_digest, from_kept
from vlnbert.features.spec import IN_MEMORY
from vlnbert.learning.callbacks import read_log
from vlnbert.learning.experiment import Experiment, ExperimentSettings
from vlnbert.learning.recipe import recipe_of
from vlnbert.learning.run_folder import (
    ANEW,
    BEST,
    CHECKPOINTS,
    RECORD,
    Progress,
    best_weights,
    has_checkpoint,
    last_checkpoint,
    read_progress,
    while_trained,
)
from vlnbert.learning.run_record import RunRecord, read_record
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage.folder import CONFIG, SPEAKER, NoSuchSourceError, exists
from vlnbert.plugins import load_recorded
from vlnbert.progress import say
from vlnbert.records import to_plain
from vlnbert.rollout.agents import AGENTS, Agent, AgentFactory, agent_name, as_agent, find_agent
from vlnbert.rollout.policies import RECURRENT, open_policy, open_weights
from vlnbert.rollout.policy import POLICY, Policy, as_policy
from vlnbert.sources.files import read_json
from vlnbert.tables import Table, Tabled
from vlnbert.tasks.splits import full_name, task_and_split
from vlnbert.tasks.task import METRICS, R2R, TASKS
from vlnbert.weights.importing import open_navigator
from vlnbert.world.cache import Key

if TYPE_CHECKING:
    from matplotlib.figure import Figure

LOG = "log.jsonl"
RESULTS = ".json"  # how result files end
USUAL = f"{R2R.name}/val_unseen"  # the split of agents that were not trained for one


@dataclass(eq=False)
class Run(Tabled):
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
        # A run without one was killed before the first.
        return read_progress(self.folder) if has_checkpoint(self.folder) else Progress(0, None, None)

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
            # A damaged checkpoint.
            if any((self.folder / CHECKPOINTS).glob("*")):
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
        except DataError:
            # A run that is kept for its best weights may have no checkpoints.
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
            require_data=self._require_same_bank,
        )

    @cached_property
    def speaker(self) -> Any:
        """Its best speaker, as `vln.Speaker.from_pretrained` opens it."""
        if recipe_of(self.experiment).walks:
            problem = f"{self.folder} is a navigator's run, and a navigator does not speak"
            raise UsageError(f"{problem}; train a speaker: vlnbert train speaker-open")
        return while_trained(self.folder, lambda _: recipe_of(self.experiment).open(self.weights))

    def _require_same_bank(self, data: Data) -> None:
        """Refuse features in memory other than those of the training, in the houses that it knows."""
        if not self.experiment.features.views == data.features.views == IN_MEMORY:
            return
        began, graphs = self.record.fingerprints, list(data.folder.graphs().values())
        same_houses = began.get("connectivity") == Key.of("connectivity", graphs).digest
        if same_houses and began.get("features") != bank_digest(data.world, data.view_bank):
            problem = f"{self.folder} was trained with other features in memory than these"
            raise UsageError(f"{problem}; give those, or see what its navigator makes of these: evaluate run.navigator")

    def resume(self, data: Data | str | Path | None = None, **options: Any) -> "Run":
        """Go on where the run was left, with the options of `vln.resume`."""
        from vlnbert.api.training import resume

        return resume(self, data, **options)

    def curves(self, split: str | None = None) -> "Figure":
        """Its losses and scores so far, as `vln.curves` draws them."""
        from vlnbert.api.looking import curves

        return curves(self, split=split)

    def table(self) -> Table:
        """A row for each validation, with the scores on every split."""
        log = read_log(self.folder / LOG) if (self.folder / LOG).is_file() else []
        lines = [line for line in log if "scores" in line]
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
        # None for a plugin's task: plugins are not loaded to print something.
        task = TASKS.get(task_and_split(split)[0])
        own = () if task is None else (metric.name for metric in task.metrics)
        return ("sr", "spl", *(("rgs",) if task is not None and task.sees_objects else ()), *own)

    def __str__(self) -> str:
        done, total = self.progress, self.experiment.training.iterations
        made = f"{self.folder}: {self.preset}, {done.iteration:,} of {total:,} updates"
        if done.best is None:
            return f"{made}, none of them validated"
        score = f"score {done.best:.3f}"
        # A plugin's task is unknown: plugins are not loaded to print something.
        with suppress(UnknownNameError):
            score = f"{METRICS[key := self.experiment.best_metric].heading} {shown(key, done.best)}"
        return f"{made}, best {score} on {self.experiment.best_on} after {done.best_iteration:,}"

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r})"


@checked()
def open_run(folder: Run | str | Path) -> Run:
    """A run by its folder; one that is damaged, or of a newer format, says so at once.

    Args:
        folder: What a training wrote; or a run, which is given back.
    """
    run = folder if isinstance(folder, Run) else Run(Path(folder))
    _ = run.record
    return run


AnyAgent = Run | Navigator | Policy | Agent | AgentFactory | str | Path
T = TypeVar("T")


def as_run(source: T) -> T | Run:
    """The run in a folder, read once for all; any other agent, or result file, as it is."""
    return open_run(source) if isinstance(source, str | Path) and exists(Path(source) / RECORD) else source


def load_agent(source: object, checkpoint: Checkpoint = "best") -> LoadedAgent:
    """The agent that is given or named, in whichever way; of a run, with its best weights or its last."""
    source = as_run(source)
    if isinstance(source, Run):
        return source.load_agent(checkpoint)
    named = isinstance(source, str) and (source in AGENTS or re.fullmatch(r".*:[A-Za-z_]\w*", source))
    if named and not Path(str(source)).exists():
        source = find_agent(str(source))
    if isinstance(source, Policy | Navigator):
        name = "navigator" if isinstance(source, Navigator) else source.name or type(source).__name__
        loaded = _with_limits(name, as_policy(source))
    elif isinstance(source, AgentFactory):
        loaded = LoadedAgent(source.name, source)
    elif isinstance(source, str | Path):
        loaded = _with_limits(Path(source).resolve().name, _open_policy(str(source)))
    else:
        agent = as_agent(source)
        loaded = LoadedAgent(agent_name(agent), agent)
    if checkpoint == "last":
        raise UsageError(f"{loaded.name} is no run, so it has no last checkpoint; name a run's folder")
    return loaded


def is_results(agent: object) -> bool:
    """Whether an agent is given by its result file."""
    return isinstance(agent, str | Path) and str(agent).endswith(RESULTS)


def chosen_split(agent: object, split: str | None) -> str:
    """The requested split or the default one, with its task; a result file has no default."""
    if split is not None:
        return split if is_results(agent) else full_name(split, agent.task if isinstance(agent, Run) else R2R.name)
    if is_results(agent):
        raise UsageError(f"{agent} is a result file; say which split it is of: {setting('split', USUAL)}")
    return agent.experiment.best_on if isinstance(agent, Run) else USUAL


def require_data(agent: object, data: Data | str | Path | None) -> Data | str | Path:
    """The given data, or those that a run was trained on."""
    folder = agent.record.data if data is None and isinstance(agent, Run) else data
    if folder is None:
        if isinstance(agent, str | Path) and not is_results(agent):
            # An unknown name is reported first.
            load_agent(agent)
        raise UsageError(f"no data to walk in; give a data folder: {setting('data', 'DIR')}")
    return folder


def _open_policy(source: str) -> Policy:
    """The policy at a path or of a hub name; where there is none, a file of a similar name may have been meant."""
    config: object = None
    with suppress(DataError):
        config = read_json(Path(source) / CONFIG, "configuration")
    if isinstance(config, dict) and POLICY in config:
        return open_policy(source)
    if isinstance(config, dict) and SPEAKER in config:
        raise UsageError(f"{source} is a speaker, which does not walk; let it tell of paths: vlnbert speak {source}")
    if source.endswith(RESULTS) and Path(source).is_file():
        remedy = f"look at what it did: vlnbert show {source}, or vlnbert compare"
        raise UsageError(f"{source} is no navigator; if it is a result file, {remedy}")
    try:
        return as_policy(open_navigator(source))
    except NoSuchSourceError:
        path = Path(source)
        beside = near_names(path.name, (one.name for one in path.parent.glob("*")))
        near = [*(str(path.parent / name) for name in beside), *near_names(source, AGENTS)]
        if not near:
            raise
        raise UnknownNameError("run, navigator or agent", str(path), near) from None


def _with_limits(name: str, policy: Policy) -> LoadedAgent:
    """A policy that walks as far, reads as much and sees the same as in its training, if it recorded that."""
    limits, features = policy.limits, from_kept(policy.features)
    return LoadedAgent(name, policy, features=features, max_steps=limits.max_steps, max_tokens=limits.max_tokens)
