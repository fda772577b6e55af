"""What visitors can see and ask for: data, agents, and walks as JSON."""

import json
from collections import OrderedDict, defaultdict
from collections.abc import Sequence
from threading import Lock
from typing import Any

from vlnbert.analysis.episode_record import RecordedEpisode
from vlnbert.analysis.house_plan import house_plan
from vlnbert.analysis.typed import WalkRequest
from vlnbert.data.data import Data
from vlnbert.errors import VlnbertError
from vlnbert.explorer.agents import ExplorerAgent
from vlnbert.explorer.catalogue import Catalogue
from vlnbert.explorer.requests import Asked, EpisodeAsked, InstructionAsked, RefusedError
from vlnbert.explorer.walk_queue import Answer
from vlnbert.tasks.splits import task_and_split

KEPT_PLANS = 64


class Explorer:
    """Agents in the houses of a data folder."""

    def __init__(self, data: Data, agents: Sequence[ExplorerAgent], first_task: str) -> None:
        self.data, self.agents, self.catalogue = data, tuple(agents), Catalogue(data)
        self.first_task = first_task
        self._plans: OrderedDict[str, bytes] = OrderedDict()
        self._lock = Lock()

    def describe(self) -> dict[str, Any]:
        """What the page must know before anything is chosen."""
        return {
            "agents": [
                {"name": one.name, "about": one.about, "follows_words": one.follows_words} for one in self.agents
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
        agent = self.agents[asked.agent]
        if isinstance(asked, EpisodeAsked):
            self.catalogue.row(asked.split, asked.id)
            if not agent.follows_words and not self.catalogue.index(asked.split).episodes.scored:
                raise RefusedError(409, f"{asked.split} withholds its goals, and {agent.name} must know them")
            return
        if asked.task not in {task_and_split(name)[0] for name in self.catalogue.splits}:
            raise RefusedError(404, "no such task here")
        if (asked.scan, asked.start) not in self.data.world.numbers:
            raise RefusedError(404, "no such viewpoint in this house; choose a start on the plan")
        if not agent.follows_words:
            raise RefusedError(409, f"{agent.name} must know the goal, and typed words have none; choose another agent")

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
            return [_json(record.to_json()) for record in self._records(self.agents[agent], asked)]
        except RefusedError as error:
            return [error] * len(asked)
        except VlnbertError as error:  # such as a damaged file of captions
            return [RefusedError(500, str(error).splitlines()[0])] * len(asked)

    def _records(self, agent: ExplorerAgent, asked: Sequence[Asked]) -> list[RecordedEpisode]:
        typed = [one for one in asked if isinstance(one, InstructionAsked)]
        if typed:
            requests = [WalkRequest(one.scan, one.start, one.text, one.heading) for one in typed]
            return agent.follow(requests, typed[0].task)
        known = [one for one in asked if isinstance(one, EpisodeAsked)]
        index = self.catalogue.index(known[0].split)
        return agent.walk(index.episodes, [index.row_of[one.id] for one in known])


def _json(document: object) -> bytes:
    """Compact, and in ASCII: half characters of odd files cannot break it."""
    return json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
