"""Instructions for the paths of a split, or for paths by name, by a speaker opened with its data; and their scores.

Scores say how much words are like people's, how likely people's are, and how well a navigator can follow.
"""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from json import dumps
from pathlib import Path
from typing import Any, overload

import torch

from vlnbert.data.data import Data, open_data
from vlnbert.errors import UsageError, listed, setting
from vlnbert.evaluation.metrics import Summary, is_rate, score_keys, shown
from vlnbert.evaluation.text_metrics import bleu, cider
from vlnbert.evaluation.walker import Walker
from vlnbert.progress import say
from vlnbert.runtime import Precision, chosen_precision
from vlnbert.sources.instructions import EpisodeRecord
from vlnbert.sources.writing import write_json
from vlnbert.speaker.config import Decoding
from vlnbert.speaker.decoding import InstructionGenerator
from vlnbert.speaker.model import instruction_likelihoods, perplexity
from vlnbert.speaker.paths import Paths, require_connected
from vlnbert.speaker.speaker import Speaker, shown_to_speaker
from vlnbert.tables import Table, Tabled
from vlnbert.tasks.splits import DEV, file_of, target_index, task_and_split
from vlnbert.tasks.task import METRICS, R2R, TASKS
from vlnbert.world.world import World

SHOWN = 5  # paths that a line names
EXAMPLE = "scan:viewpoint,viewpoint,..."


@dataclass(frozen=True)
class Instruction:
    """The instruction that a speaker wrote for a path."""

    id: str
    scan: str
    path: tuple[str, ...]
    heading: float  # radians, at the start
    distance: float  # metres along the path
    text: str
    log_probability: float  # by the speaker itself
    people: tuple[str, ...] = ()  # what people said of the path, if they did
    target: str | None = None  # REVERIE's object

    def values(self) -> dict[str, Any]:
        """As an item of a file in R2R's form."""
        item = {
            "path_id": self.id,
            "scan": self.scan,
            "path": list(self.path),
            "heading": self.heading,
            "distance": self.distance,
            "instructions": [self.text],
            "log_probability": self.log_probability,
        }
        return item | ({} if self.target is None else {"objId": self.target})


class Instructions(Tabled, Sequence[Instruction]):
    """The instructions of some paths: `print` them, look at them in a notebook, or take `texts` and `to_json()`."""

    def __init__(
        self, speaker: str, instructions: Sequence[Instruction], left_out: Sequence[str] = (), note: str = ""
    ) -> None:
        """`left_out` are the ids of paths without a usable instruction, `note` says why."""
        self.speaker, self._items, self.left_out, self.note = speaker, tuple(instructions), tuple(left_out), note

    @property
    def texts(self) -> list[str]:
        return [item.text for item in self]

    def to_json(self, indent: int | None = None) -> str:
        """As a JSON list of items in R2R's form."""
        return dumps([item.values() for item in self], indent=indent)

    def write(self, path: str | Path) -> Path:
        """Write that list to a file."""
        write_json(Path(path), [item.values() for item in self])
        return Path(path)

    def table(self) -> Table:
        """A row for each path, with what people said of it where they did."""
        people = any(item.people for item in self)
        rows = [[item.id, item.text, *((item.people[0] if item.people else "",) if people else ())] for item in self]
        names = ["path", "the speaker", *(("people, first",) if people else ())]
        return Table(names, rows, f"{self.speaker}, {len(self):,} paths", note=self.problem)

    @property
    def problem(self) -> str:
        """Which paths were left out, and why, in a line; nothing where none were."""
        return f"left out: {listed(self.left_out, SHOWN)} ({self.note})" if self.left_out else ""

    @overload
    def __getitem__(self, place: int) -> Instruction: ...
    @overload
    def __getitem__(self, place: slice) -> Sequence[Instruction]: ...
    def __getitem__(self, place: int | slice) -> Instruction | Sequence[Instruction]:
        return self._items[place]

    def __iter__(self) -> Iterator[Instruction]:
        return iter(self._items)

    def __len__(self) -> int:
        return len(self._items)


@dataclass(frozen=True)
class LoadedSpeaker:
    """A speaker that has no data yet, with facts of its training."""

    name: str
    speaker: Speaker
    data: str | None = None  # the folder that a run was trained on
    held_out: tuple[str, ...] | None = None  # the houses of dev_unseen; None where they are unknown
    task: str = R2R.name


class OpenedSpeaker:
    """A speaker opened once with its data, ready to write."""

    def __init__(
        self,
        loaded: LoadedSpeaker,
        data: Data | str | Path | None = None,
        precision: Precision = "float32",
        device: str | None = None,
    ) -> None:
        """Open the data, by default that of a run's training; it must go with the speaker."""
        self.name, self.speaker, self.task, self.held_out = loaded.name, loaded.speaker, loaded.task, loaded.held_out
        data = loaded.data if data is None else data
        if data is None:
            raise UsageError(f"no data is given; name a data folder: {setting('data', 'DIR')}")
        opened = open_data(data, device=device)
        self.opened = opened.holding_out(self.held_out) if self.held_out else opened
        # The same data with the speaker's features.
        self.data = shown_to_speaker(self.speaker, self.opened, self.name)
        chosen = chosen_precision(precision, self.data.device, self.speaker.config.hidden)
        self.generator = InstructionGenerator(self.speaker, self.data.environment, chosen)

    def write(self, paths: Paths, blank: Sequence[Instruction], decoding: Decoding, batch: int | None) -> Instructions:
        """Fill in the blank instruction of each path; paths without a usable one are named, and a line says so."""
        generated = self.generator.generate(paths, decoding, batch=batch)
        texts, usable = generated.texts(self.data.tokenizer), generated.usable.tolist()
        rows = zip(blank, texts, generated.log_probability.tolist(), usable, strict=True)
        instructions = [replace(item, text=text, log_probability=score) for item, text, score, good in rows if good]
        left_out = [item.id for item, good in zip(blank, usable, strict=True) if not good]
        result = Instructions(self.name, instructions, left_out, ", ".join(generated.problems()))
        if result.problem:
            say(result.problem)
        return result

    def perplexity(self, split: str) -> float:
        """The perplexity of people's instructions in a split, in float32."""
        # A copy, since the caller's speaker stays on its device.
        model = deepcopy(self.speaker).to(self.data.device)
        opened = self.data.split(split, model.tokenizer, model.config.max_tokens)
        return perplexity(*instruction_likelihoods(model, self.data.environment, opened))

    def require_same_houses(self, walker: Walker, split: str) -> None:
        """Refuse a walker for which dev_unseen has other houses: it may have learned in those of the speaker."""
        if walker.loaded.held_out != (self.held_out or ()):
            problem = f"{self.name} and {walker.name} kept other houses out, so {split} is not the same for both"
            raise UsageError(f"{problem}; keep the same out of both: {setting('holdout', 'N')}")


def paths_of_split(data: Data, split: str) -> tuple[Paths, list[Instruction]]:
    """The paths of a split, each once, and their blank instructions with those that people gave."""
    episodes = data.episodes(split)
    if not episodes.scored:
        raise UsageError(f"{split} withholds its paths, so there is nothing to describe; choose another split")
    first, people = dict[Any, int](), dict[Any, list[str]]()
    rows = zip(episodes.path.tolist(), episodes.heading.tolist(), episodes.targets, episodes.texts, strict=True)
    for row, (path, heading, target, text) in enumerate(rows):
        key = (tuple(path), heading, target)
        first.setdefault(key, row)
        people.setdefault(key, []).append(text)
    some = episodes.select(torch.tensor(list(first.values())))
    bank = data.object_bank if TASKS[task_and_split(split)[0]].sees_objects else None
    paths = Paths.of(some, None if bank is None else target_index(bank.object_table, some))
    require_connected(data.world, paths)
    ids = [name.rpartition("_")[0] or name for name in some.ids]
    rest = zip(_blank(data.world, paths, ids), people.values(), some.targets, strict=True)
    return paths, [replace(item, people=tuple(texts), target=target) for item, texts, target in rest]


def paths_by_name(world: World, routes: Sequence[str]) -> tuple[Paths, list[Instruction]]:
    """Paths that are written as scan:viewpoint,viewpoint, and their blank instructions."""
    named = []
    for route in [routes] if isinstance(routes, str) else routes:
        scan, colon, viewpoints = str(route).partition(":")
        names = [name.strip() for name in viewpoints.split(",")]
        if not colon or not all(names):
            raise UsageError(f"'{str(route)[:60]}' is no path; write it like {EXAMPLE}")
        named.append((scan, names))
    paths = Paths.through(world, named)
    return paths, _blank(world, paths, [str(number) for number in range(1, len(named) + 1)])


def _blank(world: World, paths: Paths, ids: Sequence[str]) -> list[Instruction]:
    metres = world.metres(paths.viewpoint[:, :-1], paths.viewpoint[:, 1:]).sum(dim=1).tolist()
    rows = zip(ids, paths.viewpoint.tolist(), paths.length.tolist(), paths.heading.tolist(), metres, strict=True)
    return [
        Instruction(
            id=name,
            scan=world.scans[int(world.scan_of[path[0]])],
            path=tuple(world.viewpoints[number] for number in path[:length]),
            heading=heading,
            distance=distance,
            text="",
            log_probability=0.0,
        )
        for name, path, length, heading, distance in rows
    ]


@dataclass(frozen=True, repr=False)
class SpeakerScores(Tabled):
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
        values = asdict(self) | {"ratio": self.ratio}
        followed = () if self.navigator else ("navigator", "told", "people", "ratio")
        return {name: value for name, value in values.items() if name not in followed}

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
    instructions = speaker.write(*paths_of_split(speaker.data, split), decoding, batch)
    if not len(instructions):
        problem = f"{speaker.name} wrote nothing usable for {split}, so there is nothing to score ({instructions.note})"
        raise UsageError(f"{problem}; train it longer, or draw words: {setting('decoding', 'nucleus')}")
    people = [item.people for item in instructions]
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
    records = [
        EpisodeRecord(item.id, item.scan, item.path, item.heading, item.text, item.target) for item in instructions
    ]
    ids = {item.id for item in instructions}
    rows = [row for row, id in enumerate(episodes.ids) if (id.rpartition("_")[0] or id) in ids]
    by_people = walker.walk_episodes(episodes.select(torch.tensor(rows, dtype=torch.long)), file).scores
    by_speaker = walker.walk_records(records, file, task).scores
    assert by_speaker is not None, "described paths have goals"
    assert by_people is not None, "described paths have goals"
    return by_speaker.summary(), by_people.summary()
