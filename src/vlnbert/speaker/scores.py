"""Scores of a speaker: words like people's, likely words, and above all instructions that a navigator can follow."""

from dataclasses import dataclass
from json import dumps
from typing import Any

import torch

from vlnbert.errors import UsageError, setting
from vlnbert.evaluation.tables import Summary, is_rate, score_keys, shown
from vlnbert.evaluation.text_metrics import bleu, cider
from vlnbert.evaluation.walker import Walker
from vlnbert.sources.instructions import EpisodeRecord
from vlnbert.speaker.config import Decoding
from vlnbert.speaker.speaking import Instructions, OpenedSpeaker, paths_of_split
from vlnbert.tables import Table, Tabular
from vlnbert.tasks.splits import DEV, file_of, task_and_split
from vlnbert.tasks.task import METRICS


@dataclass(frozen=True, repr=False)
class SpeakerScores(Tabular):
    """The scores of a speaker on a split; those of a navigator where one followed."""

    speaker: str
    split: str
    paths: int  # with a usable instruction; all else is of these alone
    left_out: int
    bleu: float  # BLEU-4, 0 to 100
    cider: float  # CIDEr-D, times 10
    perplexity: float  # of people's instructions, all of them
    navigator: str | None = None
    told: Summary | None = None  # how the navigator did by the speaker's instructions, rates as fractions
    people: Summary | None = None  # and by what people said of the same paths

    @property
    def ratio(self) -> dict[str, float]:
        """By rate, how well generated instructions are followed, where people's count 1; none where theirs have 0."""
        ratio = dict[str, float]()
        for name, people in (self.people or {}).items():
            generated = (self.told or {}).get(name)
            if name in METRICS and is_rate(name) and people and generated is not None:
                ratio[name] = generated / people
        return ratio

    def values(self) -> dict[str, Any]:
        """As a JSON object."""
        names = ("speaker", "split", "paths", "left_out", "bleu", "cider", "perplexity")
        values = {name: getattr(self, name) for name in names}
        if self.navigator is None:
            return values
        followed = {"navigator": self.navigator, "told": self.told, "people": self.people, "ratio": self.ratio}
        return values | followed

    def to_json(self, indent: int | None = None) -> str:
        """The same as text."""
        return dumps(self.values(), indent=indent)

    def table(self) -> Table:
        """A row for each score: of the speaker's instructions, of people's, and their ratio."""
        rows = [
            ["BLEU-4", f"{self.bleu:.1f}", "-", "-"],
            ["CIDEr", f"{self.cider:.2f}", "-", "-"],
            ["perplexity", "-", f"{self.perplexity:.2f}", "-"],
        ]
        told, people, ratio = self.told or {}, self.people or {}, self.ratio
        for name in score_keys([told]):
            share = f"{ratio[name]:.2f}" if name in ratio else "-"
            rows.append([METRICS[name].heading, shown(name, told[name]), shown(name, people[name]), share])
        title = f"{self.speaker} on {self.split}, {self.paths:,} paths"
        follower = f"; {self.navigator} follows (rates in %)" if self.navigator else ""
        note = f"{self.left_out:,} paths left out, without a usable instruction" if self.left_out else ""
        return Table(["", "speaker's", "people's", "ratio"], rows, title + follower, note)


def score_instructions(
    speaker: OpenedSpeaker, split: str, decoding: Decoding, batch: int | None = None, walker: Walker | None = None
) -> SpeakerScores:
    """Write an instruction for each path of a split and score it; a walker, opened with the split, follows it."""
    if walker is not None and task_and_split(split)[1] == DEV:
        speaker.require_same_houses(walker, split)
    instructions = speaker.write(paths_of_split(speaker.data, split), decoding, batch)
    if not len(instructions):
        problem = f"{speaker.name} wrote nothing usable for {split}, so there is nothing to score ({instructions.note})"
        raise UsageError(f"{problem}; train it longer, or draw words: {setting('decoding', 'nucleus')}")
    people = [one.people for one in instructions]
    followed = (None, None) if walker is None else _followed(walker, instructions, split)
    return SpeakerScores(
        speaker=speaker.name,
        split=split,
        paths=len(instructions),
        left_out=len(instructions.left_out),
        bleu=bleu(instructions.texts, people),
        cider=cider(instructions.texts, people),
        perplexity=speaker.perplexity(split),
        navigator=None if walker is None else walker.name,
        told=followed[0],
        people=followed[1],
    )


def _followed(walker: Walker, instructions: Instructions, split: str) -> tuple[Summary, Summary]:
    """How a walker does by generated instructions, and by all that people said of the same paths."""
    task, name = task_and_split(split)
    file, episodes = file_of(walker.data.folder, task, name), walker.episodes[split]
    records = [EpisodeRecord(one.id, one.scan, one.path, one.heading, one.text, one.target) for one in instructions]
    ids = {one.id for one in instructions}
    rows = [row for row, id in enumerate(episodes.ids) if (id.rpartition("_")[0] or id) in ids]
    by_people = walker.walk_episodes(episodes.select(torch.tensor(rows, dtype=torch.long)), file).scores
    by_speaker = walker.walk_records(records, file, task).scores
    assert by_speaker is not None, "described paths have goals"
    assert by_people is not None, "described paths have goals"
    return by_speaker.summary(), by_people.summary()
