"""Settings: in range, and as plain values and back, as a run's folder keeps them."""

from collections.abc import Mapping
from dataclasses import asdict, fields, is_dataclass
from types import UnionType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from vlnbert.errors import UsageError

Settings = TypeVar("Settings")


def require_range(settings: object, least: float, most: float, *names: str) -> None:
    """Refuse settings that are out of range, or no numbers at all."""
    for name in names:
        if not least <= (value := getattr(settings, name)) <= most:
            raise UsageError(f"{name} is {value}; choose {least:,} to {most:,}")


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


def _value(kind: Any, value: Any, place: str) -> Any:
    if is_dataclass(kind):
        return from_plain(kind, value, place)  # type: ignore[arg-type]  # a type, not an instance
    if get_origin(kind) is tuple and isinstance(value, list):
        return tuple(_value(get_args(kind)[0], item, place) for item in value)
    if not _fits(kind, value):
        raise UsageError(f"{place} is {value!r}, where {getattr(kind, '__name__', kind)} is expected")
    return value


def _fits(kind: Any, value: Any) -> bool:
    if get_origin(kind) is Literal:
        return value in get_args(kind)
    if isinstance(kind, UnionType):
        return any(_fits(part, value) for part in get_args(kind))
    if get_origin(kind) is dict:
        return type(value) is dict and all(_fits(get_args(kind)[1], item) for item in value.values())
    if kind is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    return type(value) is kind
