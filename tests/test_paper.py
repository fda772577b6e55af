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


def test_the_differences_of_the_open_presets_are_those_of_the_code() -> None:
    """The numbers of "The open presets and the paper"."""
    paper = [presets.navigator(name) for name in ("r2r-two-stream", "reverie-two-stream")]
    ours = [presets.navigator(name) for name in ("r2r-open", "r2r-open-told", "reverie-open")]
    section = PAGE.split("## The open presets and the paper")[1].split("\n## ")[0]
    rows = {row[0]: row[1:] for row in (line.strip("| ").split(" | ") for line in section.splitlines() if "|" in line)}

    def numbers(cell: str) -> list[float]:
        plain = re.sub(r"`[^`]*`|R2R", "", re.sub(r"(\d),(\d)", r"\1\2", cell))
        return [float(number) for number in re.findall(r"\d+(?:\.\d+)?(?:e-\d+)?", plain)]

    def check(row: str, values: list[list[float]]) -> None:
        assert [numbers(cell) for cell in rows[row]] == values, row

    shape = ("hidden", "layers", "cross_layers")
    check("network", [[float(getattr(one[0].navigator, size)) for size in shape] for one in (paper, ours)])
    sizes = [16, 300_000, 8, 200_000]
    assert sizes == [value for one in paper for value in (one.training.batch, one.training.iterations)]
    check("batch, updates", [[float(size) for size in sizes], [128.0, 4500.0, 6000.0, 3000.0]])
    assert [one.training.iterations for one in ours] == [4500, 6000, 3000]
    assert {one.training.batch for one in ours} == {128}
    check("gradient clip", [[paper[0].training.grad_clip], [ours[0].training.grad_clip]])
    check("learning rate", [[paper[0].training.learning_rate], [one.training.learning_rate for one in ours[:2]]])
    weights = [one[0].training.objective for one in (paper, ours)]
    check("weight of the critic's error", [[one.value] for one in weights])
    forcing = [one.training.objective.student_forcing for one in (ours[0], ours[2])]
    check("imitation", [[weights[0].imitation], [weights[1].imitation, *forcing]])
    check("attention to the words that are due", [[], [weights[1].alignment]])
    grounding = [one[-1].training.objective for one in (paper, ours)]
    check("grounding in REVERIE", [[one.grounding] for one in grounding])
    assert [one.grounding_rows for one in grounding] == ["teacher-forced", "all"]
    assert [one[0].training.rewards.unit for one in (paper, ours)] == ["hops", "metres"]
    assert [one[0].training.precision for one in (paper, ours)] == ["float32", "bfloat16"]
    assert [(one[0].training.flip, one[0].training.ema > 0) for one in (paper, ours)] == [(0.0, False), (0.5, True)]
