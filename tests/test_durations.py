"""What is fast is what was recorded to be, is not marked slow, starts no process and is in no folder of long work."""

import json
import subprocess
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests import durations

TESTS = Path(__file__).parent


def item(name: str, slow: bool = False, **imported: object) -> Any:
    module = ModuleType("a")
    vars(module).update(imported)
    path = TESTS / name.partition("::")[0]
    return SimpleNamespace(nodeid=name, path=path, module=module, get_closest_marker=lambda mark: slow or None)


def test_what_is_fast(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorded = tmp_path / "durations.json"
    recorded.write_text(json.dumps({"world/a.py::long": 2.5}))
    monkeypatch.setattr(durations, "RECORDED", recorded)
    fast = [item("world/a.py::short"), item("world/a.py::new"), item("docs.py::short")]
    others = [
        item("world/a.py::long"),
        item("world/a.py::marked", slow=True),
        item("world/b.py::short", subprocess=subprocess),
        item("docs/a.py::short"),
    ]
    assert durations.split_fast([*others, *fast]) == (fast, others)


def test_what_takes_longer_than_a_moment_is_recorded(tmp_path: Path) -> None:
    recorder = durations.Recorder(tmp_path / "recorded.json")
    for name, seconds in (("b", 0.2), ("b", 0.25), ("a", 1.26), ("short", 0.09)):
        recorder.pytest_runtest_logreport(SimpleNamespace(nodeid=name, duration=seconds))
    recorder.pytest_sessionfinish(SimpleNamespace(config=SimpleNamespace(workerinput={})))
    assert not recorder.path.exists(), "a worker of several records nothing"
    recorder.pytest_sessionfinish(SimpleNamespace(config=SimpleNamespace()))
    assert list(json.loads(recorder.path.read_text()).items()) == [("a", 1.3), ("b", 0.5)]


def test_every_folder_of_long_work_is_there() -> None:
    assert all((TESTS / folder).is_dir() for folder in durations.ELSEWHERE)
    assert durations.is_elsewhere(TESTS / "docs")
    assert not durations.is_elsewhere(TESTS / "test_docs.py")
    assert not durations.is_elsewhere(TESTS)
