"""The one loop in which agents and environment meet. It records where everybody went and never waits for the device.

Rows that have stopped need not be computed any more. On the CPU they are left out, where the agent's memory can do
without them; on a GPU, to ask which ones have stopped would be to wait for it, so they go along.
"""

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields, is_dataclass, replace
from functools import partial
from typing import Any, Self, TypeVar

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment, Observation, State
from vlnbert.errors import UsageError
from vlnbert.external import is_plain, kind_of
from vlnbert.rollout.agents import Agent, EpisodeBatch, Explanation, agent_name, call_agent
from vlnbert.rollout.going_back import BacktrackGraph
from vlnbert.world.objects import NONE
from vlnbert.world.world import STOP

MAX_STEPS = 15  # as in the paper

Tree = TypeVar("Tree")


class RowMemory(ABC):
    """Memory that rows can leave: its agent gets observations of the active rows, and answers for those only."""

    rows: Tensor | None  # which rows are active, ascending; None for all

    def without_stopped(self, state: State) -> Self:
        """The memory of the rows that have not stopped."""
        kept = active_rows(state, self.rows)
        return self if kept is None else self.select(kept)

    @abstractmethod
    def select(self, kept: Tensor) -> Self:
        """Of the active rows, those at some places."""


@dataclass(frozen=True)
class Trajectories:
    """Where agents went. The last viewpoint repeats once an agent has stopped."""

    viewpoint: Tensor  # [agent, time]
    view: Tensor  # [agent, time]
    length: Tensor  # [agent] viewpoints before it stopped, the start included
    memory: Any = None  # what the agent remembers at the end
    named: Tensor | None = None  # [agent] the object that it named, by its place; NONE for none
    explanations: tuple[Explanation | None, ...] = ()  # by time, where recorded; zero once an agent has stopped
    hops: "Trajectories | None" = None  # the same by hops, of agents that go back
    stopped: Tensor | None = None  # [agent] whether it stopped, by hops: there the limit does not tell
    decided: Tensor | None = None  # [agent, decision] likewise, where in the walk it decided, and its end

    @property
    def ended(self) -> Tensor:
        """[agent] whether it stopped within the limit."""
        return self.length < self.viewpoint.shape[1] if self.stopped is None else self.stopped

    @property
    def decisions(self) -> Tensor:
        """[agent] viewpoints at which it decided before it stopped, the start included."""
        return self.length if self.decided is None else (self.decided.diff(dim=1) > 0).sum(dim=1) + 1

    def select(self, rows: Tensor) -> "Trajectories":
        """Where some agents went, in the order of `rows`."""
        parts = ("viewpoint", "view", "length", "stopped", "decided")
        return Trajectories(**{name: select_rows(getattr(self, name), rows) for name in parts})

    @property
    def last_state(self) -> State:
        """The environment's state at the end."""
        return State(self.viewpoint[:, -1], self.view[:, -1], self.ended)


def run_episodes(
    environment: Environment,
    agent: Agent,
    batch: EpisodeBatch,
    max_steps: int = MAX_STEPS,
    name_objects: bool = False,
    record: bool = False,
) -> Trajectories:
    """Let every agent act until it stops or has taken `max_steps` steps; with `name_objects` it names an object there.

    With `record` it also explains each of its choices, if it can.
    """
    state, memory, count = batch.state, call_agent(agent, "begin", batch), len(batch.state.viewpoint)
    states, length, named = [state], torch.ones_like(state.viewpoint), torch.full_like(state.viewpoint, NONE)
    explanations = list[Explanation | None]()
    trail = BacktrackGraph.begin(state) if agent.goes_back else None
    most = agent.hops_per_step * max_steps
    # At the limit an agent acts once more, to name an object.
    for time in range(max_steps + name_objects):
        # On other devices, looking would wait for the device.
        if time and state.ended.device.type == "cpu" and state.ended.all():
            break
        rows = None
        if isinstance(memory, RowMemory):
            memory = memory.without_stopped(state)
            rows = memory.rows
        observation = environment.observe(select_rows(state, rows))
        answer = call_agent(agent, "act", observation, memory)
        if "act" in agent.guarded_methods:
            _check_act(agent, answer, observation.state, environment.world.slots)
        slot, memory = scatter_rows(answer[0], rows, count), answer[1]
        if record and time < max_steps:
            explanation = _checked_explanation(agent, call_agent(agent, "explain", observation, memory), observation)
            explanations.append(
                None if explanation is None else explanation.each(partial(scatter_rows, rows=rows, count=count))
            )
        if name_objects:
            names = ~state.ended & (slot == STOP) if time < max_steps else ~state.ended
            if names.device.type != "cpu" or names.any():
                place = call_agent(agent, "name_object", observation, memory)
                place = _checked_rows(agent, "name_object", place, observation.state)
                named = torch.where(names, scatter_rows(place, rows, count), named)
        if time < max_steps:
            if trail is None:
                state = environment.step(state, slot)
            else:
                # Each decision that is left may have a hop.
                name, left = type(getattr(agent, "policy", agent)).__name__, max_steps - time - 1
                state, trail = trail.step(environment, state, slot, most=most - left, name=name)
            length += ~state.ended
            states.append(state)
    states += [state] * (max_steps + 1 - len(states))
    viewpoint, view = (torch.stack([getattr(state, name) for state in states], dim=1) for name in ("viewpoint", "view"))
    walked = Trajectories(
        viewpoint=viewpoint,
        view=view,
        length=length,
        memory=memory,
        named=named if name_objects else None,
        explanations=tuple(explanations),
    )
    if trail is None:
        return walked
    viewpoint, view, decided = trail.walked(batch.state, most)
    decided = torch.cat((decided, decided[:, -1:].expand(-1, max_steps + 1 - decided.shape[1])), dim=1)
    hops = replace(walked, viewpoint=viewpoint, view=view, length=1 + trail.used, stopped=walked.ended, decided=decided)
    return replace(walked, hops=hops)


def _check_act(agent: Agent, answer: Any, state: State, slots: int) -> None:
    """Refuse what `act` may not give. Out of range is only looked for where to look is not to wait."""
    if not isinstance(answer, tuple) or len(answer) != 2:
        kind = type(answer).__name__
        raise UsageError(f"{agent_name(agent)}.act gave a {kind}; it must give slots and memory, (slot, memory)")
    slot = _checked_rows(agent, "act", answer[0], state)
    if slot.device.type == "cpu" and len(slot):
        least, most = (int(bound) for bound in slot.aminmax())
        if least < 0 or (most >= slots and not agent.goes_back):
            problem = f"{agent_name(agent)}.act chose slot {least if least < 0 else most}"
            raise UsageError(f"{problem}; slots are 0 (stop) to {slots - 1}, see observation.choosable")


def _checked_rows(agent: Agent, method: str, given: Any, state: State) -> Tensor:
    """An int64 for each row."""
    rows = state.viewpoint
    if isinstance(given, Tensor):
        same = is_plain(given) and given.shape == rows.shape
        if same and given.dtype == rows.dtype and given.device == rows.device:
            return given
    expected = f"it must give int64 [{len(rows)}] on {rows.device}, one for each row"
    raise UsageError(f"{agent_name(agent)}.{method} gave {kind_of(given)}; {expected}")


def _checked_explanation(agent: Agent, explanation: Any, observation: Observation) -> Explanation | None:
    """Return what `explain` gave, if it is None or a number for each row and slot."""
    if explanation is None:
        return None
    if not isinstance(explanation, Explanation):
        problem = f"{agent_name(agent)}.explain gave a {type(explanation).__name__}"
        raise UsageError(f"{problem}; it must give a vln.Explanation, or None")
    rows, slots = observation.choosable.shape
    parts: dict[str, Any] = vars(explanation)
    for name, part in parts.items():
        # The agent decides how many words and objects it explains.
        width = slots if name == "probability" else None
        if part is None and width is None:
            continue
        plain = isinstance(part, Tensor) and is_plain(part) and part.dim() == 2
        if not plain or len(part) != rows or width not in (None, part.shape[1]):
            problem = f"{agent_name(agent)}.explain gave {name} of another shape"
            expected = f"a tensor [{rows}, {width or 'any'}], a row for each of those observed"
            raise UsageError(f"{problem}; it must be {expected}")
    return explanation


def active_rows(state: State, rows: Tensor | None) -> Tensor | None:
    """The places, among `rows`, of those that have not stopped; None where that is all, or where to ask is to wait."""
    if state.ended.device.type != "cpu":
        return None
    ended = select_rows(state.ended, rows)
    return (~ended).nonzero().squeeze(1) if ended.any() else None


def narrow_rows(rows: Tensor | None, kept: Tensor) -> Tensor:
    """Which rows are left when only those at the places `kept` are."""
    return kept if rows is None else rows.index_select(0, kept)


def select_rows(tree: Tree, rows: Tensor | None) -> Tree:
    """Some rows, by their places, of every tensor of a tree: of tuples, lists, dictionaries and dataclasses."""
    if rows is None:
        return tree
    selected: Any = tree
    if isinstance(tree, Tensor):
        selected = tree.index_select(0, rows)
    elif isinstance(tree, tuple) and hasattr(tree, "_fields"):
        selected = type(tree)(*(select_rows(part, rows) for part in tree))
    elif isinstance(tree, tuple | list):
        selected = type(tree)(select_rows(part, rows) for part in tree)
    elif isinstance(tree, dict):
        selected = {name: select_rows(part, rows) for name, part in tree.items()}
    elif is_dataclass(tree) and not isinstance(tree, type):
        selected = replace(tree, **{item.name: select_rows(getattr(tree, item.name), rows) for item in fields(tree)})
    return selected  # type: ignore[no-any-return]  # of the type that was given


def scatter_rows(part: Tensor, rows: Tensor | None, count: int) -> Tensor:
    """[row, ...] a tensor of some rows, among `count`; zero for the others."""
    return part if rows is None else part.new_zeros(count, *part.shape[1:]).index_copy(0, rows, part)
