"""What visitors can see and ask for: data, agents, and walks as JSON."""

import json
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from threading import Lock
from typing import Any

import torch

from vlnbert.analysis.house_plan import house_plan
from vlnbert.errors import VlnbertError
from vlnbert.evaluation.episode_record import RecordedEpisode
from vlnbert.evaluation.evaluate import Evaluation
from vlnbert.evaluation.walker import Walker, WalkRequest
from vlnbert.explorer.catalogue import Catalogue
from vlnbert.explorer.requests import Asked, EpisodeAsked, InstructionAsked, RefusedError
from vlnbert.explorer.walk_queue import Answer
from vlnbert.progress import quiet
from vlnbert.tasks.splits import task_and_split

KEPT_PLANS = 64
KEPT_SPLITS = 8  # whole splits that were walked


class Explorer:
    """Agents in the houses of a data folder."""

    def __init__(self, walkers: Sequence[Walker], about: Sequence[str]) -> None:
        """`about` describes each walker, in words. The data and the first task are those of the first walker."""
        self.walkers, self.about, self.data = tuple(walkers), tuple(about), walkers[0].data
        self.catalogue, self.first_task = Catalogue(self.data), walkers[0].loaded.task
        self._walked: OrderedDict[tuple[int, str], Evaluation] = OrderedDict()
        self._plans: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def describe(self) -> dict[str, Any]:
        """What the page must know before anything is chosen."""
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

    def page_with(self, split: str, episode: str) -> int:
        """The page of the list on which an episode stands."""
        return self.catalogue.page_of(split, self.catalogue.row(split, episode))

    def check(self, asked: Asked) -> None:
        """Refuse what nobody can walk, before it waits in a queue."""
        walker = self.walkers[asked.agent]
        if isinstance(asked, EpisodeAsked):
            self.catalogue.row(asked.split, asked.id)
            if walker.agent.oracle and not self.catalogue.index(asked.split).episodes.scored:
                raise RefusedError(409, f"{asked.split} withholds its goals, and {walker.name} must know them")
            return
        if asked.task not in {task_and_split(name)[0] for name in self.catalogue.splits}:
            raise RefusedError(404, "no such task here")
        if (asked.scan, asked.start) not in self.data.world.numbers:
            raise RefusedError(404, "no such viewpoint in this house; choose a start on the plan")
        if walker.agent.oracle:
            line = f"{walker.name} must know the goal, and typed words have none; choose another agent"
            raise RefusedError(409, line)

    def walk(self, asked: Sequence[Asked]) -> list[Answer]:
        """An answer to each; those that fit together walk as one batch."""
        answers: dict[int, Answer] = {}
        groups: dict[tuple[int, str, str], list[int]] = defaultdict(list)
        for place, one in enumerate(asked):
            kind = ("episode", one.split) if isinstance(one, EpisodeAsked) else ("words", one.task)
            groups[one.agent, *kind].append(place)
        for (agent, _, _), places in groups.items():
            together = self._together(agent, [asked[place] for place in places])
            answers |= dict(zip(places, together, strict=True))
        return [answers[place] for place in range(len(asked))]

    def _together(self, agent: int, asked: Sequence[Asked]) -> list[Answer]:
        try:
            return [_json(record.to_json()) for record in self._records(agent, asked)]
        except RefusedError as error:
            return [error] * len(asked)
        except VlnbertError as error:  # such as a damaged file of captions
            return [RefusedError(500, str(error).splitlines()[0])] * len(asked)

    def _records(self, agent: int, asked: Sequence[Asked]) -> list[RecordedEpisode]:
        """Walk episodes of one split, or typed instructions of one task, together."""
        walker = self.walkers[agent]
        typed = [one for one in asked if isinstance(one, InstructionAsked)]
        if typed:
            requests = [WalkRequest(one.scan, one.start, one.text, one.heading) for one in typed]
            return walker.follow(requests, typed[0].task)
        known = [one for one in asked if isinstance(one, EpisodeAsked)]
        split, index = known[0].split, self.catalogue.index(known[0].split)
        rows = [index.row_of[one.id] for one in known]
        with quiet():
            if walker.agent.reads_tokens:
                evaluation = walker.walk_episodes(index.episodes.select(torch.tensor(rows)), record=True)
                return [walker.recorder.episode(evaluation, place) for place in range(len(rows))]
            # Without text a whole split takes no time, and random numbers come out as in an evaluation of it.
            if (agent, split) not in self._walked:
                self._walked[agent, split] = walker.walk_episodes(index.episodes, record=True)
                while len(self._walked) > KEPT_SPLITS:
                    self._walked.popitem(last=False)
            return [walker.recorder.episode(self._walked[agent, split], row) for row in rows]


def _json(document: object) -> bytes:
    """Compact, and in ASCII: half characters of odd files cannot break it."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
