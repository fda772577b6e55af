"""`python -m benchmarks growth` tells how the time of an update grows."""

import json
import re
from pathlib import Path

import pytest

from benchmarks.growth import Growth
from benchmarks.measuring import Timing
from tests.benchmarks.conftest import benched


@pytest.mark.parametrize("power", [0.0, 1.0, 2.0])
def test_the_exponent_is_the_power_of_the_size(power: float) -> None:
    growth = Growth("rows", {size: Timing((0.1 * size**power,) * 3) for size in (3, 6, 24)})
    assert growth.exponent == pytest.approx(power)
    assert growth.ratios == [None, pytest.approx(2**power), pytest.approx(4**power)]


def test_more_rows_and_more_steps_take_longer(house: Path) -> None:
    sizes = ("--axes", "rows", "steps", "--rows", "32", "2", "--steps", "2", "12")
    words = ("growth", "demo", "--data", house, *sizes, "--rounds", "3", "--threads", "1", "--json")
    found = json.loads(benched(*words).out)["axes"]
    assert {axis: [size["size"] for size in growth["sizes"]] for axis, growth in found.items()} == {
        "rows": [2, 32],
        "steps": [2, 12],
    }
    for growth in found.values():
        first, second = growth["sizes"]
        assert first["ratio"] is None
        assert second["ratio"] == pytest.approx(second["seconds"] / first["seconds"])
        assert 0 < growth["exponent"] < 1.5


def test_a_preset_that_flips(house: Path) -> None:
    sizes = ("--axes", "rows", "--rows", "2", "4", "--precision", "float32")
    outcome = benched("growth", "r2r-open", "--data", house, *sizes, "--rounds", "2", "--threads", "1")
    assert outcome.code == 0
    assert "rows, growth" in outcome.out


def test_people_are_told_of_the_axes_they_ask_for(house: Path) -> None:
    sizes = ("--axes", "scans", "tokens", "--tokens", "8", "16")
    shown = benched("growth", "demo", "--data", house, *sizes, "--rounds", "2", "--threads", "1").out
    assert [line.split(",")[0] for line in shown.splitlines() if ", growth" in line] == ["scans", "tokens"]
    sizes = re.findall(r"^ +(scans|tokens), \d", shown, re.MULTILINE)
    assert sizes == ["scans"] * 3 + ["tokens"] * 2, "a quarter, half and all of the scans"


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("dmeo",), "did you mean demo"),
        (("--rows", "2", "3"), "a batch of 3 has no two halves"),
        (("--axes",), "--axes names nothing that could grow; choose among rows, tokens, steps, scans"),
        (("--rows", "2"), "--rows needs two sizes or more"),
        (("--tokens", "8", "513"), "--tokens 513"),
        (("--steps", "0", "5"), "--steps 0"),
        (("--scans", "2", "5", "--axes", "scans"), "there are no 5 scans here; choose up to 4"),
        (("--rounds", "1"), "--rounds 1"),
    ],
)
def test_mistakes_end_in_one_line(house: Path, words: tuple[str, ...], told: str) -> None:
    outcome = benched("growth", *words, "--data", house)
    assert outcome.code == 2
    assert outcome.out == ""
    [line] = outcome.err.splitlines()
    assert told in line
