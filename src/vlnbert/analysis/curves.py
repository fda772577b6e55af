"""How a training went, as curves."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from vlnbert.analysis.inline_svg import PALETTE

SIZE = 7.2, 2.5  # inches, two panels side by side


def draw_curves(log: Sequence[dict[str, Any]], split: str, others: Mapping[str, float]) -> Figure:
    """The losses of the updates, and the success rate on a split beside that of other agents."""
    figure = Figure(figsize=SIZE, layout="constrained", facecolor="none")
    figure.set_label(f"Learning curves: the losses, and the success rate on {split}")
    left, right = figure.subplots(1, 2)
    _draw_losses(left, [line for line in log if "total" in line])
    _draw_rates(right, [line for line in log if split in line.get("scores", {})], split, others)
    for axes in (left, right):
        axes.set_facecolor("none")
        axes.tick_params(labelsize=8, colors=PALETTE["quiet"])
        axes.spines[["top", "right"]].set_visible(False)
        axes.spines[["left", "bottom"]].set_color(PALETTE["dot"])
        axes.set_xlabel("updates", fontsize=8, color=PALETTE["quiet"])
    return figure


def _draw_losses(axes: Axes, updates: Sequence[dict[str, Any]]) -> None:
    colours = {"imitation": PALETTE["reference"], "value": PALETTE["goal"]}
    for name, colour in colours.items():
        place = [line["iteration"] for line in updates]
        axes.plot(place, [line[name] for line in updates], color=colour, linewidth=1, label=f"{name} loss")
    axes.legend(frameon=False, fontsize=8, labelcolor=PALETTE["ink"])
    axes.set_ylim(bottom=0)


def _draw_rates(axes: Axes, lines: Sequence[dict[str, Any]], split: str, others: Mapping[str, float]) -> None:
    rates = [100 * line["scores"][split]["sr"] for line in lines]
    axes.plot([line["iteration"] for line in lines], rates, color=PALETTE["walked"], marker="o", markersize=3)
    for name, rate in others.items():
        axes.axhline(100 * rate, color=PALETTE["dot"], linewidth=1, linestyle="--")
        place = axes.get_yaxis_transform()  # across in shares of the panel, up in percent
        axes.text(0.02, 100 * rate + 2, name, transform=place, fontsize=8, color=PALETTE["quiet"])
    axes.set_title(f"success rate on {split}, %", fontsize=9, color=PALETTE["ink"])
    axes.set_ylim(0, 112)
