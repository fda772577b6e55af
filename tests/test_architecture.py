"""Packages import in one direction: each only from those above it."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1] / "src" / "vlnbert"
PACKAGES = [
    *("errors", "external", "plugins", "records", "registry", "progress", "tables", "runtime", "ranks"),
    *("sources", "fetching", "house"),
    *("world", "tasks", "environment"),
    *("navigator", "weights", "features", "data"),
    *("rollout", "evaluation", "learning", "speaker"),
    *("analysis", "explorer"),
    *("api", "benchmarking", "cli"),
]
WITHOUT_TORCH = ("sources", "fetching", "house")
FRONT_DOORS = ("__init__", "__main__")  # of the package itself: these may import any package
OF_THE_PACKAGE = ("__version__",)  # what any package may import of it


def violations(package: Path) -> list[str]:
    """A line for every import of a later package, for unknown packages and for forbidden torch."""
    found = []
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        name = inside.parts[0].removesuffix(".py")
        if name in FRONT_DOORS:
            continue
        if name not in PACKAGES:
            found.append(f"{inside}: unknown package {name}")
            continue
        for target in imports(path):
            top, _, rest = target.partition(".")
            if top == "torch" and name in WITHOUT_TORCH:
                found.append(f"{inside}: {name} imports {target}")
            if top == package.name and rest.split(".")[0] not in [
                *PACKAGES[: PACKAGES.index(name) + 1],
                *OF_THE_PACKAGE,
            ]:
                found.append(f"{inside}: {name} imports {target}")
    return found


def imports(path: Path) -> Iterator[str]:
    """The modules that a file imports, at its top or inside functions, by statement or by name."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=module, names=names, level=0):
                yield from (f"{module}.{name.name}" for name in names)
            case ast.ImportFrom(names=names):
                yield from (f"{PACKAGE.name}.(relative).{name.name}" for name in names)
            case ast.Call(func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__")):
                yield from (word.value for word in node.args if isinstance(word, ast.Constant))


def test_packages_import_only_from_those_above() -> None:
    assert violations(PACKAGE) == []


def test_the_nameis_where_we_look() -> None:
    assert {"vlnbert.errors.DataError", "numpy"} <= set(imports(PACKAGE / "sources" / "connectivity.py"))


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("world/a.py", "from vlnbert.tasks.episodes import Episodes"),
        ("world/a.py", "def late():\n    import vlnbert.cli.main"),
        ("world/a.py", "from vlnbert import presets"),
        ("world/a.py", "if TYPE_CHECKING:\n    from vlnbert.learning import Trainer"),
        ("world/a.py", "import_module('vlnbert.rollout')"),
        ("world/a.py", "from ..tasks import episodes"),
        ("errors.py", "import vlnbert.sources.files"),
        ("sources/a.py", "import torch"),
        ("sources/deep/a.py", "from torch.nn import Module"),
        ("sources/a.py", "from vlnbert.house import generate"),
        ("house/a.py", "import torch"),
        ("attic/a.py", "import os"),
    ],
)
def test_the_checker_catches(tmp_path: Path, file: str, code: str) -> None:
    path = tmp_path / "vlnbert" / file
    path.parent.mkdir(parents=True)
    path.write_text(code)
    assert len(violations(tmp_path / "vlnbert")) == 1


@pytest.mark.parametrize(
    "code",
    [
        "import torch",
        "from vlnbert.errors import DataError",
        "import vlnbert.world.build",
        "from vlnbert import __version__",
    ],
)
def test_the_checker_lets_pass(tmp_path: Path, code: str) -> None:
    (tmp_path / "vlnbert" / "world").mkdir(parents=True)
    (tmp_path / "vlnbert" / "world" / "a.py").write_text(code)
    assert violations(tmp_path / "vlnbert") == []


def test_tests_are_named_for_the_file_that_they_test() -> None:
    """tests/world/test_cache.py tests world/cache.py; one of its themes in a file of its own: test_cache_theme.py."""
    misnamed = []
    for test in sorted(Path(__file__).parent.glob("*/**/test_*.py")):
        tested = PACKAGE / test.parent.relative_to(Path(__file__).parent)
        known = {path.stem for path in tested.glob("*.py")} | {tested.name}
        if tested.is_dir() and not any(f"{test.stem}_".startswith(f"test_{name}_") for name in known):
            misnamed.append(str(test))
    assert misnamed == []
