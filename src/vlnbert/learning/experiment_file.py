"""Experiments in files of their own: a JSON object that says in what they differ from a preset.

    {"preset": "r2r-open", "plugins": ["my.py"], "training.batch": 256, "navigator": {"hidden": 512}}

`preset` is what the experiment starts from; without it, every setting that is not named has its default. `plugins` are
what it needs, files by their paths from the file; they are loaded first, if they may be. `name` and `description` are
for people. All else are settings, nested or by their places.
"""

from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from typing import Any

from vlnbert.errors import DataError, UnknownNameError, UsageError
from vlnbert.learning.experiment import ExperimentSettings
from vlnbert.learning.presets import Preset, presets
from vlnbert.learning.recipe import RECIPES
from vlnbert.plugins import load_recorded
from vlnbert.records import asked_places, places_of, to_plain, with_changes
from vlnbert.sources.files import is_list_of, read_json
from vlnbert.sources.writing import write_json

SUFFIX = ".json"
WORDS = ("preset", "name", "description")  # beside the settings, each a text


def read_experiment(path: str | Path) -> Preset:
    """Read the experiment of a file, its plugins loaded if they may be; a fault is named with its setting."""
    path = Path(path)
    values: Any = read_json(path, "experiment", "name a JSON file of settings, or a preset", damaged="mend it")
    if not isinstance(values, dict):
        raise DataError(path, "is no JSON object", "write settings by their names")
    settings = dict(values)
    texts = {word: settings.pop(word) for word in WORDS if word in settings}
    plugins = settings.pop("plugins", [])
    for word, text in texts.items():
        if not isinstance(text, str):
            raise DataError(path, f"{word} is {text!r}, where a text is expected", "write it in quotes")
    if not is_list_of(plugins, str):
        raise DataError(path, f"plugins is {plugins!r}, where a list of texts is expected", 'write ["my.py"]')
    beside = [str((path.parent / plugin).resolve()) if plugin.endswith(".py") else plugin for plugin in plugins]
    load_recorded(beside, f"{path} names")
    named = {name.partition(".")[0] for name in settings}
    recipe = RECIPES[next((name for name in RECIPES if name in named), "navigator")]
    plain = Preset("", "", recipe.experiment())
    base = presets[texts["preset"]] if "preset" in texts else plain
    pairs = list(_settings(settings, set(_tables(base.experiment))))
    said = dict(pairs)
    try:
        experiment = with_changes(base.experiment, said)
        places = places_of(experiment, [name for name, _ in pairs])
        if repeated := [place for place in places if places.count(place) > 1]:
            raise DataError(path, f"says {repeated[0]} twice", "leave one of them")
    except (UnknownNameError, UsageError) as error:
        problem, _, remedy = str(error).partition("; ")
        raise DataError(path, problem, remedy or "mend it") from None
    description = texts.get("description", base.description)
    whole = all(
        item.name in settings for item in fields(base.experiment)
    )  # a saved one, in which nobody chose all it says
    asked = asked_places(experiment, base.experiment, () if whole else said)
    return replace(base, name=texts.get("name", path.stem), description=description, experiment=experiment, asked=asked)


def save_experiment(experiment: ExperimentSettings | Preset, path: str | Path) -> Path:
    """Write an experiment with all its settings, as `vln.train(path)` and `vlnbert train FILE` read it.

    Args:
        experiment: The experiment, such as `run.experiment`, or a preset.
        path: The JSON file to write.
    """
    write_json(Path(path), experiment_values(experiment), indent=2)
    return Path(path)


def experiment_values(experiment: ExperimentSettings | Preset) -> dict[str, Any]:
    """The plain values that a file holds of an experiment."""
    if not isinstance(experiment, Preset):
        return to_plain(experiment)
    return {"name": experiment.name, "description": experiment.description, **to_plain(experiment.experiment)}


def _settings(values: Mapping[str, Any], tables: set[str], place: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings by their places; tables are settings themselves."""
    for name, value in values.items():
        if isinstance(value, Mapping) and f"{place}{name}" not in tables:
            yield from _settings(value, tables, f"{place}{name}.")
        else:
            yield f"{place}{name}", value


def _tables(settings: Any, place: str = "") -> Iterator[str]:
    """The settings that hold names of anybody's choice, such as backbone_settings, by their names and places."""
    for name, value in vars(settings).items():
        if is_dataclass(value):
            yield from _tables(value, f"{place}{name}.")
        elif isinstance(value, dict):
            yield from (name, f"{place}{name}")
