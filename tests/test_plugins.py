"""Which plugins are imported: those that somebody named, and those with whose very bytes this machine has trained."""

import os
import py_compile
import shutil
import sys
from collections.abc import Callable, Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from vlnbert import plugins
from vlnbert.errors import UsageError
from vlnbert.plugins import load_plugin, load_recorded, plugin_failure, state_folder, trust_loaded

MARK = "open({mark!r}, 'w').close()\n"
UNKNOWN = "with which nothing was trained on this machine; if you trust it, name it: --plugin FILE, or vln.load_plugin"
CHANGED = "which has changed, or a module beside it has, since this machine trained with it; if you trust it, name it"


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    """Nothing is loaded, as in a new process; so again whenever it is called, and after the test."""
    before = set(sys.modules)
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setattr(plugins, "_announced", True)

    def forget() -> None:
        plugins._loaded.clear()
        for name in set(sys.modules) - before:
            del sys.modules[name]

    yield forget
    forget()


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """A file that is there once a plugin was executed."""
    return tmp_path / "executed"


@pytest.fixture
def plugin(tmp_path: Path, mark: Path) -> Path:
    (tmp_path / "theirs").mkdir()
    path = tmp_path / "theirs" / "own.py"
    path.write_text(MARK.format(mark=str(mark)))
    return path


def refused(name: object, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_recorded([str(name)])
    assert str(caught.value).startswith(f"the run was begun with the plugin {name}, {words}")
    assert len(str(caught.value).splitlines()) == 1


def trained_with(plugin: Path, new_process: Callable[[], None]) -> None:
    """This machine trains with a plugin, in a process that ends."""
    load_plugin(plugin)
    trust_loaded()
    new_process()


def test_what_only_a_file_names_is_not_executed(plugin: Path, mark: Path) -> None:
    refused(plugin, UNKNOWN)
    assert not mark.exists()
    load_plugin(plugin)
    assert mark.exists()
    load_recorded([str(plugin)])


def test_what_was_trained_with_is(plugin: Path, mark: Path, new_process: Callable[[], None], tmp_path: Path) -> None:
    trained_with(plugin, new_process)
    assert [path.is_relative_to(tmp_path / "state") for path in state_folder().rglob("*")] == [True] * 3
    mark.unlink()
    load_recorded([str(plugin)])
    assert mark.exists()


def test_to_load_it_is_not_to_train_with_it(plugin: Path, new_process: Callable[[], None]) -> None:
    load_plugin(plugin)
    new_process()
    refused(plugin, UNKNOWN)


def test_a_changed_byte_is_noticed(plugin: Path, mark: Path, new_process: Callable[[], None]) -> None:
    trained_with(plugin, new_process)
    mark.unlink()
    plugin.write_text(plugin.read_text() + " ")
    refused(plugin, CHANGED)
    assert not mark.exists()


def test_the_same_bytes_elsewhere_are_another_plugin(
    plugin: Path, mark: Path, new_process: Callable[[], None], tmp_path: Path
) -> None:
    trained_with(plugin, new_process)
    other = tmp_path / "other.py"
    other.write_bytes(plugin.read_bytes())
    refused(other, UNKNOWN)
    link = tmp_path / "link.py"
    link.symlink_to(plugin)
    refused(link, UNKNOWN)


@pytest.mark.parametrize(
    "statement", ["import beside", "from beside import *", "def later():\n    import beside\nlater()"]
)
def test_modules_beside_it_count(plugin: Path, mark: Path, new_process: Callable[[], None], statement: str) -> None:
    """Also what those import, and where an import stands in a function."""
    plugin.write_text(statement)
    plugin.with_name("beside.py").write_text("import deeper")
    plugin.with_name("deeper.py").write_text("value = 1")
    trained_with(plugin, new_process)
    load_recorded([str(plugin)])
    new_process()
    plugin.with_name("deeper.py").write_text(MARK.format(mark=str(mark)))
    refused(plugin, CHANGED)
    assert not mark.exists()
    load_plugin(plugin)
    assert mark.exists()


def test_a_module_that_comes_later_is_no_neighbour(plugin: Path, mark: Path, new_process: Callable[[], None]) -> None:
    """One that was tried in vain while this machine trained."""
    plugin.write_text("try:\n    import beside\nexcept ImportError:\n    beside = None")
    trained_with(plugin, new_process)
    plugin.with_name("beside.py").write_text(MARK.format(mark=str(mark)))
    refused(plugin, CHANGED)
    assert not mark.exists()


def test_modules_beside_it_are_its_own(plugin: Path, tmp_path: Path) -> None:
    """Two plugins may have a neighbour of one name, and nobody else can import it."""
    second = tmp_path / "second" / "own.py"
    second.parent.mkdir()
    for path, value in ((plugin, 1), (second, 2)):
        path.write_text("import beside\nfrom beside import value")
        path.with_name("beside.py").write_text(f"import own\nvalue = {value}")
    first, other = load_plugin(plugin), load_plugin(second)
    assert (first.value, other.value) == (1, 2)
    assert vars(first.beside)["own"] is first, "and may import it in turn"
    assert "beside" not in sys.modules
    with pytest.raises(ModuleNotFoundError):
        __import__("beside")


@pytest.mark.parametrize("name", ["json", "safetensors", "sitecustomize_of_ours"])
def test_what_is_installed_is_never_shadowed(
    plugin: Path, mark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    (tmp_path / "installed").mkdir()
    (tmp_path / "installed" / "sitecustomize_of_ours.py").touch()
    monkeypatch.syspath_prepend(tmp_path / "installed")
    plugin.write_text(f"import {name} as found")
    plugin.with_name(f"{name}.py").write_text(MARK.format(mark=str(mark)))
    found = load_plugin(plugin).found
    assert Path(found.__file__).parent != plugin.parent
    assert not mark.exists()


def test_a_neighbour_comes_before_the_working_directory(
    plugin: Path, mark: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As python -m has it on the path of modules."""
    plugin.write_text("import beside")
    plugin.with_name("beside.py").touch()
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / "beside.py").write_text(MARK.format(mark=str(mark)))
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.syspath_prepend(tmp_path / "here")
    assert Path(load_plugin(plugin).beside.__file__) == plugin.with_name("beside.py")
    assert not mark.exists()


def test_what_was_hashed_is_executed(
    plugin: Path, mark: Path, new_process: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A compiled file beside it, of the right time and size, is not looked at; none is written either."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    harmful = plugin.read_bytes()
    for name, harmless in {"own.py": b"import beside", "beside.py": b""}.items():
        path = plugin.with_name(name)
        path.write_bytes(harmful)
        py_compile.compile(str(path), doraise=True)
        state = path.stat()
        path.write_bytes(harmless.ljust(len(harmful)))
        os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns))
    compiled = plugin.parent / "__pycache__"
    assert len(list(compiled.iterdir())) == 2
    load_plugin(plugin)
    assert not mark.exists()
    new_process()
    monkeypatch.syspath_prepend(plugin.parent)
    load_plugin("own")
    assert not mark.exists()
    new_process()
    shutil.rmtree(compiled)
    load_plugin(plugin)
    assert not compiled.exists()


def test_a_recorded_module_is_not_looked_for_where_one_stands(
    plugin: Path, mark: Path, monkeypatch: pytest.MonkeyPatch, new_process: Callable[[], None]
) -> None:
    """Nor executed for being somewhere on the path; a package is not even imported to look into it."""
    package = plugin.parent / "package"
    package.mkdir()
    for path in (package / "__init__.py", package / "inner.py"):
        path.write_text(plugin.read_text())
    monkeypatch.chdir(plugin.parent)
    for entry in ("", str(plugin.parent)):
        monkeypatch.syspath_prepend(entry)
        for name in ("own", "package", "package.inner", "antigravity", "../theirs/own", ""):
            refused(name, UNKNOWN)
    assert not mark.exists()
    load_plugin("own")
    assert mark.exists()
    trust_loaded()
    new_process()
    mark.unlink()
    refused("own", UNKNOWN)
    monkeypatch.chdir("/")
    load_recorded(["own"])
    assert mark.exists()


def test_what_is_installed_and_announced_is_loaded(plugin: Path, mark: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(plugin.parent)
    points = [EntryPoint("mine", "own:part", plugins.GROUP)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points)
    monkeypatch.setattr(plugins, "_announced", False)
    load_recorded(["own"])
    assert mark.exists()


def test_what_the_working_directory_announces_is_not_installed(
    plugin: Path, mark: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    about = plugin.parent / "stranger-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(f"[{plugins.GROUP}]\nown = own\n")
    monkeypatch.syspath_prepend(plugin.parent)
    assert "own" in plugins._announced_modules()
    monkeypatch.chdir(plugin.parent)
    assert "own" not in plugins._announced_modules()
    refused("own", UNKNOWN)


@pytest.mark.parametrize("name", ["/nowhere/own.py", "/dev/null/own.py", "own\0.py", "x" * 5000 + ".py"])
def test_what_is_not_there(name: str) -> None:
    with pytest.raises(UsageError, match="which is no longer there; load its plugin: --plugin FILE") as caught:
        load_recorded([name])
    assert len(str(caught.value).splitlines()) == 1


def test_a_state_that_cannot_be_written_costs_nothing(
    plugin: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, new_process: Callable[[], None]
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv(plugins.STATE, str(tmp_path / "file" / "state"))
    trained_with(plugin, new_process)
    refused(plugin, UNKNOWN)


def test_where_states_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert state_folder() == tmp_path / "state"
    monkeypatch.delenv(plugins.STATE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "xdg"))
    assert state_folder() == tmp_path / "xdg" / "vlnbert"
    for unusable in ("", "relative/folder"):
        monkeypatch.setenv("XDG_STATE_HOME", unusable)
        assert state_folder() == Path.home() / ".local" / "state" / "vlnbert"


ENDING = {
    "sys.exit": ("import sys\nsys.exit(0)", "SystemExit: 0"),
    "quit": ("raise SystemExit", "SystemExit: "),
    "of no kind": ("class Odd(BaseException): ...\nraise Odd('x')", "Odd: x"),
    "that cannot be told": (
        "class Mute(Exception):\n    def __str__(self): raise SystemExit(0)\nraise Mute",
        "Mute, which cannot be told",
    ),
    "an end of iteration": ("raise StopIteration", "StopIteration: "),
    "a stranger's Ctrl-C": ("class Stop(KeyboardInterrupt): ...\nraise Stop", "Stop: "),
    "no Python": (b"\0", "SyntaxError: source code string cannot contain null bytes"),
    "in a neighbour": ("import beside", "SystemExit: 3"),
}


@pytest.mark.parametrize("kind", ENDING)
def test_what_ends_at_import_is_told(plugin: Path, kind: str) -> None:
    source, told = ENDING[kind]
    plugin.write_bytes(source if isinstance(source, bytes) else source.encode())
    plugin.with_name("beside.py").write_text("raise SystemExit(3)")
    before = set(sys.modules)
    with pytest.raises(UsageError) as caught:
        load_plugin(plugin)
    assert str(caught.value) == f"the plugin {plugin} cannot be imported ({told}); fix it, or leave it out"
    assert set(sys.modules) == before
    assert plugins.loaded_plugins() == ()


def test_ctrl_c_stays_ctrl_c(plugin: Path) -> None:
    plugin.write_text("raise KeyboardInterrupt")
    with pytest.raises(KeyboardInterrupt):
        load_plugin(plugin)


def test_what_fails_outside_of_any_guard_is_found_by_its_file(plugin: Path) -> None:
    plugin.write_text("from beside import fails")
    plugin.with_name("beside.py").write_text("def fails(): raise ValueError('no')")
    with pytest.raises(ValueError, match="no") as caught:
        load_plugin(plugin).fails()
    assert plugin_failure(caught.value) == f"the plugin {plugin} failed in line 1 (ValueError: no); fix it"
    assert plugin_failure(ValueError("ours")) is None
