"""How good a speaker is: words like people's, likely words, and above all instructions that a navigator can follow."""

from copy import deepcopy
from dataclasses import dataclass
from json import dumps
from pathlib import Path
from typing import Any

import torch

from vlnbert.api.agents import load_agent
from vlnbert.api.arguments import checked
from vlnbert.api.instructions import Instructions
from vlnbert.api.runs import Run
from vlnbert.api.speakers import PreparedSpeaker, prepare_speaker, require_same_houses
from vlnbert.api.speaking import instructions_of, of_split
from vlnbert.data.data import Data
from vlnbert.errors import UsageError, setting
from vlnbert.evaluation.evaluate import Evaluation
from vlnbert.evaluation.options import Checkpoint
from vlnbert.evaluation.tables import is_rate, score_keys, shown
from vlnbert.evaluation.text_metrics import bleu, cider, require_sacrebleu
from vlnbert.evaluation.walker import Walker
from vlnbert.navigator import Navigator
from vlnbert.progress import quiet
from vlnbert.rollout.agents import Agent, AgentFactory
from vlnbert.rollout.policy import Policy
from vlnbert.runtime import Precision, require_within
from vlnbert.sources.instructions import EpisodeRecord
from vlnbert.speaker.config import Decoding, Method
from vlnbert.speaker.likelihood import instruction_likelihoods, perplexity
from vlnbert.speaker.speaker import Speaker
from vlnbert.tables import Table
from vlnbert.tasks.holdout import DEV, file_of
from vlnbert.tasks.metrics import METRICS
from vlnbert.tasks.splits import full_name, task_and_split

Summary = dict[str, float | int | None]


@dataclass(frozen=True, repr=False)
class SpeakerScores:
    """The scores of a speaker on a split; those of a navigator where one followed."""

    speaker: str
    split: str
    paths: int  # of which something usable was told; all else is of these alone
    left_out: int
    bleu: float  # BLEU-4, 0 to 100
    cider: float  # CIDEr-D, times 10
    perplexity: float  # of people's instructions, all of them
    navigator: str | None = None
    told: Summary | None = None  # how the navigator did by what was told, rates as fractions
    people: Summary | None = None  # and by what people said of the same paths

    @property
    def ratio(self) -> dict[str, float]:
        """By rate, how well told instructions are followed, where people's count 1; none where theirs have 0."""
        told, people = self.told or {}, self.people or {}
        known = {name: (told.get(name), value) for name, value in people.items() if name in METRICS}
        return {
            name: mine / theirs for name, (mine, theirs) in known.items() if mine is not None and theirs and _rate(name)
        }

    def values(self) -> dict[str, Any]:
        """As a JSON object."""
        names = ("speaker", "split", "paths", "left_out", "bleu", "cider", "perplexity")
        found = {name: getattr(self, name) for name in names}
        if self.navigator is None:
            return found
        followed = {"navigator": self.navigator, "told": self.told, "people": self.people, "ratio": self.ratio}
        return found | followed

    def to_json(self, indent: int | None = None) -> str:
        """The same as text."""
        return dumps(self.values(), indent=indent)

    def table(self) -> Table:
        """A row for each score: of what was told, of what people said, and their ratio."""
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
        note = f"{self.left_out:,} paths left out, of which nothing usable was told" if self.left_out else ""
        return Table(["", "told", "people's", "ratio"], rows, title + follower, note)

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


@checked("speaker", "navigator", "device")
def score_speaker(
    speaker: Run | Speaker | str | Path,
    data: Data | str | Path | None = None,
    split: str = "r2r/val_unseen",
    *,
    navigator: Run | Navigator | Policy | Agent | AgentFactory | str | Path | None = None,
    decoding: Method = "greedy",
    top_p: float = 0.9,
    temperature: float = 0.9,
    beams: int = 4,
    length_penalty: float = 0.6,
    max_tokens: int | None = None,
    seed: int = 0,
    checkpoint: Checkpoint = "best",
    batch: int | None = None,
    precision: Precision = "float32",
    device: str | None = None,
    bar: bool = True,
) -> SpeakerScores:
    """Let a speaker tell of a split's paths and score it: BLEU-4, CIDEr, perplexity, and whether it can be followed.

    The last is what counts: a navigator, best one that learned from people alone, follows what was told, and what
    people said of the same paths.

    Args:
        speaker: A run of a speaker, whose best weights speak; or a speaker, or its folder or hub name.
        data: The data folder, or what `vln.open_data` gave; by default what a run was trained on.
        split: The split whose paths to tell, each once; with its task or, of a run, without.
        navigator: Who follows, as `vln.evaluate` takes an agent; by default nobody.
        decoding: How words are chosen, as `vln.speak` takes it.
        top_p: Of nucleus: the probability that the words have together among which one is drawn.
        temperature: Of nucleus: below 1 the likely gets likelier.
        beams: Of beam: instructions that are kept at each place.
        length_penalty: Of beam: the power of the length by which the logarithm of a probability is divided.
        max_tokens: Longest instruction, in word pieces, [CLS] and [SEP] included; by default the speaker's.
        seed: Of nucleus.
        checkpoint: Which weights of a speaker's run speak: the best, or those of its last checkpoint.
        batch: Paths that are told together; by default 64 on a CPU, 2048 on a GPU.
        precision: Of the speaker's tokens while it tells; perplexity is reckoned in float32.
        device: Where to speak and to walk, such as cpu or cuda; by default where the data is.
        bar: Show progress.
    """
    require_within(batch=(1 if batch is None else batch, 1, 1_000_000))
    asked = Decoding(decoding, top_p, temperature, beams, length_penalty, max_tokens, seed)
    require_sacrebleu()
    with quiet(not bar):
        ready = prepare_speaker(speaker, data, checkpoint=checkpoint, precision=precision, device=device)
        split = full_name(split, ready.task)
        walker = None if navigator is None else Walker(load_agent(navigator), ready.opened, split)
        if walker is not None and task_and_split(split)[1] == DEV:
            require_same_houses(ready, walker, split)
        told = instructions_of(ready, of_split(ready.data, split), asked, batch)
        if not len(told):
            problem = f"{ready.name} told nothing usable of {split}, so there is nothing to score ({told.note})"
            raise UsageError(f"{problem}; train it longer, or draw words: {setting('decoding', 'nucleus')}")
        people = [one.people for one in told]
        walked = (None, None) if walker is None else _walked(walker, told, split)
        return SpeakerScores(
            speaker=ready.name,
            split=split,
            paths=len(told),
            left_out=len(told.left_out),
            bleu=bleu(told.texts, people),
            cider=cider(told.texts, people),
            perplexity=_perplexity(ready, split),
            navigator=None if walker is None else walker.name,
            told=walked[0],
            people=walked[1],
        )


def _perplexity(ready: PreparedSpeaker, split: str) -> float:
    model, data = deepcopy(ready.speaker).to(ready.data.device), ready.data  # the caller's stays where it is
    opened = data.split(split, model.tokenizer, model.config.max_tokens)
    return perplexity(*instruction_likelihoods(model, data.environment, opened))


def _walked(walker: Walker, told: Instructions, split: str) -> tuple[Summary, Summary]:
    """How an agent does by what was told, and by all that people said of the same paths."""
    task, name = task_and_split(split)
    file, episodes = file_of(walker.data.folder, task, name), walker.episodes[split]
    records = [EpisodeRecord(one.id, one.scan, one.path, one.heading, one.text, one.target) for one in told]
    ids = {one.id for one in told}
    rows = [row for row, id in enumerate(episodes.ids) if (id.rpartition("_")[0] or id) in ids]
    by_people = walker.walk_episodes(episodes.select(torch.tensor(rows, dtype=torch.long)), file)
    return _summary(walker.walk_records(records, file, task)), _summary(by_people)


def _summary(evaluation: Evaluation) -> Summary:
    assert evaluation.scores is not None, "paths that can be told have goals"
    return evaluation.scores.summary()


def _rate(name: str) -> bool:
    return is_rate(name)
