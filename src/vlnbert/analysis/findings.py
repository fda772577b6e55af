"""Findings of a report: kinds of mistakes, episodes to show, and the paper's numbers on the same split."""

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from itertools import groupby

import numpy as np

from vlnbert.evaluation.evaluate import RAN_OUT, Evaluation
from vlnbert.evaluation.metrics import Scores
from vlnbert.tasks.episodes import Episodes
from vlnbert.world.world import World

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
BEST, TYPICAL, WORST = "best", "typical", "worst"
R2R_METRICS, REVERIE_METRICS = ("tl", "ne", "sr", "spl"), ("sr", "osr", "spl", "tl", "rgs", "rgspl")
NO_START, OSCAR, PREVALENT = "paper, from nothing", "paper, from OSCAR", "paper, from PREVALENT"

# As printed: rates in percent, TL and NE in metres.
ROWS: Mapping[str, Mapping[str, str]] = {
    "r2r/val_seen": {
        NO_START: "9.78 3.92 62 59",
        OSCAR: "10.79 3.11 71 67",
        PREVALENT: "11.13 2.90 72 68",
    },
    "r2r/val_unseen": {
        NO_START: "10.31 5.10 50 46",
        OSCAR: "11.86 4.29 59 53",
        PREVALENT: "12.01 3.93 63 57",
    },
    "reverie/val_seen": {
        NO_START: "39.56 42.09 36.29 12.06 21.15 19.39",
        OSCAR: "39.85 41.32 35.86 12.85 24.46 22.28",
        PREVALENT: "51.79 53.90 47.96 13.44 38.23 35.61",
    },
    "reverie/val_unseen": {
        NO_START: "25.76 29.28 22.16 14.52 11.62 9.87",
        OSCAR: "25.53 27.66 21.06 14.35 14.20 12.00",
        PREVALENT: "30.67 35.02 24.90 16.78 18.77 15.27",
    },
}
# Of the houses and ids of the published splits: generated houses have splits of the same names.
DIGESTS = {
    "r2r/val_seen": "3cefa176755a8ad0",
    "r2r/val_unseen": "7f46c68e6839f684",
    "reverie/val_seen": "bc145d6607f90d87",
    "reverie/val_unseen": "0ef883fd804d0848",
}


@dataclass(frozen=True)
class Group:
    """Episodes that have a property in common, and how many of them succeeded."""

    name: str
    episodes: int
    successes: int

    @property
    def rate(self) -> float:
        return self.successes / self.episodes if self.episodes else 0.0


@dataclass(frozen=True)
class Mistakes:
    """Counts of an agent's failures, by kind, on one split."""

    endings: dict[str, int]  # by `ENDINGS`
    left_path: dict[str, int]  # by how many moves along the reference were made before it was left
    by_path_length: tuple[Group, ...]
    by_words: tuple[Group, ...]
    by_house: tuple[Group, ...]
    houses: int  # of which `by_house` shows all or some


def find_mistakes(evaluation: Evaluation) -> Mistakes:
    """Count the kinds of mistakes in a scored evaluation."""
    scores, episodes = evaluation.scores, evaluation.episodes
    if scores is None:
        raise ValueError("goals are withheld: nobody knows what went wrong")
    world = evaluation.world
    succeeded = [bool(value) for value in scores.sr.tolist()]
    walked, path = evaluation.trajectories, episodes.path
    rows = zip(walked.viewpoint.tolist(), walked.length.tolist(), strict=True)
    walks = [[viewpoint for viewpoint, _ in groupby(row[:length])] for row, length in rows]  # staying repeats none
    rows = zip(path.tolist(), episodes.path_length.tolist(), strict=True)
    references = [row[:length] for row, length in rows]
    endings = endings_of(evaluation, scores, walks, references)
    left = Counter(moves_along(*pair) for pair in zip(walks, references, strict=True))
    left_path = {"at the start": left[0]} | {f"after {moves}": left[moves] for moves in range(1, FARTHEST)}
    late = sum(count for moves, count in left.items() if moves is not None and moves >= FARTHEST)
    left_path |= {f"after {FARTHEST} or more": late, NEVER_LEFT: left[None]}
    metres = [float(world.metres(row[:-1], row[1:]).sum()) for row in path]
    words = [len(text.split()) for text in episodes.texts]
    scans = [world.scans[number] for number in world.scan_of[episodes.start].tolist()]
    houses = sorted(_grouped(scans, succeeded), key=lambda group: (-group.rate, group.name))
    half = MOST_HOUSES // 2
    return Mistakes(
        endings={name: endings.count(name) for name in ENDINGS},
        left_path=left_path,
        by_path_length=_in_quarters(metres, succeeded, "m"),
        by_words=_in_quarters(words, succeeded, "words"),
        by_house=tuple(houses if len(houses) <= MOST_HOUSES else houses[:half] + houses[-half:]),
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

    An agent that walks beyond its end leaves it there; one that stops on it does not.
    """
    for move, viewpoint in enumerate(walk):
        if move >= len(reference) or viewpoint != reference[move]:
            return move - 1
    return None


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


def pick_episodes(scores: Scores, count: int, paths: Sequence[Hashable]) -> list[tuple[str, int]]:
    """Pick up to `count` rows, each once, with their kind: about a third of each, best first.

    Episodes are ordered by success, then by SPL and nDTW; of the best the longer ones are shown, of the worst those
    that ended farthest from the goal. Typical are those in the middle of that order. Of episodes on the same path, by
    `paths` [row], only one is shown as long as there are others.
    """
    rows = range(len(scores))
    sr, spl, ndtw, tl, ne = (getattr(scores, name).tolist() for name in ("sr", "spl", "ndtw", "tl", "ne"))
    best = sorted(rows, key=lambda row: (-sr[row], -round(spl[row], 2), -round(ndtw[row], 1), -tl[row], row))
    worst = sorted(rows, key=lambda row: (sr[row], -ne[row], row))
    ordered = sorted(rows, key=lambda row: (sr[row], spl[row], ndtw[row], row))
    places = sorted(rows, key=lambda place: (abs(place - len(ordered) // 2), place))  # from the middle outwards
    typical = [ordered[place] for place in places]
    share = {BEST: -(-count // 3), TYPICAL: -(-(count - 1) // 3), WORST: count // 3}
    picked, taken, walked = list[tuple[str, int]](), set[int](), set[Hashable]()
    for kind, candidates in ((BEST, best), (WORST, worst), (TYPICAL, typical)):
        for _ in range(share[kind]):
            free = [row for row in candidates if row not in taken]
            chosen = next((row for row in free if paths[row] not in walked), next(iter(free), None))
            if chosen is not None:
                taken.add(chosen)
                walked.add(paths[chosen])
                picked.append((kind, chosen))
    return sorted(picked, key=lambda pick: (BEST, TYPICAL, WORST).index(pick[0]))


def paper_rows(world: World, episodes: Episodes) -> dict[str, dict[str, str]]:
    """The paper's rows, metric by metric, where the episodes are those of a published split; else none."""
    name = f"{episodes.task}/{episodes.split}"
    if DIGESTS.get(name) != digest(world, episodes):
        return {}
    metrics = REVERIE_METRICS if episodes.task == "reverie" else R2R_METRICS
    return {agent: dict(zip(metrics, numbers.split(), strict=True)) for agent, numbers in ROWS[name].items()}


def digest(world: World, episodes: Episodes) -> str:
    """Tells splits apart by their houses and the ids of their instructions."""
    scans = [world.scans[number] for number in world.scan_of[episodes.start].tolist()]
    names = sorted(f"{scan}/{id}" for scan, id in zip(scans, episodes.ids, strict=True))
    return blake2b("\n".join(names).encode(), digest_size=8).hexdigest()
