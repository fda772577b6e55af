"""Experiments: the settings of every training (where it learns, what is seen, how long), and those of a navigator's.

A field's docstring is its help on the command line.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

from vlnbert.errors import UsageError, setting
from vlnbert.features.spec import OFF, FeatureSpec
from vlnbert.learning.objective import ObjectiveConfig, require_weights
from vlnbert.learning.rewards import PAPER, RewardConfig
from vlnbert.navigator import NavigatorConfig
from vlnbert.records import MOST, require_range
from vlnbert.rollout.policies import POLICIES, RECURRENT, whole_settings
from vlnbert.tasks.splits import DEV, task_and_split
from vlnbert.tasks.task import R2R, SUB_INSTRUCTIONS, TASKS
from vlnbert.tasks.word_labels import LABELLED

LARGEST_FACTOR = 1e6  # of a learning rate
MOST_SPLITS = 100  # each is held in memory
AUGMENTED = "r2r/aug"


@dataclass(frozen=True)
class TrainingSettings:
    """How something is trained, whatever it is."""

    PLACE: ClassVar[str] = "training"

    iterations: int = 300_000
    """Updates of the weights."""
    batch: int = 16
    """Rows of an update."""
    optimizer: str = "adamw"
    """The optimiser, by name; vlnbert plugins lists them."""
    optimizer_settings: dict[str, bool | int | float | str] = field(default_factory=dict, hash=False)
    """What an optimiser takes beside learning rate and weight decay, as names and values (momentum=0.9)."""
    learning_rate: float = 1e-5
    """Of the optimiser."""
    parts: dict[str, float] = field(default_factory=dict, hash=False)
    """Factors of the learning rate for parts of the network, by the names of its modules (backbone.embeddings=0.1)."""
    schedule: str = "constant"
    """The learning rate over time: constant, as in the paper; cosine, down to a hundredth; or one by its name."""
    warmup: int = 0
    """Updates over which the learning rate rises from zero."""
    weight_decay: float = 0.01
    """Of the optimiser, on every weight."""
    grad_clip: float = 40.0
    """Largest norm of the gradient."""
    accumulate: int = 1
    """Batches whose gradients make one update; all of them come from one split."""
    split_weights: tuple[float, ...] = ()
    """How many updates come from each split that is learned from, one weight a split: 1 3 takes three from the second
    for every one from the first. Without any, each in turn."""
    final_split_weights: tuple[float, ...] = ()
    """The weights of the splits at the end, towards which they change evenly: 1 0 lets the second fade. Without any,
    they stay as they are."""
    ema: float = 0.0
    """Decay of an exponential moving average of the weights, such as 0.999; the average is then what is validated,
    evaluated and kept as the best. In update n, from 0, it is (1 + n) / (10 + n) at most. 0 for no average."""
    precision: Literal["float32", "bfloat16"] = "float32"
    """Of the forward pass. Weights, losses and the optimiser stay in float32; bfloat16 is for GPUs."""
    graphs: bool = True
    """On one GPU, record updates as CUDA graphs and replay them: the same numbers, several times faster. Updates from
    several batches (accumulate) or several processes are not recorded."""
    validate_every: int = 2000
    """Updates between validations, which are also when the run is saved."""
    keep: int = 2
    """Checkpoints that are kept: where the newest is damaged, the run goes on from the one before. Each has the weights
    three times."""
    validation_batch: int = 256
    """Episodes that are taken together in a validation."""
    report_every: int = 10
    """Updates between lines of the log. On a GPU, to report is to wait."""
    callbacks: tuple[str, ...] = ()
    """Callbacks by name that receive the training's events and may end it; vlnbert plugins lists them."""
    patience: int = 0
    """Validations without a better score after which training stops; 0 for never."""
    seed: int = 0
    """Chooses initial weights, batches and dropout."""

    def __post_init__(self) -> None:
        require_range(self, 1, MOST, "iterations", "accumulate", "validate_every", "validation_batch")
        require_range(self, 1, MOST, "report_every", "batch", "keep")
        require_range(self, 0, MOST, "warmup", "patience")
        require_range(self, 0, 2**63 - 1, "seed")
        require_range(self, 0.0, 1.0, "learning_rate", "weight_decay")
        # With 1 the average would stay at the first weights.
        require_range(self, 0.0, 0.999999, "ema")
        require_range(self, 1e-9, 1e9, "grad_clip")
        for part, factor in self.parts.items():
            if not 0 <= factor <= LARGEST_FACTOR:
                problem = f"{setting('training.parts', f'{part}={factor}')} is no factor of a learning rate"
                raise UsageError(f"{problem}; choose 0 to {LARGEST_FACTOR:,.0f}")
        for place in ("split_weights", "final_split_weights"):
            weights: tuple[float, ...] = getattr(self, place)
            if weights and (not all(0 <= weight <= MOST for weight in weights) or not any(weights)):
                spelled = setting(f"training.{place}")
                raise UsageError(f"{spelled} must be 0 or more, and one of them above; for example 1 3")


@dataclass(frozen=True)
class ExperimentSettings(ABC):
    """Where something learns, what it sees and what decides, whatever it is."""

    RECIPE: ClassVar[str]  # what trains it, by name

    train_on: tuple[str, ...] = ("r2r/train",)
    """Splits to learn from, as task/split; updates come from each in turn, or by training.split_weights."""
    validate_on: tuple[str, ...] = ("r2r/val_seen", "r2r/val_unseen")
    """Splits to validate on."""
    best_on: str = "r2r/val_unseen"
    """The split whose score says which weights are the best."""
    holdout: int = 0
    """Houses of the train split to keep out of training. They make up the split dev_unseen, to choose settings by:
    --holdout 6 --validate-on r2r/dev_unseen --best-on r2r/dev_unseen. REVERIE's are the same."""
    holdout_seed: int = 0
    """Chooses those houses."""
    features: FeatureSpec = field(default_factory=FeatureSpec)
    """What views and objects look like."""
    start: str | None = None
    """Weights to start from."""
    training: TrainingSettings = field(default_factory=TrainingSettings)
    """How it is taught."""

    @property
    def splits(self) -> tuple[str, ...]:
        """The splits that it learns or is validated on, each once."""
        return tuple(dict.fromkeys((*self.train_on, *self.validate_on)))

    @property
    def tasks(self) -> tuple[str, ...]:
        """Their tasks."""
        return tuple(dict.fromkeys(task_and_split(name)[0] for name in self.splits))

    @property
    @abstractmethod
    def best_metric(self) -> str:
        """The score by which the best weights are chosen."""

    @property
    def seen(self) -> FeatureSpec:
        """The features that are seen: those of objects in REVERIE alone."""
        sees_objects = any(TASKS[name].sees_objects for name in self.tasks)
        return self.features if sees_objects else replace(self.features, objects=OFF)

    @property
    def reads_word_labels(self) -> bool:
        """Whether labels say where to cut instructions."""
        return f"{R2R.name}/{SUB_INSTRUCTIONS}" in self.splits

    @property
    def needs(self) -> tuple[str, ...]:
        """The kinds of data that it reads, as `data.inventory.NEEDS` names them."""
        seen, tasks = self.seen, dict.fromkeys(self.tasks, True)
        generated = {name.replace("/", " "): True for name in self.splits if name.endswith("_aug")}
        needed = {
            "graphs": True,
            "vocabulary": True,
            **tasks,
            "augmented": AUGMENTED in self.splits,
            **generated,
            "boxes": any(TASKS[name].sees_objects for name in tasks),
            "features": seen.reads_view_file,
            "object features": seen.objects is None,
            "captions": seen.reads_captions,
            "observations": seen.reads_observations,
            "landmarks": self.reads_word_labels,
        }
        return tuple(name for name, wanted in needed.items() if wanted)

    def __post_init__(self) -> None:
        if not self.train_on:
            raise UsageError(f"no split to learn from; for example {setting('train_on', 'r2r/train')}")
        for place in ("train_on", "validate_on"):
            if (count := len(getattr(self, place))) > MOST_SPLITS:
                raise UsageError(f"{setting(place)} names {count:,} splits; name at most {MOST_SPLITS}")
        counts = {
            "training.split_weights": len(self.training.split_weights),
            "training.final_split_weights": len(self.training.final_split_weights),
        }
        if wrong := {place: count for place, count in counts.items() if count not in (0, len(self.train_on))}:
            problem = " and ".join(f"{setting(place)} has {count}" for place, count in wrong.items())
            remedy = f"give one weight for each split, or no value: {' '.join(setting(place) for place in wrong)}"
            raise UsageError(f"{problem}, {setting('train_on')} {len(self.train_on)}; {remedy}")
        if self.best_on not in self.validate_on:
            problem = f"the best weights are chosen on {self.best_on}, which is not validated"
            raise UsageError(f"{problem}; add it to {setting('validate_on')}, or change {setting('best_on')}")
        require_range(self, 0, MOST, "holdout")
        require_range(self, 0, 2**63 - 1, "holdout_seed")
        if self.holdout and (learned := [name for name in self.train_on if task_and_split(name)[1] == DEV]):
            raise UsageError(f"{learned[0]} is kept out of training; learn from others")


@dataclass(frozen=True)
class TrainConfig(TrainingSettings):
    """A training. The defaults are the paper's R2R recipe."""

    batch: int = 16
    """Rows of an update: half follow the teacher, half explore."""
    grad_clip: float = 40.0
    """Largest norm of the navigator's gradient; the critic's is not clipped."""
    seed: int = 0
    """Chooses initial weights, batches, dropout and what is explored."""
    max_steps: int | None = None
    """Steps after which an episode ends; by default the task's: 15 in R2R and REVERIE, 30 in R4R."""
    flip: float = 0.0
    """Share of the rows that see their house in a mirror, left and right changed in directions and in words. For views
    that are described in words: pictures would have to be flipped too."""
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)
    """Weights of the paper's losses, and what they are made with."""
    losses: dict[str, float] = field(default_factory=dict, hash=False)
    """Other losses to add, by name and weight (progress=0.5); vlnbert plugins lists them. One of the paper's
    (imitation, policy, value, entropy, grounding, alignment) has this weight instead of the objective's, and 0 leaves
    it out."""
    final_losses: dict[str, float] = field(default_factory=dict, hash=False)
    """Weights of losses at the end of the training, towards which they change evenly."""
    reward: str = PAPER
    """What a choice earns: the paper's reward, or the name of another that was registered (vlnbert plugins lists
    them)."""
    rewards: RewardConfig = field(default_factory=RewardConfig)
    """Parts of the paper's reward."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.batch % 2:
            raise UsageError(f"a batch of {self.batch} has no two halves; choose an even number")
        require_range(self, 0.0, 1.0, "flip")
        require_weights(self.losses, self.final_losses)
        if self.max_steps is not None:
            require_range(self, 1, MOST, "max_steps")


@dataclass(frozen=True)
class PolicyChoice:
    """Which policy is trained."""

    PLACE: ClassVar[str] = "policy"

    name: str = RECURRENT
    """recurrent: Recurrent VLN-BERT, shaped by the settings of the navigator; or a registered policy (vlnbert plugins
    lists them)."""
    settings: dict[str, bool | int | float | str] = field(default_factory=dict, hash=False)
    """Settings of a registered policy, as names and values (hidden=192); by default its own."""

    def __post_init__(self) -> None:
        if self.name == RECURRENT and self.settings:
            problem = f"{setting('policy.settings')} names {', '.join(self.settings)}, but recurrent has none"
            remedy = f"shape it by the settings of the navigator, such as {setting('navigator.hidden')}"
            raise UsageError(f"{problem}; {remedy}")
        if self.name != RECURRENT and self.settings and self.name in POLICIES:
            whole_settings(self.name, self.settings)


@dataclass(frozen=True)
class Experiment(ExperimentSettings):
    """A training, whole: with its data folder it makes the same navigator anywhere."""

    RECIPE = "navigator"

    best_on: str = "r2r/val_unseen"
    """The split whose score says which weights are the best: SPL, or SDTW in R4R."""
    start: str | None = None
    """Weights to start from (a BERT, OSCAR, PREVALENT, LXMERT or an agent; file, folder or hub name), which then decide
    the navigator's size. Without any, it starts from random ones."""
    max_tokens: int | None = None
    """Longest instruction, in word pieces, [CLS] and [SEP] included; by default the task's: 80 in R2R, 50 in REVERIE,
    160 in R4R."""
    policy: PolicyChoice = field(default_factory=PolicyChoice)
    """What is trained."""
    navigator: NavigatorConfig = field(default_factory=NavigatorConfig)
    """The navigator's shape. The widths of features and the vocabulary are read from the data; with weights to start
    from, so are all sizes from those: what is asked for otherwise is refused. A Hugging Face encoder reads the
    instructions where backbone is huggingface and backbone_settings has encoder, its folder or name; its own tokenizer
    then serves."""
    training: TrainConfig = field(default_factory=TrainConfig)
    """How it is taught."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.aligns_words and LABELLED not in self.train_on:
            place = "training.objective.alignment"
            problem = f"{setting(place)} needs word labels, which {LABELLED} alone has, and that is not learned from"
            raise UsageError(f"{problem}; add it to {setting('train_on')}, or do without: {setting(place, 0)}")

    @property
    def aligns_words(self) -> bool:
        """Whether it learns which words are due where, from labels."""
        return self.training.objective.alignment > 0

    @property
    def reads_word_labels(self) -> bool:
        """Whether labels say where to cut instructions, or which words are due."""
        return super().reads_word_labels or self.aligns_words

    @property
    def best_metric(self) -> str:
        """The score by which the best weights are chosen."""
        return TASKS[task_and_split(self.best_on)[0]].best_metric
