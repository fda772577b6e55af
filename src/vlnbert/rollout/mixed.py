"""Rollouts to learn from: each row follows the teacher, samples or takes the best, and everything is recorded."""

from dataclasses import dataclass, field, replace

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from vlnbert.environment.environment import Environment, Observation, State
from vlnbert.environment.flip import flip_observation
from vlnbert.errors import UsageError, setting
from vlnbert.navigator import Instruction, Navigator
from vlnbert.rollout.agents import Agent, EpisodeBatch
from vlnbert.rollout.episodes import (
    MAX_STEPS,
    RowMemory,
    Trajectories,
    active_rows,
    encode_tokens,
    narrow_rows,
    run_episodes,
    scatter_rows,
    select_rows,
)
from vlnbert.rollout.noise import gumbel
from vlnbert.tasks.alignment import words_to_attend
from vlnbert.tasks.task import R2R, TASKS, Task, TeacherMemory
from vlnbert.world.objects import NONE
from vlnbert.world.world import STOP

TEACHER, SAMPLE, GREEDY = 0, 1, 2  # row policies: how a row chooses
TINY = 1e-6  # of attention, so that its logarithm stays finite


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
    grounding_loss: Tensor  # cross-entropy of the target among the objects, where the teacher stops; elsewhere 0
    alignment_loss: Tensor  # minus the log of the attention to the words that are due, where they are known; else 0
    last_value: Tensor  # [row] the critic's value after the last step, without gradient, to bootstrap from
    ended: Tensor  # [row] bool: stopped within the limit


@dataclass(frozen=True)
class TeacherRows:
    """The first rows follow the teacher, which stops within some steps; after those they leave the batch together."""

    count: int
    steps: int


@dataclass
class MixedMemory(RowMemory):
    """What the agent of a mixed rollout carries along; its tensors are of the active rows."""

    hidden: Tensor
    instruction: Instruction
    teacher: TeacherMemory  # what the teacher knows of them
    noise: Tensor  # [time, row, slot] what is added to the logits before the best is taken
    count: int  # of all rows
    teacher_rows: TeacherRows | None = None
    rows: Tensor | None = None  # which rows are active; None for all
    records: list[dict[str, Tensor]] = field(default_factory=list)

    def without_stopped(self, state: State) -> "MixedMemory":
        """Stopped rows leave on the CPU; elsewhere the teacher's rows leave together, once all of them have stopped."""
        kept, taught = active_rows(state, self.rows), self.teacher_rows
        if self.rows is None and taught is not None and taught.count < self.count and len(self.records) == taught.steps:
            kept = torch.arange(taught.count, self.count, device=self.hidden.device)
        return self if kept is None else self.select(kept)

    def select(self, kept: Tensor) -> "MixedMemory":
        return replace(
            self,
            hidden=self.hidden.index_select(0, kept),
            instruction=self.instruction.only(kept),
            teacher=tuple(part.index_select(0, kept) for part in self.teacher),
            noise=self.noise.index_select(1, kept),
            rows=narrow_rows(self.rows, kept),
        )


class MixedAgent(Agent):
    """A navigator each of whose rows chooses by a policy of its own."""

    oracle = True  # its rows may follow the teacher

    def __init__(
        self,
        navigator: Navigator,
        environment: Environment,
        tokens: Tensor,
        row_policy: Tensor,
        key: Tensor,
        target: Tensor | None = None,
        max_steps: int = MAX_STEPS,
        teacher_rows: TeacherRows | None = None,
        task: Task | None = None,
        lesson: TeacherMemory | None = None,
        flipped: Tensor | None = None,
        alignment: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        """[row, token] instructions, the policy of each row, and the key of its noise.

        `target` [row] is, in REVERIE, the place of the target among the objects of the goal; NONE where that does not
        show it. `task` has the teacher, R2R by default, and `lesson` what it knows of each row, by default the goal.
        `flipped` [row] are those who see their house in a mirror. `alignment` are the words that are due at each
        viewpoint of a path [row, hop, token], and the path [row, hop].
        """
        self.navigator, self.environment, self.tokens = navigator, environment, tokens
        self.row_policy, self.key, self.target = row_policy, key, target
        self.max_steps, self.teacher_rows = max_steps, teacher_rows
        self.task, self.lesson, self.flipped = task or TASKS[R2R.name], lesson, flipped
        self.alignment = alignment

    def begin(self, batch: EpisodeBatch) -> MixedMemory:
        instruction = encode_tokens(self.navigator, batch.tokens)
        noise = gumbel(self.key, self.max_steps, self.environment.world.slots)
        sampled = (self.row_policy == SAMPLE)[:, None]
        return MixedMemory(
            hidden=instruction.state,
            instruction=instruction,
            teacher=(batch.require_goal(),) if self.lesson is None else self.lesson,
            noise=noise * sampled,
            count=len(self.row_policy),
            teacher_rows=self.teacher_rows,
        )

    def act(self, observation: Observation, memory: MixedMemory) -> tuple[Tensor, MixedMemory]:
        policy = select_rows(self.row_policy, memory.rows)
        step = self.navigator.step(memory.hidden, memory.instruction, self._seen(observation, memory.rows))
        logits = _at_least_float32(step.logits)
        teacher, lesson = self.task.teacher(self.environment.world, observation.state.viewpoint, memory.teacher)
        sampled = (logits.detach() + memory.noise[len(memory.records)]).argmax(dim=1)
        slot = torch.where(policy == TEACHER, teacher, sampled)
        record = {"slot": slot, "teacher": teacher, "logits": logits, "hidden": step.state}
        if step.object_logits is not None and self.target is not None:
            target = select_rows(self.target, memory.rows)
            record["grounding_loss"] = _grounding_loss(step.object_logits, target, teacher)
        if self.alignment is not None:
            aligned, path = (select_rows(part, memory.rows) for part in self.alignment)
            words = words_to_attend(aligned, path, observation.state.viewpoint)
            record["alignment_loss"] = _alignment_loss(step.language_weights, words)
        record["live"] = ~observation.state.ended  # who has left has stopped
        record = {name: scatter_rows(part, memory.rows, memory.count) for name, part in record.items()}
        records = [*memory.records, record]
        after = replace(memory, hidden=step.state, instruction=step.instruction, teacher=lesson, records=records)
        return slot, after

    def bootstrap_value(self, walked: Trajectories) -> Tensor:
        """[row] the critic's value where rows came to the limit, without gradient; of others anything."""
        with torch.no_grad():
            state, count = walked.last_state, len(self.row_policy)
            memory = walked.memory.without_stopped(state)
            if not len(memory.hidden):
                return _at_least_float32(memory.hidden.new_zeros(count))
            observation = self.environment.observe(select_rows(state, memory.rows))
            ahead = self.navigator.step(memory.hidden, memory.instruction, self._seen(observation, memory.rows))
            return scatter_rows(_at_least_float32(self.navigator.value(ahead.state)), memory.rows, count)

    def _seen(self, observation: Observation, rows: Tensor | None) -> Observation:
        return observation if self.flipped is None else flip_observation(observation, select_rows(self.flipped, rows))


def collect_rollout(
    environment: Environment, agent: MixedAgent, start: Tensor, heading: Tensor, goal: Tensor
) -> Rollout:
    """Run the episodes and lay the record out; rows that did not stop take one more look, for the last value."""
    batch = EpisodeBatch(environment.reset(start, heading), agent.tokens, torch.arange(len(start)), goal=goal)
    walked = run_episodes(environment, agent, batch, max_steps=agent.max_steps)
    records = walked.memory.records
    columns = {name: torch.stack([record[name] for record in records]) for name in records[0]}
    columns["value"] = _at_least_float32(agent.navigator.value(columns.pop("hidden")))
    for name in ("grounding_loss", "alignment_loss"):
        columns.setdefault(name, torch.zeros_like(columns["value"]))
    places = {name: getattr(walked, name).T[: len(records) + 1] for name in ("viewpoint", "view")}
    return Rollout(**places, **columns, ended=walked.ended, last_value=agent.bootstrap_value(walked))


def _at_least_float32(numbers: Tensor) -> Tensor:
    """Losses are never made of half-precision numbers."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


def _grounding_loss(logits: Tensor, target: Tensor, teacher: Tensor) -> Tensor:
    """[row] the cross-entropy of the target where the teacher stops, which is where the target's place is known."""
    known = (teacher == STOP) & (target != NONE)
    no_object = logits.shape[1] - 1  # always there to be chosen, so that nothing becomes infinite
    return cross_entropy(_at_least_float32(logits), torch.where(known, target, no_object), reduction="none") * known


def _alignment_loss(weights: Tensor, words: Tensor) -> Tensor:
    """[row] minus the log of the share that the state attends to `words` [row, token]; 0 where there are none.

    `weights` [row, token] are of the words after [CLS].
    """
    words = words[:, 1:]
    if weights.shape != words.shape:
        problem = f"the backbone weighs {weights.shape[1]} words of an instruction that has {words.shape[1]}"
        raise UsageError(f"{problem}; do without: {setting('training.objective.alignment', 0)}")
    attended = (_at_least_float32(weights) * words).sum(dim=1)
    return torch.where(words.any(dim=1), -(attended + TINY).log(), 0.0)
