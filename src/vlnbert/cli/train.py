"""`vlnbert train`: an experiment by name, begun or resumed."""

import shlex
import sys
from collections.abc import Callable
from functools import partial
from inspect import cleandoc
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import tyro

from vlnbert.cli.devices import require_device, use_threads
from vlnbert.cli.options import DataPath
from vlnbert.cli.training import train_to_the_end

if TYPE_CHECKING:
    from vlnbert.learning.trainer import Trainer
    from vlnbert.presets import Preset
    from vlnbert.ranks import Ranks

RunPath = Annotated[Path, tyro.conf.arg(metavar="RUN")]


def train(words: list[str]) -> None:
    """Train a navigator: vlnbert train PRESET --data DIR --out RUN, or go on: vlnbert train --resume RUN.

    Example: vlnbert train r2r-open --data data --out runs/r2r-open
    """
    if words in (["-h"], ["--help"]) or not words:
        print(_explanation())
        if not words:
            raise SystemExit(2)
    elif words[0].startswith("-"):
        tyro.cli(_resume, args=words, prog="vlnbert train")
    else:
        from vlnbert.presets import find_preset

        preset = find_preset(words[0])
        tyro.cli(_beginning(preset), args=words[1:], prog=f"vlnbert train {preset.name}")


def _beginning(preset: "Preset") -> Callable[..., None]:
    """The command of one preset, with its settings as defaults."""
    from vlnbert.learning.experiment import Experiment

    def begin(
        data: DataPath,
        out: RunPath,
        experiment: Annotated[Experiment, tyro.conf.arg(name="")] = preset.experiment,
        device: str = "cpu",
        threads: int | None = None,
    ) -> None:
        from vlnbert.learning.runs import begin_run

        def make(ranks: "Ranks", own: str) -> "Trainer":
            if ranks.writes and experiment.start is None and preset.start_hint:
                print(f"starting from random weights; {preset.start_hint}", file=sys.stderr)
            return begin_run(preset.name, experiment, data, out, own, ranks, tell=partial(print, file=sys.stderr))

        _train(make, _resuming(out, None, device, threads), data, device, threads)

    begin.__doc__ = f"""Train {preset.description}.

    Ctrl-C finishes the update under way, saves, and says how to go on. Several processes: torchrun --nproc-per-node N
    -m vlnbert train ...

    Example: vlnbert train {preset.name} --data data --out runs/{preset.name}

    Args:
        data: The data folder; vlnbert data check DIR says whether it holds what this needs.
        out: A new folder for the run: checkpoints, the best weights, log.jsonl and tensorboard/.
        experiment: All settings.
        device: Where to train, such as cpu or cuda.
        threads: CPU threads; torch's choice otherwise.
    """
    return begin


def _resume(resume: RunPath, data: Path | None = None, device: str = "cpu", threads: int | None = None) -> None:
    """Go on with a run that was interrupted or killed; it ends with the same bits as one that never was.

    Example: vlnbert train --resume runs/r2r-open

    Args:
        resume: The run's folder.
        data: The data folder, if it lies elsewhere now.
        device: Where to train, such as cpu or cuda.
        threads: CPU threads; torch's choice otherwise.
    """
    from vlnbert.learning.runs import resume_run

    again = _resuming(resume, data, device, threads)
    _train(lambda ranks, own: resume_run(resume, data, own, ranks), again, data, device, threads)


def _train(
    make: Callable[["Ranks", str], "Trainer"], again: str, data: Path | None, device: str, threads: int | None
) -> None:
    from vlnbert.ranks import joined

    use_threads(threads)
    require_device(device)
    with joined(device) as (ranks, own):
        trainer = make(ranks, own)
        if train_to_the_end(trainer, again) and ranks.writes:
            _tell(trainer, data)


def _resuming(run: Path, data: Path | None, device: str, threads: int | None) -> str:
    """The command that goes on with a run, where its data lies now and on the same machine."""
    options = {"--data": data, "--device": device if device != "cpu" else None, "--threads": threads}
    given = [str(word) for name, value in options.items() if value is not None for word in (name, value)]
    return shlex.join(["vlnbert", "train", "--resume", str(run), *given])


def _tell(trainer: "Trainer", data: Path | None) -> None:
    best, where = trainer.progress.best, shlex.quote(str(trainer.run))
    if best is None:
        print(f"{trainer.run}: {trainer.progress.iteration} updates, none of them validated")
        return
    when = f"{trainer.progress.iteration} updates, the best after {trainer.progress.best_iteration}"
    print(f"{trainer.run}: {when}, SPL {100 * best:.1f} on {trainer.best_on}")
    print(f"score it in full with: vlnbert evaluate {where} --data {shlex.quote(str(data or 'DIR'))}")


def _explanation() -> str:
    from vlnbert.presets import PRESETS

    width = max(len(preset.name) for preset in PRESETS)
    lines = [f"  {preset.name:<{width}}  {preset.description}" for preset in PRESETS]
    return "\n".join([cleandoc(train.__doc__ or ""), "", "presets:", *lines, "", _MORE])


_MORE = """vlnbert train PRESET --help shows every setting of a preset; any of them can be changed.
vlnbert train --resume RUN [--data DIR] [--device cuda] [--threads N] goes on with a run."""
