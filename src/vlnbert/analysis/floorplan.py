"""An episode on the floor plan of its house: where the agent should have gone, where it went, where it stopped."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from textwrap import shorten
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Circle, FancyArrowPatch
from numpy.typing import NDArray

from vlnbert.analysis.figures import PALETTE, Picture
from vlnbert.analysis.house_plan import find_floors
from vlnbert.tasks.task import NEAR
from vlnbert.world.world import World

# Sizes are pixels of a web page, 96 to the inch.
WIDTH = 520
TALL, SHORT = 360, 230  # a panel that is alone or beside others; one of several that are stacked
GAP = 8
CLOSEST = 48  # pixels to the metre, however short the walk
AROUND = 1.6  # metres of the house to show around a path

Move = tuple[int, int]
TITLE, OUTCOME, FOOTER = 24, 24, 30  # pixels
SOFT: dict[str, Any] = {"lw": 6, "alpha": 0.3, "solid_capstyle": "round"}
TARGET: dict[str, Any] = {"ls": "", "marker": "o", "ms": 16, "mew": 2, "mfc": "none", "mec": PALETTE["goal"]}


@dataclass(frozen=True)
class FloorPlan:
    """An episode and the house that it is drawn on."""

    walked: list[int]
    reference: list[int]  # empty where it is withheld
    members: NDArray[np.int64]  # the viewpoints of the scan
    place: NDArray[np.float64]  # [any viewpoint, 2] metres
    floor: dict[int, int]  # of the members
    edges: list[Move]
    near: NDArray[np.bool_]  # [member] whether stopping there is a success

    @property
    def floors(self) -> list[int]:
        """The floors that the episode touches, from the lowest up."""
        return sorted({self.floor[viewpoint] for viewpoint in (*self.walked, *self.reference)})


@dataclass(frozen=True)
class PanelLayout:
    """How the panels lie; they share a scale and a centre, so that stairs stand above each other."""

    rows: int  # several when stacked; otherwise the panels lie side by side
    width: float
    height: float
    scale: float  # pixels to the metre
    centre: NDArray[np.float64]


def plan_episode(world: World, walked: Sequence[int], reference: Sequence[int]) -> FloorPlan:
    """Gather the scan of a walk, its floors and graph, and the viewpoints where stopping succeeds."""
    members = (world.scan_of == world.scan_of[walked[0]]).nonzero().flatten()
    position = world.position.cpu().numpy()
    numbers = members.cpu().numpy()
    near = torch.zeros_like(members, dtype=torch.bool)
    if reference:
        near = world.metres(members, members.new_tensor(reference[-1])) < NEAR
    floors = find_floors(position[numbers, 2])
    neighbours = zip(numbers.tolist(), world.neighbour[members].tolist(), strict=True)
    return FloorPlan(
        walked=[viewpoint for viewpoint, _ in groupby(walked)],  # staying in place is no move
        reference=list(reference),
        members=numbers,
        place=position[:, :2],
        floor=dict(zip(numbers.tolist(), floors.tolist(), strict=True)),
        edges=[(start, end) for start, ends in neighbours for end in sorted(set(ends)) if start < end],
        near=near.cpu().numpy(),
    )


def lay_out(plan: FloorPlan) -> PanelLayout:
    """Panels side by side or stacked, whichever shows the episode larger."""
    places = plan.place[[*plan.walked, *plan.reference]]
    around = np.full(len(places), AROUND)
    if plan.reference:
        around[-1] = NEAR + 0.4  # the whole circle
    low, high = (places - around[:, None]).min(axis=0), (places + around[:, None]).max(axis=0)
    floors = len(plan.floors)
    beside = 1, (WIDTH + GAP) / floors - GAP, float(TALL)
    stacked = floors, float(WIDTH), float(SHORT)
    layouts = []
    for rows, width, height in (beside, stacked):
        scale = min(CLOSEST, *((width, height) / (high - low)))
        centre = (low + high) / 2
        layouts.append(PanelLayout(rows=rows, width=width, height=height, scale=float(scale), centre=centre))
    return max(layouts, key=lambda layout: layout.scale)


def draw_episode(
    world: World,
    walked: Sequence[int],
    reference: Sequence[int] | None,
    title: str = "",
    succeeded: bool | None = None,
    ending: str = "",
) -> Figure:
    """Draw a walk and, where it is known, the path it should have taken; one panel a floor that either touches.

    By default success is R2R's: the walk ends less than 3 m from the end of the reference, along the graph.
    `ending` says what became of the walk; by default that it stopped.
    """
    plan = plan_episode(world, walked, reference or [])
    layout = lay_out(plan)
    header = OUTCOME + TITLE * bool(title)
    total = header + layout.rows * (layout.height + GAP) - GAP + FOOTER
    figure = Picture(figsize=(WIDTH / 96, total / 96), facecolor="none")
    outcome, colour = _outcome(world, plan, succeeded, ending)
    figure.set_label(f"Floor plan. {outcome}.")
    if title:
        _write(figure, 0, 1 - 9 / total, shorten(title, 72, placeholder=" …"), size=9.5, weight="bold", va="center")
    _write(figure, 0, 1 - (header - 15) / total, outcome, size=8.5, color=colour, va="center")
    half = np.array([layout.width, layout.height]) / layout.scale / 2
    low, high = layout.centre - half, layout.centre + half
    for index, floor in enumerate(plan.floors):
        # Stacked as in the house, or left to right.
        column, row = (index, 0) if layout.rows == 1 else (0, index)
        left, bottom = column * (layout.width + GAP), FOOTER + row * (layout.height + GAP)
        box = left / WIDTH, bottom / total, layout.width / WIDTH, layout.height / total
        axes = figure.add_axes(box, facecolor=PALETTE["panel"])
        axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), xticks=[], yticks=[], aspect="equal")
        axes.spines[:].set_visible(False)
        _draw_floor(axes, plan, floor)
    _draw_legend(figure, total, plan)
    _draw_scale(figure, layout, total)
    return figure


def _outcome(world: World, plan: FloorPlan, succeeded: bool | None, ending: str) -> tuple[str, str]:
    """The outcome of the walk in words, and their colour."""
    if not plan.reference:
        return f"Goal withheld: {ending or f'walked {len(plan.walked) - 1} steps'}", PALETTE["quiet"]
    start, goal = torch.tensor([plan.walked[-1], plan.reference[-1]], device=world.device)
    metres = float(world.metres(start, goal))
    stopped = ending or f"stopped {metres:.2f} m from the goal"
    right = metres < NEAR if succeeded is None else succeeded
    return (f"Success: {stopped}", PALETTE["goal"]) if right else (f"Failure: {stopped}", PALETTE["ink"])


def _draw_floor(axes: Axes, plan: FloorPlan, floor: int) -> None:
    """The house, the reference, the walk, and the floor's number where there are several."""
    _draw_moves(axes, plan, _on_floor(plan, plan.edges, floor), color=PALETTE["line"], lw=0.8, zorder=1)
    here = np.array([plan.floor[viewpoint] == floor for viewpoint in plan.members.tolist()])
    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    x, y = plan.place[plan.members].T
    shown = here & (left < x) & (x < right) & (bottom < y) & (y < top)
    for which, colour in ((shown & ~plan.near, "dot"), (shown & plan.near, "goal")):
        axes.plot(x[which], y[which], "o", ms=2.8, mew=0, color=PALETTE[colour], zorder=2)
    described = _on_floor(plan, pairwise(plan.reference), floor)
    _draw_moves(axes, plan, described, color=PALETTE["reference"], zorder=1.5, **SOFT)
    if plan.reference and plan.floor[plan.reference[-1]] == floor:
        x, y = plan.place[plan.reference[-1]]
        axes.add_patch(Circle((x, y), NEAR, color=PALETTE["goal"], alpha=0.08, lw=0, zorder=0.5))
        axes.add_patch(Circle((x, y), NEAR, fill=False, color=PALETTE["goal"], lw=0.8, ls=(0, (4, 3)), zorder=0.6))
        axes.plot([x], [y], zorder=3, **TARGET)
    _draw_walk(axes, plan, floor)
    if len(plan.floors) > 1:
        name, corner = f"floor {floor + 1} of {max(plan.floor.values()) + 1}", ("axes fraction", "offset points")
        axes.annotate(name, (0, 1), (5, -5), *corner, va="top", size=7.5, color=PALETTE["quiet"])


def _draw_walk(axes: Axes, plan: FloorPlan, floor: int) -> None:
    moves = list(pairwise(plan.walked))
    here = _on_floor(plan, moves, floor)
    for start, end in here:
        # There and back again are two lines, not one.
        bend = 0.18 if (end, start) in moves else 0.0
        arrow = FancyArrowPatch(
            tuple(plan.place[start]),
            tuple(plan.place[end]),
            arrowstyle="-|>,head_length=3.2,head_width=1.7",
            connectionstyle=f"arc3,rad={bend}",
            shrinkA=5.5,
            shrinkB=5.5,
            mutation_scale=1,
            lw=1.6,
            color=PALETTE["walked"],
            zorder=4,
        )
        axes.add_patch(arrow)
    ends = {viewpoint for move in here for viewpoint in move}
    for viewpoint in sorted(dict.fromkeys(plan.walked), key=lambda viewpoint: plan.floor[viewpoint] == floor):
        # A pale number tells where the walk goes on, on another floor.
        if plan.floor[viewpoint] == floor or viewpoint in ends:
            _draw_number(axes, plan, viewpoint, PALETTE["walked" if plan.floor[viewpoint] == floor else "dot"])


def _on_floor(plan: FloorPlan, moves: Iterable[Move], floor: int) -> list[Move]:
    """The moves that start or end on a floor: one up or down the stairs is on both."""
    return [move for move in moves if floor in (plan.floor[move[0]], plan.floor[move[1]])]


def _draw_moves(axes: Axes, plan: FloorPlan, moves: list[Move], **style: Any) -> None:
    """All moves as one line, broken where one does not continue the last: it is short, and soft where it overlaps."""
    places = list[NDArray[np.float64]]()
    for index, (start, end) in enumerate(moves):
        if index == 0 or moves[index - 1][1] != start:
            places += [np.full(2, np.nan), plan.place[start]]
        places.append(plan.place[end])
    if places:
        axes.plot(*np.array(places).T, **style)


def _draw_number(axes: Axes, plan: FloorPlan, viewpoint: int, colour: str) -> None:
    steps = [str(step) for step, visited in enumerate(plan.walked) if visited == viewpoint]
    text = ",".join(steps) if len(steps) < 4 else f"{steps[0]},{steps[1]}…{steps[-1]}"
    face, ink = (PALETTE["paper"], colour) if steps[0] == "0" else (colour, PALETTE["paper"])
    shape = "circle,pad=0.25" if len(text) == 1 else "round,pad=0.22,rounding_size=0.6"
    box = {"boxstyle": shape, "fc": face, "ec": colour, "lw": 1.2}
    x, y = plan.place[viewpoint]
    axes.text(x, y, text, ha="center", va="center", size=6.8, weight="bold", color=ink, bbox=box, zorder=5)


def _draw_legend(figure: Figure, total: float, plan: FloorPlan) -> None:
    walked, reference, goal, paper = (PALETTE[name] for name in ("walked", "reference", "goal", "paper"))
    handles = [
        Line2D([], [], color=walked, lw=1.6, label="walked"),
        Line2D([], [], ls="", marker="o", ms=7, mfc=paper, mec=walked, mew=1.2, label="start"),
    ]
    if plan.reference:
        handles += [
            Line2D([], [], color=reference, label="reference", **{**SOFT, "solid_capstyle": "butt"}),
            Line2D([], [], label="goal", **{**TARGET, "ms": 8}),
            Line2D([], [], ls="", marker="o", ms=3.4, mew=0, color=goal, label=f"within {NEAR:g} m on foot"),
        ]
    figure.legend(
        handles=handles,
        loc="center left",
        bbox_to_anchor=(0, 10 / total),
        ncols=len(handles),
        frameon=False,
        fontsize=7.5,
        labelcolor=PALETTE["quiet"],
        handlelength=1.5,
        handletextpad=0.5,
        columnspacing=1.3,
        borderpad=0,
        borderaxespad=0,
    )


def _draw_scale(figure: Figure, layout: PanelLayout, total: float) -> None:
    metres = max(length for length in (1, 2, 5, 10) if length == 1 or length * layout.scale <= 70)
    left, height = WIDTH - metres * layout.scale, 10 / total
    bar = Line2D([left / WIDTH, 1], [height] * 2, color=PALETTE["quiet"], lw=1.4, marker="|", ms=5, mew=1.2)
    figure.add_artist(bar)
    _write(figure, (left - 6) / WIDTH, height, f"{metres} m", size=7.5, color=PALETTE["quiet"], ha="right", va="center")


def _write(figure: Figure, x: float, y: float, text: str, **style: Any) -> None:
    figure.text(x, y, text, parse_math=False, **{"color": PALETTE["ink"], **style})
