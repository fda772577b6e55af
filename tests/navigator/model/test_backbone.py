"""Backbones by name: anybody's is made, saved, opened and trained like ours, or told in one line why it cannot be."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

from tests.learning.samples import CONFIG, SHAPE, same, weights
from tests.navigator.fast.test_fast_foreign import Plain
from tests.navigator.samples import ONE, TWO, sight, words
from vlnbert.data.data import open_data
from vlnbert.errors import DataError, UnknownNameError, UsageError
from vlnbert.house import generate
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.runs import begin_run, resume_run
from vlnbert.learning.trainer import Trainer
from vlnbert.navigator import BACKBONES, Navigator, NavigatorConfig, key_shapes, register_backbone
from vlnbert.records import from_plain, to_plain, with_changes
from vlnbert.registry import Registry
from vlnbert.weights.exporting import export_weights
from vlnbert.weights.importing import open_navigator


class Buffered(Plain):
    """With a weight of no usual module, a setting of its own, and a buffer that no file holds."""

    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__(config.vocabulary, config.hidden)
        self.gain = nn.Parameter(torch.full((config.hidden,), 3.0))
        self.register_buffer("wave", torch.linspace(0, 1, config.hidden), persistent=False)
        self.scale = config.backbone_settings.get("scale", 1.0)

    def forward(self, state: torch.Tensor, *rest: Any) -> Any:
        return super().forward(state * self.gain * self.scale + self.wave, *rest)


@pytest.fixture(autouse=True)
def only_for_a_test(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What a test registers is gone after it."""
    for name in ("_things", "_homes"):
        monkeypatch.setattr(BACKBONES, name, dict(getattr(BACKBONES, name)))
    return


PLAIN = replace(ONE, backbone="plain", backbone_settings={"scale": 0.5, "note": "a", "fine": True})


def test_ours_are_registered_like_any_other() -> None:
    assert isinstance(BACKBONES, Registry)
    assert {"one-stream", "two-stream", "huggingface"} <= set(BACKBONES)
    assert BACKBONES["two-stream"] is type(Navigator(TWO).backbone)


def test_a_registered_backbone_keeps_its_own_weights() -> None:
    register_backbone("plain")(Buffered)
    torch.manual_seed(5)
    navigator = Navigator(PLAIN)
    torch.manual_seed(5)
    expected = Buffered(PLAIN).state_dict()
    assert all(torch.equal(expected[name], weight) for name, weight in navigator.backbone.state_dict().items())
    assert torch.equal(navigator.backbone.wave, torch.linspace(0, 1, 24))
    assert all(bool(weight.isfinite().all()) for weight in navigator.parameters())
    assert navigator.refinement.project.bias.eq(0).all(), "the rest is drawn as BERT's"


def test_a_function_may_make_it() -> None:
    register_backbone("by-function")(lambda config: Buffered(config))
    assert isinstance(Navigator(replace(PLAIN, backbone="by-function")).backbone, Buffered)


def outcome(navigator: Navigator) -> torch.Tensor:
    instruction = navigator.encode(*words(3, 8))
    step = navigator.step(instruction.state, instruction, sight(navigator.config, 3))
    return torch.cat((step.state, step.logits), dim=1)


class MyNavigator(Navigator):
    def __init__(self, config: NavigatorConfig) -> None:
        super().__init__(config)
        self.extra = nn.Linear(2, 3)


@pytest.mark.parametrize("kind", [Navigator, MyNavigator])
def test_saved_and_opened(tmp_path: Path, kind: type[Navigator]) -> None:
    register_backbone("plain")(Buffered)
    torch.manual_seed(2)
    navigator = kind(PLAIN).eval()
    navigator.save_pretrained(tmp_path / "saved")
    opened = kind.from_pretrained(tmp_path / "saved")
    assert type(opened) is kind
    assert opened.config == PLAIN
    assert same(navigator.state_dict(), opened.state_dict())
    assert torch.equal(outcome(navigator), outcome(opened))
    if kind is Navigator:
        assert torch.equal(outcome(navigator), outcome(open_navigator(tmp_path / "saved")))
        with pytest.raises(DataError, match="has the backbone 'plain', which the published format cannot hold"):
            export_weights(tmp_path / "saved", tmp_path / "agent.pt")


def test_a_ready_module(tmp_path: Path) -> None:
    backbone = Buffered(PLAIN)
    navigator = Navigator(PLAIN, backbone=backbone).eval()
    assert navigator.backbone is backbone
    navigator.save_pretrained(tmp_path / "saved")
    with pytest.raises(DataError) as caught:
        Navigator.from_pretrained(tmp_path / "saved")
    (line,) = str(caught.value).splitlines()
    assert line.startswith(f"{tmp_path / 'saved' / 'config.json'}: no backbone 'plain'; known: huggingface, ")
    assert line.endswith("; load its plugin: --plugin FILE, or vln.load_plugin(FILE)")
    register_backbone("plain")(Buffered)
    assert torch.equal(outcome(navigator), outcome(Navigator.from_pretrained(tmp_path / "saved")))


def test_unknown_names_are_told_when_a_navigator_is_made() -> None:
    config = replace(ONE, backbone="clever")
    known = "known: huggingface, .*one-stream, two-stream; or load its plugin: --plugin FILE, or .*"
    with pytest.raises(UnknownNameError, match=f"^no backbone 'clever'; {known}$"):
        Navigator(config)
    with pytest.raises(UnknownNameError, match="did you mean two-stream"):
        key_shapes(replace(ONE, backbone="two-steam"))


def test_another_width_is_one_line() -> None:
    register_backbone("wide")(lambda config: Plain(config.vocabulary, config.hidden + 2))
    with pytest.raises(
        UsageError, match=r"^Plain gave float32 \[3, 26\] for Instruction.state; expected .* \[3, 24\]$"
    ):
        outcome(Navigator(replace(ONE, backbone="wide")))


def test_settings_are_recorded() -> None:
    experiment = with_changes(Experiment(), {"backbone": "plain", "backbone_settings": PLAIN.backbone_settings})
    assert experiment.navigator.backbone_settings == {"scale": 0.5, "note": "a", "fine": True}
    assert from_plain(Experiment, to_plain(experiment)) == experiment
    assert hash(experiment.navigator)
    with pytest.raises(UsageError, match="backbone_settings"):
        from_plain(NavigatorConfig, {"backbone_settings": {"a": [1]}})


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("backbones") / "house"
    generate(folder, scans=3, paths_per_scan=8)
    return folder


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_it_learns_and_resumes_with_the_same_bits(house: Path, tmp_path: Path, precision: Any) -> None:
    register_backbone("plain")(Buffered)
    trains_and_resumes(house, tmp_path, replace(SHAPE, backbone="plain"), precision)


def trains_and_resumes(house: Path, folder: Path, shape: NavigatorConfig, precision: Any) -> tuple[Any, Any]:
    """Six updates at once, and twice three with a stop between; the weights before and after."""
    training, names = replace(CONFIG, iterations=6, validate_every=6, precision=precision), ("r2r/val_unseen",)
    experiment = Experiment(validate_on=names, navigator=shape, training=training, max_tokens=30)
    whole = begin_run("custom", experiment, open_data(house), folder / "whole")
    before = {name: weight.clone() for name, weight in whole.model.state_dict().items()}
    whole.train()
    half = begin_run("custom", experiment, open_data(house), folder / "half")
    half.callbacks = [Stopper(half, 3)]
    half.train()
    assert half.progress.iteration == 3
    resume_run(folder / "half").train()
    after = weights(folder / "whole")
    assert same(after, weights(folder / "half"))
    assert not same(before, after)
    return before, after


class Stopper:
    def __init__(self, run: Trainer, after: int) -> None:
        self.run, self.after = run, after

    def updated(self, iteration: int, *_: object) -> None:
        self.run.stopping = iteration >= self.after

    def validated(self, *_: object) -> None: ...
