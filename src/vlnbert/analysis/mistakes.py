"""Where an agent went wrong on a split: how each failure ended, where paths were left, and which episodes are hard."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

import numpy as np

from vlnbert.evaluation.evaluate import RAN_OUT, Evaluation
from vlnbert.evaluation.metrics import Scores

MOST_HOUSES = 12  # shown one by one; of more, those with the most and the least success
FARTHEST = 5  # moves along the reference after which to leave it counts as one

SUCCESS, EARLY, LATE, LOST, OUT_OF_STEPS = "success", "too early", "too late", "lost", "ran out of steps"
ENDINGS = {  # of every episode one
    SUCCESS: "ended where it should",
    EARLY: "stopped on the described path, before the goal",
    LATE: "came by a place where stopping succeeds, and went on",
    LOST: "stopped away from the described path, and was never where it should",
    OUT_OF_STEPS: "was still walking when its steps were used up",
}
NEVER_LEFT = "never left it"


@dataclass(frozen=True)
class Group:
    """Some episodes that have something in common."""

    name: str
    episodes: int
    successes: int

    @property
    def rate(self) -> float:
        return self.successes / self.episodes if self.episodes else 0.0


@dataclass(frozen=True)
class Mistakes:
    """What a report tells of an agent's failures; all of it counts episodes of one split."""

    endings: dict[str, int]  # by `ENDINGS`
    left_path: dict[str, int]  # by how many moves along the reference were made before it was left
    by_path_length: tuple[Group, ...]
    by_words: tuple[Group, ...]
    by_house: tuple[Group, ...]
    houses: int  # of which `by_house` shows all or some


def find_mistakes(evaluation: Evaluation) -> Mistakes:
    """Take a scored evaluation apart."""
    scores, episodes = evaluation.scores, evaluation.episodes
    if scores is None:
        raise ValueError("goals are withheld: nobody knows what went wrong")
    world = evaluation.world
    succeeded = [bool(value) for value in scores.sr.tolist()]
    walks, references = _walks(evaluation), _references(evaluation)
    endings = endings_of(evaluation, scores, walks, references)
    metres = [
        float(world.metres(path[:-1], path[1:]).sum()) for path in (episodes.path[row] for row in range(len(episodes)))
    ]
    words = [len(text.split()) for text in episodes.texts]
    scans = [world.scans[number] for number in world.scan_of[episodes.start].tolist()]
    houses = _grouped(scans, succeeded)
    return Mistakes(
        endings={name: endings.count(name) for name in ENDINGS},
        left_path=_left_path(walks, references),
        by_path_length=_in_quarters(metres, succeeded, "m"),
        by_words=_in_quarters(words, succeeded, "words"),
        by_house=_hardest_and_easiest(houses),
        houses=len(houses),
    )


def endings_of(
    evaluation: Evaluation, scores: Scores, walks: Sequence[list[int]], references: Sequence[list[int]]
) -> list[str]:
    """[episode] how it ended, one of `ENDINGS`."""
    found = []
    for row, (walk, reference) in enumerate(zip(walks, references, strict=True)):
        if scores.sr[row]:
            found.append(SUCCESS)
        elif evaluation.outcomes[row] == RAN_OUT:
            found.append(OUT_OF_STEPS)
        elif scores.osr[row]:
            found.append(LATE)
        else:
            found.append(EARLY if walk[-1] in reference else LOST)
    return found


def moves_along(walk: Sequence[int], reference: Sequence[int]) -> int | None:
    """How many moves along the reference were made before it was left; None where it was not left.

    Who goes on at its end leaves it there; who stops on it does not.
    """
    for move, viewpoint in enumerate(walk):
        if move >= len(reference) or viewpoint != reference[move]:
            return move - 1
    return None


def _left_path(walks: Sequence[list[int]], references: Sequence[list[int]]) -> dict[str, int]:
    left = Counter(_after(moves_along(walk, reference)) for walk, reference in zip(walks, references, strict=True))
    names = [*(_after(moves) for moves in range(FARTHEST + 1)), NEVER_LEFT]
    return {name: left[name] for name in names}


def _after(moves: int | None) -> str:
    if moves is None:
        return NEVER_LEFT
    return "at the start" if moves == 0 else f"after {min(moves, FARTHEST)}{' or more' if moves >= FARTHEST else ''}"


def _walks(evaluation: Evaluation) -> list[list[int]]:
    """[episode] the viewpoints that were walked; staying repeats none."""
    lengths = evaluation.trajectories.length.tolist()
    rows = zip(evaluation.trajectories.viewpoint.tolist(), lengths, strict=True)
    return [[viewpoint for viewpoint, _ in groupby(row[:length])] for row, length in rows]


def _references(evaluation: Evaluation) -> list[list[int]]:
    rows = zip(evaluation.episodes.path.tolist(), evaluation.episodes.path_length.tolist(), strict=True)
    return [row[:length] for row, length in rows]


def _in_quarters(values: Sequence[float], succeeded: Sequence[bool], unit: str) -> tuple[Group, ...]:
    """Episodes in about four groups of like size, between whole numbers."""
    edges = sorted({int(edge) for edge in np.quantile(values, [0.25, 0.5, 0.75]).round()})
    places = np.searchsorted(edges, values, side="right").tolist()
    names = {0: f"under {edges[0]} {unit}", len(edges): f"{edges[-1]} {unit} or more"}
    names |= {place: f"{edges[place - 1]} to {edges[place]} {unit}" for place in range(1, len(edges))}
    groups = {group.name: group for group in _grouped([names[place] for place in places], succeeded)}
    return tuple(groups[name] for name in (names[place] for place in range(len(edges) + 1)) if name in groups)


def _grouped(names: Sequence[str], succeeded: Sequence[bool]) -> list[Group]:
    counted = Counter(names)
    successes = Counter(name for name, right in zip(names, succeeded, strict=True) if right)
    return [Group(name, counted[name], successes[name]) for name in sorted(counted)]


def _hardest_and_easiest(houses: Iterable[Group]) -> tuple[Group, ...]:
    ordered = sorted(houses, key=lambda group: (-group.rate, group.name))
    half = MOST_HOUSES // 2
    return tuple(ordered if len(ordered) <= MOST_HOUSES else ordered[:half] + ordered[-half:])
