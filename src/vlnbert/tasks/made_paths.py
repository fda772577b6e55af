"""Paths made for training: sampled ones without instructions, R2R's joined into R4R's; and paths that may not be used.

Sampled paths are of R2R's kind: shortest paths of four to six hops, at least 5 m long, in train houses. Paths that no
training may learn from are in houses that are only evaluated in, or described by val_seen.
"""

import hashlib
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, tensor

from vlnbert.errors import DataError, UsageError, setting
from vlnbert.progress import track
from vlnbert.sources.files import read_json, stream_json_list
from vlnbert.sources.instructions import read_r2r
from vlnbert.sources.layout import DataFolder
from vlnbert.sources.writing import write_json
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import R2R, R4R, REVERIE, TASKS
from vlnbert.world.world import World

HOPS = (4, 6)  # of R2R's paths, fewest and most
LENGTH = 5.0  # metres that R2R's paths have at least
VAL_SEEN = "val_seen"  # the split whose paths lie in train houses and must stay unseen
JOINED = 3.0  # metres along the graph, less than which end and start must be apart
JOINED_SPLITS = ("train", "val_seen", "val_unseen")
LOOKED_AT = (R2R.name, REVERIE.name)  # the same houses are split alike in both
EVALUATED = ("val_unseen", "test")


@dataclass(frozen=True)
class SampledPaths:
    """Paths in a world, as many as requested, and the number of all of the kind."""

    path: Tensor  # [path, hop] viewpoints; the last one repeats as padding
    length: Tensor  # [path] viewpoints
    heading: Tensor  # [path] float64 radians at the start
    known: int  # paths of the kind
    described: int  # paths left out since val_seen describes them

    def __len__(self) -> int:
        return len(self.path)

    def items(self, world: World, seed: int) -> Iterator[dict[str, Any]]:
        """The items of a file in R2R's form, without instructions."""
        names = [f"sampled_{seed}_{number}" for number in range(len(self))]
        metres = world.metres(self.path[:, 0], self.path[:, -1]).tolist()
        return path_items(world, names, self.path, self.length, self.heading, metres)


def path_items(
    world: World,
    names: Sequence[str],
    path: Tensor,
    length: Tensor,
    heading: Tensor,
    metres: Sequence[float],
    texts: Sequence[str] | None = None,
) -> Iterator[dict[str, Any]]:
    """The items of a file in R2R's form, for paths [path, hop]; with an instruction each where there are texts."""
    rows = zip(names, path.tolist(), length.tolist(), heading.tolist(), metres, strict=True)
    for row, (name, hops, count, direction, distance) in enumerate(rows):
        yield {
            "path_id": name,
            "scan": world.scans[int(world.scan_of[hops[0]])],
            "heading": direction,
            "distance": distance,
            "path": [world.viewpoints[viewpoint] for viewpoint in hops[:count]],
            "instructions": [] if texts is None else [texts[row]],
        }


def sample_paths(
    folder: DataFolder, world: World, count: int | None, seed: int, held_out: Sequence[str] = ()
) -> SampledPaths:
    """Sample paths of the train houses, without those held out and without paths that val_seen describes.

    `count` None gives all. The seed decides their order: fewer are the first of more.
    """
    houses = train_houses(folder, held_out)
    if lacking := [scan for scan in houses if scan not in world.scans]:
        file = TASKS["r2r"].file(folder, "train")
        raise DataError(file, f"has paths in {lacking[0]}, which has no graph", "add the scan's connectivity file")
    found = [_paths_of(world, world.scans.index(scan)) for scan in houses]
    path, length = torch.cat([path for path, _ in found]), torch.cat([length for _, length in found])
    known, described, r2r = len(path), set[tuple[int, ...]](), TASKS["r2r"]
    for record in r2r.read(r2r.file(folder, VAL_SEEN)) if VAL_SEEN in r2r.files(folder) else ():
        hops = [world.find(record.scan, name) for name in record.path]
        # In the width of the others; a longer path is of another kind.
        described.add(tuple(hops + hops[-1:] * (HOPS[1] + 1 - len(hops))))
    kept = [tuple(row) not in described for row in path.tolist()]
    path, length = path[kept], length[kept]
    if not len(path):
        kind = f"shortest path of {HOPS[0]} to {HOPS[1]} hops and {LENGTH:g} m that val_seen does not describe"
        raise UsageError(f"the train houses of {folder.root} have no {kind}; give larger houses")
    if count is not None and count > len(path):
        problem = f"there are {len(path):,} paths of the kind in the train houses of {folder.root}, not {count:,}"
        raise UsageError(f"{problem}; ask for fewer: {setting('count', len(path))}")
    digest = hashlib.blake2b(f"paths {seed}".encode(), digest_size=4).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(digest))
    order = torch.randperm(len(path), generator=generator)[:count]
    heading = 2 * math.pi * torch.rand(len(path), generator=generator, dtype=torch.float64)[: len(order)]
    return SampledPaths(path[order], length[order], heading, known, kept.count(False))


def train_houses(folder: DataFolder, held_out: Sequence[str] = ()) -> list[str]:
    """The houses of R2R's train split without those held out, in alphabetical order."""
    r2r = TASKS["r2r"]
    return sorted({record.scan for record in r2r.read(r2r.file(folder, "train"))}.difference(held_out))


def _paths_of(world: World, scan: int) -> tuple[Tensor, Tensor]:
    """[path, hop] all paths of the kind in a house, and [path] their lengths in viewpoints."""
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


def write_r4r(folder: DataFolder, world: World) -> dict[str, tuple[int, int]]:
    """Write r4r/R4R_<split>.json for each of R2R's splits that has goals; by split, paths and instructions."""
    r2r, made = TASKS[R2R.name].files(folder), dict[str, tuple[int, int]]()
    there = [split for split in JOINED_SPLITS if split in r2r]
    if not there:
        raise UsageError(f"{folder.root} holds none of R2R's {', '.join(JOINED_SPLITS)}; R4R is made of them")
    for split in there:
        # All faults of a file are reported before anything is written.
        list(read_r2r(r2r[split]))
        items = list(track(joined_items(read_json(r2r[split], "R2R file"), world), f"r4r {split}"))
        write_json(folder.root / R4R.name / f"R4R_{split}.json", items)
        made[split] = len(items), sum(len(item["instructions"]) for item in items)
    return made


def joined_items(items: list[dict[str, Any]], world: World) -> Iterator[dict[str, Any]]:
    """Join every pair of paths of a house where the first ends less than 3 m from the start of the second.

    The shortest way leads from the one to the other, and every pair of their instructions is joined. Items are in the
    order of the file.
    """
    by_scan = defaultdict[str, list[dict[str, Any]]](list)
    for item in items:
        by_scan[item["scan"]].append(item)
    for scan, paths in by_scan.items():
        numbers = [[world.find(scan, name) for name in item["path"]] for item in paths]
        ends, starts = (torch.tensor([path[place] for path in numbers]) for place in (-1, 0))
        apart = world.metres(ends[:, None], starts[None, :])
        near = (apart < JOINED) & ~torch.eye(len(paths), dtype=torch.bool)
        for first, second in near.nonzero().tolist():
            # The shortest way from the end of the one to the start of the other.
            way, end = [numbers[first][-1]], numbers[second][0]
            while way[-1] != end:
                slot = int(world.next_slot[int(world.row[way[-1]]) + int(world.column[end])])
                way.append(int(world.neighbour[way[-1], slot]))
            one, other = paths[first], paths[second]
            yield {
                "path_id": f"{one['path_id']}_{other['path_id']}",
                "scan": one["scan"],
                "heading": one["heading"],
                "path": [*one["path"], *(world.viewpoints[number] for number in way[1:]), *other["path"][1:]],
                "instructions": [
                    f"{text.strip()} {more.strip()}" for text in one["instructions"] for more in other["instructions"]
                ],
            }


@dataclass(frozen=True)
class Leaks:
    """Episodes that a training may not learn from, [episode] bool each."""

    house: Tensor  # outside of the houses that R2R or REVERIE train in, or where they evaluate
    described: Tensor  # in such a house, along a path of val_seen

    @property
    def any(self) -> Tensor:
        return self.house | self.described

    def lines(self) -> list[str]:
        """A sentence for each kind that occurs."""
        kinds = {"are in houses that nobody trains in": self.house, "are paths of val_seen": self.described}
        return [f"{int(rows.sum()):,} of {len(rows):,} {why}" for why, rows in kinds.items() if rows.any()]


def find_leaks(folder: DataFolder, world: World, episodes: Episodes) -> Leaks:
    """Compare the paths of some episodes with the splits of R2R and REVERIE that the folder has."""
    train, _ = _houses_and_paths(folder, "train")
    if not train:
        raise UsageError(f"{folder.root} holds no train split, so nobody knows its train houses; add R2R_train.json")
    allowed = train.difference(*(_houses_and_paths(folder, split)[0] for split in EVALUATED))
    _, seen = _houses_and_paths(folder, "val_seen")
    houses = [world.scans[number] for number in world.scan_of[episodes.start].tolist()]
    rows = zip(houses, episodes.path.tolist(), episodes.path_length.tolist(), strict=True)
    walked = [(scan, *(world.viewpoints[hop] for hop in path[:length])) for scan, path, length in rows]
    outside = tensor([scan not in allowed for scan in houses])
    return Leaks(outside, tensor([path in seen for path in walked]) & ~outside)


def files_looked_at(folder: DataFolder) -> list[Path]:
    """The files of R2R and REVERIE by which leaks are found."""
    found = [TASKS[task].files(folder) for task in LOOKED_AT]
    return [files[split] for files in found for split in ("train", "val_seen", *EVALUATED) if split in files]


def _houses_and_paths(folder: DataFolder, split: str) -> tuple[set[str], set[tuple[str, ...]]]:
    houses, paths = set[str](), set[tuple[str, ...]]()
    for task in LOOKED_AT:
        file = TASKS[task].files(folder).get(split)
        # Small houses have empty files.
        if file is not None and any(True for _ in stream_json_list(file, "instruction file")):
            for record in TASKS[task].read(file):
                houses.add(record.scan)
                paths.add((record.scan, *record.path))
    return houses, paths
