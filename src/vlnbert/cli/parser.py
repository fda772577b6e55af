"""Commands made from functions: a signature gives the options, a docstring their help; argparse splits the words.

A function of the command line names the verb of the library that it calls (`of`). Its options are its own parameters
and those of that verb; what its docstring does not say stands in the verb's.
"""

import re
import shutil
import textwrap
from argparse import Action, ArgumentError, ArgumentParser
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import MISSING as NO_DEFAULT
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cached_property
from importlib import import_module
from inspect import Parameter, cleandoc, signature, unwrap
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

from vlnbert.api.arguments import as_option, resolved
from vlnbert.errors import UsageError, near_names, spelling
from vlnbert.records import field_docs

MISSING: Any = object()  # the default of what must be given, and the value of what was not
NOTHING = "None"  # the word for no value
HIDDEN = ("bar", "verb")  # parameters that are no options: whether to show progress, and the function to call
METAVARS = {  # by parameter; of others the type
    **{"data": "DIR", "folder": "DIR", "run": "RUN", "split": "[TASK/]SPLIT", "splits": "SPLIT", "task": "TASK"},
    **{"file": "FILE", "only": "PART", "mirror": "URL", "encoder": "BERT", "views": "CHANNELS", "objects": "CHANNELS"},
    **{"scan": "SCAN", "source": "SOURCE", "paths": "FILE", "path": "SCAN:VIEWPOINT,...", "navigator": "NAVIGATOR"},
    **{"keep_followed": "NAVIGATOR", "device": "DEVICE", "host": "ADDRESS", "vocabulary": "FILE", "out": "FILE"},
    **{"speaker": "RUN", "runs": "RUN", "preset": "PRESET"},
}
TYPES = {int: "INT", float: "FLOAT", str: "STR", Path: "PATH"}
ENTRY = re.compile(r"\n    (?=\S)")  # where the explanation of an argument begins
EXAMPLE = "Example: "
PARAGRAPH = re.compile(rf"\n\n|\n(?={EXAMPLE})")
BELOW, COLUMN = " " * 7, 28  # the margins of a long usage, and of what is said of options
WIDEST = 120  # characters of a line of help; longer ones are hard to read
# What experiments say, by the first word of its place.
SETTINGS = (
    *("train_on", "validate_on", "best_on", "holdout", "holdout_seed", "features", "training", "start", "max_tokens"),
    *("navigator", "speaker", "policy"),
)


@dataclass(frozen=True, eq=False)
class Option:
    """What can be given to a command, by a name or by its place."""

    place: str  # in an experiment, such as training.batch; or the name of a parameter
    kind: Any  # the type of its value, or of each where there are several
    default: Any
    help: str
    metavar: str = ""
    several: bool = False
    optional: bool = False  # whether the word None stands for no value
    by_place: bool = False
    group: str = ""  # the heading under which the help has it
    aliases: tuple[str, ...] = ()
    parameter: str = ""  # the parameter that it is a field of, if any, and the type of that
    owner: type[Any] | None = None

    @property
    def names(self) -> list[str]:
        """Its spellings on the command line; a flag that is on has one that turns it off."""
        switches = [as_option(self.place, False)] if self.kind is bool and (self.default is True or self.group) else []
        return [as_option(self.place, None), *switches, *self.aliases]

    @property
    def takes_many(self) -> bool:
        return self.several or get_origin(self.kind) is dict

    @property
    def shown(self) -> str:
        """How errors name it."""
        return self.metavar if self.by_place else f"{self.names[0]} {self.metavar}".strip()

    @property
    def heading(self) -> str:
        """How the help names it."""
        value = f"{self.metavar} ..." if self.takes_many else self.metavar
        return value if self.by_place else f"{', '.join(self.names)} {value}".strip()

    def read(self, words: Any, name: str) -> Any:
        """The value that words stand for; `name` is the spelling by which they were given."""
        if isinstance(words, bool):
            return words
        if get_origin(self.kind) is dict:
            pairs = [_pair(name, word, get_args(self.kind)[1] is float) for word in words]
            names = [one for one, _ in pairs]
            if repeated := [one for one in names if names.count(one) > 1]:
                raise UsageError(f"{name} says {repeated[0]} twice; leave one of them")
            return dict(pairs)
        if self.several:
            return tuple(self._read(word, name) for word in words)
        return None if self.optional and words == NOTHING else self._read(words, name)

    def _read(self, word: str, name: str) -> Any:
        if get_origin(self.kind) is Literal:
            choices = get_args(self.kind)
            if word not in choices:
                near = near_names(word, choices)
                hint = f"did you mean {' or '.join(near)}?" if near else f"choose {' or '.join(choices)}"
                raise UsageError(f"{name} is '{word}'; {hint}")
            return word
        try:
            return self.kind(word)
        except ValueError:
            raise UsageError(f"{name} is {word!r}, where {TYPES[self.kind]} is expected") from None


class _Switch(Action):
    """A flag, by the spelling that turns it on or the one that turns it off."""

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: str | None = None) -> None:
        setattr(namespace, self.dest, option_string != as_option(self.dest, False))


@dataclass
class Command:
    """A verb of the command line: its options, its help, and what it does."""

    name: str
    function: Callable[..., None]
    of: str = ""  # the verb of the library that it calls, as module:name, which is imported when it is needed
    places: tuple[str, ...] = ()  # parameters that are given by place
    metavars: Mapping[str, str] = field(default_factory=dict)
    without: tuple[str, ...] = ()  # parameters of the verb that are no options
    spelt: Mapping[str, str] = field(default_factory=dict)  # options that have other names than parameters
    settings: Any = None  # an experiment whose settings are options too
    first: tuple[str, ...] = ()  # the settings that --help shows; --help-all shows the others as well

    every: ClassVar[dict[str, "Command"]] = {}

    @cached_property
    def verb(self) -> Callable[..., Any] | None:
        module, _, name = self.of.partition(":")
        return getattr(import_module(module), name) if self.of else None

    @property
    def about(self) -> str:
        """What it does, in a line."""
        return cleandoc(self.function.__doc__ or "").partition("\n")[0].removesuffix(".")

    @property
    def group(self) -> str:
        """The heading under which the overview has it: its module in the command line."""
        return self.function.__module__.split(".")[2]

    @property
    def prog(self) -> str:
        return f"vlnbert {self.name}"

    @cached_property
    def options(self) -> list[Option]:
        """All that it takes: by place, then by name, then the settings of an experiment."""
        functions = [self.function, *([self.verb] if self.verb else [])]
        helps = {name: text for one in reversed(functions) for name, text in explained(one)[1].items()}
        found = dict[str, Option]()
        for function in functions:
            skipped = {*HIDDEN, *found, *(self.without if function is self.verb else ())}
            for name, parameter in signature(function).parameters.items():
                if name not in skipped and parameter.kind not in (Parameter.VAR_KEYWORD, Parameter.VAR_POSITIONAL):
                    for option in self._options(name, parameter, function, helps.get(name, "")):
                        found.setdefault(option.place, option)
        by_place = [found[name] for name in self.places]
        named = [option for option in found.values() if option not in by_place]
        return [*by_place, *sorted(named, key=lambda one: one.default is not MISSING), *_settings(self.settings)]

    def _options(self, name: str, parameter: Parameter, function: Callable[..., Any], help: str) -> Iterator[Option]:
        default = MISSING if parameter.default is Parameter.empty else parameter.default
        given = _resolved(parameter.annotation, function)
        if owner := _group(given):
            for option in _settings(owner(), f"{name}."):
                yield replace(option, parameter=name, owner=owner, group="")
        elif taken := _taken(given):
            metavar = self.metavars.get(name) or METAVARS.get(name) or _metavar(taken[0])
            aliases = ("--split",) if name == "splits" else ()
            place = self.spelt.get(name, name)
            yield Option(place, taken[0], default, help, metavar, *taken[1:], name in self.places, aliases=aliases)

    @cached_property
    def by_name(self) -> dict[str, Option]:
        return {name: option for option in self.options if not option.by_place for name in option.names}

    def run(self, words: list[str]) -> None:
        """Do what words ask for, or print the help that they ask for."""
        if {"-h", "--help", "--help-all"} & set(words):
            print(self.help(everything="--help-all" in words))
            return
        given = self.parse(words)
        # Messages name options of this command.
        with spelling(self.spell):
            if self.verb is None:
                self.function(**given)
            else:
                self.function(self.verb, **given)

    def parse(self, words: Sequence[str]) -> dict[str, Any]:
        """The parameters that words give, by name: settings by their places, fields of a group together."""
        words = [_spelt(word) for word in words]
        for name in (word.partition("=")[0] for word in words if word.startswith("--") and word != "--"):
            if name not in self.by_name:
                raise self.wrong(f"no option {name}{self._instead(name)}")
        reader = ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
        for option in self.options:
            if not option.by_place:
                how: dict[str, Any] = {"nargs": "*"} if option.takes_many else {}
                how = {"action": _Switch, "nargs": 0} if option.kind is bool else how
                reader.add_argument(*option.names, dest=option.place, default=MISSING, **how)
        try:
            found, alone = reader.parse_known_args(words)
        except ArgumentError as error:
            name = next(one for one in str(error.argument_name).split("/") if any(one in word for word in words))
            takes = "takes no value" if self.by_name[name].kind is bool else "is followed by no value"
            raise self.wrong(f"{name} {takes}") from None
        named = [word.partition("=")[0] for word in words if word.startswith("--") and word != "--"]
        options = [self.by_name[name] for name in named]
        # The last alone would count, and the values before it be lost.
        for option, name in zip(options, named, strict=True):
            if option.takes_many and options.count(option) > 1:
                raise self.wrong(f"{name} stands twice; give all its values behind one")
        said = {(option := self.by_name[name]): (name, getattr(found, option.place)) for name in named}
        alone = [word for word in alone if word != "--"]
        for option in (one for one in self.options if one.by_place and alone):
            said[option] = (option.metavar, alone if option.several else alone[0])
            alone = [] if option.several else alone[1:]
        if alone:
            raise self.wrong(f"{self.prog} takes no '{alone[0]}'")
        if missing := [one.shown for one in self.options if one.default is MISSING and one not in said]:
            raise self.wrong(f"{' and '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing")
        try:
            values = {option: option.read(value, name) for option, (name, value) in said.items()}
        except UsageError as error:
            raise self.wrong(str(error)) from None
        given = {option.place: value for option, value in values.items() if option.owner is None}
        for name, owner in {option.parameter: option.owner for option in values if option.owner}.items():
            own = {option.place: value for option, value in values.items() if option.parameter == name}
            given[name] = owner(**{place.partition(".")[2]: value for place, value in own.items()})
        return given

    def wrong(self, problem: str) -> UsageError:
        """What is wrong with the words, and where help is."""
        return UsageError(f"{problem}; {self.prog} --help lists what it takes")

    def _instead(self, option: str) -> str:
        """What is taken without a name, the new name of an old option, or those that may have been meant."""
        from vlnbert.learning.run_record import RENAMED
        from vlnbert.records import name_now

        places = {one.removeprefix("--").replace("-", "_"): one for one in self.by_name}
        name, by_place = option.removeprefix("--").replace("-", "_"), [one for one in self.options if one.by_place]
        if any(METAVARS.get(name, name.upper()) == one.metavar or name == one.place for one in by_place):
            return f"; write its value alone: {self.prog} {' '.join(one.metavar for one in by_place)}"
        if now := name_now(name, places, RENAMED):
            return f"; use {places[now]}"
        near = near_names(name, places)
        return f"; did you mean {' or '.join(places[one] for one in near)}?" if near else ""

    def spell(self, place: str, value: object) -> str:
        """A setting as this command takes it; one that it does not have, as the command that has it."""
        for name in (place, place.rpartition(".")[2]):
            if (option := as_option(name, value)).partition(" ")[0] in self.by_name:
                return option
        for one in self.options:
            if one.by_place and one.metavar == METAVARS.get(place, place.upper()):
                return one.metavar if value is None else str(value)
        group = place.partition(".")[0]
        if group == "features" and not self.name.startswith("train"):
            return f"vlnbert evaluate {as_option(place, value)}"
        if group in SETTINGS:
            return f"vlnbert train PRESET {as_option(place, value)}"
        return place.replace("_", " ") + ("" if value is None else f" {value}")

    def help(self, everything: bool = True) -> str:
        """What it does and what it takes, as wide as the terminal."""
        own, verbs = (explained(one)[0] if one else [] for one in (self.function, self.verb))
        examples = [one.removeprefix(EXAMPLE) for one in (*own, *verbs) if one.startswith(EXAMPLE)]
        texts = (own[1:], verbs) if verbs else (own,)
        prose = next(filter(None, ([one for one in text if not one.startswith(EXAMPLE)] for text in texts)))
        width = min(shutil.get_terminal_size().columns, WIDEST)
        parts = ["\n".join(textwrap.wrap(one, width)) for one in prose]
        if examples:
            parts.append("\n".join(["examples:", *(f"  {one}" for one in examples)]))
        taken = [one for one in self.options if one.by_place or one.default is MISSING]
        needed = [one.shown if one.default is MISSING else f"[{one.shown}]" for one in taken]
        usage = textwrap.wrap(f"usage: {self.prog} {' '.join([*needed, '[options]'])}", width, subsequent_indent=BELOW)
        groups, hidden = dict[str, list[str]](), 0
        for option in self.options:
            if self.first and option.group and not everything and option.place not in self.first:
                hidden += 1
                continue
            title = "arguments" if option.by_place else option.group if everything and option.group else "options"
            groups.setdefault(title, []).append(entry(option.heading, _with_default(option), width))
        groups.setdefault("options", []).append(entry("-h, --help", "Print this help.", width))
        parts += ["\n".join([f"{title}:", *entries]) for title, entries in groups.items()]
        if hidden:
            parts.append(f"{hidden} more settings: {self.prog} --help-all")
        return "\n\n".join(["\n".join(usage), *parts])


def explained(function: Callable[..., Any]) -> tuple[list[str], dict[str, str]]:
    """The paragraphs of a docstring, each unbroken, and what it says of each parameter."""
    head, _, arguments = cleandoc(function.__doc__ or "").partition("\n\nArgs:")
    paragraphs = [" ".join(one.split()) for one in PARAGRAPH.split(head)]
    entries = (" ".join(one.split()).partition(": ") for one in ENTRY.split(arguments) if one.strip())
    return paragraphs, {name: text for name, _, text in entries}


def command(name: str, of: str = "", places: Sequence[str] = (), **how: Any) -> Callable[[Any], Any]:
    """A decorator that makes a verb of the command line of a function, in the order in which the overview has them."""

    def register(function: Callable[..., None]) -> Callable[..., None]:
        Command.every[name] = Command(name, function, of, tuple(places), **how)
        return function

    return register


def _settings(settings: Any, place: str = "", group: str = "settings") -> Iterator[Option]:
    """The fields of nested dataclasses, by their places; what is given is named after a field's docstring."""
    if settings is None:
        return
    kind: type[Any] = type(settings)
    hints, docs, groups = get_type_hints(kind), field_docs(kind), []
    for item in fields(settings):
        value, name = getattr(settings, item.name), f"{place}{item.name}"
        if is_dataclass(value):
            groups.append((value, name))
        elif taken := _taken(hints[item.name]):
            yield Option(name, taken[0], value, docs.get(item.name, ""), _metavar(taken[0]), *taken[1:], group=group)
    for value, name in groups:
        yield from _settings(value, f"{name}.", name)


class _Unknown:
    """Stands for a type that a signature names and nothing has imported: no words can give it."""


def _resolved(annotation: Any, function: Callable[..., Any]) -> Any:
    return resolved(annotation, unwrap(function).__globals__, lambda _: _Unknown)


def _parts(kind: Any) -> tuple[Any, ...]:
    return get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)


def _group(kind: Any) -> type[Any] | None:
    """Of a type the dataclass whose fields are options: one that can be made without any."""
    for one in _parts(kind):
        if isinstance(one, type) and is_dataclass(one):
            usual = (item.default is not NO_DEFAULT or item.default_factory is not NO_DEFAULT for item in fields(one))
            return one if all(usual) else None
    return None


def _taken(kind: Any) -> tuple[Any, bool, bool] | None:
    """Of a type what words can give: the type of a value, whether there are several, and whether there may be none."""
    optional = NoneType in _parts(kind)
    for one in _parts(kind):
        if get_origin(one) in (tuple, Sequence):
            inner = _taken(get_args(one)[0])
            return (inner[0], True, optional) if inner else None
    for one in _parts(kind):
        if one in (bool, *TYPES) or get_origin(one) in (Literal, dict):
            return one, False, optional
    return None


def _metavar(kind: Any) -> str:
    if get_origin(kind) is Literal:
        return f"{{{','.join(map(str, get_args(kind)))}}}"
    return "NAME=VALUE" if get_origin(kind) is dict else TYPES.get(kind, "")


def entry(heading: str, text: str, width: int, column: int = COLUMN) -> str:
    """A name and what is said of it, which begins in a column; names with hyphens are not broken."""
    lines = textwrap.wrap(text, max(20, width - column), break_on_hyphens=False, break_long_words=False)
    first = f"  {heading}".ljust(column)
    if len(heading) + 4 > column or not lines:
        return "\n".join([first.rstrip(), *(" " * column + line for line in lines)])
    return "\n".join([first + lines[0], *(" " * column + line for line in lines[1:])])


def _with_default(option: Option) -> str:
    """The help of an option, with its default where that says something."""
    if option.default is MISSING:
        return option.help if option.by_place else f"{option.help} (required)".strip()
    if option.default is False or option.default in (None, (), "") or option.default == {}:
        return option.help
    value = option.default
    if isinstance(value, dict):
        value = " ".join(f"{name}={one}" for name, one in value.items())
    value = " ".join(map(str, value)) if isinstance(value, tuple) else "on" if value is True else value
    return f"{option.help} (default: {value})"


def _spelt(word: str) -> str:
    """An option's name with hyphens, however it was written."""
    name, equals, value = word.partition("=")
    return f"{name.replace('_', '-')}{equals}{value}" if word.startswith("--") else word


def _pair(option: str, word: str, number: bool) -> tuple[str, bool | int | float | str]:
    name, equals, value = word.partition("=")
    if not name or not equals:
        raise UsageError(f"{option} is '{word}', no name=value; write, for example, progress=0.5")
    for kind in (float,) if number else (int, float):
        try:
            return name, kind(value)
        except ValueError:
            continue
    if number:
        raise UsageError(f"{option} {name} is '{value}', where a number is expected")
    return name, {"true": True, "false": False}.get(value.lower(), value)
