"""Which family a checkpoint is of, told from its keys, and how its names differ from the family's table."""

from vlnbert.errors import DataError, Faults
from vlnbert.sources.files import FETCH_AGAIN
from vlnbert.weights.reading import Checkpoint
from vlnbert.weights.tables import FAMILIES, OWN_MARK, Family

OLD_KINDS = {".gamma": ".weight", ".beta": ".bias"}  # how the first BERTs call the parts of a LayerNorm


def is_own(checkpoint: Checkpoint) -> bool:
    """Whether these are the weights of a navigator as we save it."""
    return any(name.startswith(OWN_MARK) for name in checkpoint.tensors)


def recognise(checkpoint: Checkpoint) -> Family:
    """The family of a checkpoint; what was looked for, where it is of none."""
    for family in FAMILIES:
        if any(name.startswith(family.marks) for name in checkpoint.tensors):
            return family
    if is_own(checkpoint):
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
