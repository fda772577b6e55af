"""What every world and environment must hold to. Point it at your own: `check_world(world)`, `check_environment(env)`.

Each check returns a sentence for every promise that is broken; `require` raises them all together.
"""

import math
from typing import Protocol

import torch
from torch import Tensor

from vlnbert.environment.environment import Observation, Panorama, State
from vlnbert.environment.world_contract import ANGLE_TOLERANCE, check_meaning, check_tables, real_slots, unless
from vlnbert.errors import VlnbertError
from vlnbert.world.geometry import VIEWS, angle_feature, level_view, view_elevation, view_heading
from vlnbert.world.object_bank import VisibleObjects
from vlnbert.world.world import STOP, World


class ContractError(VlnbertError):
    """A world or an environment breaks its promises; one line for each."""


class AnyEnvironment(Protocol):
    """What the checker needs of an environment: three functions and the world they walk."""

    @property
    def world(self) -> World: ...

    def reset(self, start: Tensor, heading: Tensor) -> State: ...

    def observe(self, state: State) -> Observation: ...

    def step(self, state: State, slot: Tensor) -> State: ...


def require(broken: list[str]) -> None:
    """Raise what is broken, all at once."""
    if broken:
        raise ContractError("\n".join(broken))


def check_world(world: World) -> list[str]:
    """Check the tables of a world: slots, angles, symmetry, distances and next hops."""
    return check_tables(world) or check_meaning(world)  # the second would stumble where the first finds anything


def check_environment(environment: AnyEnvironment, agents: int = 256, steps: int = 8, seed: int = 0) -> list[str]:
    """Walk some agents at random and check what the environment does with them, each time from where they should be."""
    world, generator = environment.world, torch.Generator().manual_seed(seed)
    if broken := check_tables(world):
        return broken
    start = torch.randint(len(world), (agents,), generator=generator).to(world.device)
    heading = torch.rand(agents, generator=generator).to(world.device) * 2 * math.pi
    state = State(start, level_view(heading), torch.zeros_like(start, dtype=torch.bool))
    broken = _check_reset(state, environment.reset(start, heading))
    for _ in range(steps):
        broken += _check_observation(world, state, environment.observe(state))
        slot = torch.randint(world.slots, (agents,), generator=generator).to(world.device)
        after = _stepped(world, state, slot)
        broken += _check_step(after, environment.step(state, slot), environment.step(state, slot))
        state = after
    return list(dict.fromkeys(broken))  # the same promise is reported once


def _check_reset(expected: State, state: State) -> list[str]:
    return [
        *unless(torch.equal(state.viewpoint, expected.viewpoint), "reset moves agents away from their start"),
        *unless(torch.equal(state.view, expected.view), "after a reset the agent does not face the nearest level view"),
        *unless(torch.equal(state.ended, expected.ended), "reset gives agents that have already stopped"),
    ]


def _check_observation(world: World, state: State, seen: Observation) -> list[str]:
    choosable = (torch.arange(world.slots, device=world.device) < world.choices[:, None])[state.viewpoint]
    real = real_slots(world)[state.viewpoint]
    heading = world.heading[state.viewpoint] - view_heading(state.view)[:, None]
    direction = angle_feature(heading, world.elevation[state.viewpoint], width=4) * real[..., None]
    facing = angle_feature(view_heading(state.view), view_elevation(state.view), width=4)
    features = seen.direction if seen.features is None else seen.features
    shapes = [
        *unless(seen.direction.shape == direction.shape, "direction is not four numbers an agent and slot"),
        *unless(features.shape[:-1] == real.shape, "features are not a vector an agent and slot"),
        *unless(seen.facing.shape == facing.shape, "facing is not four numbers an agent"),
    ]
    numbers = (seen.direction, features)
    return shapes or [
        *unless(torch.equal(seen.choosable, choosable), "what may be chosen differs from the world's slots"),
        *unless(all(not table[~real].any() for table in numbers), "stop or padding is not all zeros"),
        *unless(all(table.isfinite().all() for table in numbers), "an observation is not finite"),
        *unless(_alike(seen.direction, direction), "a direction is not that of its slot from the view faced"),
        *unless(_alike(seen.facing, facing), "facing is not the direction of the view faced"),
        *([] if seen.visible_objects is None else _check_objects(len(state.viewpoint), seen.visible_objects)),
        *([] if seen.neighbours is None else _check_neighbours(world.neighbour[state.viewpoint], seen.neighbours)),
        *([] if seen.panorama is None else _check_panorama(state, seen.panorama)),
    ]


def _check_neighbours(expected: Tensor, found: Tensor) -> list[str]:
    return unless(torch.equal(found, expected), "neighbours are not the viewpoints that the slots lead to")


def _check_panorama(state: State, found: Panorama) -> list[str]:
    view = torch.arange(VIEWS, device=state.view.device)
    heading = view_heading(view) - view_heading(state.view)[:, None]
    direction = angle_feature(heading, view_elevation(view).expand_as(heading), width=4)
    if found.features.shape[:-1] != direction.shape[:-1] or found.direction.shape != direction.shape:
        return ["a panorama is not a feature and four numbers an agent and view"]
    return [
        *unless(bool(found.features.isfinite().all()), "a panorama is not finite"),
        *unless(
            _alike(found.direction, direction), "a panorama's direction is not that of its view from the one faced"
        ),
    ]


def _check_objects(agents: int, found: VisibleObjects) -> list[str]:
    tables, present = (found.features, found.position, found.direction), found.present
    widths = (found.features.shape[-1], 5, 4)
    if present.dtype != torch.bool or present.dim() != 2 or len(present) != agents:
        return ["present is not whether an object is there, an agent and object"]
    if any(table.shape != (*present.shape, width) for table, width in zip(tables, widths, strict=True)):
        return ["objects are not a feature, five and four numbers an agent and object"]
    left, top, right, bottom, area = found.position.unbind(dim=-1)
    inside = ((found.position >= 0) & (found.position <= 1)).all() and (left <= right).all() and (top <= bottom).all()
    sines = found.direction.reshape(*present.shape, 2, 2).norm(dim=-1)
    return [
        *unless(all(table.isfinite().all() for table in tables), "an object is not finite"),
        *unless(all(not table[~present].any() for table in tables), "padding behind objects is not all zeros"),
        *unless(inside and _alike(area, (right - left) * (bottom - top)), "a position is not a box in the view"),
        *unless(_alike(sines[present], torch.ones_like(sines[present])), "an object's direction is not two angles"),
    ]


def _stepped(world: World, state: State, slot: Tensor) -> State:
    """Where a step should lead."""
    ended = state.ended | (slot == STOP)
    moves = ~ended & (slot < world.choices[state.viewpoint])
    viewpoint = torch.where(moves, world.neighbour[state.viewpoint, slot], state.viewpoint)
    return State(viewpoint, torch.where(moves, world.view[state.viewpoint, slot], state.view), ended)


def _check_step(expected: State, after: State, again: State) -> list[str]:
    same = all(torch.equal(getattr(after, name), getattr(again, name)) for name in ("viewpoint", "view", "ended"))
    return [
        *unless(torch.equal(after.viewpoint, expected.viewpoint), "a step does not lead where its slot leads"),
        *unless(torch.equal(after.view, expected.view), "after a step the agent does not face the slot's view"),
        *unless(torch.equal(after.ended, expected.ended), "stopping is not final, or an agent stops unasked"),
        *unless(same, "the same step gives different states"),
    ]


def _alike(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found.double(), expected.double(), rtol=0, atol=ANGLE_TOLERANCE)
