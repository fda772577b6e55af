"""What can be chosen in a data folder: splits, the houses of a split and the instructions of a house."""

from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import Any

from vlnbert.data.data import Data
from vlnbert.errors import VlnbertError
from vlnbert.explorer.requests import RefusedError
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.splits import task_and_split

A_PAGE = 50  # instructions
MOST_BYTES = 128 << 20  # of an instruction file; PREVALENT's million augmented ones are for training, not for looking
FIRST = ("val_unseen", "val_seen", "train")  # the splits to open on, the best first


@dataclass(frozen=True)
class SplitIndex:
    """The episodes of a split, to be found by id and by house."""

    episodes: Episodes
    scans: tuple[str, ...]  # of each episode

    @cached_property
    def row_of(self) -> dict[str, int]:
        return {name: row for row, name in enumerate(self.episodes.ids)}

    @cached_property
    def rows_in(self) -> dict[str, list[int]]:
        """The episodes of every house, the houses in alphabetical order."""
        found: dict[str, list[int]] = {scan: [] for scan in sorted(set(self.scans))}
        for row, scan in enumerate(self.scans):
            found[scan].append(row)
        return found


class Catalogue:
    """The splits of a data folder. Each is read when it is first asked for, once, whoever asks."""

    def __init__(self, data: Data) -> None:
        self.data = data
        self.splits = tuple(name for name, path in data.splits.items() if path.stat().st_size <= MOST_BYTES)
        self._opened: dict[str, SplitIndex] = {}
        self._lock = Lock()

    def first_split(self, task: str) -> str | None:
        """The split to open on: of a task where it has any."""
        wanted = [f"{task}/{split}" for split in FIRST]
        found = [name for name in wanted if name in self.splits]
        of_task = [name for name in self.splits if task_and_split(name)[0] == task]
        return next(iter((*found, *of_task, *self.splits)), None)

    def index(self, split: str) -> SplitIndex:
        if split not in self.splits:
            raise RefusedError(404, f"no such split; known: {', '.join(self.splits)}")
        with self._lock:
            if split not in self._opened:
                self._opened[split] = self._open(split)
            return self._opened[split]

    def houses(self, split: str) -> list[dict[str, Any]]:
        """Every house of a split, with its number of instructions."""
        return [{"scan": scan, "instructions": len(rows)} for scan, rows in self.index(split).rows_in.items()]

    def instructions(self, split: str, scan: str, page: int) -> dict[str, Any]:
        """A page of the instructions of a house."""
        index = self.index(split)
        if scan not in index.rows_in:
            raise RefusedError(404, f"no such house in {split}")
        rows = index.rows_in[scan]
        shown = rows[page * A_PAGE : (page + 1) * A_PAGE]
        return {
            "split": split,
            "scan": scan,
            "page": page,
            "pages": -(-len(rows) // A_PAGE),
            "instructions": [{"id": index.episodes.ids[row], "text": index.episodes.texts[row]} for row in shown],
        }

    def row(self, split: str, episode: str) -> int:
        """The place of an episode in its split."""
        index = self.index(split)
        if episode not in index.row_of:
            raise RefusedError(404, f"no such episode in {split}; choose one from the list")
        return index.row_of[episode]

    def scan_of(self, split: str, episode: str) -> str:
        """The house of an episode."""
        return self.index(split).scans[self.row(split, episode)]

    def page_of(self, split: str, row: int) -> int:
        """The page on which an episode stands."""
        index = self.index(split)
        return index.rows_in[index.scans[row]].index(row) // A_PAGE

    def _open(self, split: str) -> SplitIndex:
        try:
            episodes = self.data.episodes(split)
        except VlnbertError as error:  # a damaged file is no reason to end
            raise RefusedError(500, str(error).splitlines()[0]) from None
        world = self.data.world
        places = world.scan_of[episodes.start].tolist()
        return SplitIndex(episodes, tuple(world.scans[place] for place in places))
