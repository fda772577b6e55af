"""How many files a reader has to open to follow one update, one evaluation, one report: no more than now."""

from pathlib import Path

import pytest

import vlnbert as vln
from tools.walks import PACKAGE, main, packages, traced, walks
from vlnbert.errors import cut

BARS = {  # at most so many files, and packages
    "update": (30, 8),
    "evaluation": (50, 12),
    "report": (60, 13),
}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    return walks(tmp_path_factory.mktemp("walks"))


@pytest.mark.parametrize("what", BARS)
def test_no_walk_is_longer_than_its_bar(found: dict[str, set[str]], what: str) -> None:
    files, most = found[what], BARS[what]
    assert len(files) <= most[0], sorted(files)
    assert len(packages(files)) <= most[1], sorted(packages(files))


def test_walks_are_those_of_whole_deeds(found: dict[str, set[str]]) -> None:
    assert {"learning", "rollout", "environment", "navigator", "world"} <= packages(found["update"])
    assert {"data", "evaluation", "navigator", "world"} <= packages(found["evaluation"])
    assert {"data", "evaluation", "analysis"} <= packages(found["report"])
    assert all((PACKAGE / path).is_file() for files in found.values() for path in files)


def test_a_file_has_a_part_when_a_function_of_it_is_called() -> None:
    with traced() as files:
        assert files == set(), "told once the block is over"
        cut("a sentence", 4)
        Path("elsewhere").name.upper()
    assert files == {"errors.py"}
    assert packages({*files, "learning/trainer.py", "navigator/model/layers.py"}) == {"", "learning", "navigator"}


def test_what_is_traced_is_left_as_it_was(found: dict[str, set[str]]) -> None:
    from vlnbert.learning.trainer import Trainer

    assert Trainer.advance.__qualname__ == "Trainer.advance"
    assert vln.__file__ == str(PACKAGE / "__init__.py")


def test_people_read_counts_and_ask_for_names(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture) -> None:
    monkeypatch.setattr("tools.walks.walks", lambda folder: {"update": {"ranks.py", "world/world.py"}})
    main([])
    assert capsys.readouterr().out == "update: 2 files, 2 packages\n"
    main(["--files"])
    assert capsys.readouterr().out == "update: 2 files, 2 packages\n  ranks.py\n  world/world.py\n"
