"""Where REVERIE's targets stand among the objects that a viewpoint shows, and whether they stand there at all."""

from dataclasses import dataclass

import torch
from torch import Tensor

from vlnbert.errors import listed
from vlnbert.tasks.episodes import Episodes
from vlnbert.world.objects import NONE, ObjectTable

SHOWN = 5  # instructions that a line names


@dataclass(frozen=True)
class TargetReport:
    """What becomes of the targets of a split, by instruction."""

    at_goal: int  # instructions whose goal shows their target
    elsewhere: tuple[str, ...]  # those whose target other viewpoints show
    nowhere: tuple[str, ...]  # those whose target no viewpoint shows: are annotations and boxes of one version?
    withheld: int  # those that do not tell their target, in a test split

    @property
    def complete(self) -> bool:
        """Whether no target is out of sight at its goal."""
        return not self.elsewhere and not self.nowhere

    def lines(self) -> list[str]:
        """The report in words, a line for each kind that occurs."""
        told = [f"{self.at_goal:,} targets are visible at the goal"] if self.at_goal else []
        if self.elsewhere:
            told.append(f"{len(self.elsewhere):,} are visible elsewhere only: {listed(self.elsewhere, SHOWN)}")
        if self.nowhere:
            hint = "use annotations and boxes of one version"
            told.append(f"{len(self.nowhere):,} are visible nowhere: {listed(self.nowhere, SHOWN)}; {hint}")
        return told + ([f"{self.withheld:,} are withheld"] if self.withheld else [])


def target_index(objects: ObjectTable, episodes: Episodes, viewpoint: Tensor | None = None) -> Tensor:
    """[episode] the place of each target among the objects of its goal, or of `viewpoint`; NONE where not shown.

    The objects must be those of the bank that agents look at: another may leave some out.
    """
    where = episodes.goal if viewpoint is None else viewpoint
    places = [
        NONE if target is None else objects.index(place, target)
        for place, target in zip(where.tolist(), episodes.targets, strict=True)
    ]
    return torch.tensor(places, dtype=torch.long, device=where.device)


def report_targets(objects: ObjectTable, episodes: Episodes) -> TargetReport:
    """Count the targets that can be found at the goal, elsewhere only, or nowhere."""
    at_goal = (target_index(objects, episodes) != NONE).tolist()
    sightings = [[] for _ in at_goal] if episodes.sightings is None else episodes.sightings.tolist()
    elsewhere, nowhere = list[str](), list[str]()
    for row, target in enumerate(episodes.targets):
        if target is not None and not at_goal[row]:
            seen = any(objects.index(place, target) != NONE for place in sightings[row])
            (elsewhere if seen else nowhere).append(episodes.ids[row])
    return TargetReport(sum(at_goal), tuple(elsewhere), tuple(nowhere), episodes.targets.count(None))
