"""Settings: in range, changed by name, and as plain values and back, as a run's folder keeps them."""

import ast
import inspect
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, fields, is_dataclass
from itertools import pairwise
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from vlnbert.errors import RenamedError, UnknownNameError, UsageError, setting

Settings = TypeVar("Settings")
MOST = 1_000_000_000  # of anything that is counted
# Other names of settings in the field, and ours.
FIELD_WORDS = {
    **{"lr": "learning_rate", "batch_size": "batch", "bs": "batch", "clip": "grad_clip", "val_every": "validate_every"},
    **{"epochs": "iterations", "steps": "iterations", "max_iters": "iterations", "limit": "max_steps"},
    **{"dropout": "hidden_dropout", "guidance": "student_forcing"},
}


def require_range(settings: object, least: float, most: float, *names: str) -> None:
    """Refuse settings that are out of range, or no numbers at all; their class says its PLACE in an experiment."""
    for name in names:
        value, place = getattr(settings, name), getattr(settings, "PLACE", "")
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= most:
            raise UsageError(f"{setting(f'{place}.{name}'.strip('.'))} is {value!r}; choose {least:,} to {most:,}")


def to_plain(settings: Any) -> dict[str, Any]:
    """Nested dataclasses as dictionaries that JSON can hold."""
    return asdict(settings)


def from_plain(kind: type[Settings], values: Any, place: str = "") -> Settings:
    """A dataclass from plain values, each of its type; what is missing takes its default, what is unknown fails."""
    if not isinstance(values, Mapping):
        raise UsageError(f"{place or kind.__name__} is {values!r}, where settings are expected")
    hints = get_type_hints(kind)
    names = {item.name for item in fields(kind)}  # type: ignore[arg-type]  # it is a dataclass
    if unknown := sorted(set(map(str, values)) - names):
        raise UsageError(f"{place or kind.__name__} has no {', '.join(unknown)}")
    return kind(**{name: _value(hints[name], value, f"{place}.{name}".strip(".")) for name, value in values.items()})


def field_docs(kind: type[Any]) -> dict[str, str]:
    """The help of a dataclass's fields: the text that stands below each, here or in a class that it inherits from."""
    docs = dict[str, str]()
    for base in filter(is_dataclass, reversed(kind.__mro__)):
        (body,) = ast.parse(textwrap.dedent(inspect.getsource(base))).body
        lines = body.body if isinstance(body, ast.ClassDef) else []
        for line, below in pairwise(lines):
            match line, below:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(text))):
                    docs[name] = " ".join(text.split())
    return docs


def missing(kind: type[Any], values: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """The places of a dataclass's fields that plain values do not hold."""
    hints = get_type_hints(kind)
    for item in fields(kind):
        name = f"{place}{item.name}"
        if item.name not in values:
            yield name
        elif is_dataclass(part := one_kind(hints[item.name], values[item.name])) and isinstance(
            values[item.name], Mapping
        ):
            yield from missing(part, values[item.name], f"{name}.")  # type: ignore[arg-type]  # a type


def with_changes(settings: Settings, changes: Mapping[str, Any], renamed: Mapping[str, str] | None = None) -> Settings:
    """The same settings with some changed: each by its name (batch) or by its place (training.batch).

    An old name in `renamed` (old places and new ones), or another word of the field, is refused with ours.
    """
    by_name, by_place = _names(settings)
    known, values = {**by_name, **by_place}, to_plain(settings)
    several = {place for place, value in leaves(values) if isinstance(value, tuple)}
    for name, value in changes.items():
        if name not in known:
            names = by_place if "." in name else by_name
            if now := name_now(name, names, renamed or {}):
                raise RenamedError("setting", name, now)
            raise UnknownNameError("setting", name, names)
        place = known[name]
        # A group may be chosen by its name: policy="...".
        if isinstance(value, str) and f"{place}.name" in by_place:
            place = f"{place}.name"
        _set(values, place, _plain(value, place in several))
    return from_plain(type(settings), values)


def _names(settings: object) -> tuple[dict[str, str], dict[str, str]]:
    """The places of all settings and groups: by their names, of which outer ones come first, and by themselves."""
    by_place = {place: place for place in _places(to_plain(settings))}
    return {place.rpartition(".")[2]: place for place in reversed(by_place)}, by_place


def places_of(settings: object, names: Iterable[str]) -> list[str]:
    """The places of settings that are called by their names or places; those of groups are left out."""
    by_name, by_place = _names(settings)
    places = ({**by_name, **by_place}.get(name, "") for name in names)
    groups = {place.rpartition(".")[0] for place in by_place}
    return [place for place in places if place and place not in groups]


def chosen(settings: object, usual: object, place: str = "") -> Iterator[str]:
    """The places of settings that differ from the usual ones."""
    for item in fields(settings):  # type: ignore[arg-type]  # it is a dataclass
        value, other, name = getattr(settings, item.name), getattr(usual, item.name), f"{place}{item.name}"
        if is_dataclass(value) and not isinstance(value, type):
            yield from chosen(value, other, f"{name}.")
        elif value != other:
            yield name


def asked_places(settings: object, usual: object, names: Iterable[str], before: Iterable[str] = ()) -> tuple[str, ...]:
    """The places of explicit settings: those of `before`, those named, and all that differ from the usual ones."""
    return tuple(dict.fromkeys((*before, *places_of(settings, names), *chosen(settings, usual))))


def name_now(name: str, known: Iterable[str], renamed: Mapping[str, str]) -> str | None:
    """Which of the known settings an old name, or another word of the field, stands for, if any."""
    word = name.rpartition(".")[2]
    old_words = {old.rpartition(".")[2]: new for old, new in renamed.items()}
    now = renamed.get(name) or old_words.get(word) or FIELD_WORDS.get(word)
    called = [one for one in known if now and one.rpartition(".")[2] == now.rpartition(".")[2]]
    return min(called, key=lambda one: (one != now, len(one)), default=None)


def moved(values: Mapping[str, Any], places: Mapping[str, str]) -> dict[str, Any]:
    """Nested plain values with some at other places; a place is written as names joined by dots."""
    found: dict[str, Any] = {}
    for place, value in leaves(values):
        _set(found, places.get(place, place), value)
    return found


def leaves(values: Mapping[str, Any], place: str = "") -> Iterator[tuple[str, Any]]:
    """The values of nested settings, by their places."""
    for name, value in values.items():
        if isinstance(value, Mapping) and value:
            yield from leaves(value, f"{place}{name}.")
        else:
            yield f"{place}{name}", value


def _places(values: Mapping[str, Any], place: str = "") -> Iterator[str]:
    """Every place of nested settings, groups before what they hold."""
    for name, value in values.items():
        yield f"{place}{name}"
        if isinstance(value, Mapping):
            yield from _places(value, f"{place}{name}.")


def _set(values: dict[str, Any], place: str, value: Any) -> None:
    *groups, name = place.split(".")
    for group in groups:
        values = values.setdefault(group, {})
        if not isinstance(values, dict):
            raise UsageError(f"{place} cannot be set: {group} is {values!r}, where settings are expected")
    values[name] = value


def _plain(value: Any, several: bool) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return asdict(value)
    value = str(value) if isinstance(value, Path) else value
    return [value] if several and isinstance(value, str) else value


def one_kind(kind: Any, values: Any) -> Any:
    """Of several kinds of settings the one that has all the names of some values, or the first; others as they are."""
    kinds = get_args(kind) if isinstance(kind, UnionType) else ()
    if not kinds or not all(is_dataclass(one) for one in kinds):
        return kind
    named = set(values) if isinstance(values, Mapping) else set()
    return next((one for one in kinds if named <= {item.name for item in fields(one)}), kinds[0])


def _value(kind: Any, value: Any, place: str) -> Any:
    kind = one_kind(kind, value)
    if is_dataclass(kind) and isinstance(value, kind):  # type: ignore[arg-type]  # made already
        return value
    if is_dataclass(kind):
        return from_plain(kind, value, place)  # type: ignore[arg-type]  # a type, not an instance
    if get_origin(kind) is tuple and isinstance(value, list | tuple):
        return tuple(_value(get_args(kind)[0], item, place) for item in value)
    if not _fits(kind, value):
        expected = " or ".join(get_args(kind)) if get_origin(kind) is Literal else getattr(kind, "__name__", kind)
        raise UsageError(f"{place} is {value!r}, where {expected} is expected")
    return value


def _fits(kind: Any, value: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if isinstance(kind, UnionType):
        return any(_fits(part, value) for part in get_args(kind))
    if get_origin(kind) is dict:
        return type(value) is dict and all(_fits(get_args(kind)[1], item) for item in value.values())
    if kind is float:
        whole = isinstance(value, int) and not isinstance(value, bool)
        return isinstance(value, float) or (whole and abs(value) <= sys.float_info.max)
    return type(value) is kind
