"""Registries of named things, registered in our code or by a plugin."""

import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Generic, TypeVar

from vlnbert.errors import UnknownNameError, UsageError, near_names
from vlnbert.plugins import LOAD_PLUGIN, load_announced

Thing = TypeVar("Thing")
Named = TypeVar("Named")

REGISTRIES: list["Registry[Any]"] = []  # every one that there is, in the order in which they were made


class Registry(Mapping[str, Thing], Generic[Thing]):
    """The things of one kind, by name; an unknown one is answered with the nearest."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, Thing] = {}
        # The module that registers each, and its member where the module is not imported yet.
        self._homes: dict[str, str] = {}
        self._members: dict[str, str] = {}
        REGISTRIES.append(self)

    def register(self, name: str, thing: Thing, home: str | None = None) -> Thing:
        """Add a thing; another one of that name must be the same, registered again by its own module.

        A file may be imported twice, as a module or a script and as a run's plugin: its first things stay.
        """
        home = home or getattr(thing, "__module__", "") or ""
        if self._homes.get(name, home) != home:
            first, second = place(self._homes[name]), place(home)
            if first == second:
                return thing
            # The kind "features" has no singular.
            kinds = f"{self.kind.removesuffix('s')}s"
            problem = f"two {kinds} are called '{name}', of {first} and of {second}"
            raise UsageError(f"{problem}; give one of them another name")
        self._things[name], self._homes[name] = thing, home
        return thing

    def announce(self, name: str, home: str, member: str) -> None:
        """Add a member of a module that is imported when the thing is looked up."""
        self._homes[name], self._members[name] = home, member

    def home(self, name: str) -> str:
        """The module that registers a thing."""
        return self._homes[name]

    def registered(self) -> dict[str, Thing]:
        """The things registered so far, by name, without importing any."""
        return dict(self._things)

    def __getitem__(self, name: str) -> Thing:
        if name not in self:
            error = UnknownNameError(self.kind, name, self)
            if not near_names(name, self):
                error.args = (f"{error}; or {LOAD_PLUGIN}",)
            raise error
        if name not in self._things:
            self._things[name] = getattr(import_module(self._homes[name]), self._members[name])
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._homes:
            load_announced()
        return name in self._homes

    def __iter__(self) -> Iterator[str]:
        load_announced()
        return iter(dict(self._homes))

    def __len__(self) -> int:
        load_announced()
        return len(self._homes)


def place(home: str) -> str:
    """A module of ours by its name, any other by its file."""
    file = None if home.startswith("vlnbert.") else getattr(sys.modules.get(home), "__file__", None)
    return home if file is None else str(Path(file).resolve())


def by_name(registry: Registry[Any], name: str) -> Callable[[Named], Named]:
    """A decorator that registers what it decorates under a name."""
    require_name(registry.kind, name)

    def register(thing: Named) -> Named:
        registry.register(name, thing)
        return thing

    return register


def require_name(kind: str, name: object) -> None:
    """A decorator that takes a name was given one, not the thing itself."""
    if not isinstance(name, str):
        decorator = f"@vln.register_{kind}"
        raise UsageError(f'{decorator} is followed by a name; write {decorator}("my-{kind}")')
