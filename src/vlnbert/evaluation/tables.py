"""Scores as people read them: rates in percent, lengths in metres."""

import math
from collections.abc import Mapping

from vlnbert.tables import Table

Summary = Mapping[str, float | int | None]

METRICS = {  # key -> name and meaning
    "sr": ("SR", "success: stopped less than 3 m from the goal"),
    "osr": ("OSR", "oracle success: came that close at any time"),
    "spl": ("SPL", "success weighted by path length"),
    "ndtw": ("nDTW", "likeness to the reference path"),
    "sdtw": ("SDTW", "the same, where successful"),
    "cls": ("CLS", "coverage of the reference path, weighted by length"),
    "rgs": ("RGS", "the right object was named"),
    "rgspl": ("RGSPL", "the same, weighted by path length"),
    "tl": ("TL m", "trajectory length"),
    "ne": ("NE m", "from the last viewpoint to the goal"),
    "perplexity": ("perplexity", "of a speaker: how many words it wavers between, at each word"),
    "episodes": ("episodes", "how many were scored"),
}
VISIBLE = {"sr": "success: stopped where the target is visible", "osr": "oracle success: saw the target at any time"}
NO_RATES = ("tl", "ne", "perplexity")
LOWER_IS_BETTER = ("ne", "perplexity")


def score_table(title: str, summaries: Mapping[str, Summary]) -> Table:
    """A row for each summary; scores that none of them has are left out."""
    keys = [key for key in METRICS if any(summary.get(key) is not None for summary in summaries.values())]
    rows = [[name, *(shown(key, summary.get(key)) for key in keys)] for name, summary in summaries.items()]
    return Table(["", *(METRICS[key][0] for key in keys)], rows, f"{title} (rates in %)")


def meaning_table(title: str, summary: Summary) -> Table:
    """One summary, with what each score means."""
    words = VISIBLE if summary["rgs"] is not None else {}
    known = {key: summary[key] for key in METRICS if summary.get(key) is not None}
    rows = [
        [METRICS[key][0], shown(key, value, digits=2), words.get(key, METRICS[key][1])] for key, value in known.items()
    ]
    return Table(["metric", "value", "meaning"], rows, f"{title} (rates in %)")


def shown(key: str, value: float | int | None, digits: int = 1) -> str:
    """A score as a cell of a table."""
    if value is None:
        return "-"
    if key == "episodes":
        return f"{value:,}"
    return f"{value:.2f}" if key in NO_RATES else f"{100 * value:.{digits}f}"


def is_better(key: str, score: float, best: float | None) -> bool:
    """Whether a score is better than the best so far, if there is one; what is no number is not."""
    if math.isnan(score):
        return False
    return best is None or (score < best if key in LOWER_IS_BETTER else score > best)
