"""A backbone of one's own, in one file: trained, resumed, evaluated and found as a plugin."""

import json
import runpy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import vlnbert as vln
from tests.cli.conftest import TINY, called
from tests.learning.samples import same, weights
from vlnbert.house import generate
from vlnbert.navigator import BACKBONES, Navigator, fast
from vlnbert.plugins import load_plugin

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "own_backbone.py"
FEW = {"batch": 8, "warmup": 0, "validate_every": 6, "max_steps": 5, "iterations": 6}


pytestmark = pytest.mark.usefixtures("forget_plugins")


class Stop:
    """Interrupts a training after some updates."""

    def __init__(self, after: int) -> None:
        self.after = after

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        if iteration == self.after:
            raise KeyboardInterrupt

    def validated(self, *_: object) -> None: ...


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 60


def test_importing_it_registers_it() -> None:
    module = load_plugin(EXAMPLE)
    assert BACKBONES["my-transformer"] is module.MyTransformer
    assert load_plugin(EXAMPLE) is module


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_it_trains_resumes_and_is_evaluated(data: vln.Data, tmp_path: Path, precision: str) -> None:
    train = load_plugin(EXAMPLE).train
    quiet = {"bar": False, "tensorboard": False, "precision": precision, "report_every": 1, **FEW}
    run = train(data, tmp_path / "whole", **quiet)
    with pytest.raises(KeyboardInterrupt):
        train(data, tmp_path / "halves", callbacks=[Stop(4)], **{**quiet, "validate_every": 2})
    resumed = vln.resume(tmp_path / "halves", data, bar=False, tensorboard=False)
    one, two = (
        Navigator.from_pretrained(folder / "checkpoints" / "0000006") for folder in (run.folder, resumed.folder)
    )
    assert same(one.state_dict(), two.state_dict())
    assert type(one.backbone).__name__ == "MyTransformer"
    assert "r2r/val_unseen" in repr(vln.evaluate(run, data, split="r2r/val_unseen", bar=False))


def test_from_the_command_line(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    """Trained, resumed, evaluated and started from: the run remembers its plugin."""
    updates = ("--data", house, *TINY, "--training.iterations", "4", "--training.validate-every", "2")
    named = ("--navigator.backbone", "my-transformer")
    outcome = called("--plugin", EXAMPLE, "train", "demo", "--out", tmp_path / "run", *updates, *named)
    assert outcome.code == 0, outcome.err
    last = weights(tmp_path / "run")
    forget_plugins()
    resumed = called("train", "--resume", tmp_path / "run")
    assert resumed.code == 0, resumed.err
    assert same(weights(tmp_path / "run"), last)
    forget_plugins()
    words = ("--data", house, "--splits", "val_unseen", "--json")
    scored = called("evaluate", tmp_path / "run", *words)
    assert scored.code == 0, scored.err
    forget_plugins()
    begun = called("train", "demo", "--out", tmp_path / "second", "--start", tmp_path / "run", *updates)
    assert begun.code == 0, begun.err
    second = vln.open_run(tmp_path / "second")
    assert second.record.plugins == (str(EXAMPLE),), "so that it can be resumed as well"
    assert second.navigator.config.backbone == "my-transformer"
    forget_plugins()
    assert json.loads(called("evaluate", second.folder, *words).out).keys() == {"r2r/val_unseen"}
    forget_plugins()
    missed = called("evaluate", tmp_path / "run" / "best", *words)
    assert (missed.code, len(missed.err.splitlines())) == (2, 1)
    assert "no backbone 'my-transformer'; " in missed.err
    assert missed.err.endswith("load its plugin: --plugin FILE, or vln.load_plugin(FILE)\n")


def test_padding_and_a_pass_change_nothing(data: vln.Data) -> None:
    load_plugin(EXAMPLE)
    config = vln.presets["demo"].experiment.navigator
    settings = {**vars(config), "backbone": "my-transformer", "vocabulary": 90, "feature_width": data.view_bank.width}
    navigator = Navigator(vln.NavigatorConfig(**settings)).eval()
    tokens = torch.randint(4, 90, (3, 9))
    tokens[1:, 6:] = 0
    whole = navigator.encode(tokens, tokens != 0)
    alone = navigator.encode(tokens[1:, :6], tokens[1:, :6] != 0)
    torch.testing.assert_close(whole.state[1:], alone.state, rtol=1e-4, atol=1e-5)
    with fast.enabled(torch.bfloat16):
        found = navigator.encode(tokens, tokens != 0)
    assert found.state.dtype == torch.bfloat16
    torch.testing.assert_close(found.state.float(), whole.state, rtol=0.1, atol=0.1)


def test_it_is_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With a smaller house and fewer updates than it asks for."""

    def house(folder: str, seed: int) -> vln.Data:
        generate(Path(folder) / "house", seed=seed, scans=3, paths_per_scan=8)
        return vln.open_data(Path(folder) / "house")

    train = vln.train
    monkeypatch.setattr(vln, "generate_house", house, raising=False)
    monkeypatch.setattr(vln, "train", lambda *words, **more: train(*words, **{**more, **FEW}), raising=False)
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), str(tmp_path / "run")])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "r2r/val_unseen" in capsys.readouterr().out
    assert (tmp_path / "run" / "best").is_dir()
