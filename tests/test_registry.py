"""Registries and plugins: names that are found, told apart and missed in one line."""

import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

import vlnbert as vln
from vlnbert import plugins, registry
from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.plugins import load_plugin, loaded_plugins
from vlnbert.registry import Registry, by_name


@pytest.fixture
def things(monkeypatch: pytest.MonkeyPatch) -> Iterator[Registry[object]]:
    """A registry of its own, which plugins find as `registry.THINGS`; nothing loaded stays."""
    made: Registry[object] = Registry("thing")
    monkeypatch.setattr(registry, "THINGS", made, raising=False)
    monkeypatch.setattr(plugins, "_loaded", {})
    monkeypatch.setattr(plugins, "_announced", True)
    return made


PLUGIN = """
from vlnbert import registry

@registry.by_name(registry.THINGS, {name!r})
def thing():
    return 7
"""


def write(path: Path, name: str = "mine") -> Path:
    path.write_text(PLUGIN.format(name=name))
    return path


def test_an_announced_thing_is_imported_when_it_is_asked_for(
    things: Registry[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "announced_later.py").write_text("def thing():\n    return 7\n")
    monkeypatch.syspath_prepend(tmp_path)
    things.announce("mine", "announced_later", "thing")
    assert "mine" in things
    assert list(things) == ["mine"]
    assert things.home("mine") == "announced_later"
    with pytest.raises(UsageError, match="two things are called 'mine', of announced_later and of elsewhere; give one"):
        things.register("mine", object(), "elsewhere")
    assert "announced_later" not in sys.modules
    assert things["mine"]() == 7
    assert sys.modules.pop("announced_later").thing is things["mine"]


def test_learning_imports_no_speaker_before_it_is_asked_for() -> None:
    """Its names are known before, as those of presets and of recipes."""
    code = """
import sys
from vlnbert.learning.presets import presets
from vlnbert.learning.recipe import RECIPES
assert "speaker-open" in presets and "speaker" in RECIPES
assert not [name for name in sys.modules if name.startswith("vlnbert.speaker")]
assert presets["speaker-open"].experiment.RECIPE == RECIPES["speaker"].name == "speaker"
assert RECIPES.home("speaker") == "vlnbert.speaker.recipe" in sys.modules
"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_file_registers_what_it_names(things: Registry[object], tmp_path: Path) -> None:
    path = write(tmp_path / "my.py")
    module = load_plugin(path)
    assert things["mine"]() == 7
    assert load_plugin(path) is module, "once a process"
    assert loaded_plugins() == (str(path),)
    assert list(things) == ["mine"]
    assert things.home("mine") == module.__name__


def test_a_module_by_name(things: Registry[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "a_plugin_of_mine.py")
    monkeypatch.syspath_prepend(tmp_path)
    load_plugin("a_plugin_of_mine")
    assert "mine" in things
    assert loaded_plugins() == ("a_plugin_of_mine",)


def test_packages_announce_theirs(things: Registry[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "announced_plugin.py")
    monkeypatch.syspath_prepend(tmp_path)
    points = [EntryPoint("mine", "announced_plugin", plugins.GROUP)]
    monkeypatch.setattr("importlib.metadata.entry_points", lambda group: points if group == plugins.GROUP else [])
    monkeypatch.setattr(plugins, "_announced", False)
    assert "mine" in things


def test_two_of_one_name_are_refused(things: Registry[object], tmp_path: Path) -> None:
    load_plugin(write(tmp_path / "one.py"))
    with pytest.raises(UsageError, match=r"two things are called 'mine', of .*/one.py and of .*/two.py; give one of"):
        load_plugin(write(tmp_path / "two.py"))


def test_registered_again_by_its_own_module(things: Registry[object]) -> None:
    for _ in range(2):
        by_name(things, "again")(test_registered_again_by_its_own_module)
    assert list(things) == ["again"]


def test_unknown_names_are_answered_with_near_ones(things: Registry[object]) -> None:
    things.register("two-stream", 1, "here")
    with pytest.raises(UnknownNameError, match=r"no thing 'two-steam'; did you mean two-stream\?$"):
        _ = things["two-steam"]
    with pytest.raises(
        UnknownNameError, match=r"no thing 'mine'; known: two-stream; or load its plugin: --plugin FILE, or .*$"
    ):
        _ = things["mine"]


def test_a_file_may_be_imported_twice(
    things: Registry[object], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a module of somebody's script, and as the plugin that a run remembers."""
    path = write(tmp_path / "imported_twice.py")
    monkeypatch.syspath_prepend(tmp_path)
    first = import_module("imported_twice").thing
    second = load_plugin(path).thing
    assert things["mine"] is first is not second


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ("import nothing_of_this_name", "No module named 'nothing_of_this_name'"),
        ("1 / 0", "ZeroDivisionError"),
        ("(", "SyntaxError"),
    ],
)
def test_a_plugin_that_does_not_import(things: Registry[object], tmp_path: Path, content: str, words: str) -> None:
    path = tmp_path / "broken.py"
    path.write_text(content)
    with pytest.raises(UsageError, match="cannot be imported") as caught:
        load_plugin(path)
    assert words in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1
    assert loaded_plugins() == ()


@pytest.mark.parametrize("name", ["missing.py", "no_such_module_anywhere"])
def test_a_plugin_that_is_not_there(things: Registry[object], name: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_plugin(name)
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("kind", ["reward", "features", "agent", "backbone"])
def test_a_decorator_without_its_name_is_told(kind: str) -> None:
    """As @vln.register_task is written; nothing would be registered."""
    with pytest.raises(UsageError, match=rf'^@vln.register_{kind} is followed by a name; write .*\("my-{kind}"\)$'):
        getattr(vln, f"register_{kind}")(lambda *given: None)
