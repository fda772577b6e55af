"""What a floor plan of an episode shows: the house's floors and graph, and how the panels are laid out."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray

from vlnbert.tasks.task import NEAR
from vlnbert.world.world import World

# Sizes are pixels of a web page, 96 to the inch.
WIDTH = 520
TALL, SHORT = 360, 230  # a panel that is alone or beside others; one of several that are stacked
GAP = 8
CLOSEST = 48  # pixels to the metre, however short the walk
AROUND = 1.6  # metres of the house to show around a path

LEVEL = 0.5  # metres up or down that a floor may have: steps, thresholds, a sunken room
STOREY = 2.0  # floors are at least this far apart; half a storey is drawn with its neighbour, as architects do
CROWD = 3  # viewpoints that make a floor; fewer are a landing

Move = tuple[int, int]


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


def find_floors(height: NDArray[np.float64]) -> NDArray[np.int64]:
    """[viewpoint] the floor of each, counted from the lowest one up.

    Viewpoints on stairs fill the gaps between floors, so gaps do not tell floors apart. Counts do: the height that most
    viewpoints share is a floor, and so is the commonest height among those at least a storey away, until only a few
    viewpoints are left. Viewpoints on stairs then go to the nearer floor.
    """
    levels, rest = list[float](), height
    while rest.size:
        alike = np.abs(rest[:, None] - rest) <= LEVEL
        crowded = int(alike.sum(axis=1).argmax())
        if levels and alike[crowded].sum() < CROWD:
            break
        levels.append(float(rest[alike[crowded]].mean()))
        rest = rest[np.abs(rest - levels[-1]) >= STOREY]
    return np.asarray(np.abs(height[:, None] - np.sort(levels)).argmin(axis=1))
