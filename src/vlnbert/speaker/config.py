"""Everything that defines a speaker."""

from dataclasses import dataclass, fields

from vlnbert.errors import UsageError, setting

LARGEST = 2**20  # of any number; beyond it nothing is meant, only mistyped
ZERO_ALLOWED = ("encoder_layers", "object_width")


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
