"""Compare agents on one split: settings that differ, scores side by side, the episodes in which they diverge."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from json import dumps
from pathlib import Path
from typing import Any

import torch

from vlnbert.api.runs import AnyAgent, Run, as_run, chosen_split, is_results, load_agent, require_data
from vlnbert.data.data import Data, open_data
from vlnbert.errors import UsageError, setting
from vlnbert.evaluation.evaluate import Divergence, Evaluation, Walk, evaluate_file, find_divergences
from vlnbert.evaluation.metrics import Summary, score_keys, score_table, shown
from vlnbert.evaluation.options import WalkOptions
from vlnbert.evaluation.walker import Walker
from vlnbert.progress import say
from vlnbert.records import leaves
from vlnbert.rollout.policy import Policy
from vlnbert.tables import Table, Tabled
from vlnbert.tasks.task import EPISODES

SHOWN = 10  # episodes that are listed by default
SHORT = 8  # characters of a viewpoint in a table; of the 32 that real ones have, no more are needed

Settings = Mapping[str, Any]
Walked = tuple[str, Evaluation, Settings]


@dataclass(frozen=True, repr=False)
class AgentComparison(Tabled):
    """Agents on one split: `print` it, look at it in a notebook, or take it apart."""

    split: str
    evaluations: Mapping[str, Evaluation]  # by agent, of the same episodes
    settings: Mapping[str, Settings]  # those that differ, by setting and then by agent that has it

    @cached_property
    def divergences(self) -> list[Divergence]:
        """The episodes in which they walk different ways; those first in which some succeed and others do not."""
        return find_divergences(self.evaluations)

    @property
    def partings(self) -> list[Divergence]:
        """The earlier name of `divergences`."""
        return self.divergences

    @property
    def scores(self) -> dict[str, Summary]:
        """By agent: rates as fractions, TL and NE in metres; empty where goals are withheld."""
        known = {agent: one.scores for agent, one in self.evaluations.items()}
        return {agent: scores.summary() for agent, scores in known.items() if scores is not None}

    @property
    def differences(self) -> dict[str, dict[str, float]]:
        """By agent, but for the first: its scores less those of the first."""
        first = next(iter(self.evaluations))
        base = self.scores.get(first, {})
        return {
            agent: {
                key: value - other
                for key, value in scores.items()
                if key != EPISODES and value is not None and (other := base[key]) is not None
            }
            for agent, scores in self.scores.items()
            if agent != first
        }

    def to_json(self, indent: int | None = None) -> str:
        """All of it as a JSON object: `settings`, `scores`, `differences`, `outcomes` and `episodes`."""
        outcomes = {agent: Counter(one.outcomes) for agent, one in self.evaluations.items()}
        whole = {"format": 1, "split": self.split, "agents": list(self.evaluations), "settings": self.settings}
        whole |= {"scores": self.scores, "differences": self.differences, "outcomes": outcomes}
        return dumps(whole | {"episodes": [asdict(one) for one in self.divergences]}, indent=indent)

    def tables(self, episodes: int = SHOWN) -> list[Table]:
        """Settings, scores and episodes; those without anything to say are left out."""
        return [table for table in (self._settings(), self._scores(), self._episodes(episodes)) if table.rows]

    def _settings(self) -> Table:
        cells = ([of.get(agent) for agent in self.evaluations] for of in self.settings.values())
        rows = [
            [name, *("-" if value is None else value if isinstance(value, str) else dumps(value) for value in values)]
            for name, values in zip(self.settings, cells, strict=True)
        ]
        return Table(["", *self.evaluations], rows, "settings that differ")

    def _scores(self) -> Table:
        table, first = score_table(self.split, self.scores), next(iter(self.evaluations))
        keys = score_keys(self.scores.values())
        rows = [
            [
                f"{agent} less {first}",
                *(f"{'+' if less[key] >= 0 else ''}{shown(key, less[key])}" if key in less else "-" for key in keys),
            ]
            for agent, less in self.differences.items()
        ]
        return Table(table.columns, [*table.rows, *rows] if self.scores else [], table.title)

    def _episodes(self, count: int) -> Table:
        total, agents = len(next(iter(self.evaluations.values())).episodes), list(self.evaluations)
        found, decided = self.divergences, sum(one.changes_outcome for one in self.divergences)
        title = f"they part in {len(found):,} of {total:,} episodes, and {decided:,} of these decide who succeeds"
        rows = [
            [one.id, str(one.step), one.viewpoint[:SHORT], *(_ending(one.walks[agent]) for agent in agents)]
            for one in found[:count]
        ]
        left = len(found) - len(rows)
        return Table(["episode", "part after", "at", *agents], rows, title, f"and {left:,} more" if left else "")


def compare_agents(
    agents: Sequence[AnyAgent], data: Data | str | Path | None, split: str | None, options: WalkOptions
) -> AgentComparison:
    """Agents or result files on the same episodes."""
    given: object = agents
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) < 2:
        raise UsageError("nothing to compare; name two agents or more: runs, navigators, baselines or result files")
    known = [as_run(agent) for agent in agents]
    name = _common_split(known, split)
    runs = [agent for agent in known if isinstance(agent, Run)]
    opened = open_data(require_data(runs[0] if runs else known[0], data), device=options.device)
    walked = list[Walked]()
    for agent in known:
        if is_results(agent):
            path = Path(str(agent))
            evaluation = evaluate_file(path, opened.episodes(name), opened.world, opened.folder)
            walked.append((path.stem, evaluation, {}))
        else:
            walker = Walker(load_agent(agent, options.checkpoint), opened, name, options)
            evaluation = walker.walk(name)
            settings = walker.loaded.settings
            if not settings and isinstance(walker.loaded.agent, Policy):
                settings = walker.loaded.agent.described
            walked.append((walker.name, evaluation, {**dict(leaves(settings)), "max_steps": evaluation.max_steps}))
    names, evaluations, by_agent = zip(*walked, strict=True)
    labels = _labels(names, agents)
    compared = dict(zip(labels, _of_same_episodes(labels, evaluations, name), strict=True))
    return AgentComparison(name, compared, _differing(dict(zip(labels, by_agent, strict=True))))


def _common_split(agents: Sequence[AnyAgent], split: str | None) -> str:
    """The split that all are walked on, with its task; where that is not one, it must be said."""
    walking = [agent for agent in agents if not is_results(agent)]
    runs: list[AnyAgent] = [agent for agent in walking if isinstance(agent, Run)]
    splits = dict.fromkeys(chosen_split(agent, split) for agent in runs or walking or agents)
    if len(splits) > 1:
        remedy = f"say where to compare: {setting('split', next(iter(splits)))}"
        raise UsageError(f"these were trained for {' and '.join(splits)}; {remedy}")
    return next(iter(splits))


def _differing(by_agent: Mapping[str, Settings]) -> dict[str, Settings]:
    """The settings that differ between agents that have them, by setting and agent."""
    names = dict.fromkeys(name for settings in by_agent.values() for name in settings)
    by_name = {name: {agent: one[name] for agent, one in by_agent.items() if name in one} for name in names}
    return {name: of for name, of in by_name.items() if len({dumps(value) for value in of.values()}) > 1}


def _labels(names: Sequence[str], agents: Sequence[object]) -> list[str]:
    """A name for each agent; where two would have the same, what they were called by, or their number."""
    long = [
        str(agent) if names.count(name) > 1 and isinstance(agent, str | Path) else name
        for name, agent in zip(names, agents, strict=True)
    ]
    return [f"{name} ({place + 1})" if long.count(name) > 1 else name for place, name in enumerate(long)]


def _of_same_episodes(labels: Sequence[str], walked: Sequence[Evaluation], split: str) -> list[Evaluation]:
    """All evaluations, of the episodes that each of them has, in one order."""
    shared = set.intersection(*(set(one.episodes.ids) for one in walked))
    if not shared:
        raise UsageError(f"{labels[0]} and the others have no episode of {split} in common; choose another split")
    ids = [id for id in walked[0].episodes.ids if id in shared]
    if len(ids) < max(len(one.episodes) for one in walked):
        say(f"{len(ids):,} episodes of {split} are in all of them; these are compared")
    return [
        one if list(one.episodes.ids) == ids else one.select(torch.tensor([one.episodes.row(id) for id in ids]))
        for one in walked
    ]


def _ending(walk: Walk) -> str:
    if walk.success is None:
        return walk.outcome
    return f"{'success' if walk.success else 'failure'}, {walk.outcome} {walk.scores['ne']:.2f} m off"
