"""The front of the benches: what each reports, and mistakes in one line."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.__main__ import BENCHES
from tests.benchmarks.conftest import benched

ROOT = Path(__file__).resolve().parents[2]


def test_bench_navigator_reports_both_backbones() -> None:
    words = ("--size", "tiny", "--agents", "2", "--tokens", "8", "--rounds", "2", "--threads", "1", "--json")
    found = json.loads(benched("navigator", *words).out)
    assert list(found) == ["one-stream", "two-stream"]
    assert all(gain["ratio"] > 0 for gains in found.values() for gain in gains.values())


def test_bench_world_reports_every_level(house: Path) -> None:
    outcome = benched("world", "--data", house, "--batch", "64", "--rounds", "3", "--json")
    levels = json.loads(outcome.out)["levels"]
    assert list(levels) == ["step", "teacher", "angles", "features"]
    assert all(level["steps_per_second"] > 0 and level["loop_steps_per_second"] > 0 for level in levels.values())


@pytest.mark.parametrize("bench", BENCHES)
def test_every_bench_explains_itself(bench: str) -> None:
    outcome = benched(bench, "--help")
    assert outcome.code == 0
    assert "--json" in outcome.out


def test_it_is_a_module_of_the_checkout() -> None:
    command = (sys.executable, "-m", "benchmarks", "navigator", "--size", "bas")
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("vlnbert: ")
    assert "did you mean base" in line


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("world", "--data", "nowhere"), "no such data folder"),
        (("world", "--batch", "0"), "--batch 0"),
        (("world", "--rounds", "1"), "--rounds 1"),
        (("world", "--device", "gpu"), "no device 'gpu'"),
        (("navigator", "--agents", "0"), "--agents 0"),
        (("navigator", "--tokens", "1"), "--tokens 1"),
        (("explore", "--visitors", "0"), "--visitors 0"),
        (("explore", "--seconds", "0"), "--seconds 0"),
        (("explore", "--pause", "0"), "--pause 0"),
        (("speak", "x"), "no preset 'x'"),
        (("speak", "speaker-demo", "--tokens", "1"), "--tokens 1"),
        (("speak", "speaker-demo", "--batch", "0"), "--batch 0"),
    ],
)
def test_mistakes_end_in_one_line(words: tuple[str, ...], expected: str) -> None:
    outcome = benched(*words)
    assert (outcome.code, outcome.out) == (2, "")
    [line] = outcome.err.splitlines()
    assert expected in line
