"""Figures of a training, and figures as SVG for a page: compact, repeatable, in colours that the page may change."""

import re
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from io import BytesIO, StringIO
from itertools import cycle
from pathlib import Path
from typing import Any, Literal

from matplotlib import rc_context
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from vlnbert.errors import UsageError
from vlnbert.evaluation.metrics import is_rate, own_keys
from vlnbert.learning.objective import PAPER_TERMS
from vlnbert.sources.files import is_number
from vlnbert.sources.writing import written_beside
from vlnbert.tables import escaped
from vlnbert.tasks.task import METRICS

# A page in a dark scheme sets the same names as CSS variables. Hues are Okabe and Ito's, safe for the colour-blind.
PALETTE = {
    "ink": "#1f2933",
    "quiet": "#5d6874",
    "dot": "#9aa5b1",
    "line": "#d5dbe1",
    "panel": "#f5f6f8",
    "paper": "#ffffff",
    "walked": "#b84a00",
    "reference": "#0072b2",
    "goal": "#00795a",
}

_PROLOGUE = re.compile(r"^.*?(?=<svg )|<!--.*?-->|<defs>\s*<style.*?</style>\s*</defs>|<metadata>.*?</metadata>", re.S)
# matplotlib numbers its artists; only hashed names are referred to.
_UNUSED_ID = re.compile(r' id="[A-Za-z0-9.]+_\d+"')
_TAG = re.compile(r"<[^>]*>")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_FONT_FAMILY = re.compile(r"(font: [^';]*?px) '[^;\"]*")
_REFERRED = re.compile(r'( id="|href="#|url\(#)')
# matplotlib's defaults, which it sets page-wide.
_LINES = ' style="stroke-linejoin: round; stroke-linecap: butt"'
SIZE = 7.2, 2.5  # inches, two panels side by side
PANEL = 3.54, 2.6  # one by itself; a page shows it at 340 pixels or more, so that no text is under 11 pixels
TEXT = 8.5  # points
# Lines of the metrics that a task adds.
STYLES: tuple[Literal["-", "--", ":", "-."], ...] = ("-", "--", ":", "-.")
TICKS = 7  # spaces between the ticks of an axis, at most


class Picture(Figure):
    """A figure that a notebook shows; one without a window of its own would be a line of text there."""

    def _repr_svg_(self) -> str:
        return figure_svg(self)


def figure_svg(figure: Figure) -> str:
    """The figure as an <svg> element. Its label is for screen readers; the page chooses the typeface."""
    buffer = StringIO()
    unsaid = dict.fromkeys(("Creator", "Date", "Format", "Type"))
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "vlnbert"}):
        figure.savefig(buffer, format="svg", metadata=unsaid)
    svg = _TAG.sub(_compact_tag, _UNUSED_ID.sub("", _PROLOGUE.sub("", buffer.getvalue())))
    svg = re.sub(r">\s+<", "><", svg).strip()
    # Several figures share a page, so ids become the figure's own; only equal figures share them.
    digest = blake2b(svg.encode(), digest_size=4).hexdigest()
    svg = _TAG.sub(lambda tag: _REFERRED.sub(rf"\1f{digest}-", tag[0]), svg)
    label = escaped(str(figure.get_label()))
    return svg.replace("<svg ", f'<svg role="img" aria-label="{label}"{_LINES} ', 1)


def _compact_tag(tag: re.Match[str]) -> str:
    """A tag on one line, in hundredths of a point, with the page's own font and colours; text between tags stays."""
    text = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.2f}".rstrip("0").rstrip("."), tag[0])
    text = _FONT_FAMILY.sub(r"\1 system-ui, sans-serif", re.sub(r"\s+", " ", text))
    for name, colour in PALETTE.items():
        text = text.replace(colour, f"var(--{name}, {colour})")
    return text


def draw_curves(log: Sequence[dict[str, Any]], split: str, others: Mapping[str, float]) -> Figure:
    """The losses of the updates, and the scores on a split beside the success rates of other agents."""
    label = f"Learning curves: the losses, and the scores on {split}"
    figure = Picture(figsize=SIZE, layout="constrained", facecolor="none", label=label)
    left, right = figure.subplots(1, 2)
    _draw_losses(left, log)
    _draw_rates(right, log, split, others)
    return figure


def draw_losses(log: Sequence[dict[str, Any]]) -> Figure:
    """The losses of the updates alone."""
    figure = Picture(figsize=PANEL, layout="constrained", facecolor="none", label="Learning curves: the losses")
    _draw_losses(figure.subplots(), log)
    return figure


def draw_rates(log: Sequence[dict[str, Any]], split: str, others: Mapping[str, float]) -> Figure:
    """The scores on a split alone, beside the success rates of other agents."""
    label = f"Learning curves: the scores on {split}"
    figure = Picture(figsize=PANEL, layout="constrained", facecolor="none", label=label)
    _draw_rates(figure.subplots(), log, split, others)
    return figure


def save_figure(figure: Figure, path: Path) -> None:
    """Write a figure on white, in the format that the file's ending names."""
    endings = sorted(figure.canvas.get_supported_filetypes())
    if path.suffix.removeprefix(".") not in endings:
        raise UsageError(f"{path} does not end in the name of a picture format; choose one of {', '.join(endings)}")
    # Drawn in memory: some of matplotlib's writers fail in odd ways when a disk is full.
    drawn = BytesIO()
    figure.savefig(drawn, format=path.suffix.removeprefix("."), facecolor="white", dpi=150)
    with written_beside(path) as temporary:
        temporary.write_bytes(drawn.getbuffer())


def _dress(axes: Axes) -> None:
    axes.set_facecolor("none")
    axes.tick_params(labelsize=TEXT, colors=PALETTE["quiet"])
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(PALETTE["dot"])
    for axis in (axes.xaxis, axes.yaxis):
        # Not as many ticks as there is room for: that room is known after the layout.
        if axis.get_scale() == "linear":
            axis.set_major_locator(MaxNLocator(TICKS, steps=[1, 2, 2.5, 5, 10]))
    axes.set_xlabel("updates", fontsize=TEXT, color=PALETTE["quiet"])


def _draw_losses(axes: Axes, log: Sequence[dict[str, Any]]) -> None:
    updates = [line for line in log if "total" in line]
    # A speaker's, else those of every training of a navigator, of some trainings, and of the user's own losses.
    if any("cross_entropy" in line for line in updates):
        colours = {"total": PALETTE["reference"], "cross_entropy": PALETTE["goal"]}
    else:
        colours = {"imitation": PALETTE["reference"], "value": PALETTE["goal"]}
        some = {"grounding": PALETTE["quiet"], "alignment": PALETTE["walked"]}
        colours |= {name: colour for name, colour in some.items() if any(line.get(name) for line in updates)}
        known = {*PAPER_TERMS, "total", "iteration", "learning_rate", "time"}
        colours |= dict.fromkeys(sorted({name for line in updates for name in line} - known), PALETTE["ink"])
    for name, colour in colours.items():
        points = [(line["iteration"], line[name]) for line in updates if is_number(line.get(name))]
        label = f"{name.replace('_', ' ')} loss"
        axes.plot(*zip(*points, strict=True) if points else ([], []), color=colour, linewidth=1, label=label)
    axes.legend(frameon=False, fontsize=TEXT, labelcolor=PALETTE["ink"])
    axes.set_ylim(bottom=0)
    _dress(axes)


def _draw_perplexity(axes: Axes, lines: Sequence[dict[str, Any]], split: str) -> None:
    """A speaker's, on a logarithmic scale: at first it is in the thousands."""
    known = [(line["iteration"], line["scores"][split].get("perplexity")) for line in lines]
    found = [(iteration, value) for iteration, value in known if isinstance(value, float | int)]
    axes.plot(*zip(*found, strict=True), color=PALETTE["walked"], marker="o", markersize=3)
    axes.set_yscale("log")
    axes.set_title(f"{split}, perplexity", fontsize=TEXT, color=PALETTE["ink"])
    _dress(axes)


def _draw_rates(axes: Axes, log: Sequence[dict[str, Any]], split: str, others: Mapping[str, float]) -> None:
    lines = [line for line in log if split in line.get("scores", {})]
    if any("perplexity" in line["scores"][split] for line in lines):
        _draw_perplexity(axes, lines, split)
        return
    colours = {"sr": PALETTE["walked"], "spl": PALETTE["reference"], "rgs": PALETTE["goal"]}
    own = [name for name in own_keys({name for line in lines for name in line["scores"][split]}) if is_rate(name)]
    styles = dict(zip(own, cycle(STYLES)))
    colours |= dict.fromkeys(own, PALETTE["ink"])
    for name, colour in colours.items():
        known = [line for line in lines if line["scores"][split].get(name) is not None]
        rates = [100 * line["scores"][split][name] for line in known]
        if rates:
            updates = [line["iteration"] for line in known]
            (line,) = axes.plot(updates, rates, color=colour, marker="o", markersize=3, label=METRICS[name].title)
            line.set_linestyle(styles.get(name, "-"))
    if axes.lines:
        axes.legend(frameon=False, fontsize=TEXT, labelcolor=PALETTE["ink"], loc="best")
    for name, rate in others.items():
        axes.axhline(100 * rate, color=PALETTE["dot"], linewidth=1, linestyle="--")
        # Across in shares of the panel, up in percent.
        place = axes.get_yaxis_transform()
        axes.text(0.02, 100 * rate + 2, name, transform=place, fontsize=TEXT, color=PALETTE["quiet"])
    axes.set_title(f"{split}, %", fontsize=TEXT, color=PALETTE["ink"])
    axes.set_ylim(0, 112)
    _dress(axes)
