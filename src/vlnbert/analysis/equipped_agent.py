"""An agent with all that it walks with: lets it walk episodes of any origin, or follow what somebody typed."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from vlnbert.analysis.episode_record import RecordedEpisode
from vlnbert.analysis.recording import Recorder
from vlnbert.analysis.typed import WalkRequest, typed_episodes
from vlnbert.errors import UsageError
from vlnbert.evaluation.evaluate import Evaluation, evaluate_agent
from vlnbert.progress import quiet
from vlnbert.rollout.agents import Agent
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import TASKS
from vlnbert.tasks.tokens import tokenise


@dataclass(frozen=True, eq=False)
class EquippedAgent:
    """An agent with its environment and tokenizer, which its recorder holds, its limits and its precision."""

    agent: Agent
    recorder: Recorder
    max_steps: int | None = None  # by default the task's
    max_tokens: int | None = None
    dtype: torch.dtype | None = None

    def walk(
        self,
        episodes: Episodes,
        file: Path | None = None,
        *,
        batch: int | None = None,
        record: bool = False,
        only: Tensor | None = None,
    ) -> Evaluation:
        """Let it walk episodes, by default all at once, and score it; `file` is named where one has no words."""
        asked, data, tokens = TASKS[episodes.task], self.recorder.data, None
        if self.recorder.tokenizer is not None:
            limit = self.max_tokens or asked.max_tokens
            tokens = tokenise(episodes, self.recorder.tokenizer, file or data.folder.root, limit).to(data.device)
        return evaluate_agent(
            self.recorder.environment,
            self.agent,
            episodes,
            tokens,
            max_steps=self.max_steps or asked.max_steps,
            batch=batch or max(1, len(episodes)),
            dtype=self.dtype,
            record=record,
            only=only,
        )

    def follow(self, requests: Sequence[WalkRequest], task: str) -> list[RecordedEpisode]:
        """Let it follow all of these instructions at once, in one batch; a record for each, in their order.

        Where a goal is told, the walk is scored against the shortest path there.
        """
        if not requests:
            return []
        episodes = typed_episodes(self.recorder.world, requests, task)
        if self.agent.oracle and any(request.goal is None for request in requests):
            raise UsageError(f"{self.recorder.agent} must know the goal; give one with every instruction")
        with quiet():
            found = self.walk(episodes, record=True)
            return [self.recorder.episode(found, row, one.goal is not None) for row, one in enumerate(requests)]
