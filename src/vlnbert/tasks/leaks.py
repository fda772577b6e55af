"""Paths that no training may learn from: in houses that are only evaluated in, or described by val_seen."""

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor, tensor

from vlnbert.errors import UsageError
from vlnbert.sources.files import stream_json_list
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import R2R, REVERIE, TASKS
from vlnbert.world.world import World

LOOKED_AT = (R2R.name, REVERIE.name)  # the same houses are split alike in both
EVALUATED = ("val_unseen", "test")


@dataclass(frozen=True)
class Leaks:
    """Which of some episodes a training may not learn from, [episode] bool each."""

    house: Tensor  # outside of the houses that R2R or REVERIE train in, or where they evaluate
    described: Tensor  # in such a house, along a path of val_seen

    @property
    def any(self) -> Tensor:
        return self.house | self.described

    def lines(self) -> list[str]:
        """In words, how many of each kind."""
        told = {
            "are in houses that nobody trains in": int(self.house.sum()),
            "are paths of val_seen": int(self.described.sum()),
        }
        return [f"{count:,} of {len(self.house):,} {why}" for why, count in told.items() if count]


def find_leaks(folder: DataFolder, world: World, episodes: Episodes) -> Leaks:
    """Hold the paths of some episodes against the splits of R2R and REVERIE that the folder has."""
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
    """The files that decide about leaks: those of R2R and REVERIE that a folder has."""
    found = [TASKS[task].files(folder) for task in LOOKED_AT]
    return [files[split] for files in found for split in ("train", "val_seen", *EVALUATED) if split in files]


def _houses_and_paths(folder: DataFolder, split: str) -> tuple[set[str], set[tuple[str, ...]]]:
    houses, paths = set[str](), set[tuple[str, ...]]()
    for task in LOOKED_AT:
        file = TASKS[task].files(folder).get(split)
        if file is not None and any(True for _ in stream_json_list(file, "instruction file")):  # small houses have none
            for record in TASKS[task].read(file):
                houses.add(record.scan)
                paths.add((record.scan, *record.path))
    return houses, paths
