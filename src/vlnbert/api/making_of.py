"""How a report's run was made: its settings, its data, and the commands that make it again."""

from shlex import join
from typing import Any

from vlnbert import __version__
from vlnbert.analysis.report import Folded, Listing, Section, Words
from vlnbert.api.runs import Run
from vlnbert.records import to_plain
from vlnbert.tables import Table


def how_it_was_made(run: Run, split: str, max_steps: int | None) -> Section:
    """Configuration, data and commands; a script could follow them."""
    experiment, settings = run.navigator_experiment, dict(_leaves(to_plain(run.experiment)))
    training, shape = experiment.training, experiment.navigator
    rows = [
        ("preset", run.preset),
        ("changed by hand", ", ".join(f"{place} = {_said(settings[place])}" for place in _asked(run, settings))),
        ("navigator", f"{shape.backbone}, {shape.hidden} wide, {shape.heads} heads"),
        ("what views look like", str(experiment.features.views or "")),
        ("what objects look like", str(experiment.features.objects or "")),
        ("started from", str(experiment.start or "nothing")),
        ("learned from", ", ".join(experiment.train_on)),
        ("updates made", f"{run.progress.iteration:,} of {training.iterations:,}"),
        ("batch", str(training.batch)),
        ("learning rate", f"{training.learning_rate:g}"),
        ("seed", str(training.seed)),
        ("data folder", run.record.data),
        ("steps allowed here", "" if max_steps is None else str(max_steps)),
        ("vlnbert", __version__),
    ]
    table = Table(("setting", "value"), [row for row in rows if row[1]])
    listing = "\n".join(f"{place} = {_said(value)}" for place, value in settings.items())
    return Section(
        "How this was made",
        [
            table,
            Words("The same again:"),
            Listing(commands(run, split, settings)),
            Folded("All settings", Listing(listing)),
        ],
    )


def commands(run: Run, split: str, settings: dict[str, Any]) -> str:
    """The commands that train, evaluate and report such a run."""
    data = run.record.data
    folder = run.folder.name if run.folder.is_absolute() else str(run.folder)  # an absolute one is taken already
    changes = [word for place in _asked(run, settings) for word in _option(place, settings[place])]
    task, _, name = split.partition("/")
    lines = [
        ["vlnbert", "train", run.preset, "--data", data, "--out", folder, *changes],
        ["vlnbert", "evaluate", folder, "--data", data, "--task", task, "--splits", name],
        ["vlnbert", "report", folder, "--data", data, "--split", split],
    ]
    return "\n".join(map(join, lines))


def _asked(run: Run, settings: dict[str, Any]) -> list[str]:
    return [place for place in run.record.asked if place in settings]


def _option(place: str, value: Any) -> list[str]:
    """A setting as the command line takes it."""
    name = place.replace("_", "-")
    if isinstance(value, bool):
        group, _, word = name.rpartition(".")
        return [f"--{group}{'.' * bool(group)}{'' if value else 'no-'}{word}"]
    return [f"--{name}", *(map(str, value) if isinstance(value, list | tuple) else [str(value)])]


def _leaves(values: dict[str, Any], place: str = "") -> list[tuple[str, Any]]:
    found = []
    for name, value in values.items():
        where = f"{place}.{name}".strip(".")
        found += _leaves(value, where) if isinstance(value, dict) else [(where, value)]
    return found


def _said(value: Any) -> str:
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
