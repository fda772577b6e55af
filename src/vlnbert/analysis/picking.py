"""Which episodes a report shows: some of the best, the most typical and the worst."""

from collections.abc import Hashable, Sequence

from vlnbert.evaluation.metrics import Scores

BEST, TYPICAL, WORST = "best", "typical", "worst"


def pick_episodes(scores: Scores, count: int, paths: Sequence[Hashable]) -> list[tuple[str, int]]:
    """Up to `count` rows, each once, with what it stands for: about a third of each kind, best first.

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
