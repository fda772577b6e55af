"""Named experiments, and experiments in files: a JSON object that says in what they differ from a preset.

    {"preset": "r2r-open", "plugins": ["my.py"], "training.batch": 256, "navigator": {"hidden": 512}}

`preset` is what the experiment starts from; without it, every setting that is not named has its default. `plugins` are
what it needs, files by their paths from the file; they are loaded first, if they may be. `name` and `description` are
for people. All else are settings, nested or by their places.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar

from vlnbert.errors import DataError, UnknownNameError, UsageError
from vlnbert.features.spec import WITHOUT_NAMES, FeatureSpec
from vlnbert.learning.experiment import Experiment, ExperimentSettings, TrainConfig
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.recipe import RECIPES
from vlnbert.learning.rewards import RewardConfig
from vlnbert.navigator import SIZES, NavigatorConfig
from vlnbert.plugins import load_recorded
from vlnbert.records import asked_places, places_of, to_plain, with_changes
from vlnbert.sources.files import is_list_of, read_json
from vlnbert.sources.writing import write_json
from vlnbert.tables import Table, Tabled


@dataclass(frozen=True)
class Preset:
    """An experiment by name."""

    name: str
    description: str
    experiment: ExperimentSettings
    start_hint: str = ""  # said to who starts from random weights where the recipe does not
    asked: tuple[str, ...] = ()  # places of the settings that somebody chose, beside what a preset of ours says


class LazyPreset(NamedTuple):
    """A preset of a package behind this one: its module, imported on first use, has it in its `PRESETS`."""

    name: str
    module: str


ONE, TWO = SIZES["base"]["one-stream"], SIZES["base"]["two-stream"]
OSCAR = "the paper's agent starts from OSCAR's"
PREVALENT = "the paper's agent starts from PREVALENT's"
HOPS = RewardConfig(unit="hops")  # as the published agents counted


def _paper(navigator: NavigatorConfig, training: TrainConfig | None = None) -> Experiment:
    """The paper's R2R recipe: R2R and augmented batches in turn, 300,000 updates of 8 + 8 rows."""
    training = training or TrainConfig(rewards=HOPS)
    return Experiment(train_on=("r2r/train", "r2r/aug"), navigator=navigator, training=training)


def _ablations(name: str, shape: NavigatorConfig, hint: str, where: str) -> tuple[Preset, Preset]:
    """An agent of the paper without cross-modal matching, and without path-fidelity rewards."""
    unmatched = _paper(replace(shape, matching="off"))
    unshaped = _paper(shape, TrainConfig(rewards=replace(HOPS, fidelity=False, departure=False)))
    return (
        Preset(f"{name}-unmatched", f"the same without cross-modal matching ({where})", unmatched, hint),
        Preset(f"{name}-unshaped", "the same without path-fidelity rewards (appendix B.5)", unshaped, hint),
    )


def _attending(name: str, to: Literal["embeddings", "initial", "previous"], what: str) -> Preset:
    """The one-stream agent whose words attend at every step, by quarters of a batch: they need the memory."""
    experiment = _paper(replace(ONE, language_attention=to), TrainConfig(batch=4, accumulate=4, rewards=HOPS))
    description = f"words attend at every step, on {what} (Table 4, C.2)"
    return Preset(f"r2r-one-stream-{name}-attn", description, experiment, OSCAR)


OPEN = Experiment(
    features=FeatureSpec(views="captions,observations"),
    start="all-MiniLM-L6-v2",
    navigator=SIZES["minilm"]["two-stream"],
    training=TrainConfig(
        iterations=3000,
        batch=128,
        learning_rate=1e-4,
        schedule="cosine",
        warmup=100,
        grad_clip=5.0,
        ema=0.999,
        precision="bfloat16",
        validate_every=500,
        objective=ObjectiveConfig(imitation=1.0, student_forcing=0.5, value=0.1),
    ),
)
# More of what people said: parts of their instructions, houses in a mirror, labels of the words to attend to, chosen
# on houses kept out of train (docs/results.md). Parts fade, so that it ends on whole instructions.
R2R_OPEN = replace(
    OPEN,
    train_on=("r2r/train", "r2r/sub_instructions"),
    training=replace(
        OPEN.training,
        iterations=4500,
        split_weights=(1.0, 1.0),
        final_split_weights=(1.0, 0.0),
        flip=0.5,
        objective=replace(OPEN.training.objective, student_forcing=0.25, alignment=0.5),
    ),
)
# And a speaker's instructions, of paths that nobody described, which fade too (docs/howto/augment.md makes them).
OPEN_TOLD = replace(
    R2R_OPEN,
    train_on=(*R2R_OPEN.train_on, "r2r/told_aug"),
    training=replace(
        R2R_OPEN.training,
        iterations=6000,
        learning_rate=2e-4,
        split_weights=(1.0, 1.0, 3.0),
        final_split_weights=(1.0, 0.0, 0.0),
    ),
)
# Few small updates: less than an hour of one core (docs/results.md says what was measured).
LAPTOP = replace(
    OPEN,
    validate_on=("r2r/val_unseen",),
    training=replace(OPEN.training, iterations=1200, batch=32, precision="float32", validate_every=400),
)

DEMO = Experiment(
    validate_on=("r2r/val_unseen",),
    navigator=replace(SIZES["tiny"]["two-stream"], hidden=64, inner=256),
    training=TrainConfig(
        iterations=800,
        batch=64,
        learning_rate=1e-3,
        schedule="cosine",
        warmup=50,
        grad_clip=5.0,
        max_steps=12,  # the longest shortest path of a generated house has six
        validate_every=200,
        objective=ObjectiveConfig(imitation=1.0, student_forcing=1.0, value=0.1),
    ),
)


def _reverie(experiment: Experiment, **training: Any) -> Experiment:
    """The same experiment on REVERIE: the state takes in what was seen, without the words (appendix B)."""
    return replace(
        experiment,
        train_on=("reverie/train",),
        validate_on=tuple(name.replace("r2r", "reverie") for name in experiment.validate_on),
        best_on="reverie/val_unseen",
        navigator=replace(experiment.navigator, matching="visual"),
        training=replace(experiment.training, **training),
    )


def _paper_reverie(navigator: NavigatorConfig) -> Experiment:
    """The paper's REVERIE recipe: 200,000 updates of 4 + 4 rows, grounding as in the public agents (docs/paper.md)."""
    objective = ObjectiveConfig(grounding_rows="teacher-forced")
    return _reverie(_paper(navigator), batch=8, iterations=200_000, objective=objective)


def _both(experiment: Experiment) -> Experiment:
    """R2R beside REVERIE, batches in turn: one network for both tasks, as many updates of each as alone."""
    training = experiment.training
    return replace(
        experiment,
        training=replace(training, iterations=2 * training.iterations, validate_every=2 * training.validate_every),
        train_on=("reverie/train", "r2r/train"),
        validate_on=(*experiment.validate_on, *(name.replace("reverie", "r2r") for name in experiment.validate_on)),
    )


def _on_r4r(experiment: Experiment) -> Experiment:
    """The same experiment on R4R, made of R2R by `vlnbert data r4r`."""
    validate_on = tuple(name.replace("r2r", "r4r") for name in experiment.validate_on)
    return replace(experiment, train_on=("r4r/train",), validate_on=validate_on, best_on="r4r/val_unseen")


# Grounding is five times imitation and student forcing, as in the paper.
REVERIE_DEMO = _reverie(DEMO, objective=replace(DEMO.training.objective, grounding=10.0))
# Half of the updates are of R2R: on houses kept out of train, REVERIE alone had a third less SR than beside R2R's whole
# instructions, and that a quarter less than beside their parts too, with flips and word labels (docs/results.md).
REVERIE_OPEN = replace(
    _reverie(OPEN),
    train_on=("reverie/train", *R2R_OPEN.train_on),
    validate_on=(*_reverie(OPEN).validate_on, *OPEN.validate_on),
    # 99.7 % of the viewpoints show 20 objects at most; one shows 60.
    features=replace(OPEN.features, objects=WITHOUT_NAMES, max_objects=20),
    training=replace(
        R2R_OPEN.training,
        iterations=3000,
        split_weights=(2.0, 1.0, 1.0),
        final_split_weights=(1.0, 1.0, 0.0),
        objective=replace(R2R_OPEN.training.objective, student_forcing=1.0, grounding=10.0),
    ),
)

SPEAKERS = "vlnbert.speaker.experiment"
PRESETS = (
    Preset("demo", "a tiny navigator from nothing, in generated houses", DEMO),
    Preset("demo-reverie", "the same for REVERIE: find the room, then the object", REVERIE_DEMO),
    Preset("demo-both", "one tiny navigator for both tasks", _both(REVERIE_DEMO)),
    Preset("r2r-open", "R2R with open data alone: two sets of captions as features, from MiniLM", R2R_OPEN),
    Preset(
        "r2r-open-told",
        "the same, and what a speaker told of other paths (vlnbert augment speak)",
        OPEN_TOLD,
    ),
    Preset("r2r-open-laptop", "R2R with open data, sized for about an hour of a laptop's CPU", LAPTOP),
    Preset("r2r-open-scratch", "R2R with open data alone, from random weights", replace(R2R_OPEN, start=None)),
    Preset(
        "reverie-open",
        "REVERIE and R2R with one navigator and open data alone: captions as features, from MiniLM",
        REVERIE_OPEN,
    ),
    Preset("r4r-open", "R4R, long paths to be followed, with open data alone", _on_r4r(OPEN)),
    LazyPreset("speaker-demo", SPEAKERS),
    LazyPreset("speaker-open", SPEAKERS),
    LazyPreset("speaker-reverie-open", SPEAKERS),
    Preset("r2r-one-stream", "the paper's R2R agent from OSCAR", _paper(ONE), OSCAR),
    *_ablations("r2r-one-stream", ONE, OSCAR, "Table 3"),
    _attending("emb", "embeddings", "their embeddings"),
    _attending("init", "initial", "their initial features"),
    _attending("re", "previous", "the last step's output"),
    Preset("r2r-two-stream", "the paper's R2R agent from PREVALENT", _paper(TWO), PREVALENT),
    *_ablations("r2r-two-stream", TWO, PREVALENT, "appendix B"),
    Preset("reverie-one-stream", "the paper's REVERIE agent from OSCAR", _paper_reverie(ONE), OSCAR),
    Preset("reverie-two-stream", "the paper's REVERIE agent from PREVALENT", _paper_reverie(TWO), PREVALENT),
)

SUFFIX = ".json"
WORDS = ("preset", "name", "description")  # texts in a file, beside the settings

UNTRAINED = (
    "The paper's presets (one-stream, two-stream) have no measured scores yet: their features are not open data."
)


Kind = TypeVar("Kind", bound=ExperimentSettings)


class Presets(Tabled, Mapping[str, Preset]):
    """The menu: presets by name. It prints as a table; an unknown name is answered with the nearest ones."""

    def __init__(self, presets: Iterable[Preset | LazyPreset]) -> None:
        self._presets = {preset.name: preset for preset in presets}

    def __getitem__(self, name: str) -> Preset:
        if name not in self:
            raise UnknownNameError("preset", name, self._presets)
        preset = self._presets[name]
        if isinstance(preset, LazyPreset):
            preset = next(each for each in import_module(preset.module).PRESETS if each.name == name)
            self._presets[name] = preset
        return preset

    def navigator(self, name: str) -> Experiment:
        """The experiment of a preset that trains a navigator; a speaker's is refused."""
        return self.experiment(name, Experiment)

    def experiment(self, name: str, kind: type[Kind]) -> Kind:
        """The experiment of a preset, which must be of a kind."""
        experiment = self[name].experiment
        if not isinstance(experiment, kind):
            example = next(each for each in self if "open" in each and isinstance(self[each].experiment, kind))
            problem = f"{name} trains a {experiment.RECIPE}; name a preset that trains a {kind.RECIPE}"
            raise UsageError(f"{problem}, such as {example}")
        return experiment

    def __contains__(self, name: object) -> bool:
        return name in self._presets

    def __iter__(self) -> Iterator[str]:
        return iter(self._presets)

    def __len__(self) -> int:
        return len(self._presets)

    def table(self) -> Table:
        """What each is and the data that it needs."""
        rows = [(preset.name, preset.description, ", ".join(preset.experiment.needs)) for preset in self.values()]
        return Table(("preset", "what it is", "data it needs"), rows, title="presets", note=UNTRAINED)


presets = Presets(PRESETS)


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
        item.name in settings
        for item in fields(base.experiment)
        # In a saved experiment, nobody chose everything that it says.
    )
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
