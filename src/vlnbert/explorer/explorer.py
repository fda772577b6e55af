"""Agents and a data folder as visitors of the page see them: splits, houses, instructions, and walks as JSON."""

import json
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from threading import Lock
from typing import Any

import torch

from vlnbert.analysis.house_plan import house_plan
from vlnbert.data.data import Data
from vlnbert.errors import DataError, VlnbertError
from vlnbert.evaluation.evaluate import Evaluation
from vlnbert.evaluation.recording import RecordedEpisode
from vlnbert.evaluation.walker import Walker, WalkRequest
from vlnbert.explorer.requests import EpisodeQuery, InstructionQuery, Query, RefusedError
from vlnbert.explorer.walk_queue import Answer
from vlnbert.house import generate
from vlnbert.progress import quiet
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.splits import task_and_split
from vlnbert.world.cache import cache_folder

KEPT_PLANS = 64
KEPT_SPLITS = 8  # whole splits that were walked
A_PAGE = 50  # instructions
MOST_BYTES = 128 << 20  # of an instruction file; PREVALENT's million augmented ones are for training, not for looking
FIRST = ("val_unseen", "val_seen", "train")  # the splits to open on, the best first
AGENT = Path(__file__).parent / "tiny-navigator"
SEED, SCANS, PATHS = 2021, 3, 40  # of the houses; the agent was trained in others
VERSION = 1  # of what the generator writes


class Explorer:
    """Agents in the houses of a data folder."""

    def __init__(self, walkers: Sequence[Walker], about: Sequence[str]) -> None:
        """`about` describes each walker, in words. The data and the first task are those of the first walker."""
        self.walkers, self.about, self.data = tuple(walkers), tuple(about), walkers[0].data
        self.catalogue, self.first_task = Catalogue(self.data), walkers[0].loaded.task
        self._walked = lru_cache(KEPT_SPLITS)(self._walk_split)
        self._plans: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def describe(self) -> dict[str, Any]:
        """The agents and splits to choose from, and the first episode."""
        return {
            "agents": [
                {"name": walker.name, "about": about, "follows_words": not walker.agent.oracle}
                for walker, about in zip(self.walkers, self.about, strict=True)
            ],
            "splits": list(self.catalogue.splits),
            "first": self.first,
        }

    @property
    def first(self) -> dict[str, str] | None:
        """The episode to open on."""
        split = self.catalogue.first_split(self.first_task)
        if split is None:
            return None
        index = self.catalogue.index(split)
        rows = next(iter(index.rows_in.values()), [])
        return {"split": split, "id": index.episodes.ids[rows[0]]} if rows else None

    def plan(self, scan: str) -> bytes:
        """The plan of a house, as JSON."""
        if scan not in self.data.world.scans:
            raise RefusedError(404, "no such house here")
        with self._lock:
            if scan not in self._plans:
                self._plans[scan] = _json(house_plan(self.data, scan))
                while len(self._plans) > KEPT_PLANS:
                    self._plans.popitem(last=False)
            return self._plans[scan]

    def check(self, query: Query) -> None:
        """Refuse a query that cannot be walked, before it waits in the queue."""
        walker = self.walkers[query.agent]
        if isinstance(query, EpisodeQuery):
            self.catalogue.row(query.split, query.id)
            if walker.agent.oracle and not self.catalogue.index(query.split).episodes.scored:
                raise RefusedError(409, f"{query.split} withholds its goals, and {walker.name} must know them")
            return
        if query.task not in {task_and_split(name)[0] for name in self.catalogue.splits}:
            raise RefusedError(404, "no such task here")
        if (query.scan, query.start) not in self.data.world.numbers:
            raise RefusedError(404, "no such viewpoint in this house; choose a start on the plan")
        if walker.agent.oracle:
            line = f"{walker.name} must know the goal, and typed words have none; choose another agent"
            raise RefusedError(409, line)

    def walk(self, query: Sequence[Query]) -> list[Answer]:
        """An answer to each; those that fit together walk as one batch."""
        answers: dict[int, Answer] = {}
        groups: dict[tuple[int, str, str], list[int]] = defaultdict(list)
        for place, one in enumerate(query):
            kind = ("episode", one.split) if isinstance(one, EpisodeQuery) else ("words", one.task)
            groups[one.agent, *kind].append(place)
        for (agent, _, _), places in groups.items():
            try:
                records = self._records(agent, [query[place] for place in places])
                answers |= zip(places, (_json(record.to_json()) for record in records), strict=True)
            except RefusedError as error:
                answers |= dict.fromkeys(places, error)
            # Such as a damaged file of captions.
            except VlnbertError as error:
                answers |= dict.fromkeys(places, RefusedError(500, str(error).splitlines()[0]))
        return [answers[place] for place in range(len(query))]

    def _records(self, agent: int, query: Sequence[Query]) -> list[RecordedEpisode]:
        """Walk episodes of one split, or typed instructions of one task, together."""
        walker = self.walkers[agent]
        typed = [one for one in query if isinstance(one, InstructionQuery)]
        if typed:
            requests = [WalkRequest(one.scan, one.start, one.text, one.heading) for one in typed]
            return walker.follow(requests, typed[0].task)
        known = [one for one in query if isinstance(one, EpisodeQuery)]
        index = self.catalogue.index(known[0].split)
        rows = [index.row_of[one.id] for one in known]
        with quiet():
            if walker.agent.reads_tokens:
                evaluation = walker.walk_episodes(index.episodes.select(torch.tensor(rows)), record=True)
                return [walker.recorder.episode(evaluation, place) for place in range(len(rows))]
            # Without text a whole split takes no time, and random numbers come out as in an evaluation of it.
            evaluation = self._walked(agent, known[0].split)
            return [walker.recorder.episode(evaluation, row) for row in rows]

    def _walk_split(self, agent: int, split: str) -> Evaluation:
        return self.walkers[agent].walk_episodes(self.catalogue.index(split).episodes, record=True)


def _json(document: object) -> bytes:
    """Compact JSON in ASCII, which unpaired surrogates of odd files cannot break."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()


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
        rows: dict[str, list[int]] = {scan: [] for scan in sorted(set(self.scans))}
        for row, scan in enumerate(self.scans):
            rows[scan].append(row)
        return rows


class Catalogue:
    """The splits of a data folder. Each is read once, when a visitor first needs it."""

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
                try:
                    episodes = self.data.episodes(split)
                # A damaged file is no reason to end.
                except VlnbertError as error:
                    raise RefusedError(500, str(error).splitlines()[0]) from None
                world = self.data.world
                scans = tuple(world.scans[scan] for scan in world.scan_of[episodes.start].tolist())
                self._opened[split] = SplitIndex(episodes, scans)
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

    def page_with(self, split: str, episode: str) -> int:
        """The page of the instructions of its house on which an episode stands."""
        index, row = self.index(split), self.row(split, episode)
        return index.rows_in[index.scans[row]].index(row) // A_PAGE


def generated_house() -> Path:
    """Three houses in the cache folder, made on the first call; the same on every machine."""
    folder = cache_folder() / f"explorer-house-{VERSION}"
    if folder.is_dir():
        return folder
    try:
        with quiet():
            generate(folder, seed=SEED, scans=SCANS, paths_per_scan=PATHS)
    except DataError:
        if not folder.is_dir():  # else another process was first
            raise
    return folder
