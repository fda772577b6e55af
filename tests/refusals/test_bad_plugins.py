"""What can be wrong with somebody's own parts: one line, exit code 2, and no run is left behind."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import TINY, called
from tests.navigator.encoders import save_encoder

REWARD = """
import vlnbert as vln

vln.register_reward("mine")(lambda rollout, batch, world: {gives})
"""
BACKBONE = """
import vlnbert as vln
from torch import nn
from vlnbert.navigator import BackboneOutput, Instruction, Language

@vln.register_backbone("mine")
class Mine(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.hidden + {wider})

    def encode(self, tokens, mask):
        words = self.words(tokens)
        return Instruction(words[:, 0], Language(words[:, 1:], mask[:, 1:], kv_cache=None))

    def forward(self, state, visual, language, attention_maps=False):
        seen = (visual.tokens @ state[:, :, None]).squeeze(2)
        return BackboneOutput(state, seen[:, {from_slot}:], language.mask.float(), language, None)
"""
TASK = """
from dataclasses import replace
import vlnbert as vln

@vln.register_task
class Mine(vln.R2R):
    name = "mine"
    metrics = (vln.Metric("wins"),)

    def files(self, folder):
        return folder.instruction_files("r2r")

    def measure(self, world, episodes, trajectories):
        return {gives}
"""
RAGGED = """
    def read(self, path):
        for record in super().read(path):
            yield replace(record, extra={"ways": list(range(len(record.path)))})
"""
ON_MINE = ("--train-on", "mine/train", "--validate-on", "mine/val_unseen", "--best-on", "mine/val_unseen")
CAPTURING = """
def waits():
    raise RuntimeError("operation not permitted when stream is capturing")
"""
# What the plugin's file holds, the settings that name what it registers, and what is told.
BAD: dict[str, tuple[str, tuple[str, ...], str]] = {
    "does not import": ("import nothing_of_this_name", (), "cannot be imported (ModuleNotFoundError: No module named"),
    "no Python": ("def (", (), "cannot be imported (SyntaxError"),
    "a name of ours": (REWARD.replace('"mine"', '"paper"'), (), "two rewards are called 'paper', of vlnbert.learning."),
    "a task without a reader": (
        "import vlnbert as vln\n\n@vln.register_task\nclass Mute(vln.Task):\n    name = 'mute'",
        (),
        "the task mute has no reader; define read(self, path), or inherit that of vln.R2R",
    ),
    "a task without a name": (
        "import vlnbert as vln\n\nvln.register_task(type('Nameless', (vln.R2R,), {'name': ''}))",
        (),
        "the task Nameless has no name; give it one: name = ...",
    ),
    "a task with a metric that nobody has": (
        "import vlnbert as vln\n\nvln.register_task(type('Odd', (vln.R2R,), {'name': 'odd', 'best_metric': 'wins'}))",
        (),
        "the task odd cannot choose its best weights by 'wins'; set best_metric to one of sr, osr, spl,",
    ),
    "a task with a metric of the wrong length": (
        TASK.format(gives="{'wins': episodes.path_length[:1]}"),
        ON_MINE,
        "the task mine measures 'wins' as a tensor of the shape [1]; give one number for each of the 3 episodes",
    ),
    "a task with a metric that it does not name": (
        TASK.format(gives="{'losses': episodes.path_length}"),
        ON_MINE,
        "the task mine measures losses, where its metrics are wins; let measure return a dict with each of these",
    ),
    "a task whose measure fails": (
        TASK.format(gives="{'wins': episodes.extra['length']}"),
        ON_MINE,
        "no user-defined field 'length' in these episodes; known: none",
    ),
    "a task with fields that do not fit": (
        TASK.format(gives="{}").replace("{}", "{}\n" + RAGGED, 1),
        ON_MINE,
        "has the shape [",
    ),
    "a wider backbone": (
        BACKBONE.format(wider=1, from_slot=0),
        ("--navigator.backbone", "mine"),
        "Mine gave float32 [4, 17] for Instruction.state; expected is a floating tensor [4, 16]",
    ),
    "a backbone that scores too few": (
        BACKBONE.format(wider=0, from_slot=1),
        ("--navigator.backbone", "mine"),
        "for BackboneOutput.visual_scores; expected is a floating tensor [4, ",
    ),
    "a reward of another shape": (
        REWARD.format(gives="rollout.viewpoint.float()"),
        ("--training.reward", "mine"),
        "the reward 'mine' has the shape [5, 4], not [time, row], here [4, 4]; mend it, or choose another",
    ),
    "a reward that takes too few": (
        "import vlnbert as vln\n\nvln.register_reward('mine')(lambda rollout: rollout)",
        (),
        "the reward 'mine' takes other arguments; a function is called with (rollout, batch, world)",
    ),
    "features of another world": (
        "import torch\nimport vlnbert as vln\n\nvln.register_features('mine')(lambda world: torch.zeros(3, 36, 5))",
        ("--features.views", "mine"),
        "the features 'mine' have the shape [3, 36, 5]; in this world they have",
    ),
}


def refused(*words: object) -> str:
    """The one line with which a command is refused."""
    outcome = called(*words)
    assert outcome.code == 2, outcome.err
    assert len(outcome.err.splitlines()) == 1, outcome.err
    return outcome.err


@pytest.mark.parametrize("kind", BAD)
def test_it_is_told_and_nothing_is_left(
    kind: str, house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    source, settings, told = BAD[kind]
    (tmp_path / "my.py").write_text(source)
    words = ("train", "demo", "--data", house, "--out", tmp_path / "run", *TINY, *settings)
    assert told in refused("--plugin", tmp_path / "my.py", *words)
    assert not (tmp_path / "run").exists()


def test_two_of_one_name(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    for name in ("one.py", "two.py"):
        (tmp_path / name).write_text(REWARD.format(gives="None"))
    both = [f"--plugin={tmp_path / name}" for name in ("one.py", "two.py")]
    told = refused(*both, "train", "demo", "--data", house, "--out", tmp_path / "run")
    assert f"two rewards are called 'mine', of {tmp_path / 'one.py'} and of {tmp_path / 'two.py'}; give one" in told
    assert not (tmp_path / "run").exists()


def test_a_reward_that_waits_while_a_graph_is_recorded(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget_plugins: Callable[[], None]
) -> None:
    """On a GPU the second update is recorded, and to wait then raises; both are faked here."""
    from vlnbert.learning.updates import EagerUpdate, unrecordable

    (tmp_path / "my.py").write_text(REWARD.format(gives="waits()") + CAPTURING)
    accumulate = EagerUpdate.accumulate

    def recorded(self: EagerUpdate, *words: object) -> object:
        try:
            return accumulate(self, *words)  # type: ignore[arg-type]
        except RuntimeError as error:
            raise unrecordable(error) from error

    monkeypatch.setattr(EagerUpdate, "accumulate", recorded)
    words = ("train", "demo", "--data", house, "--out", tmp_path / "run", *TINY, "--training.reward", "mine")
    told = refused("--plugin", tmp_path / "my.py", *words)
    assert told.startswith("vlnbert: my.py line ")
    assert "waits for the device" in told
    assert told.endswith("; keep it on the device, or train with --training.no-graphs\n")
    assert not (tmp_path / "run").exists()


def test_an_encoder_without_a_tokenizer(house: Path, tmp_path: Path) -> None:
    encoder = save_encoder(tmp_path / "encoder", "bert", tokenizer=False)
    named = ("--navigator.backbone", "huggingface", "--navigator.backbone-settings", f"encoder={encoder}")
    told = refused("train", "demo", "--data", house, "--out", tmp_path / "run", *TINY, *named)
    assert f"{encoder}: has no tokenizer that the library tokenizers can run; give the folder of an encoder" in told
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("given", [{}, {"frozen": True}, {"encoder": "here", "size": 3}])
def test_a_backbone_without_its_settings(given: dict[str, object], house: Path, tmp_path: Path) -> None:
    settings = {"preset": "demo", "navigator.backbone": "huggingface", "backbone_settings": given}
    (tmp_path / "my.json").write_text(json.dumps(settings))
    told = refused("train", tmp_path / "my.json", "--data", house, "--out", tmp_path / "run")
    wanted = "backbone_settings has size; huggingface knows encoder and frozen" if "size" in given else "needs an encod"
    assert wanted in told
    assert not (tmp_path / "run").exists()


def test_weights_of_another_backbone(house: Path, tmp_path: Path) -> None:
    encoder = save_encoder(tmp_path / "encoder", "bert")
    named = ("--start", encoder, "--navigator.backbone", "huggingface")
    told = refused("train", "demo", "--data", house, "--out", tmp_path / "run", *named)
    assert f"{encoder} holds no weights of a huggingface backbone; start from none (--start None), or from a" in told
    assert not (tmp_path / "run").exists()


def test_a_folder_that_was_there_and_empty(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    """It is taken for the run's, and a mended plugin trains into a folder of the same name."""
    plugin, run = tmp_path / "my.py", tmp_path / "run"
    run.mkdir()
    plugin.write_text(REWARD.format(gives="None"))
    words = ("train", "demo", "--data", house, "--out", run, *TINY, "--training.reward", "mine")
    updates = ("--training.iterations", "2", "--training.validate-every", "2")
    assert "gives a NoneType, not a tensor" in refused("--plugin", plugin, *words, *updates)
    forget_plugins()
    plugin.write_text(REWARD.format(gives="rollout.slot.float()"))
    assert called("--plugin", plugin, *words, *updates).code == 0
