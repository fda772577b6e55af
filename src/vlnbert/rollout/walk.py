"""The one loop in which agent and environment meet. It records where everybody went, and waits for nobody."""

from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from vlnbert.environment.environment import Environment, State

LIMIT = 15  # steps, as in the paper


class Agent(Protocol):
    """Anything that can choose slots. What it remembers between steps is handed back to it."""

    def begin(self, state: State, goal: Tensor) -> Any:
        """The memory with which an episode starts. Only oracles may look at the goal."""

    def choose(self, state: State, memory: Any) -> tuple[Tensor, Any]:
        """[agent] slots and the memory for the next step."""


@dataclass(frozen=True)
class Walk:
    """Where agents went. The last viewpoint repeats once an agent has stopped."""

    viewpoint: Tensor  # [agent, time]
    view: Tensor  # [agent, time]
    length: Tensor  # [agent] viewpoints before it stopped, the start included
    memory: Any = None  # what the agent remembers at the end

    @property
    def ended(self) -> Tensor:
        """[agent] whether it stopped within the limit."""
        return self.length < self.viewpoint.shape[1]


def walk(
    environment: Environment, agent: Agent, start: Tensor, heading: Tensor, goal: Tensor, limit: int = LIMIT
) -> Walk:
    """Let every agent choose until it stops or has taken `limit` steps."""
    state = environment.reset(start, heading)
    memory = agent.begin(state, goal)
    states, length = [state], torch.ones_like(state.viewpoint)
    for _ in range(limit):
        slot, memory = agent.choose(state, memory)
        state = environment.step(state, slot)
        length += ~state.ended
        states.append(state)
        if state.ended.device.type == "cpu" and state.ended.all():  # elsewhere, to look would be to wait
            break
    states += [state] * (limit + 1 - len(states))
    viewpoint, view = (torch.stack([getattr(state, name) for state in states], dim=1) for name in ("viewpoint", "view"))
    return Walk(viewpoint, view, length, memory)
