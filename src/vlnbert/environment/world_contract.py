"""The promises of a world's tables, from those that later ones rest on to those about lengths and shortest paths."""

from collections.abc import Callable

import torch
from torch import Tensor

from vlnbert.world.geometry import VIEW_ANGLE, VIEWS, view_elevation, view_heading, wrapped
from vlnbert.world.world import STOP, World

TOLERANCE = 1e-6  # metres
ANGLE_TOLERANCE = 1e-4  # radians

MEASURES = ("position", "heading", "elevation", "distance")  # the other tables hold whole numbers


def unless(kept: bool | Tensor, broken: str) -> list[str]:
    """What is broken, unless the promise is kept."""
    return [] if kept else [broken]


def check_tables(world: World) -> list[str]:
    """Check shapes and ranges: where these are kept, every index can be followed."""
    return _check_shapes(world) or _check_ranges(world) or _check_places(world)


def check_meaning(world: World) -> list[str]:
    """Check what tables say to each other, once they can be followed."""
    checks: list[Callable[[World], list[str]]] = [
        *(_check_slots, _check_angles, _check_symmetry, _check_distances, _check_next_slots)
    ]
    return [fault for check in checks for fault in check(world)]


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

    measures = (getattr(world, name) for name in MEASURES if name != "distance")  # which may be infinite
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
    blank = -1 - torch.arange(world.slots, device=world.device)  # all different
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
    level = (elevation / VIEW_ANGLE).round().clamp(-1, 1) * VIEW_ANGLE  # the nearest one's elevation
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
    return [
        *unless((world.metres(itself, itself) == 0).all(), "a viewpoint is some distance from itself"),
        *unless((there >= 0).all(), "a distance is negative or not a number"),
        *unless(((there == back) | ((there - back).abs() < TOLERANCE)).all(), "a distance differs from its way back"),
        *unless(((edge - straight).abs() < TOLERANCE).all(), "an edge is shorter or longer than the straight line"),
        *unless(not _shortcuts(world, start, end), "a distance is longer than a way through a neighbour"),
    ]


def _shortcuts(world: World, start: Tensor, end: Tensor) -> bool:
    """Whether some step makes a way shorter than its distance says; slot by slot, to save memory."""
    limit = world.metres(start, end) - TOLERANCE
    through = (world.neighbour[start, slot] for slot in range(world.slots))
    return any(bool((world.metres(start, step) + world.metres(step, end) < limit).any()) for step in through)


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
    rows = size[world.scan_of[order]]  # how many pairs begin with each viewpoint
    start = order.repeat_interleave(rows)
    before = (rows.cumsum(0) - rows).repeat_interleave(rows)
    place = torch.arange(len(start), device=world.device) - before
    return start, order[first[world.scan_of[start]] + place]


def _close(angle: Tensor) -> Tensor:
    return (angle.abs() < ANGLE_TOLERANCE).all()
