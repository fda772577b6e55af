"""`vlnbert train`: an experiment by name or from a file, begun or resumed."""

import shlex
from collections.abc import Callable
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

import tyro

from vlnbert.cli.interrupted import exit_code
from vlnbert.cli.options import DataPath, RunPath, tell
from vlnbert.cli.parsing import parsed, postponed
from vlnbert.errors import UsageError

if TYPE_CHECKING:
    from vlnbert.api.runs import Run
    from vlnbert.learning.presets import Preset


EXTENDS = "--training.iterations"  # the one setting of a run that may grow


def train(words: list[str]) -> None:
    """Train a navigator: vlnbert train PRESET --data DIR --out RUN, or go on: vlnbert train --resume RUN.

    Example: vlnbert train r2r-open --data data --out runs/r2r-open

    Example: vlnbert train my.json --data data --out runs/mine
    """
    if words in (["-h"], ["--help"]) or not words:
        print(_explanation())
        if not words:
            raise SystemExit(2)
    elif words[0].startswith("-") and not any(word.startswith(("--res", "--help")) for word in words):
        example = "vlnbert train demo --data DIR --out RUN"
        raise UsageError(f"the first word names what to train; for example {example}, and vlnbert presets lists more")
    elif words[0].startswith("-"):
        _refuse_settings(words)
        _run(_resume, "vlnbert train", words)
    elif any(word.partition("=")[0] == "--resume" for word in words):
        raise UsageError(f"a run that is resumed keeps its settings; leave {words[0]} out: vlnbert train --resume RUN")
    else:
        from vlnbert.api.training import named_preset

        _run(_beginning(named_preset(words[0]), *words), f"vlnbert train {words[0]}", words[1:])


def _refuse_settings(words: list[str]) -> None:
    """Settings of a run that is resumed stay; how many updates it has may grow."""
    for option in (word.partition("=")[0] for word in words if word.startswith("--")):
        if "." in option and option != EXTENDS:
            begin = "begin another from its weights: vlnbert train PRESET --start RUN"
            raise UsageError(f"a run that is resumed keeps its settings; leave {option} out, or {begin}")


def _run(verb: Callable[..., None], command: str, words: list[str]) -> None:
    parsed(lambda words: tyro.cli(postponed(verb), args=words, prog=command), command, words)()


def _beginning(preset: "Preset", word: str, *options: str) -> Callable[..., None]:
    """The command of one preset, or of one file, with its settings as defaults; `options` are what follows it."""
    kind = type(preset.experiment)

    def begin(
        data: DataPath,
        out: RunPath,
        experiment: Annotated[kind, tyro.conf.arg(name="")] = preset.experiment,  # type: ignore[valid-type]
        device: str = "cpu",
        threads: int | None = None,
        rank_timeout: float | None = None,
    ) -> None:
        from dataclasses import replace

        from vlnbert.api.training import train
        from vlnbert.records import asked_places

        given = [option[2:] for option in options if option.startswith("--")]
        names = [option.partition("=")[0].replace("-", "_") for option in given]
        asked = asked_places(experiment, preset.experiment, names, preset.asked)
        run = train(
            replace(preset, experiment=experiment, asked=asked),
            data,
            out,
            device=device,
            threads=threads,
            rank_timeout=rank_timeout,
        )
        _tell(run, None, _resuming(out, None, device, threads=threads, rank_timeout=rank_timeout))

    begin.__doc__ = f"""Train {preset.description or "an experiment of your own"}.

    Ctrl-C finishes the update under way, saves, and says how to go on; a second one does without the validation that
    may follow, as SIGTERM does at once. Interrupted, it ends with the exit code 130 (143 by SIGTERM). Several
    processes: torchrun --nproc-per-node N -m vlnbert train ...

    Example: vlnbert train {word} --data data --out runs/{preset.name}

    Args:
        data: The data folder; vlnbert data check DIR says whether it holds what this needs.
        out: A new folder for the run: checkpoints, the best weights, log.jsonl and tensorboard/.
        experiment: All settings.
        device: Where to train, such as cpu or cuda.
        threads: CPU threads; torch's choice otherwise.
        rank_timeout: Seconds that several processes wait for each other before they give up, 600 unless told otherwise:
            more than one of them takes longer than the others to open the data, to validate or to save.
    """
    return begin


def _resume(
    resume: RunPath,
    data: Annotated[Path | None, tyro.conf.arg(metavar="DIR")] = None,
    iterations: Annotated[int | None, tyro.conf.arg(name="training.iterations")] = None,
    device: str = "cpu",
    threads: int | None = None,
    rank_timeout: float | None = None,
) -> None:
    """Go on with a run that was interrupted or killed; it ends with the same bits as one that never was.

    Example: vlnbert train --resume runs/r2r-open

    Example: vlnbert train --resume runs/r2r-two-stream --training.iterations 400000

    Args:
        resume: The run's folder.
        data: The data folder, if it lies elsewhere now.
        iterations: Updates that it shall have in the end, to extend a run whose learning rate is constant.
        device: Where to train, such as cpu or cuda.
        threads: CPU threads; torch's choice otherwise.
        rank_timeout: Seconds that several processes wait for each other before they give up, 600 unless told otherwise:
            more than one of them takes longer than the others to open the data, to validate or to save.
    """
    from vlnbert.api import training

    run = training.resume(
        resume, data, iterations=iterations, device=device, threads=threads, rank_timeout=rank_timeout
    )
    _tell(run, data, _resuming(resume, data, device, threads=threads, rank_timeout=rank_timeout))


def _resuming(run: Path, data: Path | None, device: str, threads: int | None, rank_timeout: float | None = None) -> str:
    """The command that goes on with a run, where its data lies now, on the same machine and as many processes."""
    from vlnbert.ranks import launcher

    options: dict[str, object] = {"--data": data, "--device": device if device != "cpu" else None}
    options |= {"--threads": threads, "--rank-timeout": rank_timeout}
    given = [str(word) for name, value in options.items() if value is not None for word in (name, value)]
    return shlex.join([*launcher(), "train", "--resume", str(run), *given])


def _tell(run: "Run", data: Path | None, again: str) -> None:
    """How it ended, from the one process that talks to people; `data` is where the data lies, if not where it did."""
    from vlnbert.evaluation.tables import shown
    from vlnbert.learning.recipe import recipe_of
    from vlnbert.ranks import is_first
    from vlnbert.tasks.metrics import METRICS

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
        if not recipe_of(run.experiment).walks:
            tell(f"let it speak with: vlnbert speak {where}{elsewhere} --split {run.experiment.best_on}")
        else:
            tell(f"score it in full with: vlnbert evaluate {where}{elsewhere}")


def end_stopped(run: "Run", again: str) -> NoReturn:
    """Say how to go on with a training that was stopped, and end as whoever is interrupted does: what would follow on
    a whole training, as in `vlnbert train ... && vlnbert evaluate ...`, must not."""
    from vlnbert.ranks import is_first

    if is_first():
        tell(f"stopped after {run.progress.iteration} updates; go on with: {again}", aside=True)
    raise SystemExit(exit_code(run.stopped_by))


def _explanation() -> str:
    from vlnbert.learning.presets import presets

    width = max(map(len, presets))
    lines = [f"  {name:<{width}}  {preset.description}" for name, preset in presets.items()]
    return "\n".join([cleandoc(train.__doc__ or ""), "", "presets:", *lines, "", _MORE])


_MORE = """vlnbert train PRESET --help shows every setting of a preset; any of them can be changed.
vlnbert train FILE.json takes an experiment of your own: {"preset": "r2r-open", "training.batch": 256}
vlnbert train --resume RUN [--data DIR] [--device cuda] [--threads N] goes on with a run; with --training.iterations N,
beyond its end."""
