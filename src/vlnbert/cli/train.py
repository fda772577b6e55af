"""Verbs to train: presets, an experiment by name or from a file, begun or resumed, and its curves."""

import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from vlnbert.cli.interrupted import exit_code
from vlnbert.cli.output import print_json, show, tell
from vlnbert.cli.parser import Command, command
from vlnbert.errors import UsageError

if TYPE_CHECKING:
    from vlnbert.api.runs import Run

# The one setting of a run that may grow.
EXTENDS = "--training.iterations"
PYTHON_ONLY = ("experiment", "features", "callbacks", "log", "tensorboard")
USAGE = """usage: vlnbert train PRESET --data DIR --out RUN [options]
       vlnbert train FILE.json --data DIR --out RUN [options]
       vlnbert train --resume RUN [options]

Train a navigator or a speaker, or go on with a run.

examples:
  vlnbert train r2r-open --data data --out runs/r2r-open
  vlnbert train my.json --data data --out runs/mine

presets:
PRESETS

vlnbert train PRESET --help shows the settings that people change most, and --help-all every one.
vlnbert train FILE.json takes an experiment of your own: {"preset": "r2r-open", "training.batch": 256}
vlnbert train --resume RUN [--data DIR] [--device cuda] [--threads N] goes on with a run; with --training.iterations N,
beyond its end."""
# What people change most.
FIRST = (
    *("train_on", "validate_on", "best_on", "holdout", "features.views", "start", "policy.name", "navigator.hidden"),
    *("navigator.layers", "speaker.hidden", "training.iterations", "training.batch", "training.learning_rate"),
    *("training.validate_every", "training.precision", "training.patience", "training.seed"),
)


@command("presets", places=["name"], metavars={"name": "PRESET"})
def presets(name: str | None = None, json: bool = False) -> None:
    """List the experiments that can be trained by name.

    Example: vlnbert presets
    Example: vlnbert presets r2r-open > my.json

    Args:
        name: Print one preset, all of its settings, as a file that vlnbert train takes.
        json: Print one JSON object instead of a table: of each preset its description, its needs and all its settings.
    """
    from json import dumps

    from vlnbert.learning import presets as menu
    from vlnbert.learning.presets import experiment_values
    from vlnbert.records import to_plain

    if name is not None:
        print(dumps(experiment_values(menu.presets[name]), indent=2))
    elif json:
        found = {name: {**to_plain(one), "needs": one.experiment.needs} for name, one in menu.presets.items()}
        for values in found.values():
            # Nobody has chosen anything yet.
            del values["asked"]
        print_json(found)
    else:
        show(menu.presets.table())


@command("train")
def train(words: list[str]) -> None:
    """Train a navigator or a speaker, or go on with a run."""
    if words in (["-h"], ["--help"], ["--help-all"]) or not words:
        from vlnbert.learning.presets import presets as menu

        width = max(map(len, menu))
        lines = (f"  {name:<{width}}  {preset.description}" for name, preset in menu.items())
        print(USAGE.replace("PRESETS", "\n".join(lines)))
        if not words:
            raise SystemExit(2)
    elif words[0].startswith("-") and not any(word.startswith(("--res", "--help")) for word in words):
        example = "vlnbert train demo --data DIR --out RUN"
        raise UsageError(f"the first word names what to train; for example {example}, and vlnbert presets lists more")
    elif words[0].startswith("-"):
        for option in (word.partition("=")[0] for word in words if word.startswith("--")):
            if "." in option and option != EXTENDS:
                begin = "begin another from its weights: vlnbert train PRESET --start RUN"
                raise UsageError(f"a run that is resumed keeps its settings; leave {option} out, or {begin}")
        resuming().run(words)
    elif any(word.partition("=")[0] == "--resume" for word in words):
        raise UsageError(f"a run that is resumed keeps its settings; leave {words[0]} out: vlnbert train --resume RUN")
    else:
        beginning(words[0]).run(words[1:])


def beginning(word: str) -> Command:
    """The command of one preset, or of one file, with its settings as defaults."""
    from vlnbert.api.training import named_preset

    preset = named_preset(word)

    def begin(verb: Callable[..., "Run"], data: Path, out: Path, **changes: Any) -> None:
        run = verb(preset, data, out, **changes)
        same = {name: changes[name] for name in ("device", "threads", "rank_timeout") if name in changes}
        _tell(run, None, _again(out, **same))

    begin.__doc__ = f"""Train {preset.description or "an experiment of your own"}.

    Train {preset.description or "an experiment of your own"}.

    Ctrl-C finishes the update under way, saves, and says how to go on; a second one does without the validation that
    may follow, as SIGTERM does at once. Interrupted, it ends with the exit code 130 (143 by SIGTERM). Several
    processes: torchrun --nproc-per-node N -m vlnbert train ...

    Example: vlnbert train {word} --data data --out runs/{preset.name}

    Args:
        data: The data folder; vlnbert data check DIR says whether it holds what this needs.
    """
    return Command(
        f"train {word}",
        begin,
        "vlnbert.api.training:train",
        metavars={"out": "RUN"},
        without=PYTHON_ONLY,
        settings=preset.experiment,
        first=FIRST,
    )


def resuming() -> Command:
    """The command that goes on with a run."""

    def resume(verb: Callable[..., "Run"], resume: Path, data: Path | None = None, **options: Any) -> None:
        """Go on with a run that was interrupted or killed; it ends with the same bits as one that never was.

        Example: vlnbert train --resume runs/r2r-open
        Example: vlnbert train --resume runs/r2r-two-stream --training.iterations 400000

        Args:
            resume: The run's folder.
        """
        iterations = options.pop("training.iterations", None)
        run = verb(resume, data, iterations=iterations, **options)
        _tell(run, data, _again(resume, data=data, **options))

    return Command(
        "train",
        resume,
        "vlnbert.api.training:resume",
        metavars={"resume": "RUN"},
        without=(*PYTHON_ONLY, "run"),
        spelt={"iterations": "training.iterations"},
    )


def _again(run: Path, **options: Any) -> str:
    """The command that goes on with a run, where its data lies now, on the same machine and as many processes."""
    from vlnbert.ranks import launcher

    given = {name: value for name, value in options.items() if value is not None and (name, value) != ("device", "cpu")}
    words = [str(word) for name, value in given.items() for word in (f"--{name.replace('_', '-')}", value)]
    return shlex.join([*launcher(), "train", "--resume", str(run), *words])


def _tell(run: "Run", data: Path | None, again: str) -> None:
    """Print how a training ended, in one of its processes; `data` is where the data lies, if not where it did."""
    from vlnbert.evaluation.metrics import shown
    from vlnbert.learning.recipe import recipe_of
    from vlnbert.ranks import is_first
    from vlnbert.tasks.task import METRICS

    if run.interrupted:
        end_stopped(run, again)
    if not is_first():
        return
    done, where = run.progress, shlex.quote(str(run.folder))
    if done.best is None:
        tell(f"{run.folder}: {done.iteration} updates, none of them validated")
    else:
        when = f"{done.iteration} updates, the best after {done.best_iteration}"
        key = run.experiment.best_metric
        tell(f"{run.folder}: {when}, {METRICS[key].heading} {shown(key, done.best)} on {run.experiment.best_on}")
        elsewhere = "" if data is None else f" --data {shlex.quote(str(data))}"
        if recipe_of(run.experiment).walks:
            tell(f"score it in full with: vlnbert evaluate {where}{elsewhere}")
        else:
            tell(f"let it speak with: vlnbert speak {where}{elsewhere} --split {run.experiment.best_on}")


def end_stopped(run: "Run", again: str) -> NoReturn:
    """Say how to resume a training that was stopped, and exit as an interrupt does, so that no command follows it."""
    from vlnbert.ranks import is_first

    if is_first():
        tell(f"stopped after {run.progress.iteration} updates; go on with: {again}", aside=True)
    raise SystemExit(exit_code(run.stopped_by))


@command("curves", "vlnbert.api.looking:curves", ["run"])
def curves(verb: Callable[..., Any], run: Path, out: Path | None = None, split: str | None = None) -> None:
    """Draw the losses and scores of a run.

    Example: vlnbert curves runs/r2r-open --out curves.svg

    Args:
        run: The run's folder; it may still be learning.
        out: The picture to write, by its ending .svg, .png or .pdf; by default curves.svg in the run's folder.
    """
    target = out or run / "curves.svg"
    verb(run, target, split=split)
    print(target)
