"""Instructions for paths: a speaker opened with its data, the paths of a split or by name, and what it writes."""

from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from json import dumps
from pathlib import Path
from typing import Any, overload

import torch

from vlnbert.data.data import Data, open_data
from vlnbert.errors import UsageError, listed, setting
from vlnbert.evaluation.walker import Walker
from vlnbert.progress import say
from vlnbert.runtime import Precision, chosen_precision
from vlnbert.sources.writing import write_json
from vlnbert.speaker.config import Decoding
from vlnbert.speaker.decoding import InstructionGenerator
from vlnbert.speaker.likelihood import instruction_likelihoods, perplexity
from vlnbert.speaker.paths import Paths, require_connected
from vlnbert.speaker.speaker import Speaker, shown_to_speaker
from vlnbert.tables import Table, Tabular
from vlnbert.tasks.splits import target_index, task_and_split
from vlnbert.tasks.task import R2R, TASKS
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


class Instructions(Tabular, Sequence[Instruction]):
    """The instructions of some paths: `print` them, look at them in a notebook, or take `texts` and `to_json()`."""

    def __init__(
        self, speaker: str, instructions: Sequence[Instruction], left_out: Sequence[str] = (), note: str = ""
    ) -> None:
        """`left_out` are the ids of paths without a usable instruction, `note` says why."""
        self.speaker, self._items, self.left_out, self.note = speaker, tuple(instructions), tuple(left_out), note

    @property
    def texts(self) -> list[str]:
        return [one.text for one in self]

    def to_json(self, indent: int | None = None) -> str:
        """As a JSON list of items in R2R's form."""
        return dumps([one.values() for one in self], indent=indent)

    def write(self, path: str | Path) -> Path:
        """Write that list to a file."""
        write_json(Path(path), [one.values() for one in self])
        return Path(path)

    def table(self) -> Table:
        """A row for each path, with what people said of it where they did."""
        people = any(one.people for one in self)
        rows = [[one.id, one.text, *((one.people[0] if one.people else "",) if people else ())] for one in self]
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
class KnownPaths:
    """Paths, and what is known of each: an instruction that has no text yet."""

    paths: Paths
    facts: list[Instruction]


@dataclass(frozen=True)
class LoadedSpeaker:
    """A speaker that has no data yet, and what is known of its training."""

    name: str
    speaker: Speaker
    data: str | None = None  # the folder that a run was trained on
    held_out: tuple[str, ...] | None = None  # the houses of dev_unseen; None where nobody knows
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
        self.opened = opened.holding_out(self.held_out) if self.held_out else opened  # as it was given
        self.data = shown_to_speaker(self.speaker, self.opened, self.name)  # with the speaker's features
        chosen = chosen_precision(precision, self.data.device, self.speaker.config.hidden)
        self.generator = InstructionGenerator(self.speaker, self.data.environment, chosen)

    def write(self, known: KnownPaths, decoding: Decoding, batch: int | None = None) -> Instructions:
        """An instruction for each path; those without a usable one are named, and a line says so."""
        generated = self.generator.generate(known.paths, decoding, batch=batch)
        texts, usable = generated.texts(self.data.tokenizer), generated.usable.tolist()
        rows = zip(known.facts, texts, generated.log_probability.tolist(), usable, strict=True)
        instructions = [replace(one, text=text, log_probability=score) for one, text, score, good in rows if good]
        left_out = [one.id for one, good in zip(known.facts, usable, strict=True) if not good]
        result = Instructions(self.name, instructions, left_out, ", ".join(generated.problems()))
        if result.problem:
            say(result.problem)
        return result

    def perplexity(self, split: str) -> float:
        """The perplexity of people's instructions in a split, in float32."""
        model = deepcopy(self.speaker).to(self.data.device)  # the caller's stays where it is
        opened = self.data.split(split, model.tokenizer, model.config.max_tokens)
        return perplexity(*instruction_likelihoods(model, self.data.environment, opened))

    def require_same_houses(self, walker: Walker, split: str) -> None:
        """Refuse a walker for which dev_unseen has other houses: it may have learned in those of the speaker."""
        if walker.loaded.held_out != (self.held_out or ()):
            problem = f"{self.name} and {walker.name} kept other houses out, so {split} is not the same for both"
            raise UsageError(f"{problem}; keep the same out of both: {setting('holdout', 'N')}")


def paths_of_split(data: Data, split: str) -> KnownPaths:
    """The paths of a split, each once, with what people said of it."""
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
    facts = _facts(data.world, paths, ids)
    rest = zip(facts, people.values(), some.targets, strict=True)
    return KnownPaths(paths, [replace(one, people=tuple(texts), target=target) for one, texts, target in rest])


def paths_by_name(world: World, routes: Sequence[str]) -> KnownPaths:
    """Paths that are written as scan:viewpoint,viewpoint."""
    named = []
    for route in [routes] if isinstance(routes, str) else routes:
        scan, colon, viewpoints = str(route).partition(":")
        names = [name.strip() for name in viewpoints.split(",")]
        if not colon or not all(names):
            raise UsageError(f"'{str(route)[:60]}' is no path; write it like {EXAMPLE}")
        named.append((scan, names))
    paths = Paths.through(world, named)
    return KnownPaths(paths, _facts(world, paths, [str(number) for number in range(1, len(named) + 1)]))


def _facts(world: World, paths: Paths, ids: Sequence[str]) -> list[Instruction]:
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
