"""The environment as a loop over agents, which is what one would write without tensors.

The same pure functions for a single agent, over Python lists, called for one agent after the other, and an observation
that is filled in candidate by candidate.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from vlnbert.world.banks import FeatureBank
from vlnbert.world.world import STEPS, STOP, VIEW_ANGLE, World


class WorldLists:
    """The world as Python lists, which a loop reads faster than tensors."""

    def __init__(self, world: World, bank: FeatureBank) -> None:
        self.slots, self.width = world.slots, bank.width
        self.choices: list[int] = world.choices.tolist()
        self.neighbour: list[list[int]] = world.neighbour.tolist()
        self.view: list[list[int]] = world.view.tolist()
        self.heading: list[list[float]] = world.heading.tolist()
        self.elevation: list[list[float]] = world.elevation.tolist()
        self.row: list[int] = world.row.tolist()
        self.column: list[int] = world.column.tolist()
        self.next_slot: list[int] = world.next_slot.tolist()
        self.feature_row: list[list[int]] = bank.row.tolist()
        self.table: NDArray[np.float32] = bank.table.float().cpu().numpy()


class AgentState(NamedTuple):
    """The state of one agent."""

    viewpoint: int
    view: int
    ended: bool


def step_agent(lists: WorldLists, agent: AgentState, slot: int) -> AgentState:
    """What `Environment.step` does, for one agent."""
    if agent.ended or slot == STOP:
        return agent._replace(ended=True)
    if slot >= lists.choices[agent.viewpoint]:
        return agent
    return AgentState(lists.neighbour[agent.viewpoint][slot], lists.view[agent.viewpoint][slot], ended=False)


def teacher_slot(lists: WorldLists, agent: AgentState, goal: int) -> int:
    """What `shortest_path_teacher` tells, for one agent."""
    return lists.next_slot[lists.row[agent.viewpoint] + lists.column[goal]]


def step_agents(
    lists: WorldLists, agents: list[AgentState], slots: list[int], goals: list[int], level: str
) -> list[AgentState]:
    """Move every agent once, one after the other, and build what the level asks for."""
    widths = {"step": (0, 0), "teacher": (0, 0), "angles": (4, 0), "features": (4, lists.width)}[level]
    direction, features = (np.zeros((len(agents), lists.slots, width), dtype=np.float32) for width in widths)
    after, teachers = [], []
    for row, agent in enumerate(agents):
        moved = step_agent(lists, agent, slots[row])
        after.append(moved)
        if level != "step":
            teachers.append(teacher_slot(lists, moved, goals[row]))
        if level in ("angles", "features"):
            _fill_directions(lists, moved, direction[row])
        if level == "features":
            _fill_features(lists, moved, features[row])
    return after


def _fill_directions(lists: WorldLists, agent: AgentState, direction: NDArray[np.float32]) -> None:
    """Fill in the directions of one agent's choices."""
    here, facing = agent.viewpoint, agent.view % STEPS * VIEW_ANGLE
    for slot in range(1, lists.choices[here]):
        heading, elevation = lists.heading[here][slot] - facing, lists.elevation[here][slot]
        direction[slot] = math.sin(heading), math.cos(heading), math.sin(elevation), math.cos(elevation)


def _fill_features(lists: WorldLists, agent: AgentState, features: NDArray[np.float32]) -> None:
    """Fill in the features of one agent's choices."""
    for slot in range(1, lists.choices[agent.viewpoint]):
        features[slot] = lists.table[lists.feature_row[agent.viewpoint][slot]]
