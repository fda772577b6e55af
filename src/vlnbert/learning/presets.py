"""Named experiments, one line of description each."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any, NamedTuple, TypeVar

from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.features.spec import WITHOUT_NAMES, FeatureSpec
from vlnbert.learning.experiment import Experiment, ExperimentSettings, TrainConfig
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.rewards import RewardConfig
from vlnbert.navigator import SIZES, NavigatorConfig
from vlnbert.tables import Table, Tabular


@dataclass(frozen=True)
class Preset:
    """An experiment by name."""

    name: str
    description: str
    experiment: ExperimentSettings
    start_hint: str = ""  # said to who starts from random weights where the recipe does not
    asked: tuple[str, ...] = ()  # places of the settings that somebody chose, beside what a preset of ours says


class Later(NamedTuple):
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


NO_FIDELITY = TrainConfig(rewards=replace(HOPS, fidelity=False, departure=False))
IN_QUARTERS = TrainConfig(batch=4, accumulate=4, rewards=HOPS)  # appendix C.2: they need the memory

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


REVERIE_DEMO = _reverie(
    DEMO,
    objective=replace(
        DEMO.training.objective, grounding=10.0
    ),  # five times imitation and student forcing, as in the paper
)
# Half of the updates are of R2R: on houses kept out of train, REVERIE alone had a third less SR than beside R2R's whole
# instructions, and that a quarter less than beside their parts too, with flips and word labels (docs/results.md).
REVERIE_OPEN = replace(
    _reverie(OPEN),
    train_on=("reverie/train", *R2R_OPEN.train_on),
    validate_on=(*_reverie(OPEN).validate_on, *OPEN.validate_on),
    features=replace(
        OPEN.features,
        objects=WITHOUT_NAMES,
        max_objects=20,  # 99.7 % of the viewpoints show no more; one shows 60
    ),
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
    Later("speaker-demo", SPEAKERS),
    Later("speaker-open", SPEAKERS),
    Later("speaker-reverie-open", SPEAKERS),
    Preset("r2r-one-stream", "the paper's R2R agent from OSCAR", _paper(ONE), OSCAR),
    Preset(
        "r2r-one-stream-unmatched",
        "the same without cross-modal matching (Table 3)",
        _paper(replace(ONE, matching="off")),
        OSCAR,
    ),
    Preset(
        "r2r-one-stream-unshaped",
        "the same without path-fidelity rewards (appendix B.5)",
        _paper(ONE, NO_FIDELITY),
        OSCAR,
    ),
    Preset(
        "r2r-one-stream-emb-attn",
        "words attend at every step, on their embeddings (Table 4, C.2)",
        _paper(replace(ONE, language_attention="embeddings"), IN_QUARTERS),
        OSCAR,
    ),
    Preset(
        "r2r-one-stream-init-attn",
        "words attend at every step, on their initial features (Table 4, C.2)",
        _paper(replace(ONE, language_attention="initial"), IN_QUARTERS),
        OSCAR,
    ),
    Preset(
        "r2r-one-stream-re-attn",
        "words attend at every step, on the last step's output (Table 4, C.2)",
        _paper(replace(ONE, language_attention="previous"), IN_QUARTERS),
        OSCAR,
    ),
    Preset("r2r-two-stream", "the paper's R2R agent from PREVALENT", _paper(TWO), PREVALENT),
    Preset(
        "r2r-two-stream-unmatched",
        "the same without cross-modal matching (appendix B)",
        _paper(replace(TWO, matching="off")),
        PREVALENT,
    ),
    Preset(
        "r2r-two-stream-unshaped",
        "the same without path-fidelity rewards (appendix B.5)",
        _paper(TWO, NO_FIDELITY),
        PREVALENT,
    ),
    Preset("reverie-one-stream", "the paper's REVERIE agent from OSCAR", _paper_reverie(ONE), OSCAR),
    Preset("reverie-two-stream", "the paper's REVERIE agent from PREVALENT", _paper_reverie(TWO), PREVALENT),
)

UNTRAINED = (
    "The paper's presets (one-stream, two-stream) have no measured scores yet: their features are not open data."
)


Kind = TypeVar("Kind", bound=ExperimentSettings)


class Presets(Tabular, Mapping[str, Preset]):
    """The menu: presets by name. It prints as a table; an unknown name is answered with the nearest ones."""

    def __init__(self, presets: Iterable[Preset | Later]) -> None:
        self._presets = {preset.name: preset for preset in presets}

    def __getitem__(self, name: str) -> Preset:
        if name not in self:
            raise UnknownNameError("preset", name, self._presets)
        preset = self._presets[name]
        if isinstance(preset, Later):
            found: dict[str, Preset] = {one.name: one for one in import_module(preset.module).PRESETS}
            self._presets[name] = preset = found[name]
        return preset

    def navigator(self, name: str) -> Experiment:
        """The experiment of a preset that trains a navigator; a speaker's is refused."""
        return self.experiment(name, Experiment)

    def experiment(self, name: str, kind: type[Kind]) -> Kind:
        """The experiment of a preset, which must be of a kind."""
        experiment = self[name].experiment
        if not isinstance(experiment, kind):
            example = next(one for one in self if "open" in one and isinstance(self[one].experiment, kind))
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
        rows = [(one.name, one.description, ", ".join(one.experiment.needs)) for one in self.values()]
        return Table(("preset", "what it is", "data it needs"), rows, title="presets", note=UNTRAINED)


presets = Presets(PRESETS)
