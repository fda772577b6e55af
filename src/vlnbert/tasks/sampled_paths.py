"""Paths of R2R's kind that nobody described: shortest paths of four to six hops, at least 5 m long, in train houses."""

import hashlib
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from vlnbert.errors import DataError, UsageError, setting
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.task import TASKS
from vlnbert.world.world import World

HOPS = (4, 6)  # of R2R's paths, fewest and most
LENGTH = 5.0  # metres that R2R's paths have at least
DESCRIBED = "val_seen"  # the split whose paths lie in train houses and must stay unseen


@dataclass(frozen=True)
class SampledPaths:
    """Paths in a world, as many as were asked for, and how many there would be."""

    path: Tensor  # [path, hop] viewpoints; the last one repeats as padding
    length: Tensor  # [path] viewpoints
    heading: Tensor  # [path] float64 radians, that the agent faces at the start
    known: int  # how many there are of the kind
    described: int  # how many were left out since val_seen describes them

    def __len__(self) -> int:
        return len(self.path)

    def items(self, world: World, seed: int) -> Iterator[dict[str, Any]]:
        """The items of a file in R2R's form, without instructions."""
        metres = world.metres(self.path[:, 0], self.path[:, -1]).tolist()
        rows = zip(self.path.tolist(), self.length.tolist(), self.heading.tolist(), metres, strict=True)
        for number, (path, length, heading, distance) in enumerate(rows):
            yield {
                "path_id": f"sampled_{seed}_{number}",
                "scan": world.scans[int(world.scan_of[path[0]])],
                "heading": heading,
                "distance": distance,
                "path": [world.viewpoints[viewpoint] for viewpoint in path[:length]],
                "instructions": [],
            }


def sample_paths(
    folder: DataFolder, world: World, count: int | None, seed: int, kept_out: Sequence[str] = ()
) -> SampledPaths:
    """So many paths of the train houses but for those kept out, all of them for None, none that val_seen describes.

    They come in an order that the seed decides: fewer are the first of more.
    """
    houses = train_houses(folder, kept_out)
    for scan in houses:
        if scan not in world.scans:
            file = TASKS["r2r"].file(folder, "train")
            raise DataError(file, f"has paths in {scan}, which has no graph", "add the scan's connectivity file")
    found = [_paths_of(world, world.scans.index(scan)) for scan in houses]
    path, length = torch.cat([path for path, _ in found]), torch.cat([length for _, length in found])
    known, described = len(path), _described(folder, world)
    kept = [tuple(row) not in described for row in path.tolist()]
    path, length = path[kept], length[kept]
    if not len(path):
        problem = (
            f"the train houses of {folder.root} have no shortest path of {HOPS[0]} to {HOPS[1]} hops and {LENGTH:g} m"
        )
        raise UsageError(f"{problem} that val_seen does not describe; give larger houses")
    if count is not None and count > len(path):
        problem = f"there are {len(path):,} paths of the kind in the train houses of {folder.root}, not {count:,}"
        raise UsageError(f"{problem}; ask for fewer: {setting('count', len(path))}")
    generator = torch.Generator().manual_seed(_hash_of(seed))
    order = torch.randperm(len(path), generator=generator)[:count]
    heading = 2 * math.pi * torch.rand(len(path), generator=generator, dtype=torch.float64)[: len(order)]
    return SampledPaths(path[order], length[order], heading, known, kept.count(False))


def train_houses(folder: DataFolder, kept_out: Sequence[str] = ()) -> list[str]:
    """The houses of R2R's train split but for those kept out, in alphabetical order."""
    r2r = TASKS["r2r"]
    return sorted({record.scan for record in r2r.read(r2r.file(folder, "train"))}.difference(kept_out))


def _paths_of(world: World, scan: int) -> tuple[Tensor, Tensor]:
    """[path, hop] all paths of the kind in a house, by their starts and ends, and their lengths in viewpoints."""
    members = (world.scan_of == scan).nonzero().flatten()
    start, end = (part.flatten() for part in torch.meshgrid(members, members, indexing="ij"))
    metres = world.metres(start, end)
    reached = metres.isfinite() & (metres >= LENGTH)
    start, end = start[reached], end[reached]
    hops = [start]
    for _ in range(HOPS[1]):
        hops.append(world.neighbour[hops[-1], world.slot_toward(hops[-1], end)])
    path = torch.stack(hops, dim=1)
    length = 1 + (path != end[:, None]).sum(dim=1)
    kept = (path[:, -1] == end) & (length > HOPS[0])
    return path[kept], length[kept]


def _described(folder: DataFolder, world: World) -> set[tuple[int, ...]]:
    """The paths of val_seen as rows of the same width; a longer one than that is of another kind."""
    r2r = TASKS["r2r"]
    if DESCRIBED not in r2r.files(folder):
        return set()
    rows = set()
    for record in r2r.read(r2r.file(folder, DESCRIBED)):
        path = [world.find(record.scan, name) for name in record.path]
        rows.add(tuple(path + path[-1:] * (HOPS[1] + 1 - len(path))))
    return rows


def _hash_of(seed: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"paths {seed}".encode(), digest_size=4).digest())
