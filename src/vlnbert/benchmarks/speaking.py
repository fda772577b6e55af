"""How fast a speaker writes: sentences and words a second, and memory, against the plain way without a cache.

The weights are random, and nobody stops before the limit, so that all sentences have the same length.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from vlnbert.benchmarks.measuring import Timing, peak_memory, race
from vlnbert.benchmarks.plain.speaking import write_plainly
from vlnbert.benchmarks.workloads import random_environment
from vlnbert.data.data import Data
from vlnbert.environment.environment import Environment
from vlnbert.speaker.config import Decoding, SpeakerConfig
from vlnbert.speaker.decoding import InstructionGenerator
from vlnbert.speaker.paths import Paths, observe_paths
from vlnbert.speaker.speaker import Speaker
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.tokens import piece_count

NEVER = -1e4  # added to the score of an end


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
