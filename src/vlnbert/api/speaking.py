"""Let a speaker tell of paths: those of a split, or any, by their viewpoints."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import torch

from vlnbert.api.arguments import checked
from vlnbert.api.instructions import Instruction, Instructions
from vlnbert.api.runs import Checkpoint, Run, open_run
from vlnbert.data.data import Data, open_data
from vlnbert.errors import UnknownNameError, UsageError, setting
from vlnbert.learning.run_folder import is_run, last_checkpoint, while_trained
from vlnbert.progress import quiet, say
from vlnbert.registry import load_recorded
from vlnbert.runtime import Precision, chosen_precision, require_within
from vlnbert.speaker import Decoding, Paths, Speaker, Teller
from vlnbert.speaker.decoding import Method
from vlnbert.speaker.fitting import shown_to_speaker
from vlnbert.speaker.paths import require_connected
from vlnbert.tasks.splits import task_and_split
from vlnbert.tasks.targets import target_index
from vlnbert.tasks.task import TASKS
from vlnbert.world.world import World

EXAMPLE = "scan:viewpoint,viewpoint,..."


@checked("speaker", "paths", "device")
def speak(
    speaker: Run | Speaker | str | Path,
    data: Data | str | Path | None = None,
    split: str | None = None,
    *,
    paths: Sequence[str] | None = None,
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
) -> Instructions:
    """Turn paths into instructions: `vln.speak("runs/speaker", split="r2r/val_unseen")`.

    Every path is told once. What comes to nothing, an empty sentence or one without an end, is told again where words
    are drawn (nucleus), and else left out: `left_out` names those paths.

    Args:
        speaker: A run of a speaker, whose best weights speak; or a speaker, or its folder or hub name.
        data: The data folder, or what `vln.open_data` gave; by default what a run was trained on.
        split: The split whose paths to tell, such as r2r/val_unseen; r2r/dev_unseen is made of the houses that the run
            kept out of its training.
        paths: Instead of a split, paths by their viewpoints: "scan:viewpoint,viewpoint,...". The agent looks along the
            first step when it starts.
        decoding: greedy takes the likeliest word at each place; nucleus draws one among the likeliest; beam looks for
            the likeliest instruction.
        top_p: Of nucleus: the probability that the words have together among which one is drawn.
        temperature: Of nucleus: below 1 the likely gets likelier.
        beams: Of beam: instructions that are kept at each place.
        length_penalty: Of beam: the power of the length by which the logarithm of a probability is divided.
        max_tokens: Longest instruction, in word pieces, [CLS] and [SEP] included; by default the speaker's.
        seed: Of nucleus. The same seed tells the same of a path, whatever the batch.
        checkpoint: Which weights of a run speak: the best, or those of its last checkpoint.
        batch: Paths that are told together; by default 64 on a CPU, 2048 on a GPU.
        precision: Of the speaker's tokens; fastest is what multiplies faster on this device.
        device: Where to speak, such as cpu or cuda; by default where the data is.
        bar: Show progress.
    """
    if (split is None) == (paths is None):
        raise UsageError(f"name a split or paths, and not both; for example {setting('split', 'r2r/val_unseen')}")
    for kind, value, known in (("precision", precision, Precision), ("checkpoint", checkpoint, Checkpoint)):
        if value not in get_args(known):
            raise UnknownNameError(kind, value, get_args(known))
    require_within(batch=(1 if batch is None else batch, 1, 1_000_000))
    asked = Decoding(decoding, top_p, temperature, beams, length_penalty, max_tokens, seed)
    with quiet(not bar):
        found = find_speaker(speaker, checkpoint)
        opened = open_data(_named(data if data is not None else found.data), device=device)
        opened = opened.holding_out(found.held_out) if found.held_out else opened
        shown = shown_to_speaker(found.speaker, opened, found.name)
        described = _of_split(shown, split) if split is not None else _by_names(shown.world, paths or ())
        chosen = chosen_precision(precision, shown.device, found.speaker.config.hidden)
        told = Teller(found.speaker, shown.environment, chosen).tell(described.paths, asked, batch=batch)
        texts, usable = told.texts(shown.tokenizer), told.usable.tolist()
        scores = told.log_probability.tolist()
        rows = zip(described.facts, texts, scores, usable, strict=True)
        instructions = [replace(one, text=text, log_probability=score) for one, text, score, good in rows if good]
        left_out = [one.id for one, good in zip(described.facts, usable, strict=True) if not good]
        result = Instructions(found.name, instructions, left_out, ", ".join(told.problems()))
        if result.problem:
            say(result.problem)
        return result


@dataclass(frozen=True)
class FoundSpeaker:
    """A speaker, and what is known of it."""

    name: str
    speaker: Speaker
    data: str | None = None
    held_out: tuple[str, ...] = ()  # the houses of dev_unseen


def _last_speaker(run: Path) -> Speaker:
    return Speaker.from_pretrained(last_checkpoint(run))


def find_speaker(source: object, checkpoint: Checkpoint = "best") -> FoundSpeaker:
    """Who speaks: a speaker, or where one is; of a run, its best weights or its last."""
    if isinstance(source, Speaker):
        return FoundSpeaker("the speaker", source)
    if isinstance(source, str | Path) and is_run(Path(source)):
        source = open_run(source)
    if isinstance(source, Run):
        load_recorded(source.record.plugins)
        speaker = source.speaker if checkpoint == "best" else while_trained(source.folder, _last_speaker)
        return FoundSpeaker(source.folder.resolve().name, speaker, source.record.data, source.record.held_out)
    if checkpoint == "last":
        raise UsageError(f"{source} is no run, so it has no last checkpoint; name a run's folder")
    if not isinstance(source, str | Path):
        raise UsageError(f"{source!r:.60} is no speaker; give a run's folder, or what Speaker.from_pretrained gave")
    return FoundSpeaker(Path(source).resolve().name, Speaker.from_pretrained(source))


@dataclass(frozen=True)
class _Described:
    """Paths, and what is known of each."""

    paths: Paths
    facts: list[Instruction]


def _of_split(data: Data, split: str) -> _Described:
    """The paths of a split, each once, with what people said of it."""
    episodes = data.episodes(split)
    if not episodes.scored:
        raise UsageError(f"{split} withholds its paths, so there is nothing to tell of; choose another split")
    sees_objects = TASKS[task_and_split(split)[0]].sees_objects and data.object_bank is not None
    first, people = dict[Any, int](), dict[Any, list[str]]()
    rows = zip(episodes.path.tolist(), episodes.heading.tolist(), episodes.targets, episodes.texts, strict=True)
    for row, (path, heading, sought, text) in enumerate(rows):
        key = (tuple(path), heading, sought)
        first.setdefault(key, row)
        people.setdefault(key, []).append(text)
    some = episodes.select(torch.tensor(list(first.values())))
    bank = data.object_bank
    target = target_index(bank.object_table, some) if sees_objects and bank is not None else None
    paths = Paths.of(some, target)
    require_connected(data.world, paths)
    ids = [name.rpartition("_")[0] or name for name in some.ids]
    return _Described(paths, _facts(data.world, paths, ids, list(people.values()), some.targets))


def _by_names(world: World, routes: Sequence[str]) -> _Described:
    """Paths that are written as scan:viewpoint,viewpoint."""
    if isinstance(routes, str):
        routes = [routes]
    named = []
    for route in routes:
        scan, colon, viewpoints = str(route).partition(":")
        names = [name.strip() for name in viewpoints.split(",")]
        if not colon or not all(names):
            raise UsageError(f"'{str(route)[:60]}' is no path; write it like {EXAMPLE}")
        named.append((scan, names))
    paths = Paths.through(world, named)
    return _Described(paths, _facts(world, paths, [str(number) for number in range(1, len(named) + 1)]))


def _facts(
    world: World,
    paths: Paths,
    ids: Sequence[str],
    people: Sequence[Sequence[str]] | None = None,
    targets: Sequence[str | None] | None = None,
) -> list[Instruction]:
    hops = world.metres(paths.viewpoint[:, :-1], paths.viewpoint[:, 1:]).sum(dim=1).tolist()
    rows = zip(ids, paths.viewpoint.tolist(), paths.length.tolist(), paths.heading.tolist(), hops, strict=True)
    return [
        Instruction(
            id=name,
            scan=world.scans[int(world.scan_of[path[0]])],
            path=tuple(world.viewpoints[number] for number in path[:length]),
            heading=heading,
            distance=distance,
            text="",
            log_probability=0.0,
            people=tuple(people[row]) if people is not None else (),
            target=targets[row] if targets is not None else None,
        )
        for row, (name, path, length, heading, distance) in enumerate(rows)
    ]


def _named(data: Data | str | Path | None) -> Data | str | Path:
    if data is None:
        raise UsageError(f"no data to tell of; give a data folder: {setting('data', 'DIR')}")
    return data
