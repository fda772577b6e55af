"""Whether an agent can follow what was told: episodes made of instructions, and walked all at once."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from torch import Tensor

from vlnbert.api.preparing import PreparedAgent
from vlnbert.api.speakers import PreparedSpeaker
from vlnbert.errors import UsageError, setting
from vlnbert.evaluation.evaluate import Evaluation
from vlnbert.sources.instructions import EpisodeRecord
from vlnbert.tasks.episodes import bind
from vlnbert.tasks.task import TASKS
from vlnbert.world.objects import Sightings, find_sightings

TOLD = "told"  # the split that told episodes are of


class Follower:
    """An agent that follows instructions which are in no file yet."""

    def __init__(self, ready: PreparedAgent, task: str) -> None:
        self.ready, self.task = ready, task
        own = ready.tokenizer
        self.reads_tokens = own is not None and own.get_vocab() == ready.data.tokenizer.get_vocab()

    @cached_property
    def _sightings(self) -> Sightings | None:
        data = self.ready.data
        return find_sightings(data.world, data.objects) if TASKS[self.task].sees_objects else None

    def follow(self, records: Sequence[EpisodeRecord], file: Path) -> Evaluation:
        """Let it walk by each instruction, and score it against the path that was told."""
        if not self.reads_tokens:  # of another vocabulary
            records = [replace(record, tokens=None) for record in records]
        world = self.ready.data.world
        episodes = bind(file, records, world, task=self.task, split=TOLD, sightings=self._sightings)
        return self.ready.walk_episodes(episodes.to(world.device), file)

    def arrives(self, records: Sequence[EpisodeRecord], file: Path, within: float) -> Tensor:
        """[record] whether it stops less than so many metres from the path's end, on the CPU."""
        scores = self.follow(records, file).scores
        assert scores is not None, "told paths have goals"
        return (scores.ne < within).cpu()


def require_same_houses(speaker: PreparedSpeaker, walker: PreparedAgent, split: str) -> None:
    """Of dev_unseen, speaker and navigator must mean the same: what one has not seen, the other has not either."""
    if walker.walker.held_out != (speaker.held_out or ()):
        problem = f"{speaker.name} and {walker.name} kept other houses out, so {split} is not the same for both"
        raise UsageError(f"{problem}; keep the same out of both: {setting('holdout', 'N')}")
