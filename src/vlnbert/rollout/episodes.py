"""The one loop in which agents and environment meet. It records where everybody went and never waits for the device.

Rows that have stopped need not be computed any more. On the CPU they are left out; on a GPU, to ask which ones have
stopped would be to wait for it, so they go along.
"""

from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment, State
from vlnbert.navigator import Instruction, Navigator

MAX_STEPS = 15  # as in the paper
PAD = 0  # the token that fills short instructions up

Value = TypeVar("Value", Tensor, State)


class Agent(Protocol):
    """Anything that can choose slots. What it remembers between steps is handed back to it."""

    def begin(self, state: State, goal: Tensor) -> Any:
        """The memory with which an episode starts. Only oracles may look at the goal."""

    def act(self, state: State, memory: Any) -> tuple[Tensor, Any]:
        """[agent] slots and the memory for the next step."""


@dataclass(frozen=True)
class Trajectories:
    """Where agents went. The last viewpoint repeats once an agent has stopped."""

    viewpoint: Tensor  # [agent, time]
    view: Tensor  # [agent, time]
    length: Tensor  # [agent] viewpoints before it stopped, the start included
    memory: Any = None  # what the agent remembers at the end

    @property
    def ended(self) -> Tensor:
        """[agent] whether it stopped within the limit."""
        return self.length < self.viewpoint.shape[1]

    @property
    def last_state(self) -> State:
        """The environment's state at the end."""
        return State(self.viewpoint[:, -1], self.view[:, -1], self.ended)


def run_episodes(
    environment: Environment,
    agent: Agent,
    start: Tensor,
    heading: Tensor,
    goal: Tensor,
    max_steps: int = MAX_STEPS,
) -> Trajectories:
    """Let every agent act until it stops or has taken `max_steps` steps."""
    state = environment.reset(start, heading)
    memory = agent.begin(state, goal)
    states, length = [state], torch.ones_like(state.viewpoint)
    for _ in range(max_steps):
        slot, memory = agent.act(state, memory)
        state = environment.step(state, slot)
        length += ~state.ended
        states.append(state)
        if state.ended.device.type == "cpu" and state.ended.all():  # elsewhere, to look would be to wait
            break
    states += [state] * (max_steps + 1 - len(states))
    viewpoint, view = (torch.stack([getattr(state, name) for state in states], dim=1) for name in ("viewpoint", "view"))
    return Trajectories(viewpoint, view, length, memory)


def encode_tokens(navigator: Navigator, tokens: Tensor) -> Instruction:
    """Let a navigator read instructions [row, token]."""
    return navigator.encode(tokens, tokens != PAD)


def active_rows(state: State, rows: Tensor | None) -> Tensor | None:
    """The places, among `rows`, of those that have not stopped; None where that is all, or where to ask is to wait."""
    if state.ended.device.type != "cpu":
        return None
    ended = select_rows(state.ended, rows)
    return (~ended).nonzero().squeeze(1) if ended.any() else None


def narrow_rows(rows: Tensor | None, kept: Tensor) -> Tensor:
    """Which rows are left when only those at the places `kept` are."""
    return kept if rows is None else rows.index_select(0, kept)


def select_rows(value: Value, rows: Tensor | None) -> Value:
    """A tensor or a state of some rows only."""
    if rows is None:
        return value
    if isinstance(value, Tensor):
        return value.index_select(0, rows)
    return State(*(part.index_select(0, rows) for part in (value.viewpoint, value.view, value.ended)))


def scatter_rows(part: Tensor, rows: Tensor | None, count: int) -> Tensor:
    """[row, ...] a tensor of some rows, among `count`; zero for the others."""
    return part if rows is None else part.new_zeros(count, *part.shape[1:]).index_copy(0, rows, part)
