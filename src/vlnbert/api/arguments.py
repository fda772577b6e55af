"""Signatures of verbs: types that are checked when a verb is called, and settings that travel together."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, wraps
from inspect import Parameter, cleandoc, isabstract, signature, unwrap
from textwrap import fill
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from vlnbert.errors import UnknownNameError, UsageError, near_names, setting
from vlnbert.records import field_docs

P = ParamSpec("P")
T = TypeVar("T")

SHOWN = 60  # characters of a wrong value


def require_one_of(kind: str, value: str, known: Any) -> None:
    """Refuse a name that is none of a Literal's."""
    if value not in get_args(known):
        raise UnknownNameError(kind, value, get_args(known))


def checked(*but: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator that refuses arguments of other types than a verb names; those in `but` are its own to check."""

    def decorate(verb: Callable[P, T]) -> Callable[P, T]:
        known = signature(verb)
        variable = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)

        @cache  # when it is first called: what a signature names for type checkers alone may be slow to import
        def kinds() -> dict[str, Any]:
            plain = [one for one in known.parameters.values() if one.kind not in variable and one.name not in but]
            return {one.name: resolved(one.annotation, unwrap(verb).__globals__, _public) for one in plain}

        @wraps(verb)
        def call(*values: P.args, **named: P.kwargs) -> T:
            try:
                given = known.bind(*values, **named).arguments
            except TypeError as error:
                near = [
                    one for name in named if name not in known.parameters for one in near_names(name, known.parameters)
                ]
                remedy = (
                    f"did you mean {' or '.join(near)}?" if near else f"help(vln.{verb.__name__}) lists what it takes"
                )
                raise UsageError(f"vln.{verb.__name__}: {error}; {remedy}") from None
            for name, value in given.items():
                if name in kinds() and not fits(kinds()[name], value):
                    raise UsageError(f"{setting(name)} is {_shown(value)}, where {_listed(kinds()[name])} is expected")
            return verb(*values, **named)

        return call

    return decorate


def spread(verb: Callable[..., T]) -> Callable[..., T]:
    """A decorator: settings that travel together, a parameter that is a dataclass, are given as keywords of their own.

    A field's docstring is its help.
    """
    known = signature(verb)
    groups: dict[str, Any] = {
        one.name: one.annotation for one in known.parameters.values() if is_dataclass(one.annotation)
    }
    parameters, doc = list[Parameter](), cleandoc(verb.__doc__ or "")
    for name, one in known.parameters.items():
        if name not in groups:
            parameters.append(one)
            continue
        kind = groups[name]
        docs, usual = field_docs(kind), kind() if one.default is Parameter.empty else one.default
        for item in fields(kind):
            annotation = resolved(item.type, vars(sys.modules[kind.__module__]), lambda _: Any)
            default = getattr(usual, item.name)
            parameters.append(Parameter(item.name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation))
        entries = (f"\n{_entry(item.name, docs[item.name])}" for item in fields(kind))
        doc = doc.replace(f"\n    {name}: ...", "".join(entries))

    @wraps(verb)
    def call(*values: Any, **named: Any) -> T:
        for name, kind in groups.items():
            usual = known.parameters[name].default
            given = {item.name: named.pop(item.name) for item in fields(kind) if item.name in named}
            named[name] = kind(**given) if usual is Parameter.empty else replace(usual, **given)
        return verb(*values, **named)

    call.__doc__, call.__signature__ = doc, known.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def _entry(name: str, text: str) -> str:
    """A parameter in a docstring."""
    return fill(f"{name}: {text}", 116, initial_indent=" " * 4, subsequent_indent=" " * 8)


def resolved(annotation: Any, names: Mapping[str, Any], unknown: Callable[[str], Any]) -> Any:
    """The type that an annotation means; `unknown` has the types that a module imports for type checkers alone."""

    class Names(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            return getattr(sys.modules["builtins"], name, None) or unknown(name)

    if isinstance(annotation, str):
        return eval(annotation, {"__builtins__": {}}, Names(names))
    return annotation


def _public(name: str) -> Any:
    return getattr(sys.modules[__name__.partition(".")[0]], name)


def fits(kind: Any, value: object) -> bool:
    """Whether a value is of the kind that an annotation names; what only its user can tell counts as such."""
    if get_origin(kind) in (Union, UnionType):
        return any(fits(one, value) for one in get_args(kind))
    if kind is None or kind is NoneType:
        return value is None
    if get_origin(kind) is Sequence:
        return (
            not isinstance(value, str)
            and isinstance(value, Sequence)
            and all(fits(get_args(kind)[0], item) for item in value)
        )
    if kind in (int, float):
        return not isinstance(value, bool) and isinstance(value, int if kind is int else int | float)
    plain = isinstance(kind, type) and get_origin(kind) is None and not getattr(kind, "_is_protocol", False)
    return isinstance(value, kind) if plain else isinstance(value, str) if get_origin(kind) is Literal else True


def _shown(value: object) -> str:
    text = " ".join(repr(value).split())
    return text if len(text) <= SHOWN else f"a {type(value).__name__}"


def _listed(kind: Any) -> str:
    """The names of the kinds that would do, such as Data, str or Path."""
    parts = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    made = [one for part in parts for one in (part.__subclasses__() if isabstract(part) else (part,))]
    names = [_name(one) for one in made if one is not NoneType]
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _name(kind: Any) -> str:
    if get_origin(kind) is Sequence:
        return f"a list of {_name(get_args(kind)[0])}"
    return "str" if get_origin(kind) is Literal else getattr(kind, "__name__", str(kind))
