"""Rollouts to learn from: each row follows the teacher, samples or takes the best, and everything is recorded.

What is sampled depends on a key and a counter, and on nothing else: noise is their hash, computed where it is needed.
It is the same whatever the batch, the device or the number of processes, and there is no generator whose state could be
lost.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from vlnbert.environment.environment import Environment, Observation, State, flip_observation
from vlnbert.errors import UsageError
from vlnbert.rollout.agents import Agent, EpisodeBatch
from vlnbert.rollout.episodes import (
    MAX_STEPS,
    RowMemory,
    Trajectories,
    active_rows,
    narrow_rows,
    run_episodes,
    scatter_rows,
    select_rows,
)
from vlnbert.rollout.policy import Decision, Policy, as_policy, checked_decision, require_rows
from vlnbert.tasks.batches import Batch
from vlnbert.tasks.task import R2R, TASKS, Task, TeacherMemory, metres_to_nearest, nearest
from vlnbert.world.world import World

TOLERANCE = 1e-6  # metres by which a way may be longer and still be a shortest one
TEACHER, SAMPLE, GREEDY = 0, 1, 2  # the modes in which a row chooses
OBJECT_LOGITS, LANGUAGE_WEIGHTS = "object_logits", "language_weights"  # of a decision, kept where a loss reads them
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15  # splitmix64's increment and multipliers, below
FIRST, SECOND = 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


@dataclass(frozen=True)
class KeptDecision:
    """The parts of one step's decision that losses read, of the rows that were active.

    Attributes:
        rows: [active] which rows those are; None for all.
        viewpoint: [active] where they stood.
        teacher: [active] what the teacher would have chosen.
        object_logits: [active, object + 1] as wide as this step needed.
        language_weights: [active, token] attention over the tokens after the first.
    """

    rows: Tensor | None
    viewpoint: Tensor
    teacher: Tensor
    object_logits: Tensor | None = None
    language_weights: Tensor | None = None


READABLE = ("object_logits", LANGUAGE_WEIGHTS)  # what a loss may name in its `reads`


@dataclass(frozen=True)
class Rollout:
    """A record of episodes, [time, row] unless said otherwise. Steps at which a row is not live mean nothing.

    Attributes:
        viewpoint: [time + 1, row] where each row stood before each choice, and at the end.
        view: [time + 1, row] the view that it faced.
        slot: [time, row] what was chosen: a slot; beyond these a place, of policies that go back.
        teacher: [time, row] what the teacher would have chosen.
        live: [time, row] bool: had not stopped before.
        logits: [time, row, slot] of the policy, at least float32; places that it could go back to come after the
            slots.
        ended: [row] bool: stopped within the limit.
        row_mode: [row] how each row chose: TEACHER, SAMPLE or GREEDY.
        goal: [row] the viewpoint where each should stop; [row, any] where there are several.
        world: The houses that they walked in.
        hidden: [time, row, width] the policy's hidden vectors at the end of each step, if it gives any.
        kept: One a step: what some loss reads of the decisions.
        walked: [hop + 1, row] all viewpoints of the walk, the last repeated, where a policy may go back; else as
            `viewpoint`.
        decided: [time + 1, row] where in `walked` each choice was made, and the end: a choice's hops lie between
            two of them.
        reward: [time, row] what each choice earned, where a loss asks for it.
        value: [time, row] what the critic expected at the end of each step, where a loss has one.
        last_value: [row] the critic's value after the last step, without gradient, to bootstrap from.
        returns: [time, row] the discounted rewards still to come, where a loss asks for them.
    """

    viewpoint: Tensor
    view: Tensor
    slot: Tensor
    teacher: Tensor
    live: Tensor
    logits: Tensor
    ended: Tensor
    row_mode: Tensor
    goal: Tensor
    world: World
    hidden: Tensor | None = None
    kept: tuple[KeptDecision, ...] = ()
    walked: Tensor | None = None
    decided: Tensor | None = None
    reward: Tensor | None = None
    value: Tensor | None = None
    last_value: Tensor | None = None
    returns: Tensor | None = None

    @cached_property
    def taught(self) -> Tensor:
        """[row] bool: teacher-forced."""
        return self.row_mode == TEACHER

    @cached_property
    def sampled(self) -> Tensor:
        """[row] bool: follows choices that it samples."""
        return self.row_mode == SAMPLE

    @cached_property
    def explored(self) -> Tensor:
        """[time, row] bool: the live steps of sampled rows."""
        return self.live & self.sampled

    @cached_property
    def taught_rows(self) -> Tensor:
        """[] the number of teacher-forced rows."""
        return self.taught.sum()

    @cached_property
    def explored_steps(self) -> Tensor:
        """[] the number of live steps of sampled rows."""
        return self.explored.sum()

    @cached_property
    def log_policy(self) -> Tensor:
        """[time, row, slot] log-probabilities of all actions."""
        return self.logits.log_softmax(dim=-1)

    @cached_property
    def log_probability(self) -> Tensor:
        """[time, row] log-probability of what was chosen."""
        return self.log_policy.gather(-1, self.slot[..., None]).squeeze(-1)

    @cached_property
    def entropy(self) -> Tensor:
        """[time, row] of the policy."""
        finite = torch.where(self.logits.isneginf(), 0.0, self.log_policy)
        return -(finite.exp() * finite * ~self.logits.isneginf()).sum(dim=-1)

    @cached_property
    def distance(self) -> Tensor:
        """[time + 1, row] float64 metres to the goal along the graph, or to the nearest of several."""
        if self.goal.dim() == 2:
            return metres_to_nearest(self.world, self.viewpoint, self.goal)
        return self.world.metres(self.viewpoint, self.goal.expand_as(self.viewpoint))


@dataclass(frozen=True)
class TeacherRows:
    """The first rows follow the teacher, which stops within some steps; after those they leave the batch together."""

    count: int
    steps: int


@dataclass
class MixedMemory(RowMemory):
    """The memory of a mixed rollout's agent; its tensors are of the active rows."""

    memory: Any  # the policy's
    teacher: TeacherMemory  # the teacher's state
    noise: Tensor  # [time, row, slot] what is added to the logits before the best is taken
    count: int  # of all rows
    teacher_rows: TeacherRows | None = None
    rows: Tensor | None = None  # which rows are active; None for all
    records: list[dict[str, Tensor]] = field(default_factory=list)
    kept: tuple[KeptDecision, ...] = ()

    def without_stopped(self, state: State) -> "MixedMemory":
        """Stopped rows leave on the CPU; elsewhere the teacher's rows leave together, once all of them have stopped."""
        kept, taught = active_rows(state, self.rows), self.teacher_rows
        if self.rows is None and taught is not None and taught.count < self.count and len(self.records) == taught.steps:
            kept = torch.arange(taught.count, self.count, device=self.noise.device)
        return self if kept is None else self.select(kept)

    def select(self, kept: Tensor) -> "MixedMemory":
        return replace(
            self,
            memory=select_rows(self.memory, kept),
            teacher=select_rows(self.teacher, kept),
            noise=self.noise.index_select(1, kept),
            rows=narrow_rows(self.rows, kept),
        )


class MixedAgent(Agent):
    """A policy each of whose rows chooses in a way of its own."""

    oracle = True  # its rows may follow the teacher

    def __init__(
        self,
        policy: nn.Module,
        environment: Environment,
        tokens: Tensor,
        row_mode: Tensor,
        key: Tensor,
        max_steps: int = MAX_STEPS,
        teacher_rows: TeacherRows | None = None,
        task: Task | None = None,
        teacher_state: TeacherMemory | None = None,
        flipped: Tensor | None = None,
        reads: Collection[str] = (),
    ) -> None:
        """A policy or a navigator, [row, token] instructions, how each row chooses, and the key of its noise.

        `task` has the teacher, R2R by default, and `teacher_state` its knowledge of each row, by default the goal.
        `flipped` [row] are those that are flipped left to right. `reads` names the parts of decisions that losses read.
        """
        self.policy: Policy = as_policy(policy)
        self.environment, self.tokens = environment, tokens
        self.row_mode, self.key = row_mode, key
        self.max_steps, self.teacher_rows = max_steps, teacher_rows
        self.task, self.teacher_state, self.flipped = task or TASKS[R2R.name], teacher_state, flipped
        self.reads = frozenset(reads)
        self.teaches_going_back = self.policy.teaches_going_back and type(self.task).teacher is Task.teacher
        self.goes_back, self.hops_per_step = self.policy.goes_back, self.policy.hops_per_step

    def begin(self, batch: EpisodeBatch) -> MixedMemory:
        # Only the teacher knows the goal.
        memory = self.policy.begin(replace(batch, goal=None, goals=None))
        require_rows(self.policy, memory, len(self.row_mode))
        noise = gumbel(self.key, self.max_steps, self.environment.world.slots)
        sampled = (self.row_mode == SAMPLE)[:, None]
        return MixedMemory(
            memory=memory,
            teacher=(batch.require("goal"),) if self.teacher_state is None else self.teacher_state,
            noise=noise * sampled,
            count=len(self.row_mode),
            teacher_rows=self.teacher_rows,
        )

    def act(self, observation: Observation, memory: MixedMemory) -> tuple[Tensor, MixedMemory]:
        mode, viewpoint = select_rows(self.row_mode, memory.rows), observation.state.viewpoint
        decision = self._decide(observation, memory)
        logits = at_least_float32(decision.all_logits)
        teacher, state = self.task.teacher(self.environment.world, viewpoint, memory.teacher)
        if self.teaches_going_back and decision.places is not None:
            teacher = self._place_or(teacher, viewpoint, decision, goal=memory.teacher[0])
        sampled = (logits.detach() + self._noise(decision, memory, mode)).argmax(dim=1)
        slot = torch.where(mode == TEACHER, teacher, sampled)
        hidden = {} if decision.hidden is None else {"hidden": decision.hidden}
        # Rows that left have stopped, and get zeros.
        record = {"slot": slot, "teacher": teacher, "logits": logits, **hidden, "live": ~observation.state.ended}
        record = {name: scatter_rows(part, memory.rows, memory.count) for name, part in record.items()}
        kept = memory.kept
        if self.reads:
            read = {name: getattr(decision, name) for name in self.reads}
            kept = (*kept, KeptDecision(memory.rows, viewpoint, teacher, **read))
        after = replace(memory, memory=decision.memory, teacher=state, records=[*memory.records, record], kept=kept)
        return decision.choice(slot), after

    def _place_or(self, slot: Tensor, viewpoint: Tensor, decision: Decision, goal: Tensor) -> Tensor:
        """[active] the place on a shortest path to the goal that is nearest to it; the teacher's slot without one."""
        places, world = decision.places, self.environment.world
        if places is None or not places.shape[1]:
            return slot
        goal = goal if goal.dim() == 1 else nearest(world, viewpoint, goal)
        here, end = (part[:, None].expand_as(places) for part in (viewpoint, goal))
        there = torch.where(places < 0, here, places)
        left = world.metres(there, end)
        on_the_way = (places >= 0) & (world.metres(here, there) + left <= world.metres(here, end) + TOLERANCE)
        least, place = left.masked_fill(~on_the_way, torch.inf).min(dim=1)
        return torch.where(least.isfinite(), decision.logits.shape[1] + place, slot)

    def _noise(self, decision: Decision, memory: MixedMemory, mode: Tensor) -> Tensor:
        """[active, slot] this step's noise; that of places is drawn beside it, so that slots keep theirs."""
        time = len(memory.records)
        if decision.places is None:
            return memory.noise[time]
        noise = gumbel(mix(select_rows(self.key, memory.rows) + time + 1), 1, decision.places.shape[1])[0]
        return torch.cat((memory.noise[time], noise * (mode == SAMPLE)[:, None]), dim=1)

    @torch.no_grad()
    def last_value(self, walked: Trajectories, critic: Callable[[Tensor], Tensor]) -> Tensor | None:
        """[row] the critic's value where rows came to the limit, by one more observation; undefined for other rows."""
        memory = walked.memory.without_stopped(walked.last_state)
        if not memory.noise.shape[1]:
            return None
        ahead = self._decide(self.environment.observe(select_rows(walked.last_state, memory.rows)), memory)
        if ahead.hidden is None:
            return None
        return scatter_rows(at_least_float32(critic(ahead.hidden)), memory.rows, memory.count)

    def _decide(self, observation: Observation, memory: MixedMemory) -> Decision:
        if self.flipped is not None:
            observation = flip_observation(observation, select_rows(self.flipped, memory.rows))
        decision = self.policy.step(observation, memory.memory, attention=LANGUAGE_WEIGHTS in self.reads)
        return checked_decision(self.policy, decision, observation)


def collect_rollout(
    environment: Environment,
    agent: MixedAgent,
    start: Tensor,
    heading: Tensor,
    goal: Tensor,
    critic: Callable[[Tensor], Tensor] | None = None,
    described: Batch | None = None,
) -> Rollout:
    """Run the episodes and lay the record out; `described` has what a task says of them beside the goal.

    With a `critic` of hidden vectors the rollout has values, and rows that did not stop take one more look, for the
    last of them.
    """
    batch = EpisodeBatch(environment.reset(start, heading), agent.tokens, torch.arange(len(start)), goal=goal)
    if described is not None:
        batch = replace(batch, goals=described.goals, ids=described.ids, extra=described.extra)
    walked = run_episodes(environment, agent, batch, max_steps=agent.max_steps)
    records = walked.memory.records
    if agent.goes_back:
        # Steps may offer more or fewer places.
        width = max(record["logits"].shape[-1] for record in records)
        for record in records:
            record["logits"] = pad(record["logits"], (0, width - record["logits"].shape[-1]), value=-torch.inf)
    columns = {name: torch.stack([record[name] for record in records]) for name in records[0]}
    if critic is not None:
        if "hidden" not in columns:
            problem = f"{type(agent.policy).__name__} gives no Decision.hidden, which the critic reads"
            raise UsageError(f"{problem}; give one, or do without the losses value and policy")
        columns["value"] = at_least_float32(critic(columns["hidden"]))
        ahead = agent.last_value(walked, critic)
        columns["last_value"] = columns["value"].new_zeros(len(start)) if ahead is None else ahead
    places = {name: getattr(walked, name).T[: len(records) + 1] for name in ("viewpoint", "view")}
    if walked.hops is not None:
        assert walked.hops.decided is not None
        places |= {"walked": walked.hops.viewpoint.T, "decided": walked.hops.decided.T[: len(records) + 1]}
    return Rollout(
        **places,
        **columns,
        ended=walked.ended,
        row_mode=agent.row_mode,
        goal=goal,
        world=environment.world,
        kept=walked.memory.kept,
    )


def at_least_float32(numbers: Tensor) -> Tensor:
    """Losses are never made of half-precision numbers."""
    return numbers.to(torch.promote_types(numbers.dtype, torch.float32))


def keys(seed: int, iteration: int, episode: Tensor) -> Tensor:
    """[row] a key for each episode in one iteration of one run."""
    return mix(episode + _signed(seed * GOLDEN + iteration * SECOND))


def gumbel(key: Tensor, steps: int, slots: int) -> Tensor:
    """[time, row, slot] standard Gumbel noise: added to a step's logits, its argmax is a sample of their softmax."""
    counter = torch.arange(steps * slots, device=key.device).view(steps, 1, slots)
    return -torch.log(-torch.log(uniform(key[:, None], counter)))


def uniform(key: Tensor, counter: Tensor) -> Tensor:
    """Float64 numbers between 0 and 1, one for each pair of a key and a counter, whose shapes broadcast."""
    bits = mix(key + counter * _signed(GOLDEN))
    return (((bits >> 11) & ((1 << 53) - 1)).double() + 0.5) * 2.0**-53


def mix(value: Tensor) -> Tensor:
    """splitmix64's finaliser on int64, whose overflow wraps as it should."""
    value = value + _signed(GOLDEN)
    value = (value ^ _shifted(value, 30)) * _signed(FIRST)
    value = (value ^ _shifted(value, 27)) * _signed(SECOND)
    return value ^ _shifted(value, 31)


def _shifted(value: Tensor, by: int) -> Tensor:
    """A logical shift to the right; torch's own keeps the sign."""
    return (value >> by) & ((1 << (64 - by)) - 1)


def _signed(number: int) -> int:
    """The int64 with the same bits."""
    number &= MASK
    return number - (1 << 64) if number >> 63 else number
