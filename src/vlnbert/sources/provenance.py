"""Who told an augmented file, said by a small file beside it: r2r/told_aug.about.json beside r2r/told_aug.json."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError
from vlnbert.sources.checks import LONGEST_NAME, is_text
from vlnbert.sources.files import MEGABYTE, read_json, write_json
from vlnbert.sources.formats import FORMAT, format_of
from vlnbert.sources.layout import ABOUT

NEWEST = 1  # format of such a file
WHAT = "description of an augmented file"
REMEDY = "remove it, or tell the paths again: vlnbert augment speak"


@dataclass(frozen=True)
class Provenance:
    """Where the instructions of an augmented file come from."""

    speaker: str
    held_out: tuple[str, ...] | None  # train houses that the speaker had not seen; None where nobody knows
    decoding: Mapping[str, Any]  # how words were chosen, with the seed
    paths: int  # that were told
    tellings: int  # of each path, at most
    instructions: int  # in the file
    keep_followed: str | None  # the navigator that could follow them, if one was asked
    bytes: int  # of the file, so that another one of its name is noticed


def provenance_file(augmented: Path) -> Path:
    """Where it is said who told an augmented file."""
    return augmented.with_suffix(ABOUT)


def write_provenance(augmented: Path, provenance: Provenance) -> None:
    """Say beside an augmented file who told it."""
    write_json(provenance_file(augmented), {FORMAT: NEWEST, **asdict(provenance)}, indent=2)


def read_provenance(augmented: Path) -> Provenance | None:
    """Who told an augmented file; None where nothing beside it says so."""
    path = provenance_file(augmented)
    if not path.exists():
        return None
    told = read_json(path, WHAT, damaged=REMEDY, most=MEGABYTE)
    if not isinstance(told, dict):
        raise DataError(path, f"is no {WHAT}", REMEDY)
    format_of(path, told, NEWEST)
    values: dict[str, Any] = {item.name: told.get(item.name) for item in fields(Provenance)}
    for name, value in values.items():
        if not _is_value(name, value):
            raise DataError(path, f"says {value!r:.60} of '{name}'" if name in told else f"lacks '{name}'", REMEDY)
    if values["held_out"] is not None:
        values["held_out"] = tuple(values["held_out"])
    found = Provenance(**values)
    if found.bytes != (size := augmented.stat().st_size):
        problem = f"is about a file of {found.bytes:,} bytes, and {augmented.name} has {size:,}"
        raise DataError(path, problem, REMEDY)
    return found


def _is_value(name: str, value: Any) -> bool:
    match name:
        case "speaker":
            return _is_short(value)
        case "keep_followed":
            return value is None or _is_short(value)
        case "held_out":
            return value is None or (isinstance(value, list) and all(map(_is_short, value)))
        case "decoding":
            return isinstance(value, dict)
        case _:
            return type(value) is int and 0 <= value < 2**63


def _is_short(value: Any) -> bool:
    return is_text(value) and len(value) <= LONGEST_NAME
