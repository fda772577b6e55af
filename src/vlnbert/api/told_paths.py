"""The paths of a file, held against the data, and told in blocks: records as a reader of augmented files gives them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vlnbert.api.speakers import PreparedSpeaker
from vlnbert.errors import DataError, UsageError
from vlnbert.progress import say
from vlnbert.rollout.noise import keys, uniform
from vlnbert.sources.instructions import PAD, EpisodeRecord, read_paths
from vlnbert.speaker.config import Decoding
from vlnbert.speaker.decoding import Generated
from vlnbert.speaker.paths import Paths, require_connected, require_short
from vlnbert.tasks.episodes import Episodes, bind
from vlnbert.tasks.leaks import find_leaks
from vlnbert.tasks.targets import target_index
from vlnbert.tasks.task import R2R, REVERIE
from vlnbert.tasks.tokens import MAX_TOKENS
from vlnbert.world.object_bank import ObjectBank
from vlnbert.world.objects import NONE
from vlnbert.world.world import World

BLOCK = 1 << 16  # paths whose instructions are held at once
TARGET = 1 << 20  # the counter of the noise that draws a target; those of words are below


@dataclass(frozen=True)
class ToldBlock:
    """What was told of some paths, once each."""

    size: int  # paths
    records: list[EpisodeRecord]
    metres: list[float]  # of each record's path
    left_out: dict[str, int]  # by why

    def keeping(self, good: Sequence[bool], why: str) -> "ToldBlock":
        """The same without the records that are not good, counted by why."""
        kept = [(record, metres) for record, metres, one in zip(self.records, self.metres, good, strict=True) if one]
        records, metres = [record for record, _ in kept], [metres for _, metres in kept]
        return ToldBlock(self.size, records, metres, self.left_out | {why: len(good) - len(kept)})

    def items(self, width: int) -> Iterator[dict[str, Any]]:
        """As items of a PREVALENT-style file; token ids are padded to a width that all items share."""
        for record, metres in zip(self.records, self.metres, strict=True):
            tokens = list(record.tokens or ())
            item = {
                "path_id": record.id,
                "scan": record.scan,
                "path": list(record.path),
                "heading": record.heading,
                "distance": metres,
                "instructions": [record.text],
                "instr_enc": tokens + [PAD] * (width - len(tokens)),
            }
            yield item | ({} if record.object_id is None else {"objId": record.object_id})


@dataclass(frozen=True)
class PathsToTell:
    """Paths that a training may learn from, and the speaker that tells of them."""

    ready: PreparedSpeaker
    task: str
    episodes: Episodes
    left_out: dict[str, int]  # paths of the file that were, by why

    @classmethod
    def read(cls, ready: PreparedSpeaker, file: Path) -> "PathsToTell":
        """Those of a file; foreign viewpoints and steps without an edge are refused, what leaks is left out."""
        task = REVERIE.name if ready.data.object_bank is not None else R2R.name
        world = ready.data.world
        episodes = bind(file, read_paths(file), world, task=task, split=file.stem).to(world.device)
        try:
            require_connected(world, Paths.of(episodes), episodes.ids)
            require_short(Paths.of(episodes), ready.speaker.config.max_hops, episodes.ids)
        except UsageError as error:
            raise UsageError(f"{file}: {error}") from None
        leaks = find_leaks(ready.data.folder, world, episodes)
        for line in leaks.lines():
            say(f"{file}: {line}; left out")
        rows = (~leaks.any).nonzero().flatten()
        if not len(rows):
            remedy = "make others with: vlnbert augment paths"
            raise DataError(file, f"holds no path to learn from: {', '.join(leaks.lines())}", remedy)
        return cls(ready, task, episodes.select(rows), {"of an evaluation": int(leaks.any.sum())})

    def __len__(self) -> int:
        return len(self.episodes)

    @property
    def world(self) -> World:
        return self.ready.data.world

    @property
    def width(self) -> int:
        """Token ids of an instruction in the file, padded."""
        return max(MAX_TOKENS, self.ready.speaker.config.max_tokens)

    def blocks(self, decoding: Decoding, tellings: int, batch: int | None) -> Iterator[ToldBlock]:
        """Each path told so many times: all of them once, then all of them again."""
        bank = self.ready.data.object_bank
        for telling in range(tellings):
            target = None if bank is None else draw_targets(bank, self.episodes, decoding.seed, telling)
            paths = Paths.of(self.episodes, target)
            for rows in torch.split(torch.arange(len(self)), BLOCK):
                told = self.ready.generator.generate(paths, decoding, repetition=telling, batch=batch, rows=rows)
                yield self._block(told, rows, telling, target)

    def _block(self, told: Generated, rows: Tensor, telling: int, target: Tensor | None) -> ToldBlock:
        part, bank = self.episodes.select(rows), self.ready.data.object_bank
        objects: list[str | None] = [None] * len(rows)
        seen = torch.ones(len(rows), dtype=torch.bool)
        if bank is not None and target is not None:
            places = target[rows.to(target.device)].cpu()
            objects, seen = bank.object_table.ids_at(part.goal.cpu(), places), places != NONE
        empty, ended = told.empty.cpu(), told.ended.cpu()
        counted = {
            "without an object at the end": int((~seen).sum()),
            "empty": int((seen & empty).sum()),
            "without an end": int((seen & ~ended).sum()),
        }
        texts, tokens = told.texts(self.ready.data.tokenizer), told.tokens.tolist()
        records = [
            replace(record, text=text, tokens=tuple(token for token in ids if token != PAD))
            for record, text, ids in zip(_named(self.world, part, objects, telling), texts, tokens, strict=True)
        ]
        metres = self.world.metres(part.path[:, :-1], part.path[:, 1:]).sum(dim=1).tolist()
        block = ToldBlock(len(rows), records, metres, {}).keeping((seen & told.usable.cpu()).tolist(), "")
        return replace(block, left_out=counted)


def draw_targets(bank: ObjectBank, episodes: Episodes, seed: int, telling: int) -> Tensor:
    """[episode] REVERIE's targets, by their place at the goal: the episode's own, or one of those seen there, drawn."""
    own, goal = target_index(bank.object_table, episodes), episodes.goal
    given = torch.tensor([target is not None for target in episodes.targets], device=goal.device)
    count, index = bank.count[goal], torch.arange(len(episodes), device=goal.device)
    key = keys(seed, telling, index)
    drawn = (uniform(key, torch.full_like(key, TARGET)) * count).long().minimum(count - 1)  # NONE where none is seen
    return torch.where(given, own, drawn)


def _named(world: World, episodes: Episodes, objects: list[str | None], telling: int) -> Iterator[EpisodeRecord]:
    """The paths as records yet without words, named by path, object where one was drawn, and telling."""
    rows = zip(episodes.path.tolist(), episodes.path_length.tolist(), episodes.heading.tolist(), strict=True)
    scans = world.scan_of[episodes.start].tolist()
    for row, (path, length, heading) in enumerate(rows):
        drawn = f"_{objects[row]}" if objects[row] is not None and episodes.targets[row] is None else ""
        yield EpisodeRecord(
            id=f"{episodes.ids[row]}{drawn}_{telling}",
            scan=world.scans[scans[row]],
            path=tuple(world.viewpoints[hop] for hop in path[:length]),
            heading=heading,
            text="",
            object_id=objects[row],
        )
