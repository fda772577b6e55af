"""`vlnbert bench train` and `vlnbert bench evaluate` measure this machine; other benches are in the checkout."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import called

TRAIN = ("bench", "train", "demo", "--updates", "1", "--rounds", "2", "--threads", "1")
EVALUATE = ("bench", "evaluate", "demo", "--rounds", "2", "--threads", "1", "--episodes", "5")
KEYS = ("preset", "precision", "device", "batches")


def test_rates_of_training_fit_together(house: Path) -> None:
    found = json.loads(called(*TRAIN, "--data", house, "--batch", "2", "8", "--json").out)
    assert tuple(found) == KEYS
    assert [speed["batch"] for speed in found["batches"]] == [2, 8]
    for speed in found["batches"]:
        assert speed["episodes_per_second"] == pytest.approx(speed["batch"] * speed["updates_per_second"])
        assert speed["spread"] >= 0
        assert speed["peak_bytes"] is None, "torch counts no bytes on a CPU"


def test_rates_of_walking_fit_together(house: Path) -> None:
    found = json.loads(called(*EVALUATE, "--data", house, "--batch", "3", "--json").out)
    assert {*found} == {*KEYS, "split", "episodes"}
    [speed] = found["batches"]
    assert speed["episodes_per_second"] == pytest.approx(5 / speed["seconds"])
    assert speed["steps_per_second"] == pytest.approx(15 * speed["episodes_per_second"]), "nobody stops"


@pytest.mark.parametrize("words", [TRAIN, EVALUATE])
def test_people_get_a_table(house: Path, words: tuple[str, ...]) -> None:
    outcome = called(*words, "--data", house, "--batch", "2")
    assert outcome.err == ""
    title, _, names, *_ = outcome.out.splitlines()
    assert title.startswith("demo, ")
    assert "episodes/s" in names


@pytest.mark.parametrize("name", ["world", "navigator", "objects", "growth", "explore", "speak", "train --plain"])
def test_benches_of_the_checkout_say_where_they_are(name: str) -> None:
    outcome = called("bench", *name.split(), "--rounds", "3")
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err == (
        f"vlnbert: this bench is not part of the package; run, in a checkout of vlnbert, python -m benchmarks {name}\n"
    )
