"""An agent as visitors meet it: it walks episodes and follows typed instructions, and tells of both in records."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch

from vlnbert.analysis.episode_record import RecordedEpisode
from vlnbert.analysis.recording import Recorder
from vlnbert.analysis.typed import WalkRequest, walk_instructions
from vlnbert.evaluation.evaluate import Evaluation, evaluate_agent
from vlnbert.progress import quiet
from vlnbert.rollout.agents import Agent
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import TASKS
from vlnbert.tasks.tokens import tokenise

MOST_SPLITS = 4  # whole splits that an agent keeps in mind


@dataclass(frozen=True, eq=False)
class ExplorerAgent:
    """An agent with all that it needs to walk."""

    about: str  # which weights, in words
    agent: Agent
    recorder: Recorder
    max_steps: int | None = None  # by default the task's
    max_tokens: int | None = None
    dtype: torch.dtype | None = None
    _walked: dict[str, Evaluation] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.recorder.agent

    @property
    def follows_words(self) -> bool:
        """Whether it can walk without being told the goal."""
        return not self.agent.oracle

    def walk(self, episodes: Episodes, rows: Sequence[int]) -> list[RecordedEpisode]:
        """Let it walk some episodes of a split, all at once."""
        with quiet():
            if not self.agent.reads_tokens:
                return [self.recorder.episode(self._whole(episodes), row) for row in rows]
            some = episodes.select(torch.tensor(rows))
            found = self._evaluated(some)
            return [self.recorder.episode(found, place) for place in range(len(rows))]

    def follow(self, requests: Sequence[WalkRequest], task: str) -> list[RecordedEpisode]:
        """Let it follow what visitors typed, all at once."""
        return walk_instructions(
            self.recorder,
            self.agent,
            requests,
            task=task,
            max_steps=self.max_steps,
            max_tokens=self.max_tokens,
            dtype=self.dtype,
        )

    def _whole(self, episodes: Episodes) -> Evaluation:
        """A whole split: an agent that reads nothing walks it in no time, and may draw lots for all of it at once."""
        name = f"{episodes.task}/{episodes.split}"
        if name not in self._walked:
            while len(self._walked) >= MOST_SPLITS:
                self._walked.pop(next(iter(self._walked)))
            self._walked[name] = self._evaluated(episodes)
        return self._walked[name]

    def _evaluated(self, episodes: Episodes) -> Evaluation:
        asked, tokens = TASKS[episodes.task], None
        if self.agent.reads_tokens:
            tokenizer = self.recorder.tokenizer or self.recorder.data.tokenizer
            root = self.recorder.data.folder.root
            tokens = tokenise(episodes, tokenizer, root, self.max_tokens or asked.max_tokens)
            tokens = tokens.to(self.recorder.world.device)
        return evaluate_agent(
            self.recorder.environment,
            self.agent,
            episodes,
            tokens,
            max_steps=self.max_steps or asked.max_steps,
            batch=max(1, len(episodes)),
            dtype=self.dtype,
            record=True,
        )
