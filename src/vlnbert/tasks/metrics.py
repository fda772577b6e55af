"""Metrics by name: how people read each and which direction is better. A task may add its own (`Task.metrics`)."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from vlnbert.errors import UsageError
from vlnbert.registry import Registry

NAME = re.compile(r"[A-Za-z][\w.-]*")
PERCENT = "%"
NAVIGATION = ("sr", "osr", "spl", "ndtw", "sdtw", "cls", "ne")  # metrics by which any task can rank weights
GROUNDING = ("rgs", "rgspl")  # and those of tasks that ask for an object
EPISODES = "episodes"  # the last key of every summary


@dataclass(frozen=True)
class Metric:
    """A number for each episode: its key in JSON and logs, and how tables show its mean.

    Attributes:
        name: The key in JSON files, logs and `best_metric`; letters, digits, ".", "_" and "-".
        label: The heading in tables; by default the name.
        unit: "%" for a rate, measured as a fraction and shown in percent; else any unit, such as "m", or "" for none.
        higher: Whether higher values are better.
        meaning: One phrase that explains it, for reports.
    """

    name: str
    label: str = ""
    unit: str = ""
    higher: bool = True
    meaning: str = ""

    def __post_init__(self) -> None:
        name: object = self.name
        if not isinstance(name, str) or not NAME.fullmatch(name):
            problem = f"{name!r:.60} is no name of a metric"
            raise UsageError(f"{problem}; begin with a letter, then letters, digits, '.', '_' or '-'")
        kinds: dict[str, type] = {"label": str, "unit": str, "higher": bool, "meaning": str}
        wrong = [field for field, kind in kinds.items() if not isinstance(getattr(self, field), kind)]
        if wrong:
            problem = f"the metric '{name}' has a {wrong[0]} of another type"
            raise UsageError(f"{problem}; label, unit and meaning are text, higher is True or False")

    @property
    def title(self) -> str:
        """The label, or the name of a metric that has none."""
        return self.label or self.name

    @property
    def heading(self) -> str:
        """The heading of its column: rates have no unit there, since the table's title says percent."""
        return self.title if self.unit in ("", PERCENT) else f"{self.title} {self.unit}"


METRICS: Registry[Metric] = Registry("metric")

for _metric in (
    Metric("sr", "SR", PERCENT, meaning="success: stopped less than 3 m from the goal"),
    Metric("osr", "OSR", PERCENT, meaning="oracle success: came that close at any time"),
    Metric("spl", "SPL", PERCENT, meaning="success weighted by path length"),
    Metric("ndtw", "nDTW", PERCENT, meaning="likeness to the reference path"),
    Metric("sdtw", "SDTW", PERCENT, meaning="the same, where successful"),
    Metric("cls", "CLS", PERCENT, meaning="coverage of the reference path, weighted by length"),
    Metric("rgs", "RGS", PERCENT, meaning="the right object was named"),
    Metric("rgspl", "RGSPL", PERCENT, meaning="the same, weighted by path length"),
    Metric("tl", "TL", "m", higher=False, meaning="trajectory length"),
    Metric("ne", "NE", "m", higher=False, meaning="from the last viewpoint to the goal"),
    Metric("perplexity", higher=False, meaning="of a speaker: how many words it wavers between, at each word"),
    Metric(EPISODES, meaning="how many were scored"),
):
    METRICS.register(_metric.name, _metric, __name__)
BUILT_IN = tuple(METRICS.registered())


def check_metrics(task: str, metrics: object) -> tuple[str, ...]:
    """The names of the metrics that a task adds, if they are metrics with names of their own."""
    if not isinstance(metrics, tuple | list):
        problem = f"metrics of the task {task} is a {type(metrics).__name__}"
        raise UsageError(f"{problem}; write a tuple: metrics = (vln.Metric('name'),)")
    for metric in metrics:
        if not isinstance(metric, Metric):
            problem = f"the task {task} has {metric!r:.60} among its metrics, which is no vln.Metric"
            raise UsageError(f"{problem}; write vln.Metric('name'); all tasks have {', '.join(NAVIGATION)} anyway")
        if metric.name in BUILT_IN:
            problem = f"the task {task} has a metric '{metric.name}', which is a metric of all tasks"
            raise UsageError(f"{problem}; give it another name")
    return tuple(metric.name for metric in metrics)


def register_metrics(metrics: Iterable[Metric], home: str) -> None:
    """Register the metrics that a task adds; one that another task has already must be the same."""
    for metric in metrics:
        if METRICS.registered().get(metric.name) != metric:
            METRICS.register(metric.name, metric, home)
