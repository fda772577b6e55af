"""Train to the end with bars and logs; Ctrl-C and SIGTERM end a training without losing what was trained."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from vlnbert.api.arguments import checked, spread
from vlnbert.api.runs import LOG, Run, open_run
from vlnbert.data.data import Data, open_data
from vlnbert.errors import DataError, setting
from vlnbert.features.opening import Features, is_in_memory
from vlnbert.features.spec import FeatureSpec
from vlnbert.learning.callbacks import Callback, JsonLog, ProgressBar, TensorBoard, Watching, require_callbacks
from vlnbert.learning.experiment import ExperimentSettings
from vlnbert.learning.presets import SUFFIX, Preset, presets, read_experiment
from vlnbert.learning.run_folder import CHECKPOINTS, POINTER, RECORD, is_run, locked_run
from vlnbert.learning.run_record import RENAMED, read_record
from vlnbert.learning.runs import begin_run, begun_alone, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.plugins import load_recorded
from vlnbert.progress import Bar, quiet, say
from vlnbert.ranks import TIMEOUT, RankError, Ranks, is_first, joined
from vlnbert.records import asked_places, chosen, with_changes
from vlnbert.runtime import LaunchOptions, require_device, use_threads
from vlnbert.sources.writing import LOCK, remove

TENSORBOARD, EVENTS = "tensorboard", "events.out.tfevents.*"  # in a run's folder
CUSTOM = "custom"  # the preset that a run of somebody's own experiment names


@checked("features", "device", "callbacks")
@spread
def train(
    experiment: str | Path | Preset | ExperimentSettings,
    data: Data | str | Path,
    out: str | Path,
    *,
    features: FeatureSpec | str | Path | Features | None = None,
    callbacks: Sequence[Callback] = (),
    launch: LaunchOptions,
    **changes: Any,
) -> Run:
    """Train a navigator or a speaker, and give back its run: `vln.train("r2r-open", "data", "runs/a", batch=256)`.

    Interrupted, it finishes the update under way, saves, and returns a run that says so (`interrupted`) and that
    `resume` goes on with; it ends with the same bits as one that was never interrupted. Under torchrun, processes learn
    together.

    Args:
        experiment: A preset by name (`vln.presets` lists them), a JSON file of settings, or an experiment of your own.
        data: The data folder, or what `vln.open_data` gave; features that were named there hold.
        out: A new folder for the run: checkpoints, the best weights and the logs.
        features: What agents see, as `vln.open_data` takes it; by default what the experiment says, or the data.
        callbacks: Objects with `updated` and `validated`, which receive the training's events.
        launch: ...
        changes: Settings of the experiment to change, by name (batch=256) or place (**{"training.batch": 256}).
    """
    own = features if is_in_memory(features) else None
    if features is not None and own is None:
        changes = {**changes, "features" if isinstance(features, FeatureSpec) else "features.views": features}
    preset, out = changed_preset(experiment, changes), Path(out)
    require_callbacks(callbacks)
    use_threads(launch.threads)
    if (start := preset.experiment.start) is not None and is_run(Path(start)):
        plugins: tuple[str, ...] = ()
        # The weights of a damaged record may be whole all the same.
        with suppress(DataError):
            plugins = read_record(Path(start)).plugins
        load_recorded(plugins)
    with _opened(data, launch) as (opened, ranks), begun_alone(out, ranks):
        opened = opened if own is None else opened.seen_by(own)
        experiment = replace(preset.experiment, features=preset.experiment.features.updated_by(opened.features))
        trainer = begin_run(preset.name, experiment, opened, out, ranks=ranks, tell=say, asked=preset.asked)
        if ranks.writes and preset.experiment.start is None and preset.start_hint:
            say(f"starting from random weights; {preset.start_hint}: {setting('start', 'FILE')}")
        with _nothing_left(trainer):
            return _train(trainer, callbacks, launch)


@checked("device", "callbacks")
@spread
def resume(
    run: Run | str | Path,
    data: Data | str | Path | None = None,
    *,
    iterations: int | None = None,
    callbacks: Sequence[Callback] = (),
    launch: LaunchOptions,
) -> Run:
    """Go on with a run that was interrupted or killed; it ends with the same bits as one that never was.

    Args:
        run: The run, or its folder.
        data: The data folder, if it lies elsewhere now.
        iterations: Updates that it shall have in the end, to extend a run whose learning rate is constant.
        callbacks: Objects with `updated` and `validated`, which receive the training's events.
        launch: ...
    """
    run = open_run(run)
    require_callbacks(callbacks)
    use_threads(launch.threads)
    with _opened(run.record.data if data is None else data, launch) as (opened, ranks), locked_run(run.folder, ranks):
        trainer = resume_run(run.folder, opened, ranks, iterations, tell=say)
        return _train(trainer, callbacks, launch)


def named_preset(name: str | Path) -> Preset:
    """A preset by its name, or the experiment of a JSON file."""
    return read_experiment(name) if isinstance(name, Path) or name.endswith(SUFFIX) else presets[name]


def changed_preset(experiment: str | Path | Preset | ExperimentSettings, changes: dict[str, Any]) -> Preset:
    """A preset by any of its names, with some settings changed by theirs."""
    if isinstance(experiment, str | Path):
        preset = named_preset(experiment)
    elif isinstance(experiment, Preset):
        preset = experiment
    else:
        preset = Preset(CUSTOM, "", experiment, asked=tuple(chosen(experiment, type(experiment)())))
    changed = with_changes(preset.experiment, changes, RENAMED)
    return replace(preset, experiment=changed, asked=asked_places(changed, preset.experiment, changes, preset.asked))


@contextmanager
def _opened(data: Data | str | Path, launch: LaunchOptions) -> Iterator[tuple[Data, Ranks]]:
    """The data on this process's own device, and its place among those that train together; one of them speaks."""
    where = data.device if isinstance(data, Data) else "cpu"
    device = str(where if launch.device is None else launch.device)
    require_device(device)
    timeout = TIMEOUT if launch.rank_timeout is None else launch.rank_timeout
    with quiet(not is_first()), joined(device, timeout) as (ranks, own):
        yield open_data(data, device=own), ranks


def _train(trainer: Trainer, callbacks: Sequence[Callback], launch: LaunchOptions) -> Run:
    """Train to the end; an interrupt finishes the update under way and saves."""
    done, total = trainer.progress.iteration, trainer.config.iterations
    with ExitStack() as stack:
        watching: list[Callback] = [Watching(one) for one in callbacks]
        bar = Bar("training", total, done, lasting=True)
        if trainer.ranks.writes:
            shown = ProgressBar(stack.enter_context(bar), timed=trainer.device.type == "cpu")
            watching.append(shown)
            trainer.advanced = shown.advanced
            if launch.log:
                facts = {"best_on": trainer.best_on, "best_metric": trainer.best_metric}
                watching.append(JsonLog(trainer.run / LOG, facts))
            if launch.tensorboard:
                watching.append(TensorBoard(trainer.run / TENSORBOARD, done))
        trainer.callbacks = watching
        with stopped_by_signals(trainer, bar.say):
            trainer.train()
    interrupted = trainer.stopping and not trainer.ended
    return Run(trainer.run, interrupted, trainer.stopped_by if interrupted else None)


@contextmanager
def _nothing_left(trainer: Trainer) -> Iterator[None]:
    """Remove the run of a training that fails before anything that it learned was saved.

    Only files of the training are removed; a folder that was made for it goes with its lock. The run's record goes
    first, so that a kill in between leaves no run that cannot be resumed.
    """
    try:
        yield
    except (DataError, RankError):  # such as a full disk or a lost process: the run can be resumed
        raise
    except Exception:
        if trainer.ranks.writes and not trainer.saved:
            run = trainer.run
            # Half of it would be worse than nothing.
            with _handled(lambda *_: None):
                for name in (RECORD, POINTER, LOG):
                    remove(run / name)
                for path in (trainer.checkpoint, *(run / TENSORBOARD).glob(EVENTS)):
                    remove(path)
                for folder in (run / TENSORBOARD, run / CHECKPOINTS):
                    with suppress(OSError):  # it was never made, or holds files of others
                        folder.rmdir()
                remove(run / LOCK)
        raise


@contextmanager
def stopped_by_signals(trainer: Trainer, tell: Callable[[str], object]) -> Iterator[None]:
    """Interrupts within the block stop the training: it finishes what is under way and saves.

    A second Ctrl-C does without the validation, which the resumed run makes up for. Only a third stops at once, and
    loses the updates since the last checkpoint. Who sends SIGTERM waits for seconds before it kills, and may send it
    more than once (a scheduler does, and torchrun passes it on): the first does without the validation, and no other
    does more. `tell` is told what is waited for.
    """

    def stop(number: int, _: object) -> None:
        terminated = number == signal.SIGTERM
        if trainer.skips_validation:
            if terminated:
                return
            raise KeyboardInterrupt
        trainer.stopped_by = trainer.stopped_by or number
        trainer.skips_validation, trainer.stopping = terminated or trainer.stopping, True
        if trainer.skips_validation and trainer.validating:
            raise KeyboardInterrupt
        if trainer.ranks.writes:
            # Of an output that was just being written to.
            with suppress(RuntimeError):
                tell(_waiting(trainer))

    with _handled(stop):
        yield


@contextmanager
def _handled(handler: Callable[..., object]) -> Iterator[None]:
    """Give interrupts within the block to a handler."""
    # Python delivers signals to the main thread only.
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {name: signal.signal(name, handler) for name in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for name, old in before.items():
            signal.signal(name, old)


def _waiting(trainer: Trainer) -> str:
    """Say for what a training waits before it stops, and what another interrupt would do."""
    if trainer.skips_validation:
        return "stopping after the update under way is saved; another Ctrl-C ends at once, and loses what is not saved"
    if trainer.validating:
        return "stopping after the validation under way; another Ctrl-C leaves it to whoever resumes the run"
    if not trainer.listens:
        return "stopping at the next report of the losses, and saving"
    if not trainer.progress.validated or trainer.due(trainer.config.validate_every, ahead=1):
        return "stopping after the update under way is saved and validated; another Ctrl-C leaves out the validation"
    return "stopping after the update under way is saved"
