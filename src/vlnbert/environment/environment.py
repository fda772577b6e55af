"""The environment as pure functions: state in, state out. A step is a gather; nothing here waits for the device."""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.tasks.task import TASKS, nearest
from vlnbert.world.banks import Bank, in_dtype, look, rows_of
from vlnbert.world.geometry import STEPS, VIEWS, angle_feature, level_view, view_elevation, view_heading
from vlnbert.world.object_bank import ObjectBank, VisibleObjects
from vlnbert.world.world import STOP, World


@dataclass(frozen=True)
class State:
    """Where each agent is, which view it faces, and whether it has stopped.

    - `viewpoint` [row] int64: its number in the world, whose names are `world.viewpoints`.
    - `view` [row] int64: one of 36, `level * 12 + step`.
    - `ended` [row] bool: whether it has stopped, for good.
    """

    viewpoint: Tensor
    view: Tensor
    ended: Tensor


NOBODY = State(torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.bool))


@dataclass(frozen=True)
class Panorama:
    """All 36 views around each agent, in the order of views: `level * 12 + step`, the lowest level first.

    - `features` [row, 36, width]: what each view looks like. The view that faces a neighbour looks as that neighbour's
      slot does in `Observation.features`.
    - `direction` [row, 36, 4]: sine and cosine of each view's heading from the current view, and of its elevation.
    """

    features: Tensor
    direction: Tensor


@dataclass(frozen=True)
class Observation:
    """What each agent sees and may choose, a row for each. Slot 0 stops; its numbers, and those of padding, are zero.

    - `choosable` [row, slot] bool: which slots are real. To choose another leads nowhere.
    - `direction` [row, slot, 4]: sine and cosine of the heading to each neighbour from the current view, and of its
      elevation.
    - `facing` [row, 4]: the same of the current view itself, absolute: the last action as a direction.
    - `features` [row, slot, width]: what the view looks like that faces each neighbour; None where there is no bank.
    - `visible_objects`: the objects at each viewpoint, `VisibleObjects`, in tasks that look for one; else None.
    - `state`: where the agents are, `State`; an observation that was made by hand need not tell.

    These are there for agents that want them (`Agent.wants`, `Environment.showing`), and None for all others:

    - `neighbours` [row, slot] int64: the viewpoint that each slot leads to, by its number in the world. Slot 0 and
      padding stay: their number is the viewpoint's own.
    - `panorama`: all 36 views, `Panorama`, with `features` [row, 36, width] and `direction` [row, 36, 4].
    """

    choosable: Tensor
    direction: Tensor
    facing: Tensor
    features: Tensor | None
    visible_objects: VisibleObjects | None = None
    state: State = NOBODY
    neighbours: Tensor | None = None
    panorama: Panorama | None = None


NEIGHBOURS, PANORAMA = "neighbours", "panorama"
WANTS = (NEIGHBOURS, PANORAMA)  # fields of an observation that are filled for those who ask


def wanted_names(wants: object, whose: str = "wants") -> frozenset[str]:
    """What an agent wants to see, checked; one name may stand alone. `whose` wants they are is for messages."""
    names = (wants,) if isinstance(wants, str) else tuple(wants) if isinstance(wants, Iterable) else (wants,)
    for name in names:
        if not isinstance(name, str):
            raise UsageError(f"{whose} is {wants!r:.60}; give names, such as ('{NEIGHBOURS}', '{PANORAMA}')")
        if name not in WANTS:
            raise UnknownNameError("field of an observation", name, WANTS, where=whose)
    return frozenset(names)


class Environment:
    """Navigation over a world, for any number of agents at once."""

    def __init__(
        self,
        world: World,
        view_bank: Bank | None = None,
        object_bank: ObjectBank | None = None,
        open_panoramas: Callable[[], Bank] | None = None,
    ) -> None:
        """`open_panoramas` gives the bank of all 36 views; it is called where an agent wants the panorama."""
        self.world, self.view_bank, self.object_bank = world, view_bank, object_bank
        self.wants: frozenset[str] = frozenset()
        self.panorama_bank: Bank | None = None
        self._open_panoramas = open_panoramas
        self._dtype: torch.dtype | None = None  # of features, where they are kept in another
        self._around = torch.empty(0)  # [heading step, 36, 4], where the panorama is wanted
        slots = torch.arange(world.slots, device=world.device)
        self._choosable = slots < world.choices[:, None]  # [viewpoint, slot]
        self._neighbour, self._view = world.neighbour.flatten(), world.view.flatten()
        self._compass = _compass(world, self._choosable & (slots != STOP))
        views = torch.arange(VIEWS, device=world.device)
        self._facing = angle_feature(view_heading(views), view_elevation(views), width=4)

    def for_task(self, task: str) -> "Environment":
        """The same environment as a task has it: some show no objects."""
        if TASKS[task].sees_objects or self.object_bank is None:
            return self
        plain = copy(self)
        plain.object_bank = None
        return plain

    def in_dtype(self, dtype: torch.dtype | None) -> "Environment":
        """The same environment, on a GPU with its features kept in this precision; None leaves them as they are."""
        if dtype is None or self.world.device.type != "cuda":
            return self
        views, objects = self.view_bank, self.object_bank
        views = None if views is None else in_dtype(views, dtype)
        objects = None if objects is None or objects.table.dtype == dtype else objects.to(objects.table.device, dtype)
        around = None if self.panorama_bank is None else in_dtype(self.panorama_bank, dtype)
        if views is self.view_bank and objects is None and around is self.panorama_bank:
            return self
        kept = copy(self)
        kept.view_bank, kept.object_bank = views, objects or self.object_bank
        kept.panorama_bank, kept._dtype = around, dtype
        return kept

    def showing(self, wants: Iterable[str] | str, whose: str = "wants") -> "Environment":
        """The same environment, whose observations have the fields that an agent or a policy wants, and no others.

        It is the same object where nothing changes, so that nothing costs those who want nothing.

        Args:
            wants: Of neighbours and panorama those to be filled, or one of them.
            whose: What messages call them, such as MyAgent.wants.
        """
        names = wanted_names(wants, whose)
        if names == self.wants:
            return self
        shown = copy(self)
        shown.wants, shown.panorama_bank = names, None
        if PANORAMA in names:
            shown.panorama_bank = self._opened_panoramas(whose) if self.panorama_bank is None else self.panorama_bank
            shown._around = _directions_around(self._facing.device)
        return shown

    def _opened_panoramas(self, whose: str) -> Bank:
        if self._open_panoramas is None:
            problem = f"{whose} has {PANORAMA}, and this environment shows no features"
            raise UsageError(f"{problem}; take that of data with some: vln.open_data(DIR, features=...).environment")
        bank = self._open_panoramas()
        return bank if self._dtype is None else in_dtype(bank, self._dtype)

    def reset(self, start: Tensor, heading: Tensor) -> State:
        """Agents at their start viewpoints, looking level along the 30-degree heading nearest to theirs."""
        return State(start, level_view(heading), torch.zeros_like(start, dtype=torch.bool))

    def observe(self, state: State) -> Observation:
        """What can be seen and chosen now. Agents that have stopped see on, and nothing they choose matters."""
        viewpoint = state.viewpoint
        return Observation(
            choosable=rows_of(self._choosable, viewpoint),
            direction=rows_of(self._compass, (state.view % STEPS).add(viewpoint, alpha=STEPS)),
            facing=rows_of(self._facing, state.view),
            features=None if self.view_bank is None else look(self.view_bank, viewpoint),
            visible_objects=None if self.object_bank is None else self.object_bank.look(viewpoint, state.view),
            state=state,
            neighbours=rows_of(self.world.neighbour, viewpoint) if NEIGHBOURS in self.wants else None,
            panorama=None if self.panorama_bank is None else self._panorama(self.panorama_bank, state),
        )

    def _panorama(self, bank: Bank, state: State) -> Panorama:
        return Panorama(bank.look(state.viewpoint), rows_of(self._around, state.view % STEPS))

    def step(self, state: State, slot: Tensor) -> State:
        """Move along the chosen slots. Stopping is final; a slot that is only padding leads nowhere."""
        slot = slot.masked_fill(state.ended, STOP)  # who has stopped stops again
        place = slot.add(state.viewpoint, alpha=self.world.slots)
        viewpoint = rows_of(self._neighbour, place)
        view = torch.where(viewpoint != state.viewpoint, rows_of(self._view, place), state.view)
        return State(viewpoint, view, slot == STOP)


def shortest_path_teacher(world: World, state: State, goal: Tensor) -> Tensor:
    """[agent] the slot that starts the shortest path to the goal: stop when there, or when no path leads there.

    `goal` is [agent], or [agent, any] where there are several: then it is the nearest of them.
    """
    return world.slot_toward(state.viewpoint, goal if goal.dim() == 1 else nearest(world, state.viewpoint, goal))


def _compass(world: World, real: Tensor) -> Tensor:
    """[viewpoint x heading step, slot, 4] directions as seen from each of the 12 headings an agent may face."""
    steps = view_heading(torch.arange(STEPS, device=world.device))
    heading = world.heading[:, None] - steps[:, None]
    direction = angle_feature(heading, world.elevation[:, None].expand_as(heading), width=4)
    return (direction * real[:, None, :, None]).flatten(0, 1)


def _directions_around(device: torch.device) -> Tensor:
    """[heading step, 36, 4] directions of all views as seen from each of the 12 headings an agent may face."""
    view, step = torch.arange(VIEWS, device=device), torch.arange(STEPS, device=device)[:, None]
    heading = view_heading(view) - view_heading(step)
    return angle_feature(heading, view_elevation(view).expand_as(heading), width=4)
