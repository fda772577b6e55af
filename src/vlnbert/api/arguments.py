"""Signatures of verbs: types that are checked when a verb is called, and settings that travel together."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from functools import cache, partial, wraps
from inspect import Parameter, cleandoc, isabstract, signature, unwrap
from textwrap import fill, indent
from types import NoneType, UnionType
from typing import Any, Literal, ParamSpec, TypeVar, Union, get_args, get_origin

from vlnbert.errors import UsageError, near_names, setting
from vlnbert.progress import quiet
from vlnbert.records import field_docs

P = ParamSpec("P")
T = TypeVar("T")

SHOWN = 60  # characters of a wrong value


def checked(*but: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """A decorator that refuses arguments of other types than a verb names; those in `but` are its own to check.

    A verb that has `bar` shows no progress with bar=False.
    """

    def decorate(verb: Callable[P, T]) -> Callable[P, T]:
        known = signature(verb)
        variable = (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL)

        # When it is first called: types that a signature names for type checkers alone may be slow to import.
        @cache
        def kinds() -> dict[str, Any]:
            plain = [one for one in known.parameters.values() if one.kind not in variable and one.name not in but]
            package, names = sys.modules[__name__.partition(".")[0]], unwrap(verb).__globals__
            return {one.name: resolved(one.annotation, names, partial(getattr, package)) for one in plain}

        @wraps(verb)
        def call(*values: P.args, **named: P.kwargs) -> T:
            try:
                given = known.bind(*values, **named).arguments
            except TypeError as error:
                unknown = [name for name in named if name not in known.parameters]
                near = " or ".join(one for name in unknown for one in near_names(name, known.parameters))
                remedy = f"did you mean {near}?" if near else f"help(vln.{verb.__name__}) lists what it takes"
                raise UsageError(f"vln.{verb.__name__}: {error}; {remedy}") from None
            for name, value in given.items():
                if name in kinds() and not fits(kinds()[name], value):
                    text = " ".join(repr(value).split())
                    text = text if len(text) <= SHOWN else f"a {type(value).__name__}"
                    raise UsageError(f"{setting(name)} is {text}, where {_listed(kinds()[name])} is expected")
            with quiet(not given.get("bar", True)):
                return verb(*values, **named)

        return call

    return decorate


def spread(verb: Callable[..., T]) -> Callable[..., T]:
    """A decorator: settings that travel together, a parameter that is a dataclass, are given as keywords of their own.

    A field's docstring is its help.
    """
    known = signature(verb)
    groups: dict[str, Any] = {name: one.annotation for name, one in known.parameters.items()}
    groups = {name: kind for name, kind in groups.items() if is_dataclass(kind)}
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
        entries = (fill(f"{item.name}: {docs[item.name]}", 112, subsequent_indent=" " * 4) for item in fields(kind))
        doc = doc.replace(f"    {name}: ...", indent("\n".join(entries), " " * 4))

    @wraps(verb)
    def call(*values: Any, **named: Any) -> T:
        for name, kind in groups.items():
            usual = known.parameters[name].default
            given = {item.name: named.pop(item.name) for item in fields(kind) if item.name in named}
            named[name] = kind(**given) if usual is Parameter.empty else replace(usual, **given)
        return verb(*values, **named)

    call.__doc__, call.__signature__ = doc, known.replace(parameters=parameters)  # type: ignore[attr-defined]
    return call


def as_option(place: str, value: object) -> str:
    """A setting as the command line takes it; False turns a flag off."""
    group, dot, name = place.replace("_", "-").rpartition(".")
    if isinstance(value, bool):
        return f"--{group}{dot}{'' if value else 'no-'}{name}"
    return f"--{group}{dot}{name}" if value is None else f"--{group}{dot}{name} {value}"


def resolved(annotation: Any, names: Mapping[str, Any], unknown: Callable[[str], Any]) -> Any:
    """The type that an annotation means; `unknown` has the types that a module imports for type checkers alone."""

    class Names(dict[str, Any]):
        def __missing__(self, name: str) -> Any:
            return getattr(sys.modules["builtins"], name, None) or unknown(name)

    if isinstance(annotation, str):
        return eval(annotation, {"__builtins__": {}}, Names(names))
    return annotation


def fits(kind: Any, value: object) -> bool:
    """Whether a value is of the kind that an annotation names; what only its user can tell counts as such."""
    if get_origin(kind) in (Union, UnionType):
        return any(fits(one, value) for one in get_args(kind))
    if kind is None or kind is NoneType:
        return value is None
    if get_origin(kind) is Sequence:
        if isinstance(value, str) or not isinstance(value, Sequence):
            return False
        return all(fits(get_args(kind)[0], item) for item in value)
    if kind in (int, float):
        return not isinstance(value, bool) and isinstance(value, int if kind is int else int | float)
    plain = isinstance(kind, type) and get_origin(kind) is None and not getattr(kind, "_is_protocol", False)
    return isinstance(value, kind) if plain else isinstance(value, str) if get_origin(kind) is Literal else True


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
