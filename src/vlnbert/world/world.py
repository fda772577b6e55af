"""The world: every viewpoint of every scan as rows of tensors on one device; and the angles of a panorama.

Heading 0 looks along +y and grows clockwise; elevation grows upwards; both are in radians. A panorama has 36 views,
`level * 12 + step`: level 0 looks 30 degrees down, 1 straight ahead, 2 up, and each step turns 30 degrees to the right.
"""

import hashlib
import json
import math
from dataclasses import dataclass, fields, replace
from functools import cached_property

import torch
from torch import Tensor

from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.world.banks import rows_of

VIEWS = 36
STEPS = 12  # views in a turn
VIEW_ANGLE = math.radians(30)  # between neighbouring views, in both directions
STOP = 0  # the slot of "stay here"; neighbours take slots 1 and up


@dataclass(frozen=True, repr=False)
class World:
    """Constants of navigation. Viewpoints are integers; a viewpoint's choices are slots: 0 stops, the rest move.

    Slots beyond `choices` are padding: they lead nowhere (to the viewpoint itself) and all their numbers are zero,
    as are those of the stop slot.

    Attributes:
        scans: [scan] names of the houses.
        viewpoints: [viewpoint] names.
        scan_of: [viewpoint] index into `scans`.
        position: [viewpoint, 3] float64 metres; z is up.
        choices: [viewpoint] how many slots are real: neighbours + 1.
        neighbour: [viewpoint, slot] where a slot leads.
        view: [viewpoint, slot] the view (0-35) that faces it, and that the agent faces on arrival.
        heading: [viewpoint, slot] float32 radians, absolute.
        elevation: [viewpoint, slot] float32 radians, absolute.
        row: [viewpoint] where a viewpoint's row starts in the pair tables below.
        column: [viewpoint] its column in the rows of its scan.
        distance: [pair] float64 metres along the graph, infinite where no path leads.
        next_slot: [pair] int16, the slot that starts the shortest path; 0 (stop) at the goal.
    """

    scans: tuple[str, ...]
    viewpoints: tuple[str, ...]
    scan_of: Tensor
    position: Tensor
    choices: Tensor
    neighbour: Tensor
    view: Tensor
    heading: Tensor
    elevation: Tensor
    row: Tensor
    column: Tensor
    distance: Tensor
    next_slot: Tensor

    def __len__(self) -> int:
        return len(self.viewpoints)

    def __repr__(self) -> str:
        return f"World({len(self.scans):,} scans, {len(self):,} viewpoints, on {self.device})"

    @property
    def slots(self) -> int:
        return self.neighbour.shape[1]

    @property
    def device(self) -> torch.device:
        return self.neighbour.device

    def to(self, device: torch.device | str) -> "World":
        """A copy on another device; the same object where it is there already."""
        if self.device == torch.device(device):
            return self
        tensors = {name: tensor.to(device) for name, tensor in self.tensors().items()}
        return replace(self, **tensors)  # type: ignore[arg-type]  # only tensors are replaced

    def tensors(self) -> dict[str, Tensor]:
        return {field.name: getattr(self, field.name) for field in fields(self) if field.type is Tensor}

    def pair(self, start: Tensor, end: Tensor) -> Tensor:
        """The index of two viewpoints of one scan in the pair tables."""
        return self.row[start] + self.column[end]

    def metres(self, start: Tensor, end: Tensor) -> Tensor:
        """The length of the shortest path between viewpoints of the same scan."""
        return self.distance[self.pair(start, end)]

    def joined(self, start: Tensor, end: Tensor) -> Tensor:
        """Whether one step leads from one viewpoint to the other; staying, as slot 0 does, is one."""
        return (self.neighbour[start] == end[..., None]).any(dim=-1)

    def slot_toward(self, start: Tensor, goal: Tensor) -> Tensor:
        """The slot that starts the shortest path: STOP at the goal, and where no path leads there."""
        return rows_of(self.next_slot, rows_of(self.row, start) + rows_of(self.column, goal)).long()

    def find(self, scan: str, viewpoint: str) -> int:
        """The number of a viewpoint; an error names what is unknown, the scan or the viewpoint."""
        number = self.numbers.get((scan, viewpoint))
        if number is None:
            if scan not in self.scans:
                raise UnknownNameError("scan", scan, self.scans)
            raise UnknownNameError(f"viewpoint in scan {scan}", viewpoint, self.names_in(scan))
        return number

    def names_in(self, scan: str) -> list[str]:
        """The viewpoints of a scan."""
        return [name for (where, name) in self.numbers if where == scan]

    def fingerprint(self) -> str:
        """A hash of scans, viewpoints, neighbours and facing views."""
        digest = hashlib.blake2b(json.dumps((self.scans, self.viewpoints)).encode(), digest_size=16)
        for tensor in (self.scan_of, self.neighbour, self.view):
            digest.update(tensor.cpu().contiguous().numpy().data)
        return digest.hexdigest()

    @cached_property
    def numbers(self) -> dict[tuple[str, str], int]:
        """Every viewpoint's number by (scan, name)."""
        places = self.scan_of.tolist()
        return {
            (self.scans[place], name): n for n, (place, name) in enumerate(zip(places, self.viewpoints, strict=True))
        }


def view_heading(view: Tensor) -> Tensor:
    """The heading at the centre of a view."""
    return (view % STEPS) * VIEW_ANGLE


def view_elevation(view: Tensor) -> Tensor:
    """The elevation at the centre of a view."""
    return (view // STEPS - 1) * VIEW_ANGLE


def level_view(heading: Tensor) -> Tensor:
    """The level view nearest to a heading: halves round up, and a full turn is none."""
    return torch.floor(heading / VIEW_ANGLE + 0.5).long() % STEPS + STEPS


def nearest_view(heading: float, elevation: float) -> int:
    """The view whose centre is nearest to a direction."""
    level = min(max(round(elevation / VIEW_ANGLE), -1), 1) + 1
    return level * STEPS + round(heading / VIEW_ANGLE) % STEPS


def wrapped(angle: Tensor) -> Tensor:
    """An equal angle within [-pi, pi)."""
    return torch.remainder(angle + math.pi, 2 * math.pi) - math.pi


def angle_feature(heading: Tensor, elevation: Tensor, width: int = 128) -> Tensor:
    """(sin h, cos h, sin e, cos e) repeated up to `width`: the order of the published weights, not of the paper."""
    if width < 4 or width % 4:
        raise UsageError(f"an angle feature of width {width} cannot be made; choose a multiple of 4")
    parts = torch.stack((heading.sin(), heading.cos(), elevation.sin(), elevation.cos()), dim=-1)
    return parts.repeat(*(1,) * heading.dim(), width // 4)
