"""Checks of worlds and environments, also of your own: `check_world(world)`, `check_environment(environment)`.

Each check returns a sentence for every broken promise; `require` raises them all together. Tables of a world are
checked in order, from those that later checks rely on to distances and shortest paths.
"""

import math

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment, Observation, Panorama, State
from vlnbert.errors import VlnbertError
from vlnbert.world.objects import VisibleObjects
from vlnbert.world.world import (
    STOP,
    VIEW_ANGLE,
    VIEWS,
    World,
    angle_feature,
    level_view,
    view_elevation,
    view_heading,
    wrapped,
)

TOLERANCE = 1e-6  # metres
ANGLE_TOLERANCE = 1e-4  # radians
MEASURES = ("position", "heading", "elevation", "distance")  # tables of fractions; the others hold whole numbers


class ContractError(VlnbertError):
    """A world or an environment breaks its promises; one line for each."""


def require(broken: list[str]) -> None:
    """Raise all broken promises together."""
    if broken:
        raise ContractError("\n".join(broken))


def check_world(world: World) -> list[str]:
    """Check the tables of a world: slots, angles, symmetry, distances and next hops."""
    checks = (_check_slots, _check_angles, _check_symmetry, _check_distances, _check_next_slots)
    return check_tables(world) or [fault for check in checks for fault in check(world)]


def check_environment(environment: Environment, agents: int = 256, steps: int = 8, seed: int = 0) -> list[str]:
    """Walk some agents at random and check each result of the environment, always from the expected state."""
    world, generator = environment.world, torch.Generator().manual_seed(seed)
    if broken := check_tables(world):
        return broken
    start = torch.randint(len(world), (agents,), generator=generator).to(world.device)
    heading = torch.rand(agents, generator=generator).to(world.device) * 2 * math.pi
    state = State(start, level_view(heading), torch.zeros_like(start, dtype=torch.bool))
    found = environment.reset(start, heading)
    broken = [
        *unless(torch.equal(found.viewpoint, state.viewpoint), "reset moves agents away from their start"),
        *unless(torch.equal(found.view, state.view), "after a reset the agent does not face the nearest level view"),
        *unless(torch.equal(found.ended, state.ended), "reset gives agents that have already stopped"),
    ]
    for _ in range(steps):
        broken += _check_observation(world, state, environment.observe(state))
        slot = torch.randint(world.slots, (agents,), generator=generator).to(world.device)
        found, again = environment.step(state, slot), environment.step(state, slot)
        ended = state.ended | (slot == STOP)
        moves = ~ended & (slot < world.choices[state.viewpoint])
        viewpoint = torch.where(moves, world.neighbour[state.viewpoint, slot], state.viewpoint)
        state = State(viewpoint, torch.where(moves, world.view[state.viewpoint, slot], state.view), ended)
        same = all(torch.equal(getattr(found, name), getattr(again, name)) for name in ("viewpoint", "view", "ended"))
        broken += [
            *unless(torch.equal(found.viewpoint, state.viewpoint), "a step does not lead where its slot leads"),
            *unless(torch.equal(found.view, state.view), "after a step the agent does not face the slot's view"),
            *unless(torch.equal(found.ended, state.ended), "stopping is not final, or an agent stops unasked"),
            *unless(same, "the same step gives different states"),
        ]
    return list(dict.fromkeys(broken))


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
        *unless(
            seen.neighbours is None or torch.equal(seen.neighbours, world.neighbour[state.viewpoint]),
            "neighbours are not the viewpoints that the slots lead to",
        ),
        *([] if seen.panorama is None else _check_panorama(state, seen.panorama)),
    ]


def _check_panorama(state: State, found: Panorama) -> list[str]:
    view = torch.arange(VIEWS, device=state.view.device)
    heading = view_heading(view) - view_heading(state.view)[:, None]
    direction = angle_feature(heading, view_elevation(view).expand_as(heading), width=4)
    if found.features.shape[:-1] != direction.shape[:-1] or found.direction.shape != direction.shape:
        return ["a panorama is not a feature and four numbers an agent and view"]
    return [
        *unless(bool(found.features.isfinite().all()), "a panorama is not finite"),
        *unless(_alike(found.direction, direction), "a panorama's direction is not its view's from the one faced"),
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


def _alike(found: Tensor, expected: Tensor) -> bool:
    return torch.allclose(found.double(), expected.double(), rtol=0, atol=ANGLE_TOLERANCE)


def unless(kept: bool | Tensor, broken: str) -> list[str]:
    """The broken promise, unless it is kept."""
    return [] if kept else [broken]


def check_tables(world: World) -> list[str]:
    """Check shapes and ranges: where these are kept, every index can be followed."""
    return _check_shapes(world) or _check_ranges(world) or _check_places(world)


def real_slots(world: World) -> Tensor:
    """[viewpoint, slot] whether a slot leads to a neighbour: it neither stops nor pads."""
    slots = torch.arange(world.slots, device=world.device)
    return (slots != STOP) & (slots < world.choices[:, None])


def _check_shapes(world: World) -> list[str]:
    if world.neighbour.dim() != 2 or not len(world):
        return ["a world needs viewpoints, and neighbour a row for each"]
    count, one, table = len(world), (len(world),), (len(world), world.slots)
    inside = (world.scan_of >= 0) & (world.scan_of < len(world.scans))
    if tuple(world.scan_of.shape) != one or world.scan_of.is_floating_point() or not inside.all():
        return ["scan_of is not the number of a scan for each viewpoint"]
    pairs = (int(world.scan_of.bincount().square().sum()),)
    shapes: dict[str, tuple[int, ...]] = {
        **dict.fromkeys(("choices", "row", "column"), one),
        **dict.fromkeys(("neighbour", "view", "heading", "elevation"), table),
        **{"position": (count, 3), "distance": pairs, "next_slot": pairs},
    }
    found = world.tensors()
    broken = [name for name, shape in shapes.items() if tuple(found[name].shape) != shape]
    kinds = [name for name in shapes if found[name].is_floating_point() != (name in MEASURES)]
    return [
        *(f"{name} has shape {tuple(found[name].shape)}, not {shapes[name]}" for name in broken),
        *(f"{name} holds {'whole numbers' if name in MEASURES else 'fractions'}" for name in kinds),
    ]


def _check_ranges(world: World) -> list[str]:
    def within(table: Tensor, low: int, end: int) -> Tensor:
        return ((table >= low) & (table < end)).all()

    # Distances may be infinite.
    measures = (getattr(world, name) for name in MEASURES if name != "distance")
    return [
        *unless(len(world.numbers) == len(world), "a viewpoint occurs twice in its scan"),
        *unless(within(world.neighbour, 0, len(world)), "neighbour holds numbers that are no viewpoints"),
        *unless(within(world.view, 0, VIEWS), "a view is not in 0 to 35"),
        *unless(within(world.choices, 1, world.slots + 1), "a viewpoint has no stop, or more choices than slots"),
        *unless(within(world.next_slot, 0, world.slots), "next_slot holds numbers that are no slots"),
        *unless(all(table.isfinite().all() for table in measures), "a position or an angle is not finite"),
    ]


def _check_places(world: World) -> list[str]:
    places = world.pair(*_pairs(world)).sort().values
    whole = torch.equal(places, torch.arange(len(places), device=world.device))
    home = (world.scan_of[world.neighbour] == world.scan_of[:, None]).all()
    return [
        *unless(whole, "row and column do not give every pair a place of its own in the pair tables"),
        *unless(home, "a slot leads into another scan"),
    ]


def _check_slots(world: World) -> list[str]:
    itself, real = torch.arange(len(world), device=world.device)[:, None], real_slots(world)
    numbers = (world.view, world.heading, world.elevation)
    # Slots that are not real get numbers that all differ.
    blank = -1 - torch.arange(world.slots, device=world.device)
    leads = torch.where(real, world.neighbour, blank).sort(dim=1).values
    stays = (world.neighbour == itself) == ~real
    return [
        *unless(stays.all(), "a real slot leads to itself, or stop or padding elsewhere"),
        *unless((leads.diff(dim=1) != 0).all(), "two slots lead to the same neighbour"),
        *unless(all(not table[~real].any() for table in numbers), "stop or padding has a view or an angle"),
    ]


def _check_angles(world: World) -> list[str]:
    """Angles are those of positions in single precision, as the simulator's; a view is the nearest of the 36."""
    real, position = real_slots(world), world.position.float()
    east, north, up = (position[world.neighbour] - position[:, None])[real].double().unbind(dim=-1)
    heading, elevation = torch.atan2(east, north), torch.atan2(up, torch.hypot(east, north))
    view = world.view[real]
    # The elevation of the nearest view.
    level = (elevation / VIEW_ANGLE).round().clamp(-1, 1) * VIEW_ANGLE
    aside = wrapped(heading - view_heading(view)).abs() < VIEW_ANGLE / 2 + ANGLE_TOLERANCE
    above = (elevation - view_elevation(view)).abs() < (elevation - level).abs() + ANGLE_TOLERANCE
    return [
        *unless(_close(wrapped(world.heading[real] - heading)), "a heading does not point at the neighbour"),
        *unless(_close(world.elevation[real] - elevation), "an elevation does not point at the neighbour"),
        *unless((aside & above).all(), "a view is not the one nearest to the neighbour"),
    ]


def _check_symmetry(world: World) -> list[str]:
    back = world.neighbour[world.neighbour]  # [viewpoint, slot, slot]
    itself = torch.arange(len(world), device=world.device)[:, None, None]
    return unless((back == itself).any(dim=-1).all(), "an edge leads one way only")


def _check_distances(world: World) -> list[str]:
    itself = torch.arange(len(world), device=world.device)
    edge = world.metres(itself[:, None].expand_as(world.neighbour), world.neighbour)
    straight = (world.position[:, None] - world.position[world.neighbour]).norm(dim=-1)
    start, end = _pairs(world)
    there, back = world.metres(start, end), world.metres(end, start)
    # Slot by slot, to save memory.
    through = (world.neighbour[start, slot] for slot in range(world.slots))
    ways = (world.metres(start, step) + world.metres(step, end) for step in through)
    shorter = any(bool((way < there - TOLERANCE).any()) for way in ways)
    return [
        *unless((world.metres(itself, itself) == 0).all(), "a viewpoint is some distance from itself"),
        *unless((there >= 0).all(), "a distance is negative or not a number"),
        *unless(((there == back) | ((there - back).abs() < TOLERANCE)).all(), "a distance differs from its way back"),
        *unless(((edge - straight).abs() < TOLERANCE).all(), "an edge is shorter or longer than the straight line"),
        *unless(not shorter, "a distance is longer than a way through a neighbour"),
    ]


def _check_next_slots(world: World) -> list[str]:
    start, end = _pairs(world)
    pair = world.pair(start, end)
    slot, metres = world.next_slot[pair].long(), world.distance[pair]
    left = metres - world.metres(start, world.neighbour[start, slot])
    on_way = (world.metres(world.neighbour[start, slot], end) - left).abs() < TOLERANCE
    moving = (start != end) & torch.isfinite(metres)
    return [
        *unless(((slot == STOP) == ~moving).all(), "a next hop stops before the goal, or goes on at it"),
        *unless(on_way[moving].all(), "a next hop is not on a shortest path"),
    ]


def _pairs(world: World) -> tuple[Tensor, Tensor]:
    """All pairs of viewpoints of the same scan."""
    size = world.scan_of.bincount(minlength=len(world.scans))
    order, first = world.scan_of.argsort(stable=True), size.cumsum(0) - size
    # The number of pairs that begin with each viewpoint.
    rows = size[world.scan_of[order]]
    start = order.repeat_interleave(rows)
    before = (rows.cumsum(0) - rows).repeat_interleave(rows)
    place = torch.arange(len(start), device=world.device) - before
    return start, order[first[world.scan_of[start]] + place]


def _close(angle: Tensor) -> Tensor:
    return (angle.abs() < ANGLE_TOLERANCE).all()
