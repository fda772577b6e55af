"""Agents as callers give them: runs, navigators, policies, baselines by name, classes in files, result files."""

import re
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from vlnbert.api.runs import Run, open_run
from vlnbert.data.data import Data
from vlnbert.errors import DataError, UnknownNameError, UsageError, near_names, setting
from vlnbert.evaluation.options import Checkpoint
from vlnbert.evaluation.walker import LoadedAgent
from vlnbert.features.opening import from_kept
from vlnbert.learning.run_folder import RECORD
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage.folder import CONFIG, SPEAKER, NoSuchSourceError, exists
from vlnbert.rollout.agents import AGENTS, Agent, AgentFactory, agent_name, as_agent, find_agent
from vlnbert.rollout.policies import open_policy
from vlnbert.rollout.policy import POLICY, Policy, as_policy
from vlnbert.sources.files import read_json
from vlnbert.tasks.splits import full_name
from vlnbert.tasks.task import R2R
from vlnbert.weights.importing import open_navigator

RESULTS = ".json"  # how result files end
USUAL = f"{R2R.name}/val_unseen"  # the split of agents that were not trained for one

AnyAgent = Run | Navigator | Policy | Agent | AgentFactory | str | Path
T = TypeVar("T")


def as_run(source: T) -> T | Run:
    """The run in a folder, read once for all; any other agent, or result file, as it is."""
    return open_run(source) if isinstance(source, str | Path) and exists(Path(source) / RECORD) else source


def load_agent(source: object, checkpoint: Checkpoint = "best") -> LoadedAgent:
    """The agent that is given or named, in whichever way; of a run, with its best weights or its last."""
    source = as_run(source)
    if isinstance(source, Run):
        return source.load_agent(checkpoint)
    named = isinstance(source, str) and (source in AGENTS or re.fullmatch(r".*:[A-Za-z_]\w*", source))
    if named and not Path(str(source)).exists():
        source = find_agent(str(source))
    if isinstance(source, Policy | Navigator):
        name = "navigator" if isinstance(source, Navigator) else source.name or type(source).__name__
        loaded = _with_limits(name, as_policy(source))
    elif isinstance(source, AgentFactory):
        loaded = LoadedAgent(source.name, source)
    elif isinstance(source, str | Path):
        loaded = _with_limits(Path(source).resolve().name, _open_policy(str(source)))
    else:
        agent = as_agent(source)
        loaded = LoadedAgent(agent_name(agent), agent)
    if checkpoint == "last":
        raise UsageError(f"{loaded.name} is no run, so it has no last checkpoint; name a run's folder")
    return loaded


def is_results(agent: object) -> bool:
    """Whether an agent is given by its result file."""
    return isinstance(agent, str | Path) and str(agent).endswith(RESULTS)


def chosen_split(agent: object, split: str | None) -> str:
    """The requested split or the default one, with its task; a result file has no default."""
    if split is not None:
        return split if is_results(agent) else full_name(split, agent.task if isinstance(agent, Run) else R2R.name)
    if is_results(agent):
        raise UsageError(f"{agent} is a result file; say which split it is of: {setting('split', USUAL)}")
    return agent.experiment.best_on if isinstance(agent, Run) else USUAL


def require_data(agent: object, data: Data | str | Path | None) -> Data | str | Path:
    """The given data, or those that a run was trained on."""
    folder = agent.record.data if data is None and isinstance(agent, Run) else data
    if folder is None:
        if isinstance(agent, str | Path) and not is_results(agent):
            load_agent(agent)  # an unknown name is reported first
        raise UsageError(f"no data to walk in; give a data folder: {setting('data', 'DIR')}")
    return folder


def _open_policy(source: str) -> Policy:
    """The policy at a path or of a hub name; where there is none, a file of a similar name may have been meant."""
    config: object = None
    with suppress(DataError):
        config = read_json(Path(source) / CONFIG, "configuration")
    if isinstance(config, dict) and POLICY in config:
        return open_policy(source)
    if isinstance(config, dict) and SPEAKER in config:
        raise UsageError(f"{source} is a speaker, which does not walk; let it tell of paths: vlnbert speak {source}")
    if source.endswith(RESULTS) and Path(source).is_file():
        remedy = f"look at what it did: vlnbert show {source}, or vlnbert compare"
        raise UsageError(f"{source} is no navigator; if it is a result file, {remedy}")
    try:
        return as_policy(open_navigator(source))
    except NoSuchSourceError:
        path = Path(source)
        beside = near_names(path.name, (one.name for one in path.parent.glob("*")))
        near = [*(str(path.parent / name) for name in beside), *near_names(source, AGENTS)]
        if not near:
            raise
        raise UnknownNameError("run, navigator or agent", str(path), near) from None


def _with_limits(name: str, policy: Policy) -> LoadedAgent:
    """A policy that walks as far, reads as much and sees the same as in its training, if it recorded that."""
    limits, features = policy.limits, from_kept(policy.features)
    return LoadedAgent(name, policy, features=features, max_steps=limits.max_steps, max_tokens=limits.max_tokens)
