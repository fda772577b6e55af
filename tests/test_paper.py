"""docs/paper.md names every equation, table and figure of the paper, and nothing that is not there."""

import ast
import re
from pathlib import Path

import pytest

from vlnbert.learning.presets import presets

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "paper.md").read_text()
NUMBERED = {"Eq.": 25, "Table": 7, "Figure": 8}  # the last number of each in the paper, its appendices included
PLACES = re.findall(r"`([\w/]+\.py)(?:: ([\w., ]+))?`", PAGE)


@pytest.mark.parametrize("kind", NUMBERED)
def test_everything_that_has_a_number_has_a_row(kind: str) -> None:
    rows = re.findall(rf"^\| {re.escape(kind)} (\d+) \| \S", PAGE, flags=re.MULTILINE)
    assert [int(number) for number in rows] == list(range(1, NUMBERED[kind] + 1))


def test_every_equation_says_where_it_is() -> None:
    for row in re.findall(r"^\| Eq\. .*$", PAGE, flags=re.MULTILINE):
        assert re.search(r"`[\w/]+\.py: \w", row.split("|")[3]), row


def defined(path: Path) -> set[str]:
    """Classes, functions, methods as Class.method, and constants of a module."""
    found = set[str]()
    for node in ast.parse(path.read_text()).body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{inner.name}" for inner in node.body if isinstance(inner, ast.FunctionDef)}
        if isinstance(node, ast.Assign):
            names = (name for target in node.targets for name in ast.walk(target) if isinstance(name, ast.Name))
            found |= {name.id for name in names}
    return found


@pytest.mark.parametrize("file", sorted({file for file, _ in PLACES}))
def test_every_file_and_name_is_there(file: str) -> None:
    if file.startswith("tests/"):
        assert (ROOT / file).is_file()
        return
    path = ROOT / "src" / "vlnbert" / file
    assert path.is_file()
    named = {name for other, names in PLACES if other == file for name in re.split(", ", names) if name}
    assert named <= defined(path), named - defined(path)


def test_every_preset_is_there() -> None:
    named = set(re.findall(r"preset `([\w-]+)`", PAGE))
    assert named == {name for name in presets if "stream" in name}, "each of the paper's, once at least"
