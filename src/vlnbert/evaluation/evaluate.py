"""Evaluations: of an agent that walks every episode of a split once, or of a result file; and where agents diverge."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from json import dumps
from operator import itemgetter
from pathlib import Path

import torch
from torch import Tensor, nn

from vlnbert.environment.environment import Environment
from vlnbert.errors import Faults, UsageError, setting
from vlnbert.evaluation.metrics import Scores, meaning_table, score_table, score_walks
from vlnbert.evaluation.options import SplBy
from vlnbert.evaluation.results import (
    Notes,
    Walks,
    arrival_views,
    bind_walks,
    check_complete,
    check_names,
    read_results,
    write_results,
)
from vlnbert.navigator import fast
from vlnbert.progress import track
from vlnbert.ranks import ALONE, Ranks
from vlnbert.rollout.agents import Agent, EpisodeBatch, Explanation, agent_name, names_objects
from vlnbert.rollout.episodes import MAX_STEPS, Trajectories, run_episodes
from vlnbert.sources.layout import DataFolder
from vlnbert.tables import Table, Tabled
from vlnbert.tasks.batches import evaluation_batches
from vlnbert.tasks.episodes import Episodes, Picked
from vlnbert.tasks.task import TASKS
from vlnbert.tasks.tokens import Tokens
from vlnbert.world.world import World

# The two ways in which an episode ends; a result file does not say which.
STOPPED, RAN_OUT, ENDED = "stopped", "ran out of steps", "ended"


@dataclass(frozen=True, repr=False)
class Evaluation:
    """The walks of an agent in the episodes of a split, and their scores unless goals are withheld."""

    world: World
    episodes: Episodes
    trajectories: Trajectories
    scores: Scores | None
    predicted_objects: list[str | None] | None = None  # those that it named, in tasks that look for objects
    max_steps: int | None = None  # its limit; None where the walks are from a result file
    tokens: Tokens | None = None  # what it read
    # By row, explanations of its choices, if requested: on the CPU, each part [1, ...].
    explanations: Mapping[int, list[Explanation | None]] = field(default_factory=dict)

    @property
    def outcomes(self) -> list[str]:
        """[episode] whether the agent stopped or ran out of steps; results from a file do not say."""
        if self.max_steps is None:
            return [ENDED] * len(self.episodes)
        return [STOPPED if ended else RAN_OUT for ended in self.trajectories.ended.tolist()]

    def select(self, rows: Tensor) -> "Evaluation":
        """That of some episodes, in the order of `rows`."""
        here, chosen = rows.to(self.world.device), rows.tolist()
        return replace(
            self,
            episodes=self.episodes.select(rows),
            trajectories=self.trajectories.select(here),
            scores=None if self.scores is None else self.scores.select(here),
            predicted_objects=self.predicted_objects and [self.predicted_objects[row] for row in chosen],
            tokens=None if self.tokens is None else Tokens(self.tokens.ids[here], self.tokens.count[here]),
            explanations={n: self.explanations[row] for n, row in enumerate(chosen) if row in self.explanations},
        )

    def __repr__(self) -> str:
        score = "goals withheld" if self.scores is None else f"SR {100 * float(self.scores.sr.mean()):.1f} %"
        return f"Evaluation({self.episodes.task}/{self.episodes.split}, {len(self.episodes):,} episodes, {score})"


class Evaluations(Tabled, Mapping[str, Evaluation]):
    """How an agent did on each split: `print` it, look at it in a notebook, or take `scores` and `to_json()`.

    A split's own `Evaluation` holds where the agent went and its scores episode by episode.
    """

    def __init__(self, agent: str, evaluations: Mapping[str, Evaluation], weights: str = "") -> None:
        """`weights` says which of a run's weights walked."""
        self.agent, self._evaluations, self.weights = agent, dict(evaluations), weights

    @property
    def scores(self) -> dict[str, dict[str, float | int | None]]:
        """By split: rates as fractions, TL and NE in metres. Splits that withhold their goals are left out."""
        return {name: one.scores.summary() for name, one in self.items() if one.scores is not None}

    @property
    def withheld(self) -> list[str]:
        """The splits that were walked and not scored, since their goals are withheld."""
        return [name for name, result in self.items() if result.scores is None]

    def to_json(self, indent: int | None = None, per_episode: bool = False) -> str:
        """The scores as a JSON object, keyed by split; `per_episode` those of each episode, and how it ended."""
        return dumps(self.per_episode if per_episode else self.scores, indent=indent)

    @property
    def per_episode(self) -> dict[str, dict[str, dict[str, float | str]]]:
        """By split and episode: its outcome, "stopped" or "ran out of steps", and its scores where goals are known."""
        return {
            name: {
                id: {"outcome": outcome, **({} if one.scores is None else one.scores.of(row))}
                for row, (id, outcome) in enumerate(zip(one.episodes.ids, one.outcomes, strict=True))
            }
            for name, one in self.items()
        }

    def write(self, folder: str | Path) -> list[Path]:
        """Write result files, <task>_<split>_<agent>.json, in the leaderboards' form."""
        files = {Path(folder) / f"{name.replace('/', '_')}_{self.agent}.json": one for name, one in self.items()}
        for path, one in files.items():
            write_results(path, one.episodes, one.world, one.trajectories, one.predicted_objects)
        return list(files)

    def table(self) -> Table:
        """A row for each split."""
        notes = [self.weights] if self.weights else []
        for name, one in self.items():
            if count := one.outcomes.count(RAN_OUT):
                notes.append(f"{name}: {count:,} of {len(one.episodes):,} {RAN_OUT}")
        if self.withheld:
            notes.append(f"{', '.join(self.withheld)}: walked, not scored, since the goals are withheld")
        return replace(score_table(self.agent, self.scores), note="\n".join(notes))

    def __getitem__(self, split: str) -> Evaluation:
        return self._evaluations[split]

    def __iter__(self) -> Iterator[str]:
        return iter(self._evaluations)

    def __len__(self) -> int:
        return len(self._evaluations)


@torch.inference_mode()
def evaluate_agent(
    environment: Environment,
    agent: Agent,
    episodes: Episodes,
    tokens: Tokens | None = None,
    max_steps: int = MAX_STEPS,
    batch: int = 64,
    ranks: Ranks = ALONE,
    dtype: torch.dtype | None = None,
    record: bool = False,
    only: Tensor | None = None,
) -> Evaluation:
    """Let an agent walk all episodes of a split, those with instructions of like length together.

    Whatever modules it has, such as a navigator, walk in evaluation mode and are left in the mode that they were in.
    `dtype` is that of a navigator's tokens; None for that of its weights. Several ranks share the batches out, and each
    gets what all have walked.

    With `record` the agent is asked to explain its choices; each rank keeps those of its own episodes. `only` names
    episodes, [row]: the result is of these alone, but they walk in the same batches as in an evaluation of all, so
    that every number is the same.
    """
    if tokens is None and agent.reads_tokens:
        raise UsageError(f"{agent_name(agent)} reads tokens; give those of the split, or say reads_tokens = False")
    environment = environment.for_task(episodes.task).showing(agent.wants, f"{agent_name(agent)}.wants")
    device, bank = environment.world.device, environment.object_bank
    most = agent.hops_per_step * max_steps if agent.goes_back else max_steps
    viewpoint, view = (torch.zeros(len(episodes), most + 1, dtype=torch.long, device=device) for _ in range(2))
    length, named = (torch.zeros(len(episodes), dtype=torch.long, device=device) for _ in range(2))
    decided = torch.zeros(len(episodes), max_steps + 1, dtype=torch.long, device=device) if agent.goes_back else None
    stopped = torch.zeros_like(length)
    count = torch.zeros(len(episodes), dtype=torch.long) if tokens is None else tokens.count.cpu()
    batches = list(evaluation_batches(count, batch, ranks.rank, ranks.count))
    explanations = dict[int, list[Explanation | None]]()
    if only is not None:
        batches = [rows for rows in batches if torch.isin(rows, only.cpu()).any()]
        # The others stay at the start.
        viewpoint, length = viewpoint + episodes.start[:, None], length + 1
    naming = bank is not None and names_objects(agent)
    # Around all batches, whose weights are the same.
    with evaluation_mode(agent), fast.enabled(dtype):
        for rows in track(batches, f"{episodes.task} {episodes.split}"):
            index = rows.to(device)
            ids = rows.new_zeros(len(rows), 0) if tokens is None else tokens.ids[index, : int(count[rows].max())]
            start = EpisodeBatch(
                state=environment.reset(episodes.start[index], episodes.heading[index]),
                tokens=ids.to(device),
                index=rows,
                texts=tuple(episodes.texts[row] for row in rows.tolist()),
                goal=episodes.goal[index] if agent.oracle else None,
                path=episodes.path[index] if agent.oracle else None,
                goals=episodes.goals[index] if agent.oracle and episodes.goals is not None else None,
                ids=Picked(episodes.ids, rows),
                extra=episodes.extra.rows(rows),
            )
            walked = run_episodes(environment, agent, start, max_steps=max_steps, name_objects=naming, record=record)
            hops = walked.hops or walked
            viewpoint[index], view[index], length[index] = hops.viewpoint, hops.view, hops.length
            if decided is not None and hops.decided is not None:
                decided[index], stopped[index] = hops.decided, hops.ended.long()
            if walked.named is not None:
                named[index] = walked.named
            if record:
                steps = [None if one is None else one.each(Tensor.cpu) for one in walked.explanations]
                for place, (row, made) in enumerate(zip(rows.tolist(), hops.decisions.tolist(), strict=True)):
                    row_alone = itemgetter(slice(place, place + 1))
                    explanations[row] = [None if one is None else one.each(row_alone) for one in steps[:made]]
    walked, predicted = Trajectories(ranks.sum(viewpoint), ranks.sum(view), ranks.sum(length)), None
    if decided is not None:
        walked = replace(walked, stopped=ranks.sum(stopped) > 0, decided=ranks.sum(decided))
    if bank is not None and naming:
        predicted = bank.object_table.ids_at(walked.viewpoint[:, -1], ranks.sum(named))
    world, scores = environment.world, None
    if episodes.scored:
        scores = score_walks(world, episodes, walked.viewpoint, walked.length, predicted)
    evaluation = Evaluation(world, episodes, walked, scores, predicted, max_steps, tokens, explanations)
    return evaluation if only is None else evaluation.select(only)


@contextmanager
def evaluation_mode(agent: object) -> Iterator[None]:
    """Put an agent's modules in evaluation mode within the block, so that dropout is off."""
    held = [agent, *getattr(agent, "__dict__", {}).values()]
    modules = [module for one in held if isinstance(one, nn.Module) for module in one.modules()]
    before = [(module, module.training) for module in modules]
    for module in modules:
        module.training = False
    try:
        yield
    finally:
        for module, training in before:
            module.training = training


@dataclass(frozen=True, repr=False)
class ScoredFile:
    """The scores of a result file: row n of `scores` is instruction `ids[n]`, in the order of the split."""

    split: str  # as task/split
    ids: tuple[str, ...]
    scores: Scores
    notes: Notes

    @property
    def summary(self) -> dict[str, float | int | None]:
        """Means over the episodes: rates as fractions, TL and NE in metres."""
        return self.scores.summary()

    def table(self) -> Table:
        """A row for each metric, with what it means."""
        return meaning_table(self.split.replace("/", " "), self.summary)

    def __repr__(self) -> str:
        return self.table().text()

    def _repr_html_(self) -> str:
        return self.table().html()


def score_file(
    path: Path,
    episodes: Episodes,
    world: World,
    spl_by: SplBy = "shortest",
    allow_missing: bool = False,
    folder: DataFolder | None = None,
) -> ScoredFile:
    """Read, check and score a result file of any dialect; all its faults are raised together.

    `folder` is where to look for the split that a file belongs to when it is not the one expected.
    """
    walks, notes = _read_walks(path, episodes, world, folder, allow_missing)
    named = [result.predicted_object for result in walks.results]
    scores = score_walks(world, episodes.select(walks.row), walks.walked, walks.length, named, spl_by)
    return ScoredFile(f"{episodes.task}/{episodes.split}", tuple(result.id for result in walks.results), scores, notes)


def evaluate_file(path: Path, episodes: Episodes, world: World, folder: DataFolder | None = None) -> Evaluation:
    """Read and check a result file of any dialect; its rows are the instructions that it has, in the split's order.

    A file does not say whether an agent stopped or ran out of steps, nor what its limit was.
    """
    walks, _ = _read_walks(path, episodes, world, folder, allow_missing=True)
    present = episodes.select(walks.row)
    named = [result.predicted_object for result in walks.results] if TASKS[episodes.task].sees_objects else None
    scores = score_walks(world, present, walks.walked, walks.length, named) if episodes.scored else None
    views = arrival_views(world, present.heading, walks.walked)
    return Evaluation(world, present, Trajectories(walks.walked, views, walks.length), scores, named)


def _read_walks(
    path: Path, episodes: Episodes, world: World, folder: DataFolder | None, allow_missing: bool
) -> tuple[Walks, Notes]:
    faults = Faults(path)
    file = read_results(path, faults)
    check_names(file, episodes, faults, folder)
    present = len(file.ids.intersection(episodes.ids))
    if not allow_missing:
        remedy = f"say {setting('allow_missing', True)} to score the {present:,} that are there"
        check_complete(file, episodes, faults, remedy)
    elif present < len(episodes):
        file.notes.more.append(f"{present:,} of {len(episodes):,} instructions scored, the others are missing")
    walks = bind_walks(file.results, episodes, world, faults)
    faults.raise_if_any()
    return walks, file.notes


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
