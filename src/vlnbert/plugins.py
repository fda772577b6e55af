"""Plugins: external modules and files that register something when they are imported, and which of them are trusted.

Naming one trusts it: `vlnbert --plugin my.py ...`, `vln.load_plugin("my.py")`. So does installing a package that
announces it in the entry points of the group `vlnbert.plugins`. A plugin that only a run or an experiment file names is
imported if this machine has trained with the very same bytes: its own, and those of the modules in its folder that it
imports. Otherwise one line says what is needed.

A plugin that is one file is read once: what was hashed is what is executed, and no `__pycache__` has a part in it.
Modules beside it can be imported by statements, and are seen by the plugin alone; what is installed comes first.
"""

import ast
import builtins
import json
import os
import sys
import sysconfig
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import sha256
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from vlnbert.errors import LONGEST_PATH, UsageError
from vlnbert.external import failure, is_ours_to_raise, reason

GROUP = "vlnbert.plugins"
LOAD_PLUGIN = "load its plugin: --plugin FILE, or vln.load_plugin(FILE)"
ALLOW_PLUGIN = "if you trust it, name it: --plugin FILE, or vln.load_plugin(FILE)"
STATE = "VLNBERT_STATE"  # in the environment: the folder of what this machine has trained with
SUFFIX = ".py"


@dataclass(frozen=True)
class Source:
    """A plugin's file and the modules in its folder that it imports, as they were read."""

    path: Path
    code: dict[Path, bytes]

    @cached_property
    def digest(self) -> str:
        """Of the path and of every byte."""
        parts = [(str(path), sha256(code).hexdigest()) for path, code in sorted(self.code.items())]
        return sha256(json.dumps([str(self.path), parts]).encode()).hexdigest()


@dataclass
class _Plugin:
    module: ModuleType
    source: Source | None  # None for what Python itself imports, such as a part of a package
    named: bool = False  # by the user of this process


_loaded: dict[str, _Plugin] = {}  # by name, files by their whole paths
_announced = False  # whether entry points have been imported


def load_plugin(plugin: str | Path) -> ModuleType:
    """Import a plugin, once a process; what it registers can then be named.

    Args:
        plugin: A module by its name, or a .py file by its path.
    """
    name = str(Path(plugin).resolve()) if str(plugin).endswith(SUFFIX) else str(plugin)
    if name not in _loaded:
        if name.endswith(SUFFIX) and not Path(name).is_file():
            raise UsageError(f"no plugin at {name}; give a module's name or the path of a .py file")
        path = Path(name) if name.endswith(SUFFIX) else None if name in sys.modules else _file_of(name, sys.path)
        _loaded[name] = _imported(name, partial(read_source, path))
    _loaded[name].named = True
    return _loaded[name].module


def load_recorded(plugins: Iterable[str], named_by: str = "the run was begun with") -> None:
    """Load the plugins that a file names, if they may be; one that was moved may be loaded from its new place already.

    Args:
        plugins: Their names in the file.
        named_by: How the line begins that refuses one.
    """
    for name in plugins:
        here = {Path(other).name for other, plugin in _loaded.items() if plugin.named}
        if name in _loaded or Path(name).name in here:
            continue
        if name in _announced_modules():
            load_announced()
            continue
        shown = name if len(name) <= LONGEST_PATH else f"...{name[3 - LONGEST_PATH :]}"
        path = Path(name) if name.endswith(SUFFIX) else _file_of(name, _path_without())
        if name.endswith(SUFFIX) and not os.path.isfile(name):  # noqa: PTH113  # no error where a name is too long
            problem = f"{named_by} the plugin {shown}, which is no longer there"
            raise UsageError(f"{problem}; {LOAD_PLUGIN} from where it lies now")
        if path is None or not (known := _trusted_folder(path)).is_dir():
            problem = "with which nothing was trained on this machine"
            raise UsageError(f"{named_by} the plugin {shown}, {problem}; {ALLOW_PLUGIN}")
        _loaded[name] = _imported(name, partial(_trusted_source, path, known, f"{named_by} the plugin {shown}"))


def loaded_plugins() -> tuple[str, ...]:
    """The plugins that this process has loaded by name, files by their whole paths."""
    return tuple(_loaded)


def trust_loaded() -> None:
    """Remember the loaded plugins as trained with: runs may load the same bytes again by themselves."""
    for source in (plugin.source for plugin in _loaded.values() if plugin.source is not None):
        # A plugin that cannot be remembered has to be named again.
        with suppress(OSError):
            folder = _trusted_folder(source.path)
            folder.mkdir(parents=True, exist_ok=True)
            (folder / source.digest).write_text(f"{source.path}\n", errors="backslashreplace")


def load_announced() -> None:
    """Import what installed packages announce, once a process."""
    global _announced
    if _announced:
        return
    # Set first, since plugins look things up as well.
    _announced = True
    for name in _announced_modules():
        _imported(name, partial(read_source, None))


def plugin_failure(error: BaseException) -> str | None:
    """The line on a failure of external code: what, where and how; None where it had no part in it."""
    if line := failure(error):
        return line
    for name, plugin in _loaded.items():
        files = {plugin.module.__file__, *map(str, () if plugin.source is None else plugin.source.code)}
        if lines := [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename in files]:
            return f"the plugin {name} failed in line {lines[-1]} ({reason(error)}); fix it"
    return None


def state_folder() -> Path:
    """`$VLNBERT_STATE`, or `vlnbert` in the user's folder of states."""
    if chosen := os.environ.get(STATE):
        return Path(chosen)
    states = Path(os.environ.get("XDG_STATE_HOME", ""))
    return (states if states.is_absolute() else Path.home() / ".local" / "state") / "vlnbert"


def read_source(path: Path | None) -> Source | None:
    """Read a plugin's file, and the modules in its folder that it imports, and that those import; None of no file."""
    if path is None:
        return None
    code, left = dict[Path, bytes](), [path]
    while left:
        file = left.pop()
        code[file] = file.read_bytes()
        beside = [path.with_name(f"{name}{SUFFIX}") for name in sorted(_imported_names(code[file]))]
        left += [
            one for one in beside if one not in code and one.is_file() and not _is_installed(one.stem, path.parent)
        ]
    return Source(path, code)


def _imported(name: str, read: Callable[[], Source | None]) -> _Plugin:
    try:
        source = read()
        return _Plugin(import_module(name) if source is None else _execute(source, source.path), source)
    except BaseException as error:  # an external module may do anything
        if is_ours_to_raise(error) and isinstance(error, UsageError | KeyboardInterrupt):
            raise
        problem = f"the plugin {name} cannot be imported ({reason(error)})"
        raise UsageError(f"{problem}; fix it, or leave it out") from error


def _trusted_source(path: Path, known: Path, whose: str) -> Source | None:
    source = read_source(path)
    if source is None or not (known / source.digest).is_file():
        problem = "which has changed, or a module beside it has, since this machine trained with it"
        raise UsageError(f"{whose}, {problem}; {ALLOW_PLUGIN}")
    return source


def _trusted_folder(path: Path) -> Path:
    """Where the digests of a plugin are that was trained with; its path is known where that is."""
    return state_folder() / "plugins" / sha256(os.fsencode(path)).hexdigest()


def _module_name(source: Source, path: Path) -> str:
    return f"{path.stem}_{sha256(os.fsencode(path) + source.code[path]).hexdigest()[:8]}"


def _execute(source: Source, path: Path) -> ModuleType:
    """Make the module of one of a plugin's files, of the bytes that were read."""
    name = _module_name(source, path)
    module = module_from_spec(ModuleSpec(name, None, origin=str(path)))
    module.__file__ = str(path)
    vars(module)["__builtins__"] = {**vars(builtins), "__import__": _importing(source)}
    sys.modules[name] = module
    try:
        exec(compile(source.code[path], path, "exec", dont_inherit=True), vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _importing(source: Source) -> Callable[..., Any]:
    """The import statement as a plugin's files have it: of the modules beside them, those that were read."""

    def importing(name: str, *rest: Any, **named: Any) -> Any:
        beside = source.path.with_name(f"{name}{SUFFIX}") if name.isidentifier() else None
        level = named.get("level", rest[3] if len(rest) > 3 else 0)
        if level == 0 and beside in source.code:
            return sys.modules.get(_module_name(source, beside)) or _execute(source, beside)
        return builtins.__import__(name, *rest, **named)

    return importing


def _imported_names(code: bytes) -> Iterator[str]:
    """The modules that a file imports by statements, anywhere in it, of no package."""
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name.isidentifier())
        elif isinstance(node, ast.ImportFrom) and not node.level and node.module and node.module.isidentifier():
            yield node.module


def _is_installed(name: str, folder: Path) -> bool:
    """Whether a module is the standard library's or installed, apart from this folder and the working directory."""
    if name in sys.stdlib_module_names:
        return True
    installed = sysconfig.get_paths()
    path = [*_path_without(folder), installed["purelib"], installed["platlib"]]
    return any(
        finder.find_spec(name, path if finder is PathFinder else None) is not None
        for finder in sys.meta_path
        if hasattr(finder, "find_spec")
    )


def _file_of(name: str, path: list[str]) -> Path | None:
    """The file of a module that is one, of no package; looked for without importing anything."""
    spec = PathFinder.find_spec(name, path) if name.isidentifier() else None
    if spec is None or spec.origin is None or spec.submodule_search_locations is not None:
        return None
    return Path(spec.origin).resolve() if spec.origin.endswith(SUFFIX) else None


def _path_without(*folders: Path) -> list[str]:
    """Where modules are looked for, but for some folders and the working directory."""
    away = {os.path.realpath(folder) for folder in folders}
    # The working directory may be gone.
    with suppress(OSError):
        away.add(os.path.realpath(os.curdir))
    return [entry for entry in sys.path if Path(entry).is_absolute() and os.path.realpath(entry) not in away]


def _announced_modules() -> list[str]:
    """The modules that installed packages announce; what only lies in the working directory is not installed."""
    # Imported here, since it takes longer than this whole module.
    from importlib.metadata import entry_points

    installed = {os.path.realpath(entry) for entry in _path_without()}
    return [
        point.value.partition(":")[0]
        for point in entry_points(group=GROUP)
        if point.dist is None or os.path.realpath(str(point.dist.locate_file(""))) in installed
    ]
