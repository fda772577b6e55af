"""Augmented data: instructions for the paths of a file, in blocks, as a PREVALENT-style file to train on."""

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from vlnbert.errors import DataError, UsageError, setting
from vlnbert.evaluation.walker import Walker
from vlnbert.progress import Bar, say
from vlnbert.rollout.mixed import keys, uniform
from vlnbert.rollout.policy import Policy
from vlnbert.runtime import require_within
from vlnbert.sources.instructions import PAD, EpisodeRecord, Provenance, is_augmented, read_paths, write_provenance
from vlnbert.sources.writing import require_new, written_beside
from vlnbert.speaker.config import Decoding
from vlnbert.speaker.paths import Paths, require_connected, require_short
from vlnbert.speaker.speaking import OpenedSpeaker
from vlnbert.tasks.episodes import Episodes, bind
from vlnbert.tasks.made_paths import find_leaks
from vlnbert.tasks.splits import DEV, target_index
from vlnbert.tasks.task import NEAR, R2R, REVERIE
from vlnbert.tasks.tokens import MAX_TOKENS
from vlnbert.world.objects import NONE, ObjectBank

BLOCK = 1 << 16  # paths whose instructions are held at once
TARGET = 1 << 20  # the counter of the noise that draws a target; those of words are below


@dataclass(frozen=True)
class AugmentedFile:
    """A written file of augmented data, and how many instructions were left out."""

    path: Path
    paths: int  # that were described
    written: int  # instructions in the file
    left_out: dict[str, int]  # how many were not written, by why; of paths that belong to an evaluation, the paths

    def values(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self) | {"path": str(self.path)}

    def __str__(self) -> str:
        why = ", ".join(f"{count:,} {why}" for why, count in self.left_out.items())
        more = f"; left out: {why}" if why else ""
        return f"{self.path}: {self.written:,} instructions of {self.paths:,} paths{more}"


def require_sense(out: Path, tellings: int, decoding: Decoding, within: float | None, *, followed: bool) -> None:
    """Refuse, before any work, settings that contradict each other; `followed` says whether a navigator follows."""
    require_within(tellings=(tellings, 1, 1000))
    if not is_augmented(out) or out.suffix != ".json":
        raise UsageError(f"{out} would not be read as augmented data; give it a name that ends so: {out.stem}_aug.json")
    require_new(out)
    if tellings > 1 and decoding.decoding != "nucleus":
        problem = f"{setting('tellings', tellings)} would be the same {tellings} times by {decoding.decoding}"
        raise UsageError(f"{problem}; draw words: {setting('decoding', 'nucleus')}")
    if within is not None and not followed:
        problem = f"{setting('within', within)} is of a navigator that follows"
        raise UsageError(f"{problem}; name it: {setting('keep_followed')}")
    if within is not None and not 0 < within < float("inf"):
        raise UsageError(f"{setting('within', within)} is no distance; give metres, such as 3")


class PathsToDescribe:
    """The paths of a file that a training may learn from, and the speaker that describes them."""

    def __init__(self, speaker: OpenedSpeaker, file: Path) -> None:
        """Read the file. Unknown viewpoints and steps without an edge are refused, leaks are left out."""
        self.speaker, self.world, self.bank = speaker, speaker.data.world, speaker.data.object_bank
        self.task = R2R.name if self.bank is None else REVERIE.name
        episodes = bind(file, read_paths(file), self.world, task=self.task, split=file.stem).to(self.world.device)
        try:
            require_connected(self.world, Paths.of(episodes), episodes.ids)
            require_short(Paths.of(episodes), speaker.speaker.config.max_hops, episodes.ids)
        except UsageError as error:
            raise UsageError(f"{file}: {error}") from None
        leaks = find_leaks(speaker.data.folder, self.world, episodes)
        for line in leaks.lines():
            say(f"{file}: {line}; left out")
        rows = (~leaks.any).nonzero().flatten()
        if not len(rows):
            remedy = "make others with: vlnbert augment paths"
            raise DataError(file, f"holds no path to learn from: {', '.join(leaks.lines())}", remedy)
        self.episodes, self.leaks = episodes.select(rows), int(leaks.any.sum())

    def write(
        self,
        out: Path,
        tellings: int,
        decoding: Decoding,
        batch: int | None = None,
        walker: Walker | None = None,
        within: float | None = None,
    ) -> AugmentedFile:
        """Write so many instructions for each path as augmented data; those that a walker cannot follow are left out.

        Each path has its first instruction before any has its second. The file is written whole or not at all.
        """
        # Agents that are no policy have learned nothing in these houses.
        if walker is not None and isinstance(walker.loaded.agent, Policy):
            self.speaker.require_same_houses(walker, f"{self.task}/{DEV}")
        paths, written, left_out = len(self.episodes), 0, Counter({"of an evaluation": self.leaks})
        width = max(MAX_TOKENS, self.speaker.speaker.config.max_tokens)
        with written_beside(out) as temporary:
            with temporary.open("w", encoding="utf-8") as file, Bar("tellings", tellings * paths) as progress:
                for size, block, unusable in self._blocks(decoding, tellings, batch):
                    left_out.update(unusable)
                    if walker is not None and block:
                        scores = walker.walk_records([record for record, _ in block], out, self.task).scores
                        assert scores is not None, "described paths have goals"
                        arrived = (scores.ne < (NEAR if within is None else within)).tolist()
                        left_out["not followed"] += arrived.count(False)
                        block = list(compress(block, arrived))
                    for record, metres in block:
                        file.write(("[\n" if not written else ",\n") + json.dumps(_item(record, metres, width)))
                        written += 1
                    progress.update(progress.done + size, f"{written:,} instructions")
                file.write("\n]\n")
            result = AugmentedFile(out, paths, written, {why: count for why, count in left_out.items() if count})
            if not written:
                raise UsageError(f"nothing to write, {result}; train the speaker longer, or ask for less")
            about = Provenance(
                speaker=self.speaker.name,
                held_out=self.speaker.held_out,
                decoding={"method" if name == "decoding" else name: value for name, value in asdict(decoding).items()},
                paths=paths,
                tellings=tellings,
                instructions=written,
                keep_followed=None if walker is None else walker.name,
                bytes=temporary.stat().st_size,
            )
            # Written first, so that no augmented file lacks it.
            write_provenance(out, about)
        return result

    def _blocks(
        self, decoding: Decoding, tellings: int, batch: int | None
    ) -> Iterator[tuple[int, list[tuple[EpisodeRecord, float]], dict[str, int]]]:
        """So many paths; the usable instructions, each with the metres of its path; and how many are not, by why."""
        for repetition in range(tellings):
            target = None
            if self.bank is not None:
                target = draw_targets(self.bank, self.episodes, decoding.seed, repetition)
            paths = Paths.of(self.episodes, target)
            for rows in torch.split(torch.arange(len(self.episodes)), BLOCK):
                generated = self.speaker.generator.generate(
                    paths, decoding, repetition=repetition, batch=batch, rows=rows
                )
                part = self.episodes.select(rows)
                objects: list[str | None] = [None] * len(rows)
                seen = torch.ones(len(rows), dtype=torch.bool)
                if self.bank is not None and target is not None:
                    places = target[rows.to(target.device)].cpu()
                    objects, seen = self.bank.object_table.ids_at(part.goal.cpu(), places), places != NONE
                empty, ended = generated.empty.cpu(), generated.ended.cpu()
                unusable = {
                    "without an object at the end": int((~seen).sum()),
                    "empty": int((seen & empty).sum()),
                    "without an end": int((seen & ~ended).sum()),
                }
                texts, tokens = generated.texts(self.speaker.data.tokenizer), generated.tokens.tolist()
                records = self._records(part, objects, repetition, texts, tokens)
                metres = self.world.metres(part.path[:, :-1], part.path[:, 1:]).sum(dim=1).tolist()
                good = (seen & generated.usable.cpu()).tolist()
                yield len(rows), list(compress(zip(records, metres, strict=True), good)), unusable

    def _records(
        self, episodes: Episodes, objects: list[str | None], repetition: int, texts: list[str], tokens: list[list[int]]
    ) -> Iterator[EpisodeRecord]:
        """The instructions as records, named by path, object where one was drawn, and repetition."""
        rows = zip(episodes.path.tolist(), episodes.path_length.tolist(), episodes.heading.tolist(), strict=True)
        scans = self.world.scan_of[episodes.start].tolist()
        for row, (path, length, heading) in enumerate(rows):
            drawn = f"_{objects[row]}" if objects[row] is not None and episodes.targets[row] is None else ""
            yield EpisodeRecord(
                id=f"{episodes.ids[row]}{drawn}_{repetition}",
                scan=self.world.scans[scans[row]],
                path=tuple(self.world.viewpoints[hop] for hop in path[:length]),
                heading=heading,
                text=texts[row],
                object_id=objects[row],
                tokens=tuple(token for token in tokens[row] if token != PAD),
            )


def _item(record: EpisodeRecord, metres: float, width: int) -> dict[str, Any]:
    """A record as an item of a PREVALENT-style file; token ids are padded to a width that all items share."""
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
    return item | ({} if record.object_id is None else {"objId": record.object_id})


def draw_targets(bank: ObjectBank, episodes: Episodes, seed: int, repetition: int) -> Tensor:
    """[episode] REVERIE's targets, by their place at the goal: the episode's own, or one of those seen there, drawn."""
    own, goal = target_index(bank.object_table, episodes), episodes.goal
    given = torch.tensor([target is not None for target in episodes.targets], device=goal.device)
    count, index = bank.count[goal], torch.arange(len(episodes), device=goal.device)
    key = keys(seed, repetition, index)
    # NONE where no object is seen.
    drawn = (uniform(key, torch.full_like(key, TARGET)) * count).long().minimum(count - 1)
    return torch.where(given, own, drawn)
