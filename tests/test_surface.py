"""`import vlnbert as vln`: quick, complete and documented."""

import ast
import inspect
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln

LIMIT = 0.2  # seconds
TIMED = """
import sys, time
begin = time.perf_counter()
import vlnbert
print(time.perf_counter() - begin, *sorted({"torch", "numpy", "tokenizers", "rich"} & set(sys.modules)))
"""
SOURCE = ast.parse(Path(str(vln.__file__)).read_text())


def public(kind: type | Any) -> list[str]:
    return [name for name in vln.__all__ if kind(getattr(vln, name))]


def test_importing_takes_no_time_and_no_torch() -> None:
    seconds, imported = [], []
    for _ in range(5):
        done = subprocess.run([sys.executable, "-c", TIMED], capture_output=True, text=True, check=True)
        took, *imported = done.stdout.split()
        seconds.append(float(took))
        if seconds[-1] < LIMIT:
            break
    assert min(seconds) < LIMIT
    assert imported == []


def test_what_is_listed_is_what_is_there() -> None:
    assert set(dir(vln)) == {*vln.__all__, "__version__"}
    assert len(vln.__all__) > 80
    for name in vln.__all__:
        value = getattr(vln, name)
        assert value is getattr(sys.modules[vln._MODULE_OF[name]], name)


def test_type_checkers_see_every_name() -> None:
    """A package that is typed exports what it imports under the same name."""
    block = next(node for node in SOURCE.body if isinstance(node, ast.If))
    lines = [line for line in block.body if isinstance(line, ast.ImportFrom)]
    assert len(lines) == len(block.body) == len(vln.__all__)
    assert all([(name.name, name.asname) for name in line.names] == [(line.names[0].name,) * 2] for line in lines)


def test_everything_can_be_imported_by_name() -> None:
    names: dict[str, Any] = {}
    exec("from vlnbert import *", names)
    assert set(vln.__all__) <= set(names)


def test_a_wrong_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'vlnbert' has no attribute 'trian'") as caught:
        vln.trian  # noqa: B018
    assert caught.value.name == "trian", "so that Python can say what was meant"
    assert not hasattr(vln, "Trainer")


@pytest.mark.parametrize("name", sorted(vln.__all__))
def test_everything_is_documented(name: str) -> None:
    value = getattr(vln, name)
    assert inspect.getdoc(value)
    if inspect.isclass(value) and value.__module__.startswith("vlnbert"):
        own = [part for part in vars(value) if not part.startswith("_") and callable(getattr(value, part))]
        undocumented = {"validated"} if name == "Callback" else set()
        assert {part for part in own if not inspect.getdoc(getattr(value, part))} <= undocumented


@pytest.mark.parametrize("name", public(inspect.isfunction))
def test_every_parameter_is_documented(name: str) -> None:
    function = getattr(vln, name)
    text = inspect.getdoc(function) or ""
    _, found, args = text.partition("\nArgs:\n")
    assert found, f"{name} has no Args"
    described = [line.strip().partition(":")[0] for line in args.splitlines() if line[4:5].strip()]
    assert described == list(inspect.signature(function).parameters)


def test_every_parameter_and_result_has_a_type() -> None:
    for name in public(inspect.isfunction):
        signature = inspect.signature(getattr(vln, name))
        assert signature.return_annotation is not inspect.Signature.empty, name
        assert all(one.annotation is not one.empty for one in signature.parameters.values()), name


def test_every_fault_is_of_one_kind() -> None:
    assert issubclass(vln.DataError, vln.VlnbertError)
    assert issubclass(vln.UsageError, vln.VlnbertError)
    assert vln.__version__.count(".") == 2
