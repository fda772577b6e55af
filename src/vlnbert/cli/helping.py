"""Help without the line breaks of its source, and without what only a parser wants to know."""

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from inspect import cleandoc
from types import NoneType
from typing import Any, Union, get_args, get_origin

import docstring_parser
from tyro.constructors import ConstructorRegistry, PrimitiveConstructorSpec, PrimitiveTypeInfo

from vlnbert.errors import UsageError

NOTHING = "None"  # how to say, in words, that an option has no value
ENTRY = re.compile(r"\n    (?=\S)")  # where an argument's explanation begins


@contextmanager
def readable_help() -> Iterator[None]:
    """Within the block tyro explains options in whole paragraphs, and optional ones by their type alone."""
    parse = docstring_parser.parse_from_object

    def parse_whole(thing: Any, *style: Any) -> docstring_parser.Docstring:
        """The explanations of fields, which tyro would break where their source does."""
        found = parse(thing, *style)
        for one in found.params:
            one.description = one.description and " ".join(one.description.split())
        return found

    registry = ConstructorRegistry()
    registry.primitive_rule(_optional)
    registry.primitive_rule(_map)
    docstring_parser.parse_from_object = parse_whole  # type: ignore[assignment]
    try:
        with registry:
            yield
    finally:
        docstring_parser.parse_from_object = parse


def _optional(kind: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """How to read a value that may be none: as its type, where it is not the word None."""
    kinds = get_args(kind.type)
    if NoneType not in kinds:
        return None
    inner: Any = Union[tuple(one for one in kinds if one is not NoneType)]  # noqa: UP007  # of several or of one
    spec = ConstructorRegistry.get_primitive_spec(PrimitiveTypeInfo.make(inner, kind.markers))
    if not isinstance(spec, PrimitiveConstructorSpec):
        return None
    some: PrimitiveConstructorSpec[Any] = spec
    return replace(
        some,
        instance_from_str=lambda words: None if words == [NOTHING] else some.instance_from_str(words),
        is_instance=lambda value: value is None or some.is_instance(value),
        str_from_instance=lambda value: [NOTHING] if value is None else some.str_from_instance(value),
        choices=None if some.choices is None else (*some.choices, NOTHING),
    )


def _map(kind: PrimitiveTypeInfo) -> PrimitiveConstructorSpec[Any] | None:
    """How to read a map: as words like progress=0.5."""
    if get_origin(kind.type) is not dict:
        return None
    numbers = get_args(kind.type)[1] is float
    return PrimitiveConstructorSpec(
        nargs="*",
        metavar="NAME=VALUE",
        instance_from_str=lambda words: _pairs(words, numbers),
        is_instance=lambda value: isinstance(value, dict),
        str_from_instance=lambda values: [f"{name}={value}" for name, value in values.items()],
    )


def _pairs(words: list[str], numbers: bool) -> dict[str, bool | int | float | str]:
    pairs = [_pair(word, numbers) for word in words]
    if repeated := [name for number, (name, _) in enumerate(pairs) if name in dict(pairs[:number])]:
        raise UsageError(f"{repeated[0]} is said twice; leave one of them")
    return dict(pairs)


def _pair(word: str, number: bool) -> tuple[str, bool | int | float | str]:
    name, equals, value = word.partition("=")
    if not name or not equals:
        raise UsageError(f"'{word}' is no name=value; write, for example, progress=0.5")
    for kind in (float,) if number else (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    if number:
        raise UsageError(f"{name} is '{value}', where a number is expected")
    return name, {"true": True, "false": False}.get(value.lower(), value)


def unbroken(verb: Callable[..., Any]) -> str:
    """A verb's docstring with each paragraph, and each argument, on a line of its own: a terminal wraps them."""
    head, section, arguments = cleandoc(verb.__doc__ or "").partition("\n\nArgs:")
    paragraphs = (" ".join(one.split()) for one in head.split("\n\n"))
    entries = (" ".join(one.split()) for one in ENTRY.split(arguments) if one.strip())
    return "\n\n".join(paragraphs) + section + "".join(f"\n    {one}" for one in entries)
