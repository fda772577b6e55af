"""Navigation metrics of many episodes at once: tensors in, a tensor a metric out, in float64, on the world's device.

A path is a row of viewpoints [episode, hop] whose last viewpoint repeats as padding, with the number of viewpoints
that are real. The padding has no length and shows nothing new, so most metrics need not look at that number.

SR, SPL: Anderson et al. 2018, arXiv:1807.06757. CLS: Jain et al. 2019, arXiv:1905.12255. nDTW, SDTW: Ilharco et al.
2019, arXiv:1907.05446. RGS, RGSPL: Qi et al. 2020, arXiv:1904.10151.
"""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, get_args

import torch
from torch import Tensor

from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.evaluation.options import SplBy
from vlnbert.tables import Table
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import BUILT_IN, EPISODES, METRICS, NEAR, PERCENT, TASKS, Metric, Walked, metres_to_nearest
from vlnbert.world.world import World

SHORTEST_WALK = 0.01  # metres: what SPL takes an agent that never moved to have walked
# Pairs of viewpoints that are compared at once: one long walk among many would ask for more memory.
MOST_CELLS = 1 << 24
TRIED = 3  # episodes on which a task's own metrics are tried
SUMMARY = ("sr", "osr", "spl", "ndtw", "sdtw", "cls", "rgs", "rgspl", "tl", "ne")
VISIBLE = {"sr": "success: stopped where the target is visible", "osr": "oracle success: saw the target at any time"}

Summary = Mapping[str, float | int | None]


@dataclass(frozen=True)
class Scores:
    """One float64 row an episode. Rates are 0 or 1, lengths and errors are metres."""

    sr: Tensor  # success: stopped less than 3 m from the goal; in REVERIE, where the target is visible
    osr: Tensor  # oracle success: the same of any viewpoint on the way
    spl: Tensor  # success weighted by path length
    ndtw: Tensor  # likeness to the reference path, in its order
    sdtw: Tensor  # the same, where successful
    cls: Tensor  # coverage of the reference path, weighted by length
    rgs: Tensor | None  # REVERIE: the right object was named
    rgspl: Tensor | None  # the same, weighted by path length
    tl: Tensor  # trajectory length
    ne: Tensor  # navigation error: from the last viewpoint to the goal along the graph
    oracle_error: Tensor  # the same, from the nearest viewpoint on the way
    shortest: Tensor  # what `spl` compares the trajectory with
    steps: Tensor  # moves, and turns where the agent recorded them
    own: Mapping[str, Tensor] = field(default_factory=dict)  # by name, what the task measures beside these

    def __len__(self) -> int:
        return len(self.sr)

    def columns(self) -> dict[str, Tensor | None]:
        """Every metric by name; None where a task has no such metric."""
        return {each.name: getattr(self, each.name) for each in fields(self) if each.name != "own"} | dict(self.own)

    def select(self, rows: Tensor) -> "Scores":
        """Those of some episodes, in the order of `rows`."""
        picked: dict[str, Any] = {name: None if one is None else one[rows] for name, one in self.columns().items()}
        own = {name: picked.pop(name) for name in self.own}
        return Scores(**picked, own=own)

    def of(self, row: int) -> dict[str, float]:
        """Those of one episode, by the names that `summary` has; without those that its task has not."""
        known = {name: column for name, column in self.columns().items() if column is not None}
        return {name: float(known[name][row]) for name in (*SUMMARY, *self.own) if name in known}

    def mean(self) -> dict[str, float | None]:
        """The mean of every metric; None where a task has no such metric."""
        columns = self.columns()
        known = {name: column for name, column in columns.items() if column is not None}
        means = torch.stack(list(known.values())).mean(dim=1).tolist()
        return dict.fromkeys(columns) | dict(zip(known, means, strict=True))

    def summary(self) -> dict[str, float | int | None]:
        """The columns of a paper's table: rates as fractions, TL and NE in metres, and the number of episodes."""
        means = self.mean()
        return {name: means[name] for name in (*SUMMARY, *self.own)} | {EPISODES: len(self)}


def measure(
    world: World,
    walked: Tensor,
    walked_length: Tensor,
    reference: Tensor,
    reference_length: Tensor,
    *,
    arrived: Tensor | None = None,
    grounded: Tensor | None = None,
    spl_by: SplBy = "shortest",
    goals: Tensor | None = None,
) -> Scores:
    """Score walks [episode, hop] against reference paths, whose last viewpoints are the goals.

    Args:
        world: the graph, on the device of the other tensors.
        walked: [episode, hop] the viewpoints visited.
        walked_length: [episode] how many of them are real.
        reference: [episode, hop] the paths that the instructions describe.
        reference_length: [episode] how many of their viewpoints are real.
        arrived: [episode, hop] whether to stop at each viewpoint of `walked` succeeds; by default less than 3 m from
            the goal.
        grounded: [episode] REVERIE: whether the agent named the target.
        spl_by: what a trajectory is compared with, the shortest path to the goal or the reference path.
        goals: [episode, any] the goals of each, where there are several: what counts is the nearest.
    """
    if spl_by not in get_args(SplBy):
        raise UnknownNameError("way to weigh SPL", spl_by, get_args(SplBy))
    places = reference.shape[1] if goals is None else max(reference.shape[1], goals.shape[1])
    if len(walked) > 1 and walked.numel() * places > MOST_CELLS:

        def measured(rows: Tensor) -> Scores:
            """Some of the rows, no longer than they need be."""
            hops, described = int(walked_length[rows].max()), int(reference_length[rows].max())
            return measure(
                world,
                walked[rows, :hops],
                walked_length[rows],
                reference[rows, :described],
                reference_length[rows],
                arrived=None if arrived is None else arrived[rows, :hops],
                grounded=None if grounded is None else grounded[rows],
                spl_by=spl_by,
                goals=None if goals is None else goals[rows],
            )

        return _in_blocks(measured, walked_length, places)
    cost = world.metres(walked[:, :, None], reference[:, None, :])  # [episode, walked hop, reference hop]
    to_goal = cost[:, :, -1] if goals is None else metres_to_nearest(world, walked, goals[:, None])
    there = (to_goal < NEAR if arrived is None else arrived).double()
    success = there[:, -1]
    taken, described = (world.metres(path[:, :-1], path[:, 1:]).sum(dim=1) for path in (walked, reference))
    shortest = described if spl_by == "reference" else to_goal[:, 0]
    efficiency = shortest / torch.maximum(taken, shortest).clamp(min=SHORTEST_WALK)
    likeness = ndtw(dtw(cost, walked_length, reference_length), reference_length)
    return Scores(
        sr=success,
        osr=there.amax(dim=1),
        spl=success * efficiency,
        ndtw=likeness,
        sdtw=success * likeness,
        cls=coverage(cost, reference_length, taken, described),
        rgs=None if grounded is None else grounded.double(),
        rgspl=None if grounded is None else grounded * efficiency,
        tl=taken,
        ne=to_goal[:, -1],
        oracle_error=to_goal.amin(dim=1),
        shortest=shortest,
        steps=(walked_length - 1).double(),
    )


def _in_blocks(measured: Callable[[Tensor], Scores], walked_length: Tensor, places: int) -> Scores:
    """Measure some rows at a time, those of like lengths together; `measured` scores rows, `places` are the longest."""
    order = walked_length.sort(stable=True).indices
    blocks, first = list[Scores](), 0
    while first < len(order):
        hops = walked_length[order[first:]]
        # They grow with every row.
        cells = torch.arange(1, len(hops) + 1, device=hops.device) * hops * places
        count = max(1, int((cells <= MOST_CELLS // 2).sum()))
        blocks.append(measured(order[first : first + count]))
        first += count
    back, columns = order.argsort(), [block.columns() for block in blocks]
    # What a task has no metric for is None.
    joined: dict[str, Any] = {
        name: None if first_part is None else torch.cat([one[name] for one in columns])[back]  # type: ignore[misc]
        for name, first_part in columns[0].items()
    }
    return Scores(**joined)


def coverage(cost: Tensor, reference_length: Tensor, taken: Tensor, described: Tensor) -> Tensor:
    """CLS: how closely each reference viewpoint was passed, times how well the length fits what was covered."""
    real = torch.arange(cost.shape[2], device=cost.device) < reference_length[:, None]
    passed = torch.exp(-cost.amin(dim=1) / NEAR) * real
    covered = passed.sum(dim=1) / reference_length
    expected = covered * described
    astray = (expected - taken).abs()
    # A reference path without length asks for none: to stay there fits perfectly, and 0 / 0 is 1.
    fit = torch.where(astray == 0, 1.0, expected / (expected + astray))
    return covered * fit


def ndtw(cost: Tensor, reference_length: Tensor) -> Tensor:
    """A DTW cost as a likeness between 0 and 1."""
    return torch.exp(-cost / (NEAR * reference_length))


def dtw(cost: Tensor, walked_length: Tensor, reference_length: Tensor) -> Tensor:
    """[episode] the cost of warping the walks onto the references, from the cost of each pair of their viewpoints."""
    counts = torch.arange(cost.shape[1], device=cost.device)[:, None] < walked_length
    return dtw_cost(dtw_table(cost.transpose(0, 1), counts)[-1], reference_length)


def dtw_table(cost: Tensor, counts: Tensor) -> Tensor:
    """[time, episode, place] the DTW cost of each walk so far against the reference up to each of its places.

    The table is filled by diagonals: cells whose time and place add up to the same do not wait for each other, so that
    a walk of n viewpoints and a reference of m take n + m - 1 steps, not n x m.

    `cost` [time, episode, place] is that of each pair of viewpoints. Where `counts` [time, episode] is false, a
    viewpoint is passed over, and all stays as it was; the first always counts.
    """
    times, episodes, places = cost.shape
    place = torch.arange(places, device=cost.device)
    diagonal = torch.arange(times + places - 1, device=cost.device)[:, None]
    time = diagonal - place  # [diagonal, place]; some are beyond a walk
    at = time.clamp(0, times - 1)
    own, counted = cost[at, :, place], counts[at]  # [diagonal, place, episode]
    table = cost.new_full((len(time) + 2, places + 1, episodes), math.inf)  # diagonal and place, both from one before
    table[0, 0] = 0  # only nothing matches nothing, for free
    for number in range(len(time)):
        older, last = table[number], table[number + 1]
        best = torch.minimum(torch.minimum(last[1:], last[:-1]), older[:-1])
        torch.where(counted[number], own[number] + best, last[1:], out=table[number + 2, 1:])
    when = torch.arange(times, device=cost.device)[:, None]
    return table[when + place + 2, place + 1].transpose(1, 2)


def dtw_cost(table: Tensor, reference_length: Tensor) -> Tensor:
    """[..., episode] the cost of having matched the whole reference: what lies behind its end does not count."""
    last = (reference_length - 1).expand(table.shape[:-1])
    return table.gather(-1, last[..., None]).squeeze(-1)


def score_walks(
    world: World,
    episodes: Episodes,
    walked: Tensor,
    walked_length: Tensor,
    predicted_objects: Sequence[str | None] | None = None,
    spl_by: SplBy = "shortest",
) -> Scores:
    """Score one walk [hop] an episode, and in REVERIE one object (or None); all on the world's device."""
    task, grounded, named = TASKS[episodes.task], None, tuple(predicted_objects or [None] * len(episodes))
    if task.sees_objects:
        right = [name is not None and name == target for name, target in zip(named, episodes.targets, strict=True)]
        grounded = torch.tensor(right, dtype=torch.bool, device=walked.device)
    scores = measure(
        world,
        walked,
        walked_length,
        episodes.path,
        episodes.path_length,
        arrived=task.arrived(world, walked, episodes),
        grounded=grounded,
        spl_by=spl_by,
        goals=episodes.goals,
    )
    if not task.metrics:
        return scores
    return replace(scores, own=measure_own(world, episodes, Walked(walked, walked_length, named)))


def measure_own(world: World, episodes: Episodes, walked: Walked) -> dict[str, Tensor]:
    """[episode] by name, in float64, the task's own metrics, or an error if they are not what they should be."""
    task = TASKS[episodes.task]
    given: object = task.measure(world, episodes, walked)
    names = [metric.name for metric in task.metrics]
    if isinstance(given, Mapping):
        given = {key.name if isinstance(key, Metric) else key: value for key, value in given.items()}
    if not isinstance(given, Mapping) or set(given) != set(names):
        gave = ", ".join(map(str, given)) or "nothing" if isinstance(given, Mapping) else f"a {type(given).__name__}"
        problem = f"the task {task.name} measures {gave:.200}, where its metrics are {', '.join(names)}"
        raise UsageError(f"{problem}; let measure return a dict with each of these names")
    return {name: _checked_measure(task.name, name, given[name], episodes, world.device) for name in names}


def _checked_measure(task: str, name: str, given: object, episodes: Episodes, device: torch.device) -> Tensor:
    """A finite number for each episode, as float64."""
    problem, remedy = "", f"give one number for each of the {len(episodes):,} episodes"
    try:
        measured = torch.as_tensor(given, dtype=torch.float64, device=device)
    except (TypeError, ValueError, RuntimeError):
        raise UsageError(f"the task {task} measures '{name}' as a {type(given).__name__}; {remedy}") from None
    if measured.shape != (len(episodes),):
        problem = f"as a tensor of the shape {list(measured.shape)}"
    elif not bool((finite := measured.isfinite()).all()):
        row = int((~finite).nonzero()[0])
        problem = f"as {float(measured[row])} in episode {episodes.ids[row]}"
    if problem:
        raise UsageError(f"the task {task} measures '{name}' {problem}; {remedy}")
    return measured


def try_measure(world: World, episodes: Episodes) -> None:
    """Refuse a task whose own metrics do not fit, before an agent walks: try them on walks that stay put."""
    some = episodes.select(torch.arange(min(TRIED, len(episodes))))
    if len(some) and some.scored and TASKS[some.task].metrics:
        staying = some.start[:, None].repeat(1, 2)
        measure_own(world, some, Walked(staying, torch.ones_like(some.start), (None,) * len(some)))


def score_keys(summaries: Iterable[Summary]) -> list[str]:
    """The metrics that any of these summaries has, in the order of a table's columns."""
    found = {key for summary in summaries for key, value in summary.items() if value is not None}
    return sorted((key for key in METRICS.registered() if key in found), key=lambda key: key == EPISODES)


def own_keys(summary: Iterable[str]) -> list[str]:
    """Of the keys of a summary, the metrics that its task adds."""
    return [key for key in METRICS.registered() if key not in BUILT_IN and key in summary]


def is_rate(key: str) -> bool:
    """Whether a metric is measured as a fraction, and shown in percent."""
    return METRICS[key].unit == PERCENT


def score_table(title: str, summaries: Mapping[str, Summary]) -> Table:
    """A row for each summary; scores that none of them has are left out."""
    keys = score_keys(summaries.values())
    rows = [[name, *(shown(key, summary.get(key)) for key in keys)] for name, summary in summaries.items()]
    return Table(["", *(METRICS[key].heading for key in keys)], rows, f"{title} (rates in %)")


def meaning_table(title: str, summary: Summary) -> Table:
    """One summary, with what each score means."""
    words = VISIBLE if summary["rgs"] is not None else {}
    rows = [
        [METRICS[key].heading, shown(key, summary[key], digits=2), words.get(key, METRICS[key].meaning)]
        for key in score_keys([summary])
    ]
    return Table(["metric", "value", "meaning"], rows, f"{title} (rates in %)")


def shown(key: str, value: float | int | None, digits: int = 1) -> str:
    """A score as a cell of a table."""
    if value is None:
        return "-"
    if key == EPISODES:
        return f"{value:,}"
    return f"{100 * value:.{digits}f}" if is_rate(key) else f"{value:.2f}"


def is_better(key: str, score: float, best: float | None) -> bool:
    """Whether a score is better than the best so far, if there is one; NaN is not."""
    if math.isnan(score):
        return False
    return best is None or (score > best if METRICS[key].higher else score < best)
