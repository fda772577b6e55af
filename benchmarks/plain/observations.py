"""Observations, built the way of the published code: one agent after the other, in numpy.

Each agent gets the features of all 36 views of its panorama, joined with the angles at which they lie, and a record for
each candidate with a feature of its own; then the candidates are padded to those of the widest row, and become tensors.
What the simulator costs there, which turns its camera step by step, is left out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from benchmarks.plain.loop import AgentState, WorldLists
from vlnbert.environment.environment import Observation
from vlnbert.world.banks import FeatureBank
from vlnbert.world.world import STEPS, VIEW_ANGLE, VIEWS, World

Numbers = NDArray[np.float32]


@dataclass(frozen=True)
class Candidate:
    """A viewpoint that an agent may go to next."""

    viewpoint: int
    view: int  # that shows it
    feature: Numbers  # [width + angles] of that view, and where the candidate lies


@dataclass(frozen=True)
class AgentObservation:
    """What one agent sees."""

    panorama: Numbers  # [36, width + angles] published agents of this kind are given it, and look at candidates alone
    facing: Numbers  # [angles] of the view that it faces
    candidates: list[Candidate]


class PlainObserver:
    """Observes for one agent at a time."""

    def __init__(self, world: World, bank: FeatureBank, angle_width: int) -> None:
        self.lists, self.angle_width, self.device = WorldLists(world, bank), angle_width, world.device
        self.angles = [self._angles_around(view) for view in range(VIEWS)]
        self.panoramas: dict[int, Numbers] = {}  # those that somebody has seen

    def observe(self, agent: AgentState) -> AgentObservation:
        lists, here, base = self.lists, agent.viewpoint, _heading(agent.view)
        panorama, candidates = self._panorama(here), []
        for slot in range(1, lists.choices[here]):
            view = lists.view[here][slot]
            angle = self._angle(lists.heading[here][slot] - base, lists.elevation[here][slot])
            feature = np.concatenate((panorama[view], angle))
            candidates.append(Candidate(lists.neighbour[here][slot], view, feature))
        around = np.concatenate((panorama, self.angles[agent.view]), axis=1)
        return AgentObservation(around, self._angle(base, _elevation(agent.view)), candidates)

    def batch(self, observations: Sequence[AgentObservation]) -> Observation:
        """All rows as tensors, as wide as the row with the most candidates."""
        counts, width = [1 + len(observation.candidates) for observation in observations], self.lists.width
        seen = np.zeros((len(observations), max(counts), width + self.angle_width), dtype=np.float32)
        facing = np.zeros((len(observations), self.angle_width), dtype=np.float32)
        for row, observation in enumerate(observations):
            facing[row] = observation.facing
            for slot, candidate in enumerate(observation.candidates, start=1):  # slot 0 stops
                seen[row, slot] = candidate.feature
        slots, choices = np.arange(max(counts)), np.array(counts)[:, None]
        tensor = torch.from_numpy(seen).to(self.device)
        return Observation(
            choosable=torch.from_numpy(slots < choices).to(self.device),
            direction=tensor[..., width : width + 4],  # a navigator repeats these four itself
            facing=torch.from_numpy(facing).to(self.device)[:, :4],
            features=tensor[..., :width],
        )

    def _panorama(self, viewpoint: int) -> Numbers:
        """[36, width] from memory, as there. Views that show no candidate are zero: nobody looks at their numbers."""
        if viewpoint not in self.panoramas:
            lists, views = self.lists, np.zeros((VIEWS, self.lists.width), dtype=np.float32)
            for slot in range(1, lists.choices[viewpoint]):
                views[lists.view[viewpoint][slot]] = lists.table[lists.feature_row[viewpoint][slot]]
            self.panoramas[viewpoint] = views
        return self.panoramas[viewpoint]

    def _angles_around(self, view: int) -> Numbers:
        """[36, angles] of all views, as seen by who faces one of them."""
        return np.stack([self._angle(_heading(other) - _heading(view), _elevation(other)) for other in range(VIEWS)])

    def _angle(self, heading: float, elevation: float) -> Numbers:
        parts = [math.sin(heading), math.cos(heading), math.sin(elevation), math.cos(elevation)]
        return np.array(parts * (self.angle_width // 4), dtype=np.float32)


def _heading(view: int) -> float:
    return view % STEPS * VIEW_ANGLE


def _elevation(view: int) -> float:
    return (view // STEPS - 1) * VIEW_ANGLE
