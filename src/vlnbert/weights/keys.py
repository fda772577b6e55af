"""The keys of a checkpoint: which family they are of, and which is which key of a navigator."""

import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from itertools import groupby

from vlnbert.errors import DataError, Faults
from vlnbert.sources.files import FETCH_AGAIN
from vlnbert.weights.reading import Checkpoint, is_navigator
from vlnbert.weights.tables import FAMILIES, Family, Rows

NUMBER = re.compile(r"\.(\d{1,4})\.")  # of a layer; the 0 of `critic.0.weight` stands in its table as it is
KINDS = (".weight", ".bias")
OLD_KINDS = {".gamma": ".weight", ".beta": ".bias"}  # how the first BERTs call the parts of a LayerNorm


def recognise(checkpoint: Checkpoint) -> Family:
    """The family of a checkpoint; the error says what was looked for."""
    for family in FAMILIES:
        if any(name.startswith(family.marks) for name in checkpoint.tensors):
            return family
    if is_navigator(checkpoint):
        raise DataError(checkpoint.path, "is a vlnbert navigator already", "use its folder as it is")
    marks = ", ".join(f"{family.marks[0]}* ({family.title})" for family in FAMILIES)
    first = next(iter(checkpoint.tensors), "none at all")
    raise DataError(
        checkpoint.path, f"is of no known kind: looked for keys {marks}; found {first}", "see `vlnbert weights --help`"
    )


def prefix_of(checkpoint: Checkpoint, family: Family) -> str:
    """What stands before the names of the family's table in this file."""
    return next(prefix for prefix in family.prefixes if any(name.startswith(prefix) for name in checkpoint.tensors))


def modern_names(checkpoint: Checkpoint) -> dict[str, str]:
    """For each key as it is called today, the key as the file has it."""
    names, faults = dict[str, str](), Faults(checkpoint.path)
    for name in checkpoint.tensors:
        modern = name
        for old, new in OLD_KINDS.items():
            modern = modern.removesuffix(old) + new if modern.endswith(old) else modern
        if modern in names:
            faults.add(name, f"is the same weight as {names[modern]}", FETCH_AGAIN)
        names[modern] = name
    faults.raise_if_any()
    return names


class KeyTable:
    """The rows of a family for one backbone, to look keys up in."""

    def __init__(self, family: Family, backbone: str, prefix: str = "", top_shift: int = 0) -> None:
        """`prefix` stands before the source's names; `top_shift` is what {top} is ahead of {n}."""
        self.family, self.backbone, self.prefix, self.top_shift = family, backbone, prefix, top_shift
        self._sources, self._twins = dict[str, str](), dict[str, str]()
        for name, target in expand_rows(family.rows[backbone]):
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
        """Whether checkpoints of this family, of any size, have such a key."""
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


def expand_rows(rows: Rows) -> list[tuple[str, str]]:
    """Rows with `.weight` and `.bias` written out."""
    pairs = list[tuple[str, str]]()
    for theirs, ours in rows:
        pairs += [(theirs, ours)] if theirs.endswith(KINDS) else [(theirs + kind, ours + kind) for kind in KINDS]
    return pairs


def ordered_keys(rows: Rows, counts: Mapping[str, int]) -> list[tuple[str, str, str]]:
    """Every source key, its pattern and its target, in the source's order: layer by layer.

    `counts` is the number of layers under each target.
    """
    listed = list[tuple[str, str, str]]()
    for before, group in groupby(expand_rows(rows), key=lambda pair: pair[1].partition("{n}")[0]):
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
