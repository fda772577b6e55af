"""Where agents part: the episodes in which they do not walk the same way, and who succeeds there."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vlnbert.evaluation.evaluate import Evaluation


@dataclass(frozen=True)
class Walk:
    """What one agent did in an episode."""

    path: tuple[str, ...]  # viewpoints; staying repeats none
    outcome: str
    success: bool | None  # None where the goal is withheld
    scores: Mapping[str, float]


@dataclass(frozen=True)
class Parting:
    """An episode in which agents go different ways."""

    id: str
    step: int  # moves that they make together
    viewpoint: str  # where they part
    walks: Mapping[str, Walk]  # by agent

    @property
    def decides(self) -> bool:
        """Whether some succeed and others do not."""
        return len({walk.success for walk in self.walks.values()}) > 1


def find_partings(evaluations: Mapping[str, Evaluation]) -> list[Parting]:
    """The episodes, which all evaluations share in their order, whose walks differ; those first that decide."""
    ids = next(iter(evaluations.values())).episodes.ids
    walks = {agent: _walks(evaluation) for agent, evaluation in evaluations.items()}
    found = list[Parting]()
    for row, id in enumerate(ids):
        here = {agent: each[row] for agent, each in walks.items()}
        paths = [walk.path for walk in here.values()]
        if len(set(paths)) > 1:
            step = _together(paths)
            found.append(Parting(id, step, paths[0][step], here))
    return sorted(found, key=lambda parting: not parting.decides)


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


def _together(paths: Sequence[tuple[str, ...]]) -> int:
    """The moves that all make together: who stops parts from who goes on."""
    shortest = min(map(len, paths))
    same = (len({path[step] for path in paths}) == 1 for step in range(shortest))
    return next((step for step, alike in enumerate(same) if not alike), shortest) - 1
