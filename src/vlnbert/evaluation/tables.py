"""Scores as people read them: rates in percent, lengths in metres."""

import math
from collections.abc import Iterable, Mapping

from vlnbert.tables import Table
from vlnbert.tasks.task import BUILT_IN, EPISODES, METRICS, PERCENT

Summary = Mapping[str, float | int | None]

VISIBLE = {"sr": "success: stopped where the target is visible", "osr": "oracle success: saw the target at any time"}


def score_keys(summaries: Iterable[Summary]) -> list[str]:
    """The metrics that any of these summaries has, in the order of a table's columns."""
    found = {key for summary in summaries for key, value in summary.items() if value is not None}
    return sorted((key for key in METRICS.registered() if key in found), key=lambda key: key == EPISODES)


def own_keys(summary: Iterable[str]) -> list[str]:
    """Of the keys of a summary, the metrics that its task adds."""
    return [key for key in METRICS.registered() if key not in BUILT_IN and key in summary]


def is_rate(key: str) -> bool:
    """Whether a metric is measured as a fraction, and shown in percent."""
    return METRICS[key].unit == PERCENT


def score_table(title: str, summaries: Mapping[str, Summary]) -> Table:
    """A row for each summary; scores that none of them has are left out."""
    keys = score_keys(summaries.values())
    rows = [[name, *(shown(key, summary.get(key)) for key in keys)] for name, summary in summaries.items()]
    return Table(["", *(METRICS[key].heading for key in keys)], rows, f"{title} (rates in %)")


def meaning_table(title: str, summary: Summary) -> Table:
    """One summary, with what each score means."""
    words = VISIBLE if summary["rgs"] is not None else {}
    rows = [
        [METRICS[key].heading, shown(key, summary[key], digits=2), words.get(key, METRICS[key].meaning)]
        for key in score_keys([summary])
    ]
    return Table(["metric", "value", "meaning"], rows, f"{title} (rates in %)")


def shown(key: str, value: float | int | None, digits: int = 1) -> str:
    """A score as a cell of a table."""
    if value is None:
        return "-"
    if key == EPISODES:
        return f"{value:,}"
    return f"{100 * value:.{digits}f}" if is_rate(key) else f"{value:.2f}"


def is_better(key: str, score: float, best: float | None) -> bool:
    """Whether a score is better than the best so far, if there is one; NaN is not."""
    if math.isnan(score):
        return False
    return best is None or (score > best if METRICS[key].higher else score < best)
