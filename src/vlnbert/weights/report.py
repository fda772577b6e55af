"""What an import did with every key."""

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

from vlnbert.navigator import NavigatorConfig
from vlnbert.navigator.storage.shown import Shown, describe_shown

NUMBER = re.compile(r"\.\d+\.")


@dataclass(frozen=True)
class ImportReport:
    """Keys by what became of them; `loaded`, `unused` and `kept` are the source's names, `new` the navigator's."""

    source: str
    family: str
    title: str
    config: NavigatorConfig
    loaded: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    unused: dict[str, str] = field(default_factory=dict)  # with the reason
    kept: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    features: Shown | None = None  # what a navigator of ours was shown, where its folder says so

    def as_json(self) -> dict[str, Any]:
        """One object of plain lists; the reasons are apart, by key."""
        return {
            "source": self.source,
            "family": self.family,
            "config": asdict(self.config),
            "features": self.features,
            "loaded": self.loaded,
            "new": self.new,
            "unused": list(self.unused),
            "reasons": self.unused,
            "kept": self.kept,
            "notes": self.notes,
        }

    def lines(self) -> list[str]:
        """A summary to read: counts, names in groups, reasons."""
        shape = self.config
        size = f"{shape.layers} layers" + (f" + {shape.cross_layers} cross layers" if shape.cross_layers else "")
        about = f"{shape.backbone}, {size}, {shape.hidden} wide, {shape.heads} heads, {shape.vocabulary:,} word pieces"
        sees = f"features {shape.feature_width} wide, directions {shape.angle_width}"
        if shape.object_width:
            sees += f", objects {shape.object_width}"
        listed = [f"{self.source}: {self.title}", f"  {about}; {sees}"]
        listed += [] if self.features is None else [f"  shown {describe_shown(self.features)}"]
        listed += _section("loaded", grouped(self.loaded))
        listed += _section("newly initialised", grouped(self.new))
        listed += _section("unused", _with_reasons(self.unused))
        listed += _section("kept beside, for an export", grouped(self.kept))
        return listed + [f"note: {note}" for note in self.notes]


def grouped(names: Iterable[str]) -> dict[str, int]:
    """Names by what they begin with, as far as a layer's number, and how many there are."""
    return dict(Counter(_group(name) for name in names))


def _group(name: str) -> str:
    """`bert.encoder.layer.3.attention.self.key.bias` is one of `bert.encoder.layer.*`."""
    number = NUMBER.search(name)
    parts = name[: number.start()].split(".") if number else name.split(".")[:-1][:2]
    return ".".join([*parts, "*"])


def _with_reasons(unused: dict[str, str]) -> dict[str, int]:
    return dict(Counter(f"{_group(name)}  ({reason})" for name, reason in unused.items()))


def _section(title: str, groups: dict[str, int]) -> list[str]:
    if not groups:
        return [f"{title}: none"]
    return [f"{title}: {sum(groups.values()):,}", *(f"  {count:>5,}  {name}" for name, count in groups.items())]
