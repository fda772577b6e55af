"""Looking a key up in a table: from a navigator's name to the source's."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from itertools import groupby

from vlnbert.weights.tables import Family, Rows

NUMBER = re.compile(r"\.(\d{1,4})\.")  # of a layer; the 0 of `critic.0.weight` stands in its table as it is
KINDS = (".weight", ".bias")


class KeyTable:
    """The rows of a family for one backbone, a key each, ready to be asked."""

    def __init__(self, family: Family, backbone: str, prefix: str = "", top_shift: int = 0) -> None:
        """`prefix` stands before the source's names; `top_shift` is what {top} is ahead of {n}."""
        self.family, self.backbone, self.prefix, self.top_shift = family, backbone, prefix, top_shift
        self._sources, self._twins = dict[str, str](), dict[str, str]()
        for name, target in whole_keys(family.rows[backbone]):
            names = self._twins if name.startswith(family.kept) else self._sources
            names[target] = prefix + name
        self._known = {name.replace("{top}", "{n}") for name in (*self._sources.values(), *self._twins.values())}

    def source(self, target: str) -> str | None:
        """The source's name of a navigator's key, if the table has one."""
        return self._find(self._sources, target)

    def kept(self, target: str) -> str | None:
        """The source's name of a key that is kept, and shaped like this one of the navigator."""
        return self._find(self._twins, target)

    def knows(self, source: str) -> bool:
        """Whether a source of this family, of whatever size, has such a key."""
        return source in self._known or _generic(source)[0] in self._known

    def reason_unused(self, source: str) -> str | None:
        """Why the family leaves a key out, if it is one that it is known to have."""
        plain = source.removeprefix(self.prefix)
        return next((reason for pattern, reason in self.family.unused if fnmatchcase(plain, pattern)), None)

    def layers(self, sources: Iterable[str], target: str) -> set[int] | None:
        """The numbers of the layers that the sources have under a target such as `backbone.layers.`.

        None where the table fills no layers there, or only from others that are counted elsewhere.
        """
        names = {name for ours, name in self._sources.items() if ours.startswith(target) and "{n}" in name}
        return {number for pattern, number in map(_generic, sources) if pattern in names} if names else None

    def _find(self, names: dict[str, str], target: str) -> str | None:
        if target in names:
            return names[target]
        pattern, number = _generic(target)
        source = names.get(pattern)
        if source is None:
            return None
        return source.replace("{n}", str(number)).replace("{top}", str(number + self.top_shift))


def whole_keys(rows: Rows) -> list[tuple[str, str]]:
    """Rows with `.weight` and `.bias` written out."""
    pairs = list[tuple[str, str]]()
    for theirs, ours in rows:
        pairs += [(theirs, ours)] if theirs.endswith(KINDS) else [(theirs + kind, ours + kind) for kind in KINDS]
    return pairs


def in_order(rows: Rows, counts: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Every source, its pattern and its target, of a model with so many layers under each target.

    They are in the source's order: layer by layer.
    """
    listed = list[tuple[str, str, str]]()
    for before, group in groupby(whole_keys(rows), key=lambda pair: pair[1].partition("{n}")[0]):
        members = list(group)
        for number in map(str, range(counts.get(before, 1))):
            listed += [(name.replace("{n}", number), name, ours.replace("{n}", number)) for name, ours in members]
    return listed


def _generic(key: str) -> tuple[str, int]:
    """A key with its layer's number as {n}, and the number."""
    found = NUMBER.search(key)
    if found is None:
        return key, 0
    return f"{key[: found.start()]}.{{n}}.{key[found.end() :]}", int(found[1])
