"""--plugin and experiment files from the command line: loaded first, listed, recorded, and missed in one line."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest

import vlnbert as vln
from tests.cli.conftest import TINY, Outcome
from tests.learning.samples import same, weights
from vlnbert.cli.main import PLUGIN

Run = Callable[..., Outcome]
UPDATES = ("--training.iterations", "4", "--training.validate-every", "2")
SOURCE = """
import torch
import vlnbert as vln

vln.register_reward("mine")(lambda rollout, batch, world: torch.ones(rollout.slot.shape))
vln.register_features("mine")(lambda world: torch.ones(len(world), 36, 3))
"""


@pytest.fixture
def plugin(tmp_path: Path, forget_plugins: Callable[[], None]) -> Path:
    path = tmp_path / "my.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize("place", ["before", "after", "joined"])
def test_it_may_stand_anywhere(run: Run, plugin: Path, place: str) -> None:
    words = {
        "before": (PLUGIN, plugin, "plugins", "--json"),
        "after": ("plugins", PLUGIN, plugin, "--json"),
        "joined": ("plugins", "--json", f"{PLUGIN}={plugin}"),
    }
    found = json.loads(run(*words[place]).out)
    assert found["reward"]["mine"] == found["features"]["mine"] == str(plugin)
    assert found["reward"]["paper"] == "vlnbert.learning.rewards"


def test_a_module_by_name(run: Run, plugin: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin.rename(plugin.with_name("plugin_by_name.py"))
    monkeypatch.syspath_prepend(plugin.parent)
    outcome = run(f"{PLUGIN}=plugin_by_name", "plugins")
    assert outcome.code == 0
    rows = {tuple(line.split()) for line in outcome.out.splitlines()}
    home = str(plugin.with_name("plugin_by_name.py"))
    assert {
        ("reward", "mine", home),
        ("features", "mine", home),
        ("reward", "paper", "vlnbert.learning.rewards"),
    } <= rows


def test_the_menu_tells_of_it(run: Run) -> None:
    assert "vlnbert --plugin my.py VERB" in run("--help").out


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ((PLUGIN,), "--plugin names no plugin"),
        ((f"{PLUGIN}=",), "--plugin names no plugin"),
        (("plugins", PLUGIN, "--json"), "--plugin names no plugin"),
        ((PLUGIN, "nowhere.py", "plugins"), "no plugin at"),
        ((PLUGIN, "no_such_module_here", "plugins"), "the plugin no_such_module_here cannot be imported"),
    ],
)
def test_what_cannot_be_loaded(run: Run, words: tuple[str, ...], told: str) -> None:
    outcome = run(*words)
    assert (outcome.code, outcome.out) == (2, "")
    assert outcome.err.startswith(f"vlnbert: {told}")
    assert len(outcome.err.splitlines()) == 1


def test_a_run_by_its_plugin(
    run: Run, house: Path, plugin: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    words = ("--data", house, "--training.reward", "mine", "--features.views", "mine", *TINY, *UPDATES)
    begun = run("train", "demo", "--out", tmp_path / "run", *words, PLUGIN, plugin)
    assert begun.code == 0, begun.err
    record = vln.open_run(tmp_path / "run").record
    assert record.plugins == (str(plugin),)
    assert (record.experiment.training.reward, record.experiment.features.views) == ("mine", "mine")
    assert record.experiment.needs == ("graphs", "vocabulary", "r2r")
    forget_plugins()
    again = run("train", "--resume", tmp_path / "run")
    assert again.code == 0, again.err
    forget_plugins()
    scored = run("evaluate", tmp_path / "run", "--data", house, "--splits", "val_unseen", "--json")
    assert scored.code == 0, scored.err
    forget_plugins()
    assert vln.report(tmp_path / "run", tmp_path / "report.html", house, bar=False).is_file()
    forget_plugins()
    plugin.write_text(SOURCE.replace("torch.ones(len", "torch.zeros(len"))
    refused = run("train", "--resume", tmp_path / "run")
    told = f"vlnbert: the run was begun with the plugin {plugin}, which has changed, or a module beside it has, since"
    assert (refused.code, refused.err.startswith(told)) == (2, True), refused.err
    changed = run("train", "--resume", tmp_path / "run", PLUGIN, plugin)
    assert (changed.code, "features changed since the run began" in changed.err) == (2, True)
    forget_plugins()
    plugin.unlink()
    for verb in (("train", "--resume", tmp_path / "run"), ("evaluate", tmp_path / "run", "--data", house)):
        gone = run(*verb)
        assert gone.code == 2
        assert f"the plugin {plugin}, which is no longer there; load its plugin: --plugin FILE" in gone.err
        assert len(gone.err.splitlines()) == 1


def test_an_experiment_of_a_file(
    run: Run, house: Path, plugin: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    """Options hold over the file's settings; from Python it trains the same."""
    settings = {"batch": 4, "max_steps": 4, "report_every": 1, "iterations": 4, "validate_every": 2, "reward": "mine"}
    values = {"preset": "demo", "plugins": ["my.py"], "training": settings}
    shape = {f"navigator.{name}": value for name, value in {"hidden": 16, "heads": 2, "inner": 32}.items()}
    file = tmp_path / "of_mine.json"
    file.write_text(json.dumps({**values, **shape}))
    words = ("train", file, "--data", house, "--out", tmp_path / "run", "--threads", 1, "--training.seed", "5")
    refused = run(*words)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert f"{file} names the plugin {plugin}, with which nothing was trained on this machine" in refused.err
    assert not (tmp_path / "run").exists()
    outcome = run(*words, PLUGIN, plugin)
    assert outcome.code == 0, outcome.err
    found = vln.open_run(tmp_path / "run")
    training = found.experiment.training
    assert (found.preset, training.reward, training.seed, training.batch) == ("of_mine", "mine", 5, 4)
    forget_plugins()
    other = vln.train(str(file), house, tmp_path / "other", threads=1, bar=False, tensorboard=False, seed=5)
    assert other.experiment == found.experiment
    assert same(weights(other.folder), weights(found.folder))
    vln.save_experiment(found.experiment, tmp_path / "again.json")
    again = vln.train(tmp_path / "again.json", house, tmp_path / "again", threads=1, bar=False, tensorboard=False)
    assert same(weights(again.folder), weights(found.folder))


def test_an_unknown_key_leaves_nothing(run: Run, house: Path, tmp_path: Path) -> None:
    (tmp_path / "my.json").write_text('{"preset": "demo", "training": {"bach": 4}}')
    outcome = run("train", tmp_path / "my.json", "--data", house, "--out", tmp_path / "run")
    assert (outcome.code, outcome.out) == (2, "")
    line = f"vlnbert: {tmp_path / 'my.json'}: no setting 'training.bach'; did you mean training.batch"
    assert outcome.err.startswith(line)
    assert len(outcome.err.splitlines()) == 1
    assert not (tmp_path / "run").exists()


def test_a_preset_is_printed_as_a_file(run: Run, tmp_path: Path) -> None:
    from vlnbert.learning.presets import read_experiment

    (tmp_path / "my.json").write_text(run("presets", "r2r-open").out)
    found, preset = read_experiment(tmp_path / "my.json"), vln.presets["r2r-open"]
    assert (found.name, found.description, found.experiment) == (preset.name, preset.description, preset.experiment)
    assert "navigator.hidden" in found.asked, "what a file says is meant"
    assert run("presets", "r2r-opne").code == 2
