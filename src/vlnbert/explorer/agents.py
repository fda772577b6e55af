"""An agent as visitors meet it: it walks episodes and follows typed instructions, and tells of both in records."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from vlnbert.analysis.episode_record import RecordedEpisode
from vlnbert.analysis.equipped_agent import EquippedAgent
from vlnbert.analysis.typed import WalkRequest
from vlnbert.evaluation.evaluate import Evaluation
from vlnbert.progress import quiet
from vlnbert.tasks.episodes import Episodes

MOST_SPLITS = 4  # whole splits that an agent keeps in mind


@dataclass(frozen=True, eq=False)
class ExplorerAgent:
    """An agent, with what visitors are told of it."""

    about: str  # which weights, in words
    equipped: EquippedAgent
    _walked: dict[str, Evaluation] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.equipped.recorder.agent

    @property
    def follows_words(self) -> bool:
        """Whether it can walk without being told the goal."""
        return not self.equipped.agent.oracle

    def walk(self, episodes: Episodes, rows: Sequence[int]) -> list[RecordedEpisode]:
        """Let it walk some episodes of a split, all at once."""
        recorder = self.equipped.recorder
        with quiet():
            if not self.equipped.agent.reads_tokens:
                return [recorder.episode(self._whole(episodes), row) for row in rows]
            found = self.equipped.walk(episodes.select(torch.tensor(rows)), record=True)
            return [recorder.episode(found, place) for place in range(len(rows))]

    def follow(self, requests: Sequence[WalkRequest], task: str) -> list[RecordedEpisode]:
        """Let it follow what visitors typed, all at once."""
        return self.equipped.follow(requests, task)

    def _whole(self, episodes: Episodes) -> Evaluation:
        """A whole split: an agent that reads nothing walks it in no time, and may draw lots for all of it at once."""
        name = f"{episodes.task}/{episodes.split}"
        if name not in self._walked:
            while len(self._walked) >= MOST_SPLITS:
                self._walked.pop(next(iter(self._walked)))
            self._walked[name] = self.equipped.walk(episodes, record=True)
        return self._walked[name]
