"""Rollouts to learn from: each row follows the teacher, samples or takes the best, and everything is recorded."""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from vlnbert.environment.environment import Environment, State, shortest_path_teacher
from vlnbert.navigator import Instruction, Navigator
from vlnbert.rollout.navigate import read
from vlnbert.rollout.noise import gumbel
from vlnbert.rollout.rows import among_all, narrowed, of_rows, walking
from vlnbert.rollout.walk import LIMIT, Walk, walk
from vlnbert.world.objects import NONE
from vlnbert.world.world import STOP

TEACHER, SAMPLE, GREEDY = 0, 1, 2  # how a row chooses


@dataclass(frozen=True)
class Rollout:
    """What happened, [time, row] unless said otherwise. Steps at which a row is not live mean nothing."""

    viewpoint: Tensor  # [time + 1, row]
    view: Tensor  # [time + 1, row]
    slot: Tensor  # what was chosen
    teacher: Tensor  # what the teacher would have chosen
    live: Tensor  # bool: had not stopped before
    logits: Tensor  # [time, row, slot]
    value: Tensor  # what the critic expected at the end of the step
    surprise: Tensor  # cross-entropy of the target among the objects, where the teacher stops; elsewhere 0
    last_value: Tensor  # [row] the same after the last step, without gradient
    ended: Tensor  # [row] bool: stopped within the limit


@dataclass
class Memory:
    """What an exploring agent carries along; its tensors are of the rows that still walk."""

    hidden: Tensor
    instruction: Instruction
    goal: Tensor
    noise: Tensor  # [time, row, slot] what is added to the logits before the best is taken
    rows: Tensor | None = None  # which rows those are; None for all
    records: list[dict[str, Tensor]] = field(default_factory=list)

    def only(self, kept: Tensor) -> "Memory":
        """The same of some of its rows, by their places."""
        theirs = (self.hidden.index_select(0, kept), self.instruction.only(kept), self.goal.index_select(0, kept))
        return Memory(*theirs, self.noise.index_select(1, kept), narrowed(self.rows, kept), self.records)


@dataclass(frozen=True)
class Lesson:
    """The first rows follow the teacher, who stops within some steps; after those they leave, and cost nothing more."""

    rows: int
    steps: int


class Explorer:
    """A navigator whose rows each choose in their own way."""

    def __init__(
        self,
        navigator: Navigator,
        environment: Environment,
        tokens: Tensor,
        how: Tensor,
        key: Tensor,
        target: Tensor | None = None,
        limit: int = LIMIT,
        lesson: Lesson | None = None,
    ) -> None:
        """[row, token] instructions, how each row chooses, and the key of its noise.

        `target` [row] is, in REVERIE, the place of what is looked for among the objects of the goal; NONE where that
        does not show it.
        """
        self.navigator, self.environment = navigator, environment
        self.tokens, self.how, self.key, self.target = tokens, how, key, target
        self.limit, self.lesson = limit, lesson

    def begin(self, state: State, goal: Tensor) -> Memory:
        instruction = read(self.navigator, self.tokens)
        noise = gumbel(self.key, self.limit, self.environment.world.slots) * (self.how == SAMPLE)[:, None]
        return Memory(instruction.state, instruction, goal, noise)

    def choose(self, state: State, memory: Memory) -> tuple[Tensor, Memory]:
        memory = self._without_those_who_left(state, memory)
        here, how = of_rows(state, memory.rows), of_rows(self.how, memory.rows)
        target = None if self.target is None else of_rows(self.target, memory.rows)
        step = self.navigator.step(memory.hidden, memory.instruction, self.environment.observe(here))
        logits = _whole(step.logits)
        teacher = shortest_path_teacher(self.environment.world, here, memory.goal)
        tried = (logits.detach() + memory.noise[len(memory.records)]).argmax(dim=1)
        slot = torch.where(how == TEACHER, teacher, tried)
        record = {"slot": slot, "teacher": teacher, "logits": logits, "hidden": step.state}
        if step.object_logits is not None and target is not None:
            record["surprise"] = _surprise(step.object_logits, target, teacher)
        count = len(self.how)
        record = {name: among_all(part, memory.rows, count) for name, part in record.items()} | {"live": ~state.ended}
        given = (step.state, step.instruction, memory.goal, memory.noise, memory.rows)
        return record["slot"], Memory(*given, [*memory.records, record])

    def _without_those_who_left(self, state: State, memory: Memory) -> Memory:
        """Who has stopped leaves, where to look is free; elsewhere the taught leave together, when all must have."""
        kept, lesson, count = walking(state, memory.rows), self.lesson, len(self.how)
        if memory.rows is None and lesson is not None and lesson.rows < count and len(memory.records) == lesson.steps:
            kept = torch.arange(lesson.rows, count, device=self.how.device)
        return memory if kept is None else memory.only(kept)

    def expected(self, walked: Walk) -> Tensor:
        """[row] what the critic expects of those who came to the limit, without gradient; of others anything."""
        with torch.no_grad():
            state = State(walked.viewpoint[:, -1], walked.view[:, -1], walked.ended)
            memory = self._without_those_who_left(state, walked.memory)
            if not len(memory.hidden):
                return _whole(memory.hidden.new_zeros(len(self.how)))
            seen = self.environment.observe(of_rows(state, memory.rows))
            ahead = self.navigator.step(memory.hidden, memory.instruction, seen)
            return among_all(_whole(self.navigator.value(ahead.state)), memory.rows, len(self.how))


def explore(environment: Environment, explorer: Explorer, start: Tensor, heading: Tensor, goal: Tensor) -> Rollout:
    """Walk, and lay the record out. Rows that did not stop are given one more look ahead, for what they expect."""
    walked = walk(environment, explorer, start, heading, goal, explorer.limit)
    records = walked.memory.records
    columns = {name: torch.stack([record[name] for record in records]) for name in records[0]}
    columns["value"] = _whole(explorer.navigator.value(columns.pop("hidden")))
    columns.setdefault("surprise", torch.zeros_like(columns["value"]))
    places = {name: getattr(walked, name).T[: len(records) + 1] for name in ("viewpoint", "view")}
    return Rollout(**places, **columns, ended=walked.ended, last_value=explorer.expected(walked))


def _whole(numbers: Tensor) -> Tensor:
    """Numbers that losses are made of are never of half precision."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


def _surprise(logits: Tensor, target: Tensor, teacher: Tensor) -> Tensor:
    """[row] the cross-entropy of the target where the teacher stops, which is where the target's place is known."""
    known = (teacher == STOP) & (target != NONE)
    nothing = logits.shape[1] - 1  # always there to be chosen, so that nothing becomes infinite
    return cross_entropy(_whole(logits), torch.where(known, target, nothing), reduction="none") * known
