"""Where agents diverge: the episodes in which they do not walk the same way, and who succeeds there."""

from collections.abc import Mapping
from dataclasses import dataclass

from vlnbert.evaluation.evaluate import Evaluation


@dataclass(frozen=True)
class Walk:
    """The walk of one agent in an episode."""

    path: tuple[str, ...]  # viewpoints; staying repeats none
    outcome: str
    success: bool | None  # None if the goal is withheld
    scores: Mapping[str, float]


@dataclass(frozen=True)
class Divergence:
    """An episode in which agents go different ways."""

    id: str
    step: int  # moves that they make together
    viewpoint: str  # the last that they have in common
    walks: Mapping[str, Walk]  # by agent

    @property
    def changes_outcome(self) -> bool:
        """Whether some succeed and others do not."""
        return len({walk.success for walk in self.walks.values()}) > 1


def find_divergences(evaluations: Mapping[str, Evaluation]) -> list[Divergence]:
    """The episodes whose walks differ, those first that change the outcome; all evaluations share their order."""
    ids = next(iter(evaluations.values())).episodes.ids
    walks = {agent: _walks(evaluation) for agent, evaluation in evaluations.items()}
    found = list[Divergence]()
    for row, id in enumerate(ids):
        here = {agent: each[row] for agent, each in walks.items()}
        paths = [walk.path for walk in here.values()]
        if len(set(paths)) > 1:
            shortest = min(map(len, paths))
            differ = (step for step in range(shortest) if len({path[step] for path in paths}) > 1)
            step = next(differ, shortest) - 1  # an agent that stops diverges from one that moves on
            found.append(Divergence(id, step, paths[0][step], here))
    return sorted(found, key=lambda one: not one.changes_outcome)


def _walks(evaluation: Evaluation) -> list[Walk]:
    names, walked = evaluation.world.viewpoints, evaluation.trajectories
    paths = zip(walked.viewpoint.tolist(), walked.length.tolist(), evaluation.outcomes, strict=True)
    scores = evaluation.scores
    return [
        Walk(
            path=tuple(names[here] for place, here in enumerate(path[:length]) if not place or here != path[place - 1]),
            outcome=outcome,
            success=None if scores is None else bool(scores.sr[row]),
            scores={} if scores is None else scores.of(row),
        )
        for row, (path, length, outcome) in enumerate(paths)
    ]
