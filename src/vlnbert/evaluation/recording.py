"""Episodes as they were walked and scored, for cards, reports, the explorer and JSON: `Recorder.episode(...)`.

A record is made of the rollout that was scored, never of a second walk. Angles are radians, absolute, clockwise from
+y; distances are metres.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from torch import Tensor

from vlnbert.data.data import Data
from vlnbert.environment.environment import Environment
from vlnbert.evaluation.evaluate import RAN_OUT, Evaluation
from vlnbert.features.objects import TextReader, ViewTexts, box_direction, readable_name
from vlnbert.rollout.agents import Explanation
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import TASKS, metres_to_goal, nearest
from vlnbert.world.objects import NONE, ObjectTable
from vlnbert.world.world import VIEWS, nearest_view, view_elevation, view_heading

HEADINGS, ELEVATIONS = (angle(torch.arange(VIEWS)).tolist() for angle in (view_heading, view_elevation))


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


@dataclass(frozen=True)
class ReadWords:
    """Words, and which of them each token between the first and the last belongs to."""

    words: tuple[str, ...]
    word_of: tuple[int, ...]  # [token]
    unknown: tuple[int, ...] = ()  # places of the words that the vocabulary does not have

    def gathered(self, weights: Sequence[float]) -> tuple[float, ...]:
        """[word] the sums of weights [token or more] of the tokens behind the first."""
        sums = [0.0] * len(self.words)
        # The last token, [SEP], is no word.
        for word, weight in zip(self.word_of, weights, strict=False):
            sums[word] += weight
        return tuple(sums)


class Recorder:
    """Makes records of what one agent walked in one environment, with captions of the data folder."""

    def __init__(
        self, data: Data, agent: str, environment: Environment | None = None, tokenizer: Tokenizer | None = None
    ) -> None:
        """`environment` is that of the agent; so is `tokenizer`, None for an agent that does not read."""
        self.data, self.agent, self.tokenizer = data, agent, tokenizer
        self.environment = environment or Environment(data.world)
        self.world, self.texts = data.world, TextReader(data.folder)

    def episode(self, evaluation: Evaluation, row: int, goal_known: bool | None = None) -> RecordedEpisode:
        """The record of one episode of an evaluation; by default its goal is known if it was scored."""
        known = evaluation.scores is not None if goal_known is None else goal_known
        one = evaluation.episodes.select(torch.tensor([row]))
        scan = int(self.world.scan_of[one.start])
        task, tokens = TASKS[one.task], evaluation.tokens
        if self.tokenizer is not None and tokens is not None:
            words = read_words(self.tokenizer, one.texts[0], tokens.ids[row, : int(tokens.count[row])].tolist())
        else:
            words = ReadWords(tuple(one.texts[0].split()), ())
        walked = evaluation.trajectories.viewpoint[row, : int(evaluation.trajectories.length[row])].tolist()
        named = evaluation.predicted_objects[row] if evaluation.predicted_objects is not None else None
        goals, reference, goal, scores = None, None, None, None
        if known:
            scores = evaluation.scores
            members = (self.world.scan_of == scan).nonzero().squeeze(1)
            goals = self._names(members[task.arrived(self.world, members[None], one)[0]].tolist())
            reference = self._names(one.path[0, : int(one.path_length)].tolist())
            # Of several goals, the one nearest to where the walk ended.
            ends = one.goals if one.goals is not None else one.goal[:, None]
            goal = self.world.viewpoints[int(nearest(self.world, ends.new_tensor(walked[-1:]), ends))]
        return RecordedEpisode(
            task=one.task,
            split=one.split or None,
            id=one.ids[0],
            scan=self.world.scans[scan],
            agent=self.agent,
            max_steps=evaluation.max_steps,
            instruction=Words(one.texts[0], words.words, words.unknown),
            path=self._names([walked[0], *(after for before, after in pairwise(walked) if before != after)]),
            reference=reference,
            goal=goal,
            goals=goals,
            steps=tuple(self._steps(evaluation, row, one, known=known, words=words)),
            outcome=evaluation.outcomes[row],
            success=None if scores is None else bool(scores.sr[row]),
            named_object=self._named(named, walked[-1:]),
            target_object=self._named(one.targets[0], [] if one.sightings is None else one.sightings[0].tolist()),
            scores={} if scores is None else scores.of(row),
        )

    def _steps(
        self, evaluation: Evaluation, row: int, one: Episodes, *, known: bool, words: ReadWords
    ) -> Iterator[RecordedStep]:
        """One for each decision; turns in place and slots that lead nowhere, where nobody moves, are none."""
        walked, explanations = evaluation.trajectories, evaluation.explanations.get(row, [])
        count = int(walked.decisions[row])
        # Running out of steps is no decision to stop.
        decisions = count - (evaluation.outcomes[row] == RAN_OUT)
        at = list(range(count)) if walked.decided is None else walked.decided[row, :count].tolist()
        passed = walked.viewpoint[row].tolist()
        place, view = walked.viewpoint[row, at], walked.view[row, at].tolist()
        metres = metres_to_goal(self.world, place[None], one)[0].tolist() if known else [None] * count
        teacher = self._teacher(one, place) if known else [None] * count
        viewpoint, names = place.tolist(), self.world.viewpoints
        for time, here in enumerate(viewpoint[:decisions]):
            there = viewpoint[time + 1] if time + 1 < count else None
            if there == here:
                continue
            explained = explanations[time] if time < len(explanations) else None
            weights = None if explained is None else explained.language_weights
            weights = weights if weights is not None and bool(weights.isfinite().all()) else None
            choices = (*self._choices(here, view[time], explained), *self._back(here, explained))
            # An agent that does not explain says nothing of the places that it might go back to.
            if there is not None and all(choice.viewpoint != names[there] for choice in choices):
                choices = (*choices, self._far(here, there, None))
            yield RecordedStep(
                viewpoint=self.world.viewpoints[here],
                heading=HEADINGS[view[time]],
                elevation=ELEVATIONS[view[time]],
                view=view[time],
                distance_to_goal=metres[time],
                choices=choices,
                chosen=0 if there is None else [choice.viewpoint for choice in choices].index(names[there]),
                teacher=teacher[time],
                attention=None if weights is None else words.gathered(weights[0].tolist()),
                objects=self._objects(here, explained) if TASKS[one.task].sees_objects else (),
                hops=() if there is None else self._names(passed[at[time] + 1 : at[time + 1]]),
            )

    def _choices(self, here: int, view: int, explained: Explanation | None) -> tuple[Choice, ...]:
        """To stop, then every neighbour, in the order of the slots."""
        world, count = self.world, int(self.world.choices[here])
        chance = [None] * count if explained is None else _finite(explained.probability[0, :count])
        there, views, heading, elevation = (
            part[here, :count].tolist() for part in (world.neighbour, world.view, world.heading, world.elevation)
        )
        metres = world.metres(world.neighbour.new_full((count,), here), world.neighbour[here, :count]).tolist()
        scan, name = world.scans[int(world.scan_of[here])], world.viewpoints[here]
        stop = Choice(None, HEADINGS[view], ELEVATIONS[view], 0.0, view, chance[0], ViewTexts())
        return stop, *(
            Choice(
                viewpoint=world.viewpoints[there[slot]],
                heading=heading[slot] % math.tau,
                elevation=elevation[slot],
                distance=metres[slot],
                view=views[slot],
                probability=chance[slot],
                texts=self.texts.of(scan, name, views[slot]),
            )
            for slot in range(1, count)
        )

    def _back(self, here: int, explained: Explanation | None) -> Iterator[Choice]:
        """The viewpoints seen before that it might have gone to, beside the neighbours."""
        if explained is None or explained.places is None or explained.place_probability is None:
            return
        neighbours = self.world.neighbour[here].tolist()
        chances = _finite(explained.place_probability[0])
        for place, chance in zip(explained.places[0].tolist(), chances, strict=True):
            if place >= 0 and place not in neighbours:
                yield self._far(here, place, chance)

    def _far(self, here: int, there: int, chance: float | None) -> Choice:
        """To go to a viewpoint that is no neighbour; its direction and distance are as the crow flies."""
        east, north, up = (self.world.position[there] - self.world.position[here]).tolist()
        heading, elevation = math.atan2(east, north) % math.tau, math.atan2(up, math.hypot(east, north))
        return Choice(
            viewpoint=self.world.viewpoints[there],
            heading=heading,
            elevation=elevation,
            distance=math.hypot(east, north, up),
            view=nearest_view(heading, elevation),
            probability=chance,
            texts=ViewTexts(),
        )

    def _objects(self, here: int, explained: Explanation | None) -> tuple[RecordedObject, ...]:
        first, count = int(self.objects.first[here]), int(self.objects.count[here])
        rows, chance = slice(first, first + count), list[float | None]([None] * count)
        if explained is not None and explained.object_probability is not None:
            chance = _finite(explained.object_probability[0, :count])
        names, views = self.objects.name[rows].tolist(), self.objects.view[rows].tolist()
        heading, elevation = (angle[rows].tolist() for angle in self._directions)
        return tuple(
            RecordedObject(
                id=self.objects.ids[first + place],
                name=readable_name(self.objects.names[names[place]]),
                probability=chance[place],
                heading=heading[place] % math.tau,
                elevation=elevation[place],
                view=views[place],
            )
            for place in range(count)
        )

    @cached_property
    def objects(self) -> ObjectTable:
        """Those that the agent sees; for one that sees none, all of the data folder."""
        bank = self.environment.object_bank
        return self.data.objects if bank is None else bank.object_table

    @cached_property
    def _directions(self) -> tuple[Tensor, Tensor]:
        return box_direction(self.objects)

    def _teacher(self, one: Episodes, place: Tensor) -> list[int]:
        """The slot that the task's teacher would choose at each viewpoint [time] of the walk."""
        task, slots = TASKS[one.task], list[int]()
        memory = task.begin_teacher(one)
        for viewpoint in place:
            slot, memory = task.teacher(self.world, viewpoint[None], memory)
            slots.append(int(slot))
        return slots

    def _names(self, viewpoints: Iterable[int]) -> tuple[str, ...]:
        return tuple(self.world.viewpoints[number] for number in viewpoints)

    def _named(self, id: str | None, viewpoints: Iterable[int]) -> NamedObject | None:
        """An object by its id, with the name that it has where one of these viewpoints shows it."""
        if id is None:
            return None
        for viewpoint in viewpoints:
            if viewpoint != NONE and self.data.objects.index(viewpoint, id) != NONE:
                return NamedObject(id, readable_name(self.data.objects.name_of(viewpoint, id)))
        return NamedObject(id, f"object {id}")


def _finite(numbers: Tensor) -> list[float | None]:
    """Numbers of an agent, which may be anything; None for those that are not finite."""
    return [number if math.isfinite(number) else None for number in numbers.tolist()]


def read_words(tokenizer: Tokenizer, text: str, ids: Sequence[int]) -> ReadWords:
    """The words of the tokens of a text; the first and the last token stand for no word."""
    inner = list(ids[1:-1])
    pieces = [tokenizer.id_to_token(id) or "" for id in inner]
    encoded = tokenizer.encode(text)
    known = encoded.ids[1 : 1 + len(inner)] == inner  # or they came ready made
    spans = encoded.offsets[1 : 1 + len(inner)] if known else []
    if isinstance(tokenizer.model, WordPiece):
        return _join_pieces(pieces, text, spans, tokenizer.model.unk_token)
    return _cut_text(text, spans) if known else ReadWords(tuple(pieces), tuple(range(len(pieces))))


def _join_pieces(
    pieces: Sequence[str], text: str, spans: Sequence[tuple[int, int]], unknown_piece: str | None
) -> ReadWords:
    """BERT's pieces: those inside a word begin with ##. Without places in the text, words are spelled as read."""
    words, places, word_of, unknown = list[str](), list[list[int]](), list[int](), list[int]()
    for number, piece in enumerate(pieces):
        begin, end = spans[number] if spans else (0, 0)
        if piece.startswith("##") and words:
            words[-1] += piece.removeprefix("##")
            places[-1][1] = end
        else:
            words.append(piece)
            places.append([begin, end])
        if piece == unknown_piece:
            unknown.append(len(words) - 1)
        word_of.append(len(words) - 1)
    if spans:
        words = [text[begin:end] for begin, end in places]
    return ReadWords(tuple(words), tuple(word_of), tuple(unknown))


def _cut_text(text: str, offsets: Sequence[tuple[int, int]]) -> ReadWords:
    """Any other tokenizer's: pieces that touch in the text are one word."""
    spans, word_of, end = list[list[int]](), list[int](), -1
    for begin, stop in offsets:
        # Some count the blank before a word as its own.
        begin += len(text[begin:stop]) - len(text[begin:stop].lstrip())
        if begin == end and spans:
            spans[-1][1] = stop
        else:
            spans.append([begin, stop])
        word_of.append(len(spans) - 1)
        end = stop
    return ReadWords(tuple(text[begin:stop] for begin, stop in spans), tuple(word_of))
