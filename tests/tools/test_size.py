"""Lines are counted as what they are, each once; and two countings of one tree are the same."""

import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from tools import size

SOURCE = '''"""A module,

explained."""

import os  # trailing
from typing import (
    Any,
)

# a comment
VALUE = "# no comment"  # trailing


class Thing:
    """A thing."""

    def __init__(self) -> None:
        self.one = _once()

    def _called(self) -> Any:
        text = """no
docstring"""
        return text


def _once() -> int:
    from math import inf

    return Thing()._called() or Thing()._called() or int(inf)


def _never() -> None: ...
'''


def test_every_line_is_counted_once() -> None:
    found = size.size_of(SOURCE)
    assert found.lines == len(SOURCE.splitlines())
    assert found.lines == found.code + found.docstrings + found.comments + found.imports + found.blank
    assert (found.docstrings, found.comments, found.trailing, found.imports) == (3 + 1, 1, 2, 1 + 3 + 1)
    assert found.once == 1, "_once; _called is mentioned twice, _never not at all"
    assert sorted(found.function_lengths) == [1, 2, 4, 4]


def test_packages_and_what_is_beside_them() -> None:
    sources = {"a/one.py": "x = 1\n", "a/b/two.py": "y = 2\nz = 3\n", "three.py": "\n"}
    found = size.by_package(sources)
    assert list(found) == ["(beside them)", "a"]
    assert (found["a"].files, found["a"].lines, found["a"].median_file) == (2, 3, 1.5)
    assert size.total(found.values()).lines == 4


def test_a_table_tells_what_was_before() -> None:
    now = size.by_package({"a/one.py": "x = 1\n", "b/two.py": "y = 2\n"})
    before = {"a": replace(now["a"], lines=1234), "c": now["b"]}
    rows = {line.split("|")[1].strip(): line for line in size.table(now, before).splitlines()}
    assert list(rows)[2:] == ["a", "b", "c", "total"]
    assert "1,234 > 1" in rows["a"]
    assert "0 > 1" in rows["b"]
    assert "1 > 0" in rows["c"]
    assert "1,235 > 2" in rows["total"]
    assert len({len(line) for line in size.table(now, before).splitlines()}) == 1


def test_the_package_is_counted_whole_and_always_alike() -> None:
    first, again = size.by_package(size.here()), size.by_package(dict(reversed(size.here().items())))
    assert size.table(first) == size.table(again)
    counted = size.total(first.values())
    paths = list((size.ROOT / size.PACKAGE).rglob("*.py"))
    assert counted.files == len(paths)
    assert counted.lines == sum(len(path.read_text().splitlines()) for path in paths)


def test_a_commit_is_read_from_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    def git(*words: str) -> None:
        named = ("-c", "user.name=a", "-c", "user.email=a@example.org")
        subprocess.run(("git", *named, *words), cwd=tmp_path, check=True, capture_output=True)

    package = tmp_path / size.PACKAGE / "a"
    package.mkdir(parents=True)
    monkeypatch.setattr(size, "ROOT", tmp_path)
    (package / "one.py").write_text("x = 1\ny = 2\n")
    (package / "data.json").write_text("{}")
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message", "one")
    (package / "one.py").write_text("x = 1\n")
    assert size.at("HEAD") == {"a/one.py": "x = 1\ny = 2\n"}
    size.main(["--against", "HEAD"])
    shown = capsys.readouterr().out
    assert "2 > 1" in shown
    assert shown.endswith("now: docstrings 0.0% of the lines, comments 0.0%; -1 lines\n")
