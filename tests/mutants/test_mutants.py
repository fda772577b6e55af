"""The tool that changes the package finds what it names, however a file is written, and says what it cannot find."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.mutants.__main__ import LISTED, REPOSITORY, Copy, listed, meets
from tests.mutants.draw import PACKAGE, candidates, drawn
from tests.mutants.sites import MissingError, Mutant, mutated

SOURCE = '''"""A module."""

LIMIT = 3


class Config:
    weight: float = 0.5
    other: float = 0.5

    def total(self, one: int | None, sign: float = 0.5) -> float:
        # Many are the sums.
        return (one - LIMIT) * self.weight + (
            one
            - 2
        )


def masked(mask, value):
    if value < LIMIT:
        raise ValueError(1 + value)
    return value & ~mask
'''


def mutant(within: str, find: str, put: str) -> Mutant:
    return Mutant("some", "room/module.py", within, find, put)


@pytest.mark.parametrize(
    ("within", "find", "put", "before", "after"),
    [
        ("LIMIT", "3", "4", "LIMIT = 3", "LIMIT = 4"),
        ("Config.weight", "0.5", "0.25", "weight: float = 0.5", "weight: float = 0.25"),
        ("Config.total(sign)", "0.5", "1.0", "sign: float = 0.5", "sign: float = 1.0"),
        ("Config.total", "one - LIMIT", "one + LIMIT", "(one - LIMIT)", "(one + LIMIT)"),
        ("Config.total", "one - 2", "one - 3", "one\n            - 2\n", "one - 3\n"),
        ("Config.total", "self.weight", "self.weight - 1", "* self.weight +", "* (self.weight - 1) +"),
        ("masked", "~mask", "mask", "~mask", "mask"),
        ("masked", "value < LIMIT", "value <= LIMIT", "value < LIMIT", "value <= LIMIT"),
    ],
)
def test_a_mutant_is_put_where_it_is_named(within: str, find: str, put: str, before: str, after: str) -> None:
    assert SOURCE.count(before) == 1
    assert mutated(SOURCE, mutant(within, find, put)).split() == SOURCE.replace(before, after).split()


@pytest.mark.parametrize(
    ("within", "find", "problem"),
    [
        ("Config.weigth", "0.5", "room/module.py has no Config.weigth"),
        ("masked", "value > LIMIT", "room/module.py: masked has 'value > LIMIT' 0 times, not once"),
        ("Config.total", "one", "has 'one' 2 times, not once"),
    ],
)
def test_what_is_not_there_is_named(within: str, find: str, problem: str) -> None:
    with pytest.raises(MissingError, match=problem):
        mutated(SOURCE, mutant(within, find, "anything"))


def test_every_kind_of_change_is_a_candidate() -> None:
    found = {f"{one.within}: {one.find} -> {one.put}" for one in candidates("room/module.py", SOURCE)}
    assert {
        "LIMIT: 3 -> 4",
        "Config.weight: 0.5 -> 0.25",
        "Config.total(sign): 0.5 -> 0.25",
        "Config.total: one - LIMIT -> one + LIMIT",
        "masked: value < LIMIT -> value <= LIMIT",
        "masked: value & ~mask -> value | ~mask",
    } <= found
    assert not any("ValueError" in one or "None" in one for one in found), "messages and annotations are left alone"


def test_a_seed_draws_the_same_from_every_room() -> None:
    some = drawn(3, 10)
    assert some == drawn(3, 10) != drawn(4, 10)
    rooms = ["learning", "rollout", "evaluation", "navigator", "tasks"] * 2
    assert [one.module.split("/")[0] for one in some] == rooms
    for one in some:
        source = (PACKAGE / one.module).read_text()
        assert mutated(source, one) != source


def test_the_list_is_of_forty_and_more_by_name() -> None:
    names = [one.name for one in listed()]
    assert len(names) == len(set(names)) >= 40
    assert sum(name.startswith("drawn-") for name in names) == 31
    assert LISTED.read_text() == json.dumps([one.to_plain() for one in listed()], indent=1) + "\n"


def test_its_own_tests_come_first() -> None:
    one = replace(mutant("f", "1", "2"), module="evaluation/metrics.py", by="tests/test_x.py::test_y")
    (_, known), (_, own), (_, wider) = meets(one)
    assert known == ["tests/test_x.py::test_y"]
    assert all(path.startswith("tests/evaluation/") for path in own)
    assert "tests/golden/test_scores.py" in wider
    assert not set(own) & set(wider)


def test_a_copy_holds_one_mutant_at_a_time(tmp_path: Path) -> None:
    copy, place = Copy(tmp_path), "tasks/task.py"
    one = Mutant("steps", place, "Task.max_steps", "15", "16")
    before = (PACKAGE / place).read_text()
    with copy.holding(one):
        assert (
            (copy.package / place).read_text() == before.replace("max_steps: int = 15", "max_steps: int = 16") != before
        )
    assert (copy.package / place).read_text() == (PACKAGE / place).read_text() == before
    with (
        pytest.raises(MissingError, match=r"there is no tasks/gone\.py"),
        copy.holding(replace(one, module="tasks/gone.py")),
    ):
        pass
    target = tmp_path / "test_target.py"
    target.write_text("from vlnbert.tasks.task import Task\n\ndef test_steps():\n    assert Task.max_steps == 15\n")
    assert copy.test([str(target)], 100.0) == ("", 0)
    with copy.holding(one):
        failed, code = copy.test([str(target)], 100.0)
    assert (failed.rpartition("/")[2], code) == ("test_target.py::test_steps", 1)
    target.write_text("import time\n\ndef test_wait():\n    time.sleep(100)\n")
    assert copy.test([str(target)], 0.1)[0] == "no end within 0 s"


def test_whoever_survives_or_is_gone_is_named_and_fails(tmp_path: Path) -> None:
    """Where no tests are asked, all survive that are there."""
    steps = Mutant("steps", "tasks/task.py", "Task.max_steps", "15", "16")
    same = replace(steps, name="same", put="14", equivalent="nobody counts")
    gone = replace(steps, name="gone", within="Task.most_steps")
    mutants, out = tmp_path / "mutants.json", tmp_path / "found.json"

    def tried(*some: Mutant) -> tuple[int, list[str]]:
        mutants.write_text(json.dumps([one.to_plain() for one in some]))
        words = ["--list", str(mutants), "--tests", "--workers", "1", "--out", str(out)]
        ran = subprocess.run(
            [sys.executable, "-m", "tests.mutants", *words], cwd=REPOSITORY, capture_output=True, text=True
        )
        assert [one["name"] for one in json.loads(out.read_text())["mutants"]] == [one.name for one in some]
        return ran.returncode, ran.stdout.splitlines()

    code, lines = tried(steps, same, gone)
    assert code == 1
    assert lines[-3].startswith("survived: steps, tasks/task.py: Task.max_steps: 15 -> 16")
    assert "tasks/task.py has no Task.most_steps" in lines[-2]
    assert lines[-1].startswith("1 of 3 mutants killed or equivalent")
    assert tried(same)[0] == 0
