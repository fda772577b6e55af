"""The navigator's own rooms: fast, then model, then storage; and one import for all of fast."""

from pathlib import Path

import pytest

from tests.test_architecture import PACKAGE, imports

NAVIGATOR = "vlnbert.navigator"
ROOMS = ["fast", "model", "storage"]


def violations(package: Path) -> list[str]:
    """A line for every import of a later room of the navigator's, and for every import from the inside of fast."""
    found = []
    for path in sorted(package.rglob("*.py")):
        inside = path.relative_to(package)
        room = inside.parts[1] if inside.parts[0] == "navigator" else None
        for target in imports(path):
            first, _, rest = target.removeprefix(f"{NAVIGATOR}.").partition(".")
            if not target.startswith(f"{NAVIGATOR}."):
                continue
            if first == "fast" and rest and room != "fast":
                found.append(f"{inside} imports {target}; say `from {NAVIGATOR} import fast`")
            if room in ROOMS and first not in ROOMS[: ROOMS.index(room) + 1]:
                found.append(f"{inside} imports {target}")
    return found


def test_rooms_of_the_navigator_import_only_from_rooms_before() -> None:
    assert violations(PACKAGE) == []
    assert {path.name for path in (PACKAGE / "navigator").iterdir() if path.name[0] != "_"} == set(ROOMS)


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("navigator/fast/a.py", "from vlnbert.navigator.model import NavigatorConfig"),
        ("navigator/fast/a.py", "from vlnbert.navigator import Step"),
        ("navigator/model/a.py", "from vlnbert.navigator.storage.folder import CONFIG"),
        ("navigator/model/a.py", "from vlnbert.navigator.fast.fused import triton_norm"),
        ("navigator/model/a.py", "def late():\n    from vlnbert.navigator import Navigator"),
        ("learning/a.py", "from vlnbert.navigator.fast import enabled"),
        ("learning/a.py", "import vlnbert.navigator.fast.kernels"),
    ],
)
def test_the_checker_catches(tmp_path: Path, file: str, code: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(code)
    assert len(violations(tmp_path)) == 1


@pytest.mark.parametrize("file", ["navigator/model/a.py", "navigator/storage/a.py", "learning/a.py"])
def test_the_checker_lets_pass(tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text("from vlnbert.navigator import fast\nfrom vlnbert.navigator.model import Step")
    assert violations(tmp_path) == []
