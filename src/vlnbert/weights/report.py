"""The report of an import: the fate of every key."""

import re
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from vlnbert.navigator import NavigatorConfig
from vlnbert.navigator.storage.shown import Shown, describe_shown

NUMBER = re.compile(r"\.\d+\.")


@dataclass(frozen=True)
class ImportReport:
    """Keys by their fate; `loaded`, `unused` and `kept` are the source's names, `new` the navigator's."""

    source: str
    family: str
    title: str
    config: NavigatorConfig
    loaded: list[str] = field(default_factory=list)
    new: list[str] = field(default_factory=list)
    unused: dict[str, str] = field(default_factory=dict)  # with the reason
    kept: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    features: Shown | None = None  # that one of our navigators was trained with, if its folder states them

    def as_json(self) -> dict[str, Any]:
        """One object of plain lists; the reasons are separate, by key."""
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
        """A readable summary: counts, names in groups, reasons."""
        shape = self.config
        size = f"{shape.layers} layers" + (f" + {shape.cross_layers} cross layers" if shape.cross_layers else "")
        about = f"{shape.backbone}, {size}, {shape.hidden} wide, {shape.heads} heads, {shape.vocabulary:,} word pieces"
        sees = f"features {shape.feature_width} wide, directions {shape.angle_width}"
        if shape.object_width:
            sees += f", objects {shape.object_width}"
        lines = [f"{self.source}: {self.title}", f"  {about}; {sees}"]
        lines += [] if self.features is None else [f"  shown {describe_shown(self.features)}"]
        lines += _section("loaded", Counter(map(_group, self.loaded)))
        lines += _section("newly initialised", Counter(map(_group, self.new)))
        reasons = (f"{_group(name)}  ({reason})" for name, reason in self.unused.items())
        lines += _section("unused", Counter(reasons))
        lines += _section("kept beside, for an export", Counter(map(_group, self.kept)))
        return lines + [f"note: {note}" for note in self.notes]


def _group(name: str) -> str:
    """The group of a key, up to a layer's number: `bert.encoder.layer.*` of `bert.encoder.layer.3.attention.output`."""
    number = NUMBER.search(name)
    parts = name[: number.start()].split(".") if number else name.split(".")[:-1][:2]
    return ".".join([*parts, "*"])


def _section(title: str, groups: dict[str, int]) -> list[str]:
    """A heading with the total, and a line for each group of keys."""
    if not groups:
        return [f"{title}: none"]
    return [f"{title}: {sum(groups.values()):,}", *(f"  {count:>5,}  {name}" for name, count in groups.items())]
