"""The example that sees nothing: every view looks alike, and a run of it evaluates by its plugin."""

from collections.abc import Callable
from pathlib import Path

import torch

import vlnbert as vln
from tests.api.conftest import SPLIT
from tests.api.conftest import TINY as CHANGES
from tests.cli.conftest import TINY, called
from tests.examples.conftest import EXAMPLES

EXAMPLE = EXAMPLES / "blind.py"
UPDATES = ("--training.iterations", CHANGES["iterations"], "--training.validate-every", CHANGES["validate_every"])


def test_it_trains_on_directions_alone(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    words = ("train", "demo", "--features.views", "nothing", "--data", house, "--out", tmp_path / "run")
    outcome = called("--plugin", EXAMPLE, *words, *TINY, *UPDATES)
    assert outcome.code == 0, outcome.err
    forget_plugins()
    run = vln.open_run(tmp_path / "run")
    assert run.navigator.config.feature_width == 1
    bank = vln.open_data(house, features="nothing").view_bank
    assert not bank.look(torch.arange(4)).any()
    assert vln.evaluate(run, split=SPLIT, bar=False).scores
