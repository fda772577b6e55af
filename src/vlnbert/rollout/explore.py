"""Rollouts to learn from: each row follows the teacher, samples or takes the best, and everything is recorded."""

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from vlnbert.environment.environment import Environment, State, shortest_path_teacher
from vlnbert.navigator import Instruction, Navigator
from vlnbert.rollout.navigate import read
from vlnbert.rollout.noise import gumbel
from vlnbert.rollout.walk import LIMIT, walk
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
    records: list[dict[str, Tensor]] = field(default_factory=list)


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
        noise = gumbel(self.key, len(memory.records), logits.shape[1])
        tried = (logits.detach() + noise * (self.how == SAMPLE)[:, None]).argmax(dim=1)
        slot = torch.where(self.how == TEACHER, teacher, tried)
        surprise = _surprise(step.object_logits, self.target, teacher, like=value)
        record = {"slot": slot, "teacher": teacher, "live": ~state.ended, "logits": logits, "value": value}
        record["surprise"] = surprise
        return slot, Memory(step.state, step.instruction, memory.goal, [*memory.records, record])


def explore(
    environment: Environment,
    explorer: Explorer,
    start: Tensor,
    heading: Tensor,
    goal: Tensor,
    limit: int = LIMIT,
) -> Rollout:
    """Walk, and lay the record out. Rows that did not stop are given one more look ahead, for what they expect."""
    walked = walk(environment, explorer, start, heading, goal, limit)
    records = walked.memory.records
    time = len(records)
    viewpoint, view = walked.viewpoint.T[: time + 1], walked.view.T[: time + 1]
    columns = {name: torch.stack([record[name] for record in records]) for name in records[0]}
    ended = ~columns["live"][-1] | (columns["slot"][-1] == STOP)
    with torch.no_grad():
        last = environment.observe(State(viewpoint[-1], view[-1], ended))
        ahead = explorer.navigator.step(walked.memory.hidden, walked.memory.instruction, last)
        last_value = _whole(explorer.navigator.value(ahead.state))
    return Rollout(viewpoint, view, **columns, last_value=last_value, ended=ended)


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
