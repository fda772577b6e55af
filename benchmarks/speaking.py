"""Measure how many sentences and words a speaker writes in a second, against the plain way without a cache.

Weights are random, features are noise, and nobody stops before the limit, so that all sentences have the same length.
The plain way takes the likeliest word and reads all words before it anew for each; it is timed in turn with ours.
"""

from argparse import ArgumentParser, BooleanOptionalAction
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.measuring import Timing, peak_memory, race
from benchmarks.options import MOST, RACED, Found, add_data, add_machine, add_preset, use_machine
from benchmarks.plain.speaking import write_plainly
from vlnbert.benchmarking import folder_or_house, random_environment
from vlnbert.data.data import Data
from vlnbert.environment.environment import Environment
from vlnbert.learning.presets import presets
from vlnbert.runtime import chosen_precision, require_within
from vlnbert.speaker.config import Decoding, SpeakerConfig
from vlnbert.speaker.decoding import BATCH, GPU_BATCH, InstructionGenerator
from vlnbert.speaker.experiment import SpeakerExperiment
from vlnbert.speaker.paths import Paths, observe_paths
from vlnbert.speaker.speaker import Speaker
from vlnbert.tables import Table
from vlnbert.tasks.batches import piece_count
from vlnbert.tasks.episodes import Episodes

NEVER = -1e4  # added to the score of an end


def add_options(parser: ArgumentParser) -> None:
    add_preset(parser, "speaker-open")
    add_data(parser)
    parser.add_argument("--decoding", choices=("greedy", "nucleus", "beam"), default="nucleus")
    parser.add_argument("--batch", type=int, help="paths that are described together (64, or 2048 on a GPU)")
    parser.add_argument("--tokens", type=int, default=40, help="length of the sentences, [CLS] included (40)")
    parser.add_argument("--words", type=int, default=2614, help="word pieces that may be said (2614, as in R2R)")
    parser.add_argument("--precision", choices=("float32", "bfloat16", "fastest"), default="fastest")
    parser.add_argument("--plain", action=BooleanOptionalAction, default=True, help="time the plain way too")
    add_machine(parser, rounds=5)


def measure(
    preset: str,
    data: Path | None,
    decoding: Any,
    batch: int | None,
    tokens: int,
    words: int,
    precision: Any,
    plain: bool,
    rounds: int,
    threads: int | None,
    device: str,
) -> Found:
    """Time the writing of one batch."""
    shape = presets.experiment(preset, SpeakerExperiment).speaker
    require_within(tokens=(tokens, 3, shape.max_tokens), words=(words, 2, shape.vocabulary))
    require_within(batch=(1 if batch is None else batch, 1, MOST))
    use_machine(device, threads, rounds)
    where = torch.device(device)
    chosen = chosen_precision(precision, where, shape.hidden)
    with folder_or_house(data) as folder:
        opened = Data(folder, device=where)
        paths = repeated_paths(opened.episodes("r2r/train"), batch or (GPU_BATCH if where.type == "cuda" else BATCH))
        settings = Decoding(decoding, max_tokens=tokens)
        speed = time_speaking(
            opened, shape, paths, settings, precision=chosen, rounds=rounds, spoken=words, plain=plain
        )
    facts = {"preset": preset, "decoding": decoding, "precision": chosen, "device": device}
    names = ["sentences", "sentences a second", "tokens a second", "memory, MB", "spread"]
    cells = [
        f"{speed.sentences:,}",
        f"{speed.sentences_a_second:,.0f}",
        f"{speed.tokens_a_second:,.0f}",
        f"{speed.memory / 1e6:,.0f}",
        f"{speed.kept.spread:.0%}",
    ]
    if speed.plain is not None:
        names += [*RACED, "its memory, MB"]
        cells += [f"{speed.times_plain:.2f}", f"{speed.plain.spread:.0%}", f"{(speed.plain_memory or 0) / 1e6:,.0f}"]
    return Found({**facts, **_as_json(speed)}, Table(names, [cells], f"{preset}, {decoding}, {chosen}, on {device}"))


@dataclass(frozen=True)
class SpeakingSpeed:
    """One batch of instructions, written again and again."""

    sentences: int
    tokens: int  # of each, without [CLS]
    kept: Timing
    memory: int  # bytes
    plain: Timing | None = None
    plain_memory: int | None = None

    @property
    def sentences_a_second(self) -> float:
        return self.sentences / self.kept.median

    @property
    def tokens_a_second(self) -> float:
        return self.sentences_a_second * self.tokens

    @property
    def times_plain(self) -> float | None:
        return None if self.plain is None else self.plain.median / self.kept.median


def _as_json(speed: SpeakingSpeed) -> dict[str, Any]:
    facts = {
        "sentences": speed.sentences,
        "tokens": speed.tokens,
        "seconds": speed.kept.median,
        "spread": speed.kept.spread,
        "sentences_a_second": speed.sentences_a_second,
        "tokens_a_second": speed.tokens_a_second,
        "memory_bytes": speed.memory,
    }
    if speed.plain is None:
        return facts
    return {
        **facts,
        "times_plain": speed.times_plain,
        "plain_seconds": speed.plain.median,
        "plain_memory_bytes": speed.plain_memory,
    }


def random_speaker(shape: SpeakerConfig, data: Data, spoken: int | None = None) -> Speaker:
    """A speaker of the data's words, with random weights, that never ends; `spoken` is how many words it may say."""
    torch.manual_seed(0)
    speaker = Speaker(shape).to(data.device)
    speaker.tokenizer = data.tokenizer
    speaker.may_write(torch.arange(4, min(shape.vocabulary, 4 + (spoken or shape.vocabulary))))
    with torch.no_grad():
        speaker.bias[speaker.marks[1]] = NEVER
    return speaker.eval()


def repeated_paths(episodes: Episodes, count: int) -> Paths:
    """So many paths of some episodes, from the first on and again."""
    return Paths.of(episodes).select(torch.arange(count, device=episodes.start.device) % len(episodes))


def time_speaking(
    data: Data,
    shape: SpeakerConfig,
    paths: Paths,
    decoding: Decoding,
    precision: str,
    rounds: int,
    *,
    spoken: int | None = None,
    plain: bool = True,
) -> SpeakingSpeed:
    """Time the writing of one batch, with kept keys and values and, in turn with it, without."""
    environment = random_environment(data.world, shape.feature_width, precision)
    shape = _fitting(shape, data)
    speaker = random_speaker(shape, data, spoken)
    generator, tokens = InstructionGenerator(speaker, environment, precision), decoding.max_tokens or shape.max_tokens
    rivals: dict[str, Callable[[], object]] = {
        "kept": lambda: generator.generate_once(paths, decoding, batch=len(paths)),
        "plain": lambda: _plainly(generator, environment, paths, tokens),
    }
    if not plain:
        del rivals["plain"]
    times = race(rivals, rounds, data.device)
    memory = {name: peak_memory(run, data.device) for name, run in rivals.items()}
    return SpeakingSpeed(
        sentences=len(paths),
        tokens=tokens - 1,
        kept=times["kept"],
        memory=memory["kept"],
        plain=times.get("plain"),
        plain_memory=memory.get("plain"),
    )


def _plainly(generator: InstructionGenerator, environment: Environment, paths: Paths, tokens: int) -> Tensor:
    with torch.no_grad():
        return write_plainly(generator.model, observe_paths(environment, paths), tokens)


def _fitting(shape: SpeakerConfig, data: Data) -> SpeakerConfig:
    """The shape of a speaker that knows the data's words."""
    return replace(shape, vocabulary=max(piece_count(data.tokenizer), shape.vocabulary), object_width=0)
