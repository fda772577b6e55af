"""Let a speaker tell of paths: those of a split, or any, by their viewpoints."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

from vlnbert.api.arguments import checked
from vlnbert.api.instructions import Instruction, Instructions
from vlnbert.api.runs import Run
from vlnbert.api.speakers import PreparedSpeaker, prepare_speaker
from vlnbert.data.data import Data
from vlnbert.errors import UsageError, setting
from vlnbert.evaluation.options import Checkpoint
from vlnbert.progress import quiet, say
from vlnbert.runtime import Precision, require_within
from vlnbert.speaker.config import Decoding, Method
from vlnbert.speaker.paths import Paths, require_connected
from vlnbert.speaker.speaker import Speaker
from vlnbert.tasks.splits import full_name, task_and_split
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
        split: The split whose paths to tell, such as r2r/val_unseen or, without its task, val_unseen; dev_unseen is
            made of the houses that the run kept out of its training.
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
    require_within(batch=(1 if batch is None else batch, 1, 1_000_000))
    asked = Decoding(decoding, top_p, temperature, beams, length_penalty, max_tokens, seed)
    with quiet(not bar):
        ready = prepare_speaker(speaker, data, checkpoint=checkpoint, precision=precision, device=device)
        shown = ready.data
        if split is not None:
            described = of_split(shown, full_name(split, ready.task))
        else:
            described = _by_names(shown.world, paths or ())
        return instructions_of(ready, described, asked, batch)


@dataclass(frozen=True)
class Described:
    """Paths, and what is known of each."""

    paths: Paths
    facts: list[Instruction]


def instructions_of(
    ready: PreparedSpeaker, described: Described, decoding: Decoding, batch: int | None
) -> Instructions:
    """What a speaker tells of some paths; those of which nothing usable came are named, and said."""
    told = ready.generator.generate(described.paths, decoding, batch=batch)
    texts, usable = told.texts(ready.data.tokenizer), told.usable.tolist()
    scores = told.log_probability.tolist()
    rows = zip(described.facts, texts, scores, usable, strict=True)
    instructions = [replace(one, text=text, log_probability=score) for one, text, score, good in rows if good]
    left_out = [one.id for one, good in zip(described.facts, usable, strict=True) if not good]
    result = Instructions(ready.name, instructions, left_out, ", ".join(told.problems()))
    if result.problem:
        say(result.problem)
    return result


def of_split(data: Data, split: str) -> Described:
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
    return Described(paths, _facts(data.world, paths, ids, list(people.values()), some.targets))


def _by_names(world: World, routes: Sequence[str]) -> Described:
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
    return Described(paths, _facts(world, paths, [str(number) for number in range(1, len(named) + 1)]))


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
