"""Settings of a speaker: its shape, how it chooses words, and where it runs. Imports no torch."""

from dataclasses import dataclass, fields
from typing import Literal, get_args

from vlnbert.errors import UnknownNameError, UsageError, setting
from vlnbert.evaluation.options import Checkpoint
from vlnbert.runtime import Precision, require_within

LARGEST = 2**20  # of any number; what is larger was mistyped
ZERO_ALLOWED = ("encoder_layers", "object_width")
Method = Literal["greedy", "nucleus", "beam"]
# The method that each of these settings of Decoding belongs to.
METHOD_OF: dict[str, Method] = {"top_p": "nucleus", "temperature": "nucleus", "beams": "beam", "length_penalty": "beam"}


@dataclass(frozen=True)
class SpeakerConfig:
    """The shape of a speaker."""

    hidden: int = 384
    """Width of a token; with words to start from it is theirs."""
    heads: int = 6
    """Attention heads; they share the width."""
    inner: int = 1536
    """Width of the feed-forward layers."""
    encoder_layers: int = 3
    """Layers that read a path."""
    decoder_layers: int = 4
    """Layers that write its instruction."""
    dropout: float = 0.2
    """Dropout of token vectors, when they enter and behind each part of a layer."""
    feature_dropout: float = 0.0
    """Dropout of view and object features; directions are spared."""
    max_tokens: int = 80
    """Longest instruction, in word pieces, [CLS] and [SEP] included."""
    max_hops: int = 40
    """Longest path, in viewpoints."""
    vocabulary: int = 30522
    """Word pieces, which the words to start from or the data decide."""
    feature_width: int = 2048
    """Width of a view's feature, which the data decides."""
    object_width: int = 0
    """Width of an object's feature, which the data decides; 0 for a speaker that is shown no target (R2R)."""

    def __post_init__(self) -> None:
        for item in fields(self):
            value, least = getattr(self, item.name), 0 if item.name in ZERO_ALLOWED else 1
            wanted, number = "", isinstance(value, int | float) and not isinstance(value, bool)
            if item.type is int and (type(value) is not int or not least <= value <= LARGEST):
                wanted = f"a whole number from {least} to {LARGEST:,}"
            if item.type is float and not (number and 0 <= value < 1):
                wanted = "a number from 0 to below 1"
            if wanted:
                raise UsageError(f"{setting(f'speaker.{item.name}')} is {value!r}; choose {wanted}")
        if self.hidden % self.heads:
            raise UsageError(f"{self.heads} heads cannot share a width of {self.hidden}; choose a divisor of it")
        if self.max_tokens < 3:
            raise UsageError(f"{setting('speaker.max_tokens', self.max_tokens)} leaves no room for words")


@dataclass(frozen=True)
class Decoding:
    """How a speaker chooses words. A field's docstring is its help on the command line."""

    decoding: Method = "greedy"
    """greedy takes the likeliest word at each place; nucleus draws one among the likeliest; beam looks for the
    likeliest instruction."""
    top_p: float = 0.9
    """Of nucleus: the probability that the words have together among which one is drawn."""
    temperature: float = 0.9
    """Of nucleus: below 1 the likely gets likelier."""
    beams: int = 4
    """Of beam: instructions that are kept at each place."""
    length_penalty: float = 0.6
    """Of beam: the power of the length by which the logarithm of a probability is divided; 0 for the likeliest
    instruction, which is often a short one."""
    max_tokens: int | None = None
    """Longest instruction, in word pieces, [CLS] and [SEP] included; by default the speaker's."""
    seed: int = 0
    """Of nucleus, and of the objects that are drawn for REVERIE's paths. The same seed writes the same instruction of a
    path, whatever the batch."""

    def __post_init__(self) -> None:
        if self.decoding not in get_args(Method):
            raise UnknownNameError("decoding", str(self.decoding), get_args(Method))
        limits = {"top_p": (1e-6, 1.0), "temperature": (1e-3, 100.0), "length_penalty": (0.0, 10.0)}
        limits |= {"beams": (1, 64), "seed": (0, 2**63 - 1)}
        limits |= {"max_tokens": (3, LARGEST)} if self.max_tokens is not None else {}
        for name, (least, most) in limits.items():
            value, kind = getattr(self, name), int if name in ("beams", "seed", "max_tokens") else int | float
            if isinstance(value, bool) or not isinstance(value, kind) or not least <= value <= most:
                raise UsageError(f"{setting(name)} is {value!r}; choose {least:,} to {most:,}")
        for name, method in METHOD_OF.items():
            if method != self.decoding and (value := getattr(self, name)) != getattr(Decoding, name):
                problem = f"{setting(name, value)} is of {method} decoding, which was not asked for"
                raise UsageError(f"{problem}; leave it out, or add {setting('decoding', method)}")


@dataclass(frozen=True)
class SpeakOptions:
    """Which weights speak, and on what: what the verbs of speakers have in common."""

    checkpoint: Checkpoint = "best"
    """Which weights of a run speak: the best, or those of its last checkpoint."""
    batch: int | None = None
    """Paths of a batch; by default 64 on a CPU, 2048 on a GPU."""
    precision: Precision = "float32"
    """Of the speaker's tokens; fastest is what multiplies faster on this device. Perplexity is computed in float32."""
    device: str | None = None
    """Where to speak, and to walk, such as cpu or cuda; by default where the data is."""

    def __post_init__(self) -> None:
        require_within(batch=(1 if self.batch is None else self.batch, 1, 1_000_000))
        for name, known in (("precision", get_args(Precision)), ("checkpoint", get_args(Checkpoint))):
            if getattr(self, name) not in known:
                raise UnknownNameError(name, getattr(self, name), known)
