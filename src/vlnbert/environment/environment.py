"""The environment as pure functions: state in, state out. A step is a gather; nothing here waits for the device.

Left-right flip augmentation mirrors directions, boxes and words. Features of views stay: a caption holds in the mirror
too, a picture does not. In a panorama the views change places, as headings run the other way.
"""

from collections.abc import Callable, Iterable
from copy import copy
from dataclasses import dataclass, replace

import torch
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.errors import UnknownNameError, UsageError, setting
from vlnbert.tasks.task import TASKS, nearest
from vlnbert.world.banks import Bank, in_dtype, look, rows_of
from vlnbert.world.objects import ObjectBank, VisibleObjects
from vlnbert.world.world import STEPS, STOP, VIEWS, World, angle_feature, level_view, view_elevation, view_heading

NEIGHBOURS, PANORAMA = "neighbours", "panorama"
WANTS = (NEIGHBOURS, PANORAMA)  # optional fields of an observation
SIDES = {"left": "right", "Left": "Right", "LEFT": "RIGHT"}
MARKS = ("##", "Ġ", "▁", "")  # before pieces of words, or of their beginnings, in the tokenizers of the field


@dataclass(frozen=True)
class State:
    """The viewpoint and view of each agent, and whether it has stopped.

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

    - `features` [row, 36, width]: of each view. A view that faces a neighbour has the features of that neighbour's slot
      in `Observation.features`.
    - `direction` [row, 36, 4]: sine and cosine of each view's heading from the current view, and of its elevation.
    """

    features: Tensor
    direction: Tensor


@dataclass(frozen=True)
class Observation:
    """The view and choices of each agent, a row for each. Slot 0 stops; its numbers, and those of padding, are zero.

    - `choosable` [row, slot] bool: which slots are real. Choosing another leads nowhere.
    - `direction` [row, slot, 4]: sine and cosine of the heading to each neighbour from the current view, and of its
      elevation.
    - `facing` [row, 4]: the same of the current view itself, absolute: the last action as a direction.
    - `features` [row, slot, width]: of the view that faces each neighbour; None where there is no bank.
    - `visible_objects`: the objects at each viewpoint, `VisibleObjects`, in tasks that look for one; else None.
    - `state`: the state of the agents, `State`; empty in an observation made by hand.

    These are filled for agents that want them (`Agent.wants`, `Environment.showing`), and None for all others:

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


def wanted_names(wants: object, whose: str = "wants") -> frozenset[str]:
    """Check the optional fields that an agent wants; one name may stand alone. `whose` names them in messages."""
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
        """`open_panoramas` opens the bank of all 36 views; it is called once an agent wants the panorama."""
        self.world, self.view_bank, self.object_bank = world, view_bank, object_bank
        self.wants: frozenset[str] = frozenset()
        self.panorama_bank: Bank | None = None
        self._open_panoramas = open_panoramas
        self._dtype: torch.dtype | None = None  # of features, where they are kept in another
        self._around = torch.empty(0)  # [heading step, 36, 4] directions of all views, where the panorama is wanted
        slots = torch.arange(world.slots, device=world.device)
        self._choosable = slots < world.choices[:, None]  # [viewpoint, slot]
        self._neighbour, self._view = world.neighbour.flatten(), world.view.flatten()
        self._compass = _compass(world, self._choosable & (slots != STOP))
        views = torch.arange(VIEWS, device=world.device)
        self._facing = angle_feature(view_heading(views), view_elevation(views), width=4)

    def for_task(self, task: str) -> "Environment":
        """The environment of a task: a copy without objects, where the task shows none."""
        if TASKS[task].sees_objects or self.object_bank is None:
            return self
        plain = copy(self)
        plain.object_bank = None
        return plain

    def in_dtype(self, dtype: torch.dtype | None) -> "Environment":
        """A copy with features kept in this precision, on a GPU; None leaves them as they are."""
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
        """A copy whose observations have the optional fields that an agent or a policy wants, and no others.

        It is the same object where nothing changes.

        Args:
            wants: The fields to fill, of neighbours and panorama, or one of them.
            whose: Their name in messages, such as MyAgent.wants.
        """
        names = wanted_names(wants, whose)
        if names == self.wants:
            return self
        shown = copy(self)
        shown.wants, shown.panorama_bank = names, None
        if PANORAMA in names:
            bank = self.panorama_bank
            if bank is None and self._open_panoramas is None:
                problem = f"{whose} has {PANORAMA}, and this environment shows no features"
                remedy = "take that of data with some: vln.open_data(DIR, features=...).environment"
                raise UsageError(f"{problem}; {remedy}")
            if bank is None and self._open_panoramas is not None:
                bank = self._open_panoramas()
                bank = bank if self._dtype is None else in_dtype(bank, self._dtype)
            view = torch.arange(VIEWS, device=self._facing.device)
            step = torch.arange(STEPS, device=self._facing.device)[:, None]
            heading = view_heading(view) - view_heading(step)
            shown._around = angle_feature(heading, view_elevation(view).expand_as(heading), width=4)
            shown.panorama_bank = bank
        return shown

    def reset(self, start: Tensor, heading: Tensor) -> State:
        """Agents at their start viewpoints, looking level along the 30-degree heading nearest to theirs."""
        return State(start, level_view(heading), torch.zeros_like(start, dtype=torch.bool))

    def observe(self, state: State) -> Observation:
        """The observation now. Agents that have stopped still see, and none of their choices matters."""
        viewpoint, panorama = state.viewpoint, None
        if self.panorama_bank is not None:
            panorama = Panorama(self.panorama_bank.look(viewpoint), rows_of(self._around, state.view % STEPS))
        return Observation(
            choosable=rows_of(self._choosable, viewpoint),
            direction=rows_of(self._compass, (state.view % STEPS).add(viewpoint, alpha=STEPS)),
            facing=rows_of(self._facing, state.view),
            features=None if self.view_bank is None else look(self.view_bank, viewpoint),
            visible_objects=None if self.object_bank is None else self.object_bank.look(viewpoint, state.view),
            state=state,
            neighbours=rows_of(self.world.neighbour, viewpoint) if NEIGHBOURS in self.wants else None,
            panorama=panorama,
        )

    def step(self, state: State, slot: Tensor) -> State:
        """Move along the chosen slots. Stopping is final; a slot that is only padding leads nowhere."""
        # Agents that have stopped stop again.
        slot = slot.masked_fill(state.ended, STOP)
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


def flip_observation(observation: Observation, flipped: Tensor) -> Observation:
    """The observation, mirrored in the rows `flipped` [row]."""
    seen, around = observation.visible_objects, observation.panorama
    if seen is not None:
        left, top, right, bottom, area = seen.position.unbind(dim=-1)
        other = torch.stack((1 - right, top, 1 - left, bottom, area), dim=-1)
        # Padding stays zero.
        changed = (flipped[:, None] & seen.present)[..., None]
        position = torch.where(changed, other, seen.position)
        seen = replace(seen, position=position, direction=_flip_directions(seen.direction, flipped))
    if around is not None:
        # Each view changes places with that as far to the other side of heading 0, at the same elevation.
        view = torch.arange(VIEWS, device=flipped.device)
        mirrored, changed = view - view % STEPS + (-view) % STEPS, flipped[:, None, None]
        features = torch.where(changed, around.features.index_select(1, mirrored), around.features)
        direction = torch.where(changed, around.direction.index_select(1, mirrored), around.direction)
        around = Panorama(features, _flip_directions(direction, flipped))
    return replace(
        observation,
        direction=_flip_directions(observation.direction, flipped),
        facing=_flip_directions(observation.facing[:, None], flipped).squeeze(1),
        visible_objects=seen,
        panorama=around,
    )


def flip_words(tokens: Tensor, flipped: Tensor, sides: Tensor) -> Tensor:
    """[row, token] instructions, those of flipped rows with left and right exchanged."""
    return torch.where(flipped[:, None], sides[tokens], tokens)


def other_sides(tokenizer: Tokenizer | None) -> Tensor:
    """[piece] the mirror image of each word piece: left and right change places, the others stay."""
    vocabulary = {} if tokenizer is None else tokenizer.get_vocab()
    table = torch.arange(1 + max(vocabulary.values(), default=0))
    pairs = [(mark + one, mark + other) for mark in MARKS for one, other in SIDES.items()]
    found = [(vocabulary[one], vocabulary[other]) for one, other in pairs if one in vocabulary and other in vocabulary]
    if not found:
        problem = f"{setting('training.flip')} needs the words left and right, which the vocabulary lacks"
        raise UsageError(f"{problem}; do without: {setting('training.flip', 0)}")
    for one, other in found:
        table[one], table[other] = other, one
    return table


def _flip_directions(direction: Tensor, flipped: Tensor) -> Tensor:
    """[row, any, 4] directions, in which the sine of the heading changes its sign."""
    sine = torch.where(flipped[:, None], -direction[..., 0], direction[..., 0])
    return torch.cat((sine[..., None], direction[..., 1:]), dim=-1)
