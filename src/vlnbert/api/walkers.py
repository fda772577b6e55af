"""Who walks in an evaluation: a run, a navigator, a baseline or somebody's agent, with what is known of its ways."""

import re
from dataclasses import dataclass, field
from pathlib import Path

from vlnbert.api.runs import Checkpoint, Run, open_run
from vlnbert.data.shown import from_kept
from vlnbert.data.spec import FeatureSpec
from vlnbert.errors import UnknownNameError, UsageError, near_names
from vlnbert.learning.run_folder import BEST, is_run, last_checkpoint, while_trained
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage.folder import describes_speaker
from vlnbert.navigator.storage.hub import NoSuchSourceError
from vlnbert.plugins import load_recorded
from vlnbert.progress import say
from vlnbert.rollout.agents import AGENTS, Agent, AgentFactory, agent_name, as_agent, find_agent
from vlnbert.rollout.policies import describes_policy, open_policy, open_weights
from vlnbert.rollout.policy import Policy, as_policy
from vlnbert.tasks.splits import task_and_split
from vlnbert.tasks.task import R2R
from vlnbert.weights.importing import open_navigator

RESULTS = ".json"  # how result files end


@dataclass(frozen=True)
class Walker:
    """An agent, and what is known of how it is to walk."""

    name: str
    agent: Policy | Agent | AgentFactory
    task: str = R2R.name
    data: str | None = None
    run: Run | None = None
    features: FeatureSpec = field(default_factory=FeatureSpec)
    max_steps: int | None = None  # by default the task's
    max_tokens: int | None = None
    held_out: tuple[str, ...] = ()  # the houses of dev_unseen
    weights: str = ""  # which of a run's


def run_or_source(source: str | Path) -> Run | str | Path:
    """The run in a folder, read once for all; any other source as it is."""
    return open_run(source) if is_run(Path(source)) else source


def usual_task(agent: object) -> str:
    """The task of an agent, unless told otherwise: what a run was trained for, else R2R."""
    return task_and_split(agent.experiment.best_on)[0] if isinstance(agent, Run) else R2R.name


def find_walker(agent: object, checkpoint: Checkpoint = "best") -> Walker:
    """Who is named or given, whichever way; of a run, its best weights or its last."""
    found = _found(agent, checkpoint)
    if checkpoint == "last" and not found.weights:
        raise UsageError(f"{found.name} is no run, so it has no last checkpoint; name a run's folder")
    return found


def _found(agent: object, checkpoint: Checkpoint) -> Walker:
    if isinstance(agent, Policy | Navigator):
        return _navigating("navigator" if isinstance(agent, Navigator) else agent.name or type(agent).__name__, agent)
    if (
        isinstance(agent, str)
        and (agent in AGENTS or re.fullmatch(r".*:[A-Za-z_]\w*", agent))
        and not Path(agent).exists()
    ):
        agent = find_agent(agent)
    if isinstance(agent, AgentFactory):
        return Walker(agent.name, agent)
    if not isinstance(agent, Run | str | Path):
        own = as_agent(agent)
        return Walker(agent_name(own), own)
    agent = agent if isinstance(agent, Run) else run_or_source(agent)
    if not isinstance(agent, Run):
        return _navigating(Path(agent).resolve().name, _opened_source(str(agent)))
    load_recorded(agent.record.plugins)
    experiment = agent.navigator_experiment
    weights, policy = while_trained(agent.folder, lambda _: _opened_weights(agent, checkpoint))
    if checkpoint == "best" and weights.name != BEST:
        say(f"{agent.folder}: nothing was validated yet; walking with the last checkpoint")
    return Walker(
        name=agent.folder.resolve().name + ("_last" if checkpoint == "last" else ""),
        agent=policy,
        task=usual_task(agent),
        data=agent.record.data,
        run=agent,
        features=experiment.features,
        max_steps=experiment.training.max_steps,
        max_tokens=experiment.max_tokens,
        held_out=agent.record.held_out,
        weights=agent.describe_weights(checkpoint),
    )


def _opened_weights(run: Run, checkpoint: Checkpoint) -> tuple[Path, Policy]:
    """Where a run's weights are, and the policy that they make."""
    folder = run.weights if checkpoint == "best" else last_checkpoint(run.folder)
    return folder, open_weights(folder)


def _opened_source(source: str) -> Policy:
    """The policy of a path or a hub name; where there is none, what lies beside it may have been meant."""
    if describes_policy(Path(source)):
        return open_policy(source)
    if describes_speaker(Path(source)):
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


def _navigating(name: str, thing: Policy | Navigator) -> Walker:
    """A policy sees what it was shown in its training, walks as far and reads as much, as far as it tells."""
    policy = as_policy(thing)
    return Walker(
        name=name,
        agent=policy,
        features=from_kept(policy.features),
        max_steps=policy.limits.max_steps,
        max_tokens=policy.limits.max_tokens,
    )
