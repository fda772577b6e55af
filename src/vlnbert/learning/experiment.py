"""Everything that defines the training of a navigator: beside what every experiment says, its shape and its rewards.

A field's docstring is its help on the command line.
"""

from dataclasses import dataclass, field
from typing import ClassVar

from vlnbert.errors import UsageError, setting
from vlnbert.learning.objective import ObjectiveConfig, require_weights
from vlnbert.learning.rewards import PAPER, RewardConfig
from vlnbert.learning.settings import MOST, ExperimentSettings, TrainingSettings
from vlnbert.navigator import NavigatorConfig
from vlnbert.records import require_range
from vlnbert.rollout.policies import POLICIES, RECURRENT, whole_settings
from vlnbert.tasks.splits import task_and_split
from vlnbert.tasks.task import TASKS
from vlnbert.tasks.word_labels import LABELLED


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
            names = ", ".join(self.settings)
            problem = f"{setting('policy.settings')} names {names}, but recurrent has none"
            raise UsageError(
                f"{problem}; shape it by the settings of the navigator, such as {setting('navigator.hidden')}"
            )
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
        """Whether it learns which words are due where, as somebody labelled them."""
        return self.training.objective.alignment > 0

    @property
    def reads_word_labels(self) -> bool:
        """Whether labels say where to cut instructions, or which words are due."""
        return super().reads_word_labels or self.aligns_words

    @property
    def best_metric(self) -> str:
        """The score by which the best weights are chosen."""
        return best_metric(self.best_on)


def best_metric(best_on: str) -> str:
    """The score by which the best weights are chosen on a split."""
    return TASKS[task_and_split(best_on)[0]].best_metric
