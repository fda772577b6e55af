"""The configuration of a navigator, and its named sizes."""

from dataclasses import dataclass, field, fields, replace
from typing import Literal, get_args

from vlnbert.errors import UnknownNameError, UsageError, setting

Matching = Literal["cross-modal", "visual", "off"]
LanguageAttention = Literal["once", "embeddings", "initial", "previous"]

# Larger numbers are typing errors; layers cost time to build, even without allocated weights.
LARGEST, MOST_LAYERS = 2**20, 1000


@dataclass(frozen=True)
class NavigatorConfig:
    """The shape of a navigator. The defaults are the paper's one-stream R2R agent."""

    backbone: str = "one-stream"
    """one-stream: state, vision and language in one sequence (OSCAR); two-stream: language first, then cross-attention
    to it (PREVALENT, LXMERT); huggingface: two-stream, its language half an encoder of transformers; or a plugin's."""
    hidden: int = 768
    """Width of a token."""
    heads: int = 12
    """Attention heads; they share the width."""
    inner: int = 3072
    """Width of the feed-forward layers."""
    layers: int = 12
    """Layers of the one-stream backbone, or language layers of the two-stream one."""
    cross_layers: int = 0
    """Cross-modal layers of the two-stream backbone."""
    vocabulary: int = 30522
    """Word pieces."""
    positions: int = 512
    """Longest instruction that has position embeddings."""
    feature_width: int = 2048
    """Width of a view's feature."""
    angle_width: int = 128
    """Width of a direction: (sin, cos, sin, cos) repeated; a multiple of 4."""
    object_width: int = 0
    """Width of an object's feature; 0 for a navigator that sees no objects (R2R)."""
    matching: Matching = "cross-modal"
    """Input of the state refinement: attended words times attended views, the views alone (REVERIE), or nothing."""
    language_attention: LanguageAttention = "once"
    """When words attend to each other: once at the start, or at every step, on their embeddings, their initial features
    or the previous step's output. One-stream only."""
    hidden_dropout: float = 0.3
    """Dropout of token vectors, in the places where the published code has it (docs/paper.md lists them)."""
    attention_dropout: float = 0.1
    """Dropout of attention weights."""
    feature_dropout: float = 0.4
    """Dropout of view and object features, but not of directions."""
    critic_width: int = 512
    """Hidden width of the critic."""
    critic_dropout: float = 0.5
    """Dropout in the critic."""
    backbone_settings: dict[str, bool | int | float | str] = field(default_factory=dict, hash=False)
    """Further settings of a backbone, as names and values. huggingface has encoder (a folder, or a name on the hub) and
    frozen (True: the encoder is not trained)."""

    def __post_init__(self) -> None:
        if not isinstance(self.backbone, str):
            raise UsageError(f"{setting('navigator.backbone')} is {self.backbone!r}; choose a name")
        for name, words in {"matching": Matching, "language_attention": LanguageAttention}.items():
            if getattr(self, name) not in get_args(words):
                raise UnknownNameError(name, str(getattr(self, name)), get_args(words))
        for item in fields(self):
            value, least = getattr(self, item.name), 0 if item.name in ("cross_layers", "object_width") else 1
            most = MOST_LAYERS if item.name in ("layers", "cross_layers") else LARGEST
            wanted = ""
            if item.type is int and (type(value) is not int or not least <= value <= most):
                wanted = f"a whole number from {least} to {most:,}"
            if item.type is float and not (isinstance(value, int | float) and 0 <= value < 1):
                wanted = "a number from 0 to below 1"
            if wanted:
                raise UsageError(f"{setting(f'navigator.{item.name}')} is {value!r}; choose {wanted}")
        if self.hidden % self.heads:
            raise UsageError(f"{self.heads} heads cannot share a width of {self.hidden}; choose a divisor of it")
        if self.angle_width % 4:
            width = setting("navigator.angle_width", self.angle_width)
            raise UsageError(f"{width} holds no whole directions; choose a multiple of 4")
        settings: object = self.backbone_settings
        plain = isinstance(settings, dict) and all(isinstance(name, str) for name in settings)
        if not plain or not all(isinstance(one, bool | int | float | str) for one in self.backbone_settings.values()):
            raise UsageError(f"backbone_settings is {settings!r}; choose names with numbers, words, True or False")


def _pair(hidden: int, heads: int, one: int, language: int, cross: int, **more: float) -> dict[str, NavigatorConfig]:
    """One size for both backbones, each with the dropout that it was trained with."""
    base = NavigatorConfig(hidden=hidden, heads=heads, inner=4 * hidden, layers=one)
    base = replace(base, **more)  # type: ignore[arg-type]  # plain fields by name
    two = replace(
        base, backbone="two-stream", layers=language, cross_layers=cross, hidden_dropout=min(0.1, base.hidden_dropout)
    )
    return {"one-stream": base, "two-stream": two}


SIZES: dict[str, dict[str, NavigatorConfig]] = {
    "base": _pair(768, 12, one=12, language=9, cross=4),
    "minilm": _pair(384, 12, one=6, language=6, cross=3, hidden_dropout=0.1),
    "small": _pair(256, 8, one=4, language=3, cross=2, hidden_dropout=0.1),
    "tiny": _pair(
        96, 4, one=2, language=2, cross=2, hidden_dropout=0.0, attention_dropout=0.0, critic_width=128, angle_width=16
    ),
}


def named_size(size: str, backbone: str) -> NavigatorConfig:
    """Return a configuration by size and backbone, such as ("base", "two-stream")."""
    if size not in SIZES:
        raise UnknownNameError("size", size, SIZES)
    if backbone not in SIZES[size]:
        raise UnknownNameError("backbone", backbone, SIZES[size])
    return SIZES[size][backbone]
