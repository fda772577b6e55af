"""Rollouts to learn from: each row follows the teacher, samples or takes the best, and everything is recorded."""

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from vlnbert.environment.environment import Environment, State, shortest_path_teacher
from vlnbert.navigator import Instruction, Navigator
from vlnbert.rollout.navigate import read
from vlnbert.rollout.noise import gumbel
from vlnbert.rollout.walk import LIMIT, Walk, walk_on
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
    """What an exploring agent carries along."""

    hidden: Tensor
    instruction: Instruction
    goal: Tensor
    time: int = 0
    records: list[dict[str, Tensor]] = field(default_factory=list)

    def only(self, rows: slice) -> "Memory":
        """That of some rows, with a record still to be written."""
        return Memory(self.hidden[rows], self.instruction.only(rows), self.goal[rows], self.time)


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
    ) -> None:
        """[row, token] instructions, how each row chooses, and the key of its noise.

        `target` [row] is, in REVERIE, the place of what is looked for among the objects of the goal; NONE where that
        does not show it.
        """
        self.navigator, self.environment = navigator, environment
        self.tokens, self.how, self.key, self.target = tokens, how, key, target

    def begin(self, state: State, goal: Tensor) -> Memory:
        instruction = read(self.navigator, self.tokens)
        return Memory(instruction.state, instruction, goal)

    def choose(self, state: State, memory: Memory) -> tuple[Tensor, Memory]:
        step = self.navigator.step(memory.hidden, memory.instruction, self.environment.observe(state))
        logits, value = _whole(step.logits), _whole(self.navigator.value(step.state))
        teacher = shortest_path_teacher(self.environment.world, state, memory.goal)
        noise = gumbel(self.key, memory.time, logits.shape[1])
        tried = (logits.detach() + noise * (self.how == SAMPLE)[:, None]).argmax(dim=1)
        slot = torch.where(self.how == TEACHER, teacher, tried)
        surprise = _surprise(step.object_logits, self.target, teacher, like=value)
        record = {"slot": slot, "teacher": teacher, "live": ~state.ended, "logits": logits, "value": value}
        record["surprise"] = surprise
        return slot, Memory(step.state, step.instruction, memory.goal, memory.time + 1, [*memory.records, record])

    def only(self, rows: slice) -> "Explorer":
        """The same with some of its rows."""
        target = None if self.target is None else self.target[rows]
        given = (self.tokens[rows], self.how[rows], self.key[rows], target)
        return Explorer(self.navigator, self.environment, *given)


def explore(
    environment: Environment,
    explorer: Explorer,
    start: Tensor,
    heading: Tensor,
    goal: Tensor,
    limit: int = LIMIT,
    lesson: Lesson | None = None,
) -> Rollout:
    """Walk, and lay the record out. Rows that did not stop are given one more look ahead, for what they expect."""
    state = environment.reset(start, heading)
    taught = limit if lesson is None else min(limit, lesson.steps)
    walked = walk_on(environment, explorer, state, explorer.begin(state, goal), taught)
    rollout = _laid_out(walked)
    finished = rollout["ended"].device.type == "cpu" and rollout["ended"].all()
    if lesson is None or taught == limit or lesson.rows == len(start) or finished:
        return Rollout(**rollout, last_value=_expected(environment, explorer, walked))
    rows = slice(lesson.rows, None)
    state = State(walked.viewpoint[rows, -1], walked.view[rows, -1], rollout["ended"][rows])
    alone = explorer.only(rows)
    onward = walk_on(environment, alone, state, walked.memory.only(rows), limit - taught)
    expected = _expected(environment, alone, onward)
    gone = expected.new_zeros(lesson.rows)
    return Rollout(**_joined(rollout, _laid_out(onward), lesson.rows), last_value=torch.cat((gone, expected)))


def _laid_out(walked: Walk) -> dict[str, Any]:
    """A rollout's tensors but for the last, of a walk."""
    records = walked.memory.records
    columns = {name: torch.stack([record[name] for record in records]) for name in records[0]}
    places = {name: getattr(walked, name).T[: len(records) + 1] for name in ("viewpoint", "view")}
    return {**places, **columns, "ended": ~columns["live"][-1] | (columns["slot"][-1] == STOP)}


def _expected(environment: Environment, explorer: Explorer, walked: Walk) -> Tensor:
    """[row] what the critic expects where a walk came to its end, without gradient."""
    with torch.no_grad():
        state = State(walked.viewpoint[:, -1], walked.view[:, -1], torch.zeros_like(explorer.how, dtype=torch.bool))
        ahead = explorer.navigator.step(walked.memory.hidden, walked.memory.instruction, environment.observe(state))
        return _whole(explorer.navigator.value(ahead.state))


def _joined(first: dict[str, Any], rest: dict[str, Any], gone: int) -> dict[str, Any]:
    """One record of both; the rows that are gone stay where they were, and are not live."""
    whole = {}
    for name in ("viewpoint", "view"):
        stay = first[name][-1:, :gone].expand(len(rest[name]) - 1, gone)
        whole[name] = torch.cat((first[name], torch.cat((stay, rest[name][1:]), dim=1)))
    for name in ("slot", "teacher", "live", "logits", "value", "surprise"):
        nothing = rest[name].new_zeros(len(rest[name]), gone, *rest[name].shape[2:])
        whole[name] = torch.cat((first[name], torch.cat((nothing, rest[name]), dim=1)))
    return {**whole, "ended": torch.cat((first["ended"][:gone], rest["ended"]))}


def _whole(numbers: Tensor) -> Tensor:
    """Numbers that losses are made of are never of half precision."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


def _surprise(logits: Tensor | None, target: Tensor | None, teacher: Tensor, like: Tensor) -> Tensor:
    """[row] the cross-entropy of the target where the teacher stops, which is where the target's place is known."""
    if logits is None or target is None:
        return torch.zeros_like(like)
    known = (teacher == STOP) & (target != NONE)
    nothing = logits.shape[1] - 1  # always there to be chosen, so that nothing becomes infinite
    return cross_entropy(_whole(logits), torch.where(known, target, nothing), reduction="none") * known
