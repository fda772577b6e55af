"""Agents opened for the explorer's page."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from vlnbert.api.runs import AnyAgent, Run, as_run, load_agent
from vlnbert.data.data import Data, open_data
from vlnbert.errors import UsageError, VlnbertError
from vlnbert.evaluation.walker import Walker
from vlnbert.rollout.agents import AGENTS, Agent, AgentFactory
from vlnbert.runtime import use_threads
from vlnbert.tasks.splits import task_and_split
from vlnbert.tasks.task import R2R

if TYPE_CHECKING:
    from vlnbert.explorer.explorer import Explorer

MOST_AGENTS = 2  # side by side


def open_explorer(
    agents: Sequence[AnyAgent], data: Data | str | Path | None = None, *, device: str | None, threads: int | None
) -> "Explorer":
    """The agents in their data, ready for visitors; the first walk is made, so that no visitor waits for it."""
    from vlnbert.explorer.explorer import AGENT, Explorer, generated_house
    from vlnbert.explorer.requests import EpisodeQuery

    if len(agents) > MOST_AGENTS:
        raise UsageError(f"{len(agents)} agents are too many to watch; name one or two")
    use_threads(threads if agents or threads else 1)
    sources: list[AnyAgent] = [as_run(one) for one in agents] or [AGENT]
    known = next((one.record.data for one in sources if isinstance(one, Run)), None)
    opened = open_data(data or known or generated_house(), device=device)
    _ = opened.world  # shared by all
    try:
        walkers = [Walker(load_agent(one), opened, _splits_for(one, opened)) for one in sources]
    except VlnbertError as error:
        if agents:
            raise
        problem = str(error).partition("; ")[0]
        remedy = "the agent that ships sees generated houses only; name another, such as random"
        raise UsageError(f"{problem}; {remedy}") from None
    about = [walker.loaded.weights or _about(one, walker.agent) for walker, one in zip(walkers, sources, strict=True)]
    explorer = Explorer(walkers, about)
    if first := explorer.first:
        query = [EpisodeQuery(number, first["split"], first["id"]) for number in range(len(walkers))]
        explorer.walk(query)
        explorer.plan(explorer.catalogue.scan_of(first["split"], first["id"]))
    return explorer


def _splits_for(source: AnyAgent, data: Data) -> list[str]:
    """A split of each task that an agent may have to walk: they decide what it sees."""
    tasks = dict.fromkeys(task_and_split(name)[0] for name in data.splits)
    if isinstance(source, Run):
        tasks = dict.fromkeys(source.experiment.tasks)
    elif isinstance(source, AgentFactory | Agent) or (isinstance(source, str) and source in AGENTS):
        tasks = dict.fromkeys([R2R.name] if R2R.name in tasks else list(tasks)[:1])
    wanted = ("val_unseen", "val_seen", "train")
    known = ([f"{task}/{split}" for split in wanted if f"{task}/{split}" in data.splits] for task in tasks)
    return [names[0] for names in known if names]


def _about(source: AnyAgent, agent: Agent) -> str:
    """A description of an agent: the first line of its class's docstring."""
    from vlnbert.explorer.explorer import AGENT

    if source == AGENT:
        return "It ships with vlnbert, and was trained in other generated houses."
    description = type(agent).__doc__ if isinstance(source, str | AgentFactory) else None
    return (description or "").strip().partition("\n")[0]
