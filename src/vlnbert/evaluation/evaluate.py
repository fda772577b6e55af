"""An agent on a split: walk every episode once, then score where it went."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from json import dumps
from operator import itemgetter
from pathlib import Path

import torch
from torch import Tensor, nn

from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError
from vlnbert.evaluation.metrics import Scores, score_walks
from vlnbert.evaluation.submission import write_results
from vlnbert.evaluation.tables import score_table
from vlnbert.navigator import fast
from vlnbert.progress import track
from vlnbert.ranks import ALONE, Ranks
from vlnbert.rollout.agents import Agent, EpisodeBatch, Explanation, agent_name, names_objects
from vlnbert.rollout.episodes import MAX_STEPS, Trajectories, run_episodes
from vlnbert.tables import Table, Tabular
from vlnbert.tasks.batches import evaluation_batches
from vlnbert.tasks.episodes import Episodes, Picked
from vlnbert.tasks.tokens import Tokens
from vlnbert.world.world import World

STOPPED, RAN_OUT = "stopped", "ran out of steps"  # the two ways in which an episode ends
ENDED = "ended"  # one of the two: a result file does not tell which


@dataclass(frozen=True)
class Recorded:
    """Explanations of the choices in episodes that walked together, on the CPU."""

    rows: tuple[int, ...]  # which episodes
    explanations: tuple[Explanation | None, ...]  # one a step


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
    recorded: tuple[Recorded, ...] = ()  # explanations of its choices, if requested

    @property
    def outcomes(self) -> list[str]:
        """[episode] whether the agent stopped or ran out of steps; results from a file do not say."""
        if self.max_steps is None:
            return [ENDED] * len(self.episodes)
        return [STOPPED if ended else RAN_OUT for ended in self.trajectories.ended.tolist()]

    def explanations(self, row: int) -> list[Explanation | None]:
        """Explanations of the choices in one episode, each part [1, ...]; empty if not recorded."""
        for batch in self.recorded:
            if row in batch.rows:
                place = slice(batch.rows.index(row), batch.rows.index(row) + 1)
                one_row: Callable[[Tensor], Tensor] = itemgetter(place)
                steps = [None if one is None else one.each(one_row) for one in batch.explanations]
                return steps[: int(self.trajectories.decisions[row])]
        return []

    def select(self, rows: Tensor) -> "Evaluation":
        """That of some episodes, in the order of `rows`."""
        here, walked, named = rows.to(self.world.device), self.trajectories, self.predicted_objects
        place = {row: number for number, row in enumerate(rows.tolist())}
        return Evaluation(
            world=self.world,
            episodes=self.episodes.select(rows),
            trajectories=walked.select(here),
            scores=None if self.scores is None else self.scores.select(here),
            predicted_objects=None if named is None else [named[row] for row in place],
            max_steps=self.max_steps,
            tokens=None if self.tokens is None else Tokens(self.tokens.ids[here], self.tokens.count[here]),
            recorded=tuple(
                Recorded(tuple(place.get(row, -1) for row in batch.rows), batch.explanations) for batch in self.recorded
            ),
        )

    def __repr__(self) -> str:
        score = "goals withheld" if self.scores is None else f"SR {100 * float(self.scores.sr.mean()):.1f} %"
        return f"Evaluation({self.episodes.task}/{self.episodes.split}, {len(self.episodes):,} episodes, {score})"


class Evaluations(Tabular, Mapping[str, Evaluation]):
    """How an agent did on each split: `print` it, look at it in a notebook, or take `scores` and `to_json()`.

    A split's own `Evaluation` holds where the agent went and its scores episode by episode.
    """

    def __init__(self, agent: str, evaluations: Mapping[str, Evaluation], weights: str = "") -> None:
        """`weights` says which of a run's weights walked."""
        self.agent, self._evaluations, self.weights = agent, dict(evaluations), weights

    @property
    def scores(self) -> dict[str, dict[str, float | int | None]]:
        """By split: rates as fractions, TL and NE in metres. Splits that withhold their goals are left out."""
        known = {name: result.scores for name, result in self.items()}
        return {name: scores.summary() for name, scores in known.items() if scores is not None}

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
        written = []
        for name, result in self.items():
            written.append(Path(folder) / f"{name.replace('/', '_')}_{self.agent}.json")
            walked = result.trajectories
            write_results(
                written[-1],
                result.episodes,
                result.world,
                walked=walked.viewpoint,
                walked_length=walked.length,
                views=walked.view,
                predicted_objects=result.predicted_objects,
            )
        return written

    def table(self) -> Table:
        """A row for each split."""
        names = ", ".join(self.withheld)
        spent = {name: sum(outcome == RAN_OUT for outcome in one.outcomes) for name, one in self.items()}
        unfinished = [
            f"{name}: {count:,} of {len(self[name].episodes):,} {RAN_OUT}" for name, count in spent.items() if count
        ]
        notes = [
            self.weights,
            *unfinished,
            f"{names}: walked, not scored, since the goals are withheld" if names else "",
        ]
        return replace(score_table(self.agent, self.scores), note="\n".join(filter(None, notes)))

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
    batches, recorded = list(evaluation_batches(count, batch, ranks.rank, ranks.count)), list[Recorded]()
    if only is not None:
        batches = [rows for rows in batches if torch.isin(rows, only.cpu()).any()]
        viewpoint, length = viewpoint + episodes.start[:, None], length + 1  # the others stay at the start
    naming = bank is not None and names_objects(agent)
    with evaluation_mode(agent), fast.enabled(dtype):  # around all batches: their weights are the same
        for rows in track(batches, f"{episodes.task} {episodes.split}"):
            index = rows.to(device)
            ids = rows.new_zeros(len(rows), 0) if tokens is None else tokens.ids[index, : int(count[rows].max())]
            start = _episode_batch(environment, agent, episodes, ids=ids, rows=rows)
            walked = run_episodes(environment, agent, start, max_steps=max_steps, name_objects=naming, record=record)
            hops = walked.hops or walked
            viewpoint[index], view[index], length[index] = hops.viewpoint, hops.view, hops.length
            if decided is not None and hops.decided is not None:
                decided[index], stopped[index] = hops.decided, hops.ended.long()
            if walked.named is not None:
                named[index] = walked.named
            if record:
                explanations = (None if one is None else one.each(Tensor.cpu) for one in walked.explanations)
                recorded.append(Recorded(tuple(rows.tolist()), tuple(explanations)))
    walked, predicted = Trajectories(ranks.sum(viewpoint), ranks.sum(view), ranks.sum(length)), None
    if decided is not None:
        walked = replace(walked, stopped=ranks.sum(stopped) > 0, decided=ranks.sum(decided))
    if bank is not None and naming:
        predicted = bank.object_table.ids_at(walked.viewpoint[:, -1], ranks.sum(named))
    scores = None
    if episodes.scored:
        scores = score_walks(environment.world, episodes, walked.viewpoint, walked.length, predicted)
    evaluation = Evaluation(
        world=environment.world,
        episodes=episodes,
        trajectories=walked,
        scores=scores,
        predicted_objects=predicted,
        max_steps=max_steps,
        tokens=tokens,
        recorded=tuple(recorded),
    )
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


def _episode_batch(
    environment: Environment, agent: Agent, episodes: Episodes, ids: Tensor, rows: Tensor
) -> EpisodeBatch:
    """The episodes of some rows of a split, with goals for oracles alone."""
    index = rows.to(environment.world.device)
    return EpisodeBatch(
        state=environment.reset(episodes.start[index], episodes.heading[index]),
        tokens=ids.to(index.device),
        index=rows,
        texts=tuple(episodes.texts[row] for row in rows.tolist()),
        goal=episodes.goal[index] if agent.oracle else None,
        path=episodes.path[index] if agent.oracle else None,
        goals=episodes.goals[index] if agent.oracle and episodes.goals is not None else None,
        ids=Picked(episodes.ids, rows),
        extra=episodes.extra.rows(rows),
    )
