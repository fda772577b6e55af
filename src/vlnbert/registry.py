"""Things by name, ours and other people's: registered in code, found through entry points, or brought by a plugin.

A plugin is a module, or a file, that registers something when it is imported. Packages announce theirs in the entry
points of the group `vlnbert.plugins`; a script says `vlnbert --plugin my_module ...` or `vln.load_plugin("my.py")`.
"""

import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from hashlib import blake2b
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any, Generic, TypeVar

from vlnbert.errors import UnknownNameError, UsageError, near_names

GROUP = "vlnbert.plugins"
LOAD_PLUGIN = "load its plugin: --plugin FILE, or vln.load_plugin(FILE)"

Thing = TypeVar("Thing")

REGISTRIES: list["Registry[Any]"] = []  # every one that there is, in the order in which they were made
_loaded: dict[str, str] = {}  # the plugins that this process was asked for, files by their whole paths -> their module
_announced = False  # whether entry points have been looked at


class Registry(Mapping[str, Thing], Generic[Thing]):
    """The things of one kind, by name; an unknown one is answered with the nearest."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self._things: dict[str, Thing] = {}
        self._homes: dict[str, str] = {}  # the module that registered each
        REGISTRIES.append(self)

    def register(self, name: str, thing: Thing, home: str | None = None) -> Thing:
        """Add a thing; another one of that name must be the same, registered again by its own module.

        A file may be imported twice, as a module or a script and as a run's plugin: its first things stay.
        """
        home = home or getattr(thing, "__module__", "") or ""
        if name in self._things and self._homes[name] != home:
            first, second = place(self._homes[name]), place(home)
            if first == second:
                return thing
            kinds = f"{self.kind.removesuffix('s')}s"  # features have no singular
            problem = f"two {kinds} are called '{name}', of {first} and of {second}"
            raise UsageError(f"{problem}; give one of them another name")
        self._things[name], self._homes[name] = thing, home
        return thing

    def home(self, name: str) -> str:
        """The module that registered a thing."""
        return self._homes[name]

    def registered(self) -> dict[str, Thing]:
        """What is registered so far, by name; nothing is imported for it."""
        return dict(self._things)

    def __getitem__(self, name: str) -> Thing:
        if name not in self:
            error = UnknownNameError(self.kind, name, self)
            if not near_names(name, self):
                error.args = (f"{error}; or {LOAD_PLUGIN}",)
            raise error
        return self._things[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._things:
            load_announced()
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        load_announced()
        return iter(dict(self._things))

    def __len__(self) -> int:
        load_announced()
        return len(self._things)


def load_plugin(plugin: str | Path) -> ModuleType:
    """Import a plugin, once a process; what it registers can then be named.

    Args:
        plugin: A module by its name, or a .py file by its path.
    """
    name = str(Path(plugin).resolve()) if str(plugin).endswith(".py") else str(plugin)
    if name not in _loaded:
        _loaded[name] = _imported(name).__name__
    return sys.modules[_loaded[name]]


def _imported(name: str) -> ModuleType:
    try:
        return _from_file(Path(name)) if name.endswith(".py") else import_module(name)
    except UsageError:
        raise
    except Exception as error:  # a stranger's module may raise anything
        reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
        raise UsageError(f"the plugin {name} cannot be imported ({reason}); mend it, or leave it out") from error


def plugin_failure(error: Exception) -> str | None:
    """Where in a plugin an error was raised, and which, in a line; None where no plugin had a part in it."""
    files = {str(Path(sys.modules[name].__file__ or "").resolve()): told for told, name in _loaded.items()}
    for frame in reversed(extract_tb(error.__traceback__)):
        if plugin := files.get(str(Path(frame.filename).resolve())):
            reason = f"{type(error).__name__}: {error}".splitlines()[0][:200]
            return f"the plugin {plugin} failed in line {frame.lineno} ({reason})"
    return None


def loaded_plugins() -> tuple[str, ...]:
    """The plugins that this process was asked for, files by their whole paths."""
    return tuple(_loaded)


def load_recorded(plugins: Iterable[str]) -> None:
    """Load the plugins that a run was begun with; one that was moved may be loaded from its new place already."""
    here = {Path(name).name for name in _loaded}
    for plugin in plugins:
        if Path(plugin).name in here:
            continue
        if plugin.endswith(".py") and not Path(plugin).is_file():
            problem = f"the run was begun with the plugin {plugin}, which is no longer there"
            raise UsageError(f"{problem}; {LOAD_PLUGIN} from where it lies now")
        load_plugin(plugin)


def load_announced() -> None:
    """Import what installed packages announce, once a process."""
    global _announced
    if _announced:
        return
    _announced = True  # first, since plugins look things up as well
    from importlib.metadata import entry_points  # here, since it takes longer to import than all of this

    for point in entry_points(group=GROUP):
        _imported(point.value.partition(":")[0])


def _from_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise UsageError(f"no plugin at {path}; give a module's name or the path of a .py file")
    name = f"{path.stem}_{blake2b(str(path.resolve()).encode(), digest_size=4).hexdigest()}"
    spec = spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise UsageError(f"{path} is no Python file; give a module's name or the path of a .py file")
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def place(home: str) -> str:
    """A module of ours by its name, any other by its file."""
    file = None if home.startswith("vlnbert.") else getattr(sys.modules.get(home), "__file__", None)
    return home if file is None else str(Path(file).resolve())


def by_name(registry: Registry[Thing], name: str) -> Callable[[Thing], Thing]:
    """A decorator that registers what it decorates under a name."""
    require_name(registry.kind, name)
    return lambda thing: registry.register(name, thing)


def require_name(kind: str, name: object) -> None:
    """A decorator that takes a name was given one, not the thing itself."""
    if not isinstance(name, str):
        decorator = f"@vln.register_{kind}"
        raise UsageError(f'{decorator} is followed by a name; write {decorator}("my-{kind}")')
