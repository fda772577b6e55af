"""The environment as pure functions: state in, state out. A step is a gather; nothing here waits for the device."""

from copy import copy
from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.tasks.task import TASKS, nearest
from vlnbert.world.banks import Bank, in_dtype, rows_of
from vlnbert.world.geometry import STEPS, VIEWS, angle_feature, level_view, view_elevation, view_heading
from vlnbert.world.object_bank import ObjectBank, VisibleObjects
from vlnbert.world.world import STOP, World


@dataclass(frozen=True)
class State:
    """Where each agent is, which of the 36 views it faces, and whether it has stopped."""

    viewpoint: Tensor  # [agent]
    view: Tensor  # [agent]
    ended: Tensor  # [agent] bool


NOBODY = State(torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.long), torch.empty(0, dtype=torch.bool))


@dataclass(frozen=True)
class Observation:
    """What each agent sees and may choose. Slot 0 stops; its numbers, and those of padding, are all zero."""

    choosable: Tensor  # [agent, slot] bool
    direction: Tensor  # [agent, slot, 4] sin, cos of the heading from the current view; sin, cos of the elevation
    facing: Tensor  # [agent, 4] the same of the current view itself, absolute: the last action as a direction
    features: Tensor | None  # [agent, slot, width] of the view that faces each neighbour, where there is a bank
    visible_objects: VisibleObjects | None = None  # where there is a bank of them, in tasks that look for one
    state: State = NOBODY  # where they are; an observation that was made by hand need not tell


class Environment:
    """Navigation over a world, for any number of agents at once."""

    def __init__(self, world: World, view_bank: Bank | None = None, object_bank: ObjectBank | None = None) -> None:
        self.world, self.view_bank, self.object_bank = world, view_bank, object_bank
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
        if views is self.view_bank and objects is None:
            return self
        kept = copy(self)
        kept.view_bank, kept.object_bank = views, objects or self.object_bank
        return kept

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
            features=None if self.view_bank is None else self.view_bank.look(viewpoint),
            visible_objects=None if self.object_bank is None else self.object_bank.look(viewpoint, state.view),
            state=state,
        )

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
