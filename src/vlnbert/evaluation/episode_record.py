"""One episode as it was walked and scored: for cards, reports, the explorer and JSON.

It is made of the rollout that was scored (`recording.py`), never of a second walk. Angles are radians, absolute,
clockwise from +y; distances are metres.
"""

from dataclasses import asdict, dataclass
from typing import Any

from vlnbert.evaluation.evaluate import RAN_OUT
from vlnbert.features.texts import ViewTexts

FORMAT = 1  # of the JSON


@dataclass(frozen=True)
class Words:
    """An instruction as written, and its words as they were read."""

    text: str
    words: tuple[str, ...]  # spelled as in the text, unless its tokens came ready made
    unknown: tuple[int, ...] = ()  # places of the words that the agent's vocabulary does not have


@dataclass(frozen=True)
class Choice:
    """One thing to do at a step: to stop, to go to a neighbour, or to go back to a place seen before."""

    viewpoint: str | None  # None to stop
    heading: float
    elevation: float
    distance: float
    view: int  # the one of 36 that faces it
    probability: float | None  # None for agents that have none
    texts: ViewTexts  # what the data folder says of that view, whether or not the agent sees it


@dataclass(frozen=True)
class RecordedObject:
    """An object in view at a step."""

    id: str
    name: str
    probability: float | None  # among the objects in view and "no object"
    heading: float
    elevation: float
    view: int


@dataclass(frozen=True)
class NamedObject:
    """An object that was named, or the target; its name is its id if no other is known."""

    id: str
    name: str


@dataclass(frozen=True)
class RecordedStep:
    """One decision: where the agent was, what it could do, and what it did."""

    viewpoint: str
    heading: float  # of the view that it faced
    elevation: float
    view: int
    distance_to_goal: float | None
    choices: tuple[Choice, ...]  # to stop comes first, then the neighbours, then places to go back to
    chosen: int  # a place in `choices`
    teacher: int | None  # likewise; None where the goal is not known
    attention: tuple[float, ...] | None  # one weight a word; what [SEP] got is left out
    objects: tuple[RecordedObject, ...]
    hops: tuple[str, ...] = ()  # the viewpoints between here and the next decision, of agents that go back


@dataclass(frozen=True)
class RecordedEpisode:
    """One episode: the instruction, the choices of each step with their probabilities, and the outcome."""

    task: str
    split: str | None  # None for a typed instruction
    id: str
    scan: str
    agent: str
    max_steps: int | None  # None for results from a file, which do not tell
    instruction: Words
    path: tuple[str, ...]  # the viewpoints walked; staying repeats none
    reference: tuple[str, ...] | None  # None where it is withheld, or there is none
    goal: str | None
    goals: tuple[str, ...] | None  # where to stop is a success
    steps: tuple[RecordedStep, ...]
    outcome: str  # "stopped" or "ran out of steps"; "ended" for results from a file, which do not tell
    success: bool | None
    named_object: NamedObject | None
    target_object: NamedObject | None
    scores: dict[str, float]  # those of the evaluation, {} where it has none

    def to_json(self) -> dict[str, Any]:
        """The record as `json.dumps` takes it, with the outcome in words."""
        return {"format": FORMAT, **asdict(self), "verdict": self.verdict, "ending": self.ending}

    @property
    def where(self) -> str:
        """The split and the house, in words."""
        return f"{self.task}/{self.split} in {self.scan}" if self.split is not None else f"typed, in {self.scan}"

    @property
    def verdict(self) -> str:
        """In a word or two: whether it succeeded, where that is known."""
        if self.success is None:
            return "Goal withheld" if self.split is not None else "No goal"
        return "Success" if self.success else "Failure"

    @property
    def ending(self) -> str:
        """The outcome in words: whether it stopped, how far from the goal, and the object that it named."""
        steps = len(self.steps)
        words = f"{RAN_OUT} after {steps}" if self.outcome == RAN_OUT else self.outcome
        if "ne" in self.scores:
            words += f"{',' * (self.outcome == RAN_OUT)} {self.scores['ne']:.2f} m from the goal"
        elif self.outcome != RAN_OUT:
            words += f" after {steps - 1} {'step' if steps == 2 else 'steps'}"
        if self.success and self.outcome == RAN_OUT:
            words += " (where it ended is what counts)"
        return words + self._naming

    @property
    def _naming(self) -> str:
        """Which object it named, and whether that was the right one."""
        named, target = self.named_object, self.target_object
        if target is None:
            return "" if named is None else f", and named the {named.name}"
        if named is None:
            return f", and named no object; asked for was the {target.name}"
        if named.id == target.id:
            return f", and named the right object, the {target.name}"
        return f", and named the wrong object, the {named.name}; asked for was the {target.name}"
