"""Experiments in files: what is written is read, and what does not fit is told by its name, with the file's."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import vlnbert as vln
from vlnbert.errors import DataError, UnknownNameError, UsageError
from vlnbert.learning.experiment import Experiment
from vlnbert.learning.presets import Preset, presets, read_experiment
from vlnbert.learning.rewards import REWARDS


def written(folder: Path, values: Any) -> Path:
    path = folder / "mine.json"
    path.write_text(values if isinstance(values, str) else json.dumps(values))
    return path


@pytest.mark.parametrize("preset", presets.values(), ids=lambda preset: preset.name)
def test_what_is_saved_is_read(preset: Preset, tmp_path: Path) -> None:
    path = vln.save_experiment(preset.experiment, tmp_path / "mine.json")
    assert read_experiment(path).experiment == preset.experiment
    again = read_experiment(vln.save_experiment(preset, tmp_path / "named.json"))
    assert (again.name, again.description, again.experiment) == (preset.name, preset.description, preset.experiment)


def test_a_file_says_in_what_it_differs(tmp_path: Path) -> None:
    demo = presets["demo"]
    values = {
        "preset": "demo",
        "description": "mine",
        "training": {"batch": 8, "objective": {"entropy": 0.5}},
        "training.warmup": 3,
        "hidden": 32,
        "validate_on": ["r2r/val_seen", "r2r/val_unseen"],
        "navigator": {},
    }
    found = read_experiment(written(tmp_path, values))
    objective = replace(demo.experiment.training.objective, entropy=0.5)
    assert found == Preset(
        "mine",
        "mine",
        replace(
            demo.experiment,
            validate_on=("r2r/val_seen", "r2r/val_unseen"),
            navigator=replace(demo.experiment.navigator, hidden=32),
            training=replace(demo.experiment.training, batch=8, warmup=3, objective=objective),
        ),
        asked=("training.batch", "training.objective.entropy", "training.warmup", "navigator.hidden", "validate_on"),
    )
    assert read_experiment(written(tmp_path, {"name": "x"})) == Preset("x", "", Experiment())


def test_what_a_file_says_is_chosen(tmp_path: Path) -> None:
    """As in Python and on the command line, though the preset says the same; a saved experiment says all, by itself."""
    demo = presets["demo"].experiment
    said = {"preset": "demo", "batch": demo.training.batch, "navigator": {"layers": demo.navigator.layers}}
    assert read_experiment(written(tmp_path, said)).asked == ("training.batch", "navigator.layers")
    saved = read_experiment(vln.save_experiment(demo, tmp_path / "saved.json"))
    assert "training.batch" in saved.asked, "it is not the default"
    assert "features.max_objects" not in saved.asked


def test_settings_of_a_backbone_are_a_table(tmp_path: Path) -> None:
    table = {"encoder": "roberta-base", "frozen": True}
    for values in (
        {"navigator": {"backbone": "huggingface", "backbone_settings": table}},
        {"backbone": "huggingface", "navigator.backbone_settings": table},
        {"backbone": "huggingface", "backbone_settings": table},
    ):
        found = read_experiment(written(tmp_path, {"preset": "demo", **values})).experiment
        assert found.navigator.backbone_settings == table
    again = read_experiment(vln.save_experiment(found, tmp_path / "again.json")).experiment
    assert again == found
    shorter = read_experiment(written(tmp_path, {"preset": "demo", "backbone_settings": {"frozen": False}}))
    assert shorter.experiment.navigator.backbone_settings == {"frozen": False}


BAD: dict[str, tuple[Any, str]] = {
    "a table of tables": (
        {"backbone_settings": {"encoder": {"name": "mine"}}},
        "navigator.backbone_settings is .*, where dict.* is expected; mend it",
    ),
    "an unknown key": (
        {"preset": "demo", "trainig.batch": 4},
        "no setting 'trainig.batch'; did you mean training.batch",
    ),
    "one within": ({"training": {"bach": 4}}, "no setting 'training.bach'; did you mean training.batch"),
    "a wrong type": ({"training.batch": "four"}, "training.batch is 'four', where int is expected; mend it"),
    "nonsense": ({"training.batch": 3}, "a batch of 3 has no two halves; choose an even number"),
    "by place and by name": ({"training.batch": 4, "batch": 8}, "says training.batch twice; leave one of them"),
    "nested and by place": ({"training": {"batch": 4}, "training.batch": 8}, "says training.batch twice; leave one"),
    "a list": ([], "is no JSON object; write settings by their names"),
    "no JSON": ("{", r"is not whole JSON .*; mend it"),
    "a preset that is none": ({"preset": 7}, "preset is 7, where a text is expected"),
    "plugins that are none": ({"plugins": "my.py"}, "plugins is 'my.py', where a list of texts is expected"),
}


@pytest.mark.parametrize("kind", BAD)
def test_what_does_not_fit_is_told(tmp_path: Path, kind: str) -> None:
    values, words = BAD[kind]
    path = written(tmp_path, values)
    with pytest.raises(DataError, match=rf"^{path}: (line .*: )?{words}") as caught:
        read_experiment(path)
    assert len(str(caught.value).splitlines()) == 1


def test_what_is_not_there_is_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere.json: no such experiment; name a JSON file of settings, or a preset"):
        vln.train("nowhere.json", tmp_path, tmp_path / "run")
    with pytest.raises(UnknownNameError, match="no preset 'dmeo'; did you mean demo"):
        read_experiment(written(tmp_path, {"preset": "dmeo"}))
    with pytest.raises(UsageError, match=rf"mine.json names the plugin {tmp_path / 'my.py'}, which is no longer there"):
        read_experiment(written(tmp_path, {"plugins": ["my.py"]}))


def test_plugins_lie_beside_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget_plugins: Callable[[], None]
) -> None:
    (tmp_path / "my.py").write_text(
        "import vlnbert as vln\nvln.register_reward('mine')(lambda rollout, batch, world: None)\n"
    )
    path = written(tmp_path, {"preset": "demo", "plugins": ["my.py"], "training.reward": "mine"})
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    words = (
        rf"^{path} names the plugin {tmp_path / 'my.py'}, with which nothing was trained on this machine; if you trust"
    )
    with pytest.raises(UsageError, match=words):
        read_experiment(path)
    assert "mine" not in REWARDS
    vln.load_plugin(tmp_path / "my.py")
    assert read_experiment(path).experiment.training.reward == "mine"
    assert "mine" in REWARDS
