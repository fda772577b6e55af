"""What every world and environment must hold to. Point it at your own: `check_world(world)`, `check_environment(env)`.

Each check returns a sentence for every promise that is broken; `require` raises them all together.
"""

from collections.abc import Callable
from typing import Protocol

import torch
from torch import Tensor

from vlnbert.environment.environment import Observation, State
from vlnbert.errors import VlnbertError
from vlnbert.world.geometry import VIEWS
from vlnbert.world.world import STOP, World

TOLERANCE = 1e-6  # metres


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
    """Check the tables of a world: slots, symmetry, distances and next hops."""
    if shape_faults := _check_shapes(world):
        return shape_faults  # nothing below would make sense
    checks: list[Callable[[World], list[str]]] = [_check_slots, _check_symmetry, _check_distances, _check_next_slots]
    return [fault for check in checks for fault in check(world)]


def check_environment(environment: AnyEnvironment, agents: int = 256, steps: int = 8, seed: int = 0) -> list[str]:
    """Walk some agents at random and check what the environment does with them."""
    world, generator = environment.world, torch.Generator().manual_seed(seed)
    start = torch.randint(len(world), (agents,), generator=generator).to(world.device)
    state = environment.reset(start, torch.rand(agents, generator=generator).to(world.device) * 6.28)
    broken = _unless(torch.equal(state.viewpoint, start), "reset moves agents away from their start")
    broken += _unless(not state.ended.any(), "reset gives agents that have already stopped")
    for _ in range(steps):
        broken += _check_observation(world, state, environment.observe(state))
        slot = torch.randint(world.slots, (agents,), generator=generator).to(world.device)
        after = environment.step(state, slot)
        broken += _check_step(world, state, slot, after, environment.step(state, slot))
        state = after
    return list(dict.fromkeys(broken))  # the same promise is reported once


def _check_shapes(world: World) -> list[str]:
    count, pairs = len(world), int(world.scan_of.bincount().square().sum())
    one, table = (count,), (count, world.slots)
    shapes = {
        **{"scan_of": one, "choices": one, "row": one, "column": one, "position": (count, 3)},
        **{"neighbour": table, "view": table, "heading": table, "elevation": table},
        **{"distance": (pairs,), "next_slot": (pairs,)},
    }
    found = {name: tuple(tensor.shape) for name, tensor in world.tensors().items()}
    return [f"{name} has shape {found[name]}, not {shape}" for name, shape in shapes.items() if found[name] != shape]


def _check_slots(world: World) -> list[str]:
    itself = torch.arange(len(world), device=world.device)[:, None]
    slots = torch.arange(world.slots, device=world.device)
    real = (slots != STOP) & (slots < world.choices[:, None])
    inside = (world.neighbour >= 0) & (world.neighbour < len(world))
    if not inside.all():
        return ["neighbour holds numbers that are no viewpoints"]
    numbers = (world.view, world.heading, world.elevation)
    return [
        *_unless(
            ((world.neighbour == itself) == ~real).all(), "a real slot leads to itself, or stop or padding elsewhere"
        ),
        *_unless((world.scan_of[world.neighbour] == world.scan_of[itself]).all(), "a slot leads into another scan"),
        *_unless(((world.view >= 0) & (world.view < VIEWS)).all(), "a view is not in 0 to 35"),
        *_unless(all(not table[~real].any() for table in numbers), "stop or padding has a view or an angle"),
        *_unless(all(torch.isfinite(table).all() for table in numbers), "an angle is not finite"),
    ]


def _check_symmetry(world: World) -> list[str]:
    back = world.neighbour[world.neighbour]  # [viewpoint, slot, slot]
    itself = torch.arange(len(world), device=world.device)[:, None, None]
    return _unless((back == itself).any(dim=-1).all(), "an edge leads one way only")


def _check_distances(world: World) -> list[str]:
    itself = torch.arange(len(world), device=world.device)
    edge = world.metres(itself[:, None].expand_as(world.neighbour), world.neighbour)
    straight = (world.position[itself][:, None] - world.position[world.neighbour]).norm(dim=-1)
    start, end = _pairs(world)
    there, back = world.metres(start, end), world.metres(end, start)
    return [
        *_unless((world.metres(itself, itself) == 0).all(), "a viewpoint is some distance from itself"),
        *_unless((there >= 0).all(), "a distance is negative or not a number"),
        *_unless(((there == back) | ((there - back).abs() < TOLERANCE)).all(), "a distance differs from its way back"),
        *_unless((edge <= straight + TOLERANCE).all(), "an edge is longer than the straight line"),
    ]


def _check_next_slots(world: World) -> list[str]:
    start, end = _pairs(world)
    slot, metres = world.next_slot.long(), world.distance
    after = world.neighbour[start, slot]
    left = metres - world.metres(start, after)
    on_way = (world.metres(after, end) - left).abs() < TOLERANCE
    moving = (start != end) & torch.isfinite(metres)
    return [
        *_unless(((slot == STOP) == ~moving).all(), "a next hop stops before the goal, or goes on at it"),
        *_unless(on_way[moving].all(), "a next hop is not on a shortest path"),
    ]


def _pairs(world: World) -> tuple[Tensor, Tensor]:
    """The two viewpoints of every entry of the pair tables."""
    start_of, size = world.scan_of.bincount().cumsum(0), world.scan_of.bincount()
    start = torch.arange(len(world), device=world.device).repeat_interleave(size[world.scan_of])
    place = torch.arange(len(world.distance), device=world.device) - world.row[start]
    first = (start_of - size)[world.scan_of[start]]
    return start, first + place


def _check_observation(world: World, state: State, seen: Observation) -> list[str]:
    slots = torch.arange(world.slots, device=world.device)
    choosable = slots < world.choices[state.viewpoint][:, None]
    blank = ~choosable | (slots == STOP)
    numbers = [seen.direction] if seen.features is None else [seen.direction, seen.features]
    return [
        *_unless(torch.equal(seen.choosable, choosable), "what may be chosen differs from the world's slots"),
        *_unless(all(not table[blank].any() for table in numbers), "stop or padding is not all zeros"),
        *_unless(all(torch.isfinite(table).all() for table in numbers), "an observation is not finite"),
        *_unless(seen.facing.shape == (len(blank), 4), "facing is not four numbers an agent"),
    ]


def _check_step(world: World, state: State, slot: Tensor, after: State, again: State) -> list[str]:
    halted = state.ended | (slot == STOP)
    still = halted | (slot >= world.choices[state.viewpoint])
    expected = torch.where(still, state.viewpoint, world.neighbour[state.viewpoint, slot])
    view = torch.where(still, state.view, world.view[state.viewpoint, slot])
    same = all(torch.equal(getattr(after, name), getattr(again, name)) for name in ("viewpoint", "view", "ended"))
    return [
        *_unless(torch.equal(after.viewpoint, expected), "a step does not lead where its slot leads"),
        *_unless(torch.equal(after.view, view), "after a step the agent does not face the slot's view"),
        *_unless(torch.equal(after.ended, halted), "stopping is not final, or an agent stops unasked"),
        *_unless(same, "the same step gives different states"),
    ]


def _unless(kept: bool | Tensor, broken: str) -> list[str]:
    return [] if kept else [broken]
