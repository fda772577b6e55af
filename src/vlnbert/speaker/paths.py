"""Paths as a speaker is shown them: every choice of every step, with the one that was taken marked. Gathers only."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment, State
from vlnbert.errors import UsageError
from vlnbert.tasks.episodes import pad_paths, walkable
from vlnbert.tasks.task import Described
from vlnbert.world.objects import NONE, VisibleObjects
from vlnbert.world.world import STOP, World, level_view


@dataclass(frozen=True)
class Paths:
    """Paths, one a row."""

    viewpoint: Tensor  # [path, hop], the last one repeated as padding
    length: Tensor  # [path] viewpoints
    heading: Tensor  # [path] radians, the agent's at the start
    target: Tensor | None = None  # [path] REVERIE's: its place among the objects of the last viewpoint, NONE for none

    @classmethod
    def of(cls, source: Described, target: Tensor | None = None) -> "Paths":
        """The paths of a batch, or of a split's episodes."""
        return cls(source.path, source.path_length, source.heading, target)

    @classmethod
    def through(cls, world: World, routes: Sequence[tuple[str, Sequence[str]]]) -> "Paths":
        """Paths by the names of a scan and of its viewpoints; one begins with its first step ahead."""
        if not routes:
            raise UsageError("no path is given; give its scan and its viewpoints")
        for scan, names in routes:
            if not names:
                raise UsageError(f"a path in {scan} has no viewpoints; give one or more")
        numbers = [[world.find(scan, name) for name in names] for scan, names in routes]
        viewpoint, length = pad_paths(numbers), torch.tensor([len(path) for path in numbers])
        paths = cls(viewpoint.to(world.device), length.to(world.device), torch.zeros(len(numbers)).to(world.device))
        require_connected(world, paths)
        first = taken_slots(world, paths)[:, 0]
        heading = torch.where(first == STOP, 0.0, world.heading[paths.viewpoint[:, 0], first])
        return replace(paths, heading=heading.double())

    def __len__(self) -> int:
        return len(self.viewpoint)

    def select(self, rows: Tensor) -> "Paths":
        """Some of the paths, in the order of `rows`."""
        target = None if self.target is None else self.target[rows]
        return Paths(self.viewpoint[rows], self.length[rows], self.heading[rows], target)


@dataclass(frozen=True)
class PathSights:
    """The input of a speaker: at each hop of some paths the choices that were there, of which one was taken."""

    features: Tensor  # [path, hop, slot, width] of the view that faces each choice; stop and padding are zero
    direction: Tensor  # [path, hop, slot, 4] from the view faced at that hop
    taken: Tensor  # [path, hop] the slot that was taken; at the end it is stop
    present: Tensor  # [path, hop, slot] bool, false for padding
    target: VisibleObjects | None = None  # [path, 1, ...] REVERIE's target as it is seen at the end


def taken_slots(world: World, paths: Paths) -> Tensor:
    """[path, hop] the slot that leads from each viewpoint to the next: stop at the last, and in padding."""
    here = paths.viewpoint
    following = torch.cat((here[:, 1:], here[:, -1:]), dim=1)
    return (world.neighbour[here] == following[..., None]).long().argmax(dim=2)


def observe_paths(environment: Environment, paths: Paths) -> PathSights:
    """Walk along some paths, all hops at once, and look around at each. Nothing waits for the device."""
    world, here = environment.world, paths.viewpoint
    taken = taken_slots(world, paths)
    arrived = world.view[here, taken]
    view = torch.cat((level_view(paths.heading)[:, None], arrived[:, :-1]), dim=1)
    rows, hops = here.shape
    # No objects other than the target are seen.
    seen = environment.for_task("r2r").observe(
        State(here.flatten(), view.flatten(), torch.zeros_like(here.flatten(), dtype=torch.bool))
    )
    if seen.features is None:
        raise UsageError("a speaker describes what views look like; open the data with features")
    within = torch.arange(hops, device=here.device) < paths.length[:, None]
    return PathSights(
        features=seen.features.view(rows, hops, *seen.features.shape[1:]),
        direction=seen.direction.view(rows, hops, world.slots, -1),
        taken=taken,
        present=seen.choosable.view(rows, hops, world.slots) & within[..., None],
        target=_target(environment, paths, view),
    )


def _target(environment: Environment, paths: Paths, view: Tensor) -> VisibleObjects | None:
    """The object that each path shall lead to, as it is seen at the end."""
    if paths.target is None or environment.object_bank is None:
        return None
    last = (paths.length - 1)[:, None]
    shown = environment.object_bank.look(paths.viewpoint.gather(1, last).squeeze(1), view.gather(1, last).squeeze(1))
    place = paths.target.clamp(min=0)[:, None, None]

    def taken(table: Tensor) -> Tensor:
        return table.gather(1, place.expand(-1, 1, table.shape[2]))

    return VisibleObjects(
        features=taken(shown.features),
        position=taken(shown.position),
        direction=taken(shown.direction),
        present=(paths.target != NONE)[:, None],
    )


def require_connected(world: World, paths: Paths, names: Sequence[str] | None = None) -> None:
    """Refuse paths with a step that no edge joins, with the first such step; paths without names are numbered."""
    broken = (~walkable(world, paths.viewpoint, paths.length)).nonzero().flatten().tolist()
    if broken:
        here, following = paths.viewpoint[broken[0], :-1], paths.viewpoint[broken[0], 1:]
        hop = int((~world.joined(here, following) | (here == following)).int().argmax())
        start, end = world.viewpoints[int(here[hop])], world.viewpoints[int(following[hop])]
        more = f", and {len(broken) - 1:,} other paths are broken too" if len(broken) > 1 else ""
        name = broken[0] + 1 if names is None else names[broken[0]]
        problem = f"path {name} is not connected: no step leads from {start} to {end}{more}"
        raise UsageError(f"{problem}; name viewpoints one step apart (vlnbert world candidates lists them)")


def require_short(paths: Paths, most: int, names: Sequence[str]) -> None:
    """Refuse paths of more viewpoints than a speaker reads, by the name of the first."""
    long = (paths.length > most).nonzero().flatten().tolist()
    if long:
        more = f", and {len(long) - 1:,} other paths have too many too" if len(long) > 1 else ""
        problem = f"path {names[long[0]]} has {int(paths.length[long[0]])} viewpoints{more}"
        raise UsageError(f"{problem}; the speaker reads at most {most}: leave out what is longer")
