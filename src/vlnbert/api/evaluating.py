"""Let any agent walk the episodes of some splits, and score it: runs, navigators, baselines, agents from elsewhere."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

import torch
from tokenizers import Tokenizer

from vlnbert.api.arguments import checked
from vlnbert.api.evaluations import Evaluations
from vlnbert.api.runs import Checkpoint, Run, require_same_bank
from vlnbert.api.walkers import Walker, find_walker
from vlnbert.data.data import Data, open_data
from vlnbert.data.features import object_file_width, view_file_width
from vlnbert.data.own import Features, is_own
from vlnbert.data.spec import OFF, FeatureSpec, as_spec
from vlnbert.environment.environment import Environment
from vlnbert.errors import UnknownNameError, UsageError, setting
from vlnbert.evaluation.evaluate import Evaluation, evaluate_agent
from vlnbert.navigator import Navigator, fast
from vlnbert.progress import quiet, say
from vlnbert.rollout.agents import Agent, AgentFactory, names_objects
from vlnbert.rollout.greedy import GreedyAgent
from vlnbert.runtime import Precision, chosen_precision, require_within, usual_batch
from vlnbert.sources.folders import require_writable
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.holdout import file_of
from vlnbert.tasks.splits import task_and_split
from vlnbert.tasks.task import TASKS
from vlnbert.tasks.tokens import PADDING, piece_count, tokenise

USUAL = ("val_seen", "val_unseen")  # the splits to walk, unless told otherwise


@checked("agent", "features", "device")
def evaluate(
    agent: Run | Navigator | Agent | AgentFactory | str | Path,
    data: Data | str | Path | None = None,
    split: str | Sequence[str] = (),
    *,
    checkpoint: Checkpoint = "best",
    features: FeatureSpec | str | Path | Features | None = None,
    seed: int = 0,
    max_steps: int | None = None,
    batch: int | None = None,
    precision: Precision = "float32",
    device: str | None = None,
    out: str | Path | None = None,
    bar: bool = True,
) -> Evaluations:
    """Let an agent walk every episode of some splits, and score it: `vln.evaluate(run, split="r2r/val_unseen")`.

    Args:
        agent: A run, whose best weights walk; a navigator, or where one is (a folder, a hub name, a published agent's
            checkpoint); an agent of your own, which has `begin` and `act` as `vln.Agent` has; or one by name: random,
            stop, shortest, what a plugin registered, or the class in a file, my.py:MyAgent.
        data: The data folder, or what `vln.open_data` gave; by default what a run was trained on.
        split: One or several, such as r2r/val_unseen; by default val_seen and val_unseen of what a run was trained for.
            Test splits withhold their goals: they are walked, not scored. r2r/dev_unseen is made of the houses that the
            run kept out of its training.
        checkpoint: Which weights of a run walk: the best, or those of its last checkpoint; averaged ones in either
            case, where the run averages.
        features: What the agent sees, as `vln.open_data` takes it, where that differs from what a run was trained with;
            what was in memory is given again.
        seed: Of agents that draw lots, such as random.
        max_steps: Steps after which an episode ends; by default as in the training, else the task's: 15 in R2R.
        batch: Episodes that are walked together; by default 64 on a CPU, 1024 on a GPU, and all at once by agents that
            do not read.
        precision: Of a navigator's tokens; fastest is what multiplies faster on this device. In bfloat16 scores differ
            by rounding.
        device: Where to walk, such as cpu or cuda; by default where the data is.
        out: A folder for result files in the leaderboards' form, <task>_<split>_<agent>.json.
        bar: Show progress.
    """
    require_within(
        max_steps=(1 if max_steps is None else max_steps, 1, 1000),
        batch=(1 if batch is None else batch, 1, 1_000_000),
    )
    if precision not in get_args(Precision):
        raise UnknownNameError("precision", precision, get_args(Precision))
    if checkpoint not in get_args(Checkpoint):
        raise UnknownNameError("checkpoint", checkpoint, get_args(Checkpoint))
    if out is not None:
        require_writable(Path(out))
    with quiet(not bar):
        walker = find_walker(agent, checkpoint)
        names = (split,) if isinstance(split, str) else tuple(split)
        names = names or tuple(f"{walker.task}/{name}" for name in USUAL)
        opened = _opened(data if data is not None else walker.data, device)
        opened = opened.holding_out(walker.held_out) if walker.held_out else opened
        # All splits are read before any is walked, so that a fault in the last leaves no result file of the first.
        episodes = {name: opened.episodes(name) for name in names}
        walker = replace(walker, max_steps=max_steps or walker.max_steps)
        _require_used(walker, features, precision)
        if is_own(features):
            opened, features = opened.seen_by(features), None
        seen = walker.features.updated_by(opened.features).updated_by(as_spec(features))
        walker = replace(walker, features=seen)
        if isinstance(walker.agent, Navigator):
            ready = _prepare_navigator(walker, walker.agent, opened, names, precision)
        else:
            ready = _prepare_agent(walker, walker.agent, opened, episodes, seed)
        walked = {name: _walk(ready, walker, one, batch) for name, one in episodes.items()}
        found = Evaluations(walker.name, walked, walker.weights)
        for path in found.write(out) if out is not None else ():
            say(f"wrote {path}")
        if out is None and found.withheld:
            problem = f"{', '.join(found.withheld)}: the goals are withheld, so nothing was scored"
            say(f"{problem}; nothing was written either: {setting('out', 'DIR')} writes the result files")
        return found


def _require_used(walker: Walker, features: Any, precision: Precision) -> None:
    """Refuse, by name, what was chosen for a navigator's eyes where the agent has none."""
    if isinstance(walker.agent, Navigator):
        return
    if precision != "float32":
        raise UsageError(f"{setting('precision', precision)} is of a navigator's tokens, but {walker.name} is none")
    chosen = is_own(features) or (features is not None and as_spec(features) != FeatureSpec())
    if chosen and not walker.agent.sees_features:
        raise UsageError(f"{setting('features')} was chosen, but {walker.name} sees none; leave it out")


def _opened(data: Data | str | Path | None, device: str | None) -> Data:
    if data is None:
        raise UsageError(f"no data to walk in; give a data folder: {setting('data', 'DIR')}")
    return open_data(data, device=device)


@dataclass(frozen=True)
class _Prepared:
    """An agent and all that it walks with."""

    agent: Agent
    data: Data
    environment: Environment
    tokenizer: Tokenizer | None  # None for those who do not read
    dtype: torch.dtype | None = None


def _prepare_navigator(
    walker: Walker, navigator: Navigator, data: Data, names: Sequence[str], precision: Precision
) -> _Prepared:
    config = navigator.to(data.device).config
    finds = config.object_width > 0 and any(TASKS[task_and_split(name)[0]].sees_objects for name in names)
    spec = walker.features if finds else replace(walker.features, objects=OFF)
    data = data.seen_as(spec)
    seen = view_file_width(data.folder, spec) if spec.reads_view_file else data.view_bank.width
    _require_width(walker.name, "view", config.feature_width, seen=seen, in_file=spec.reads_view_file)
    if finds and spec.objects != OFF:
        seen = object_file_width(data.folder, spec) if spec.reads_object_file else data.object_width
        _require_width(walker.name, "object", config.object_width, seen=seen, in_file=spec.reads_object_file)
    if walker.run is not None:
        require_same_bank(walker.run, data)
    tokenizer = navigator.tokenizer or data.tokenizer
    pieces, rows = piece_count(tokenizer), config.vocabulary
    if pieces > rows or (navigator.tokenizer is None and rows >= pieces + PADDING):  # another's, or half of its own
        problem = f"{walker.name} knows {rows:,} word pieces, the vocabulary has {pieces:,}"
        raise UsageError(f"{problem}; keep its own with it: vlnbert weights import --vocabulary FILE")
    dtype = fast.dtype_of(chosen_precision(precision, data.device, config.hidden))
    return _Prepared(GreedyAgent(navigator), data, data.environment, tokenizer, dtype)


def _require_width(name: str, what: str, width: int, *, seen: int, in_file: bool) -> None:
    """Refuse features of another width than a navigator was trained with; only those of a file can be cut."""
    if seen == width:
        return
    place = f"features.{what}"
    if in_file:
        remedy = f"give the features that it was trained with: {setting(f'{place}s', 'FILE')}"
    else:
        remedy = f"name the channels, or the file, that it was trained with: {setting(f'{place}s', 'NAME')}"
    if in_file and seen > width:
        remedy += f"; if these begin with them, cut them: {setting(f'{place}_width', width)}"
    raise UsageError(f"{name} sees {what}s {width} wide, and they are {seen}; {remedy}")


def _prepare_agent(
    walker: Walker, made: Agent | AgentFactory, data: Data, episodes: Mapping[str, Episodes], seed: int
) -> _Prepared:
    environment = Environment(data.world)
    if made.sees_features:
        names = made.names_objects if isinstance(made, AgentFactory) else names_objects(made)
        finds = names and any(TASKS[one.task].sees_objects for one in episodes.values())
        data = data.seen_as(walker.features if finds else replace(walker.features, objects=OFF))
        environment = data.environment
    agent = made(environment, seed) if isinstance(made, AgentFactory) else made
    for split, one in episodes.items():
        if agent.oracle and not one.scored:
            raise UsageError(f"{split} withholds its goals, so nobody knows the shortest path; leave it out")
    return _Prepared(agent, data, environment, data.tokenizer if agent.reads_tokens else None)


def _walk(ready: _Prepared, walker: Walker, episodes: Episodes, batch: int | None) -> Evaluation:
    tokens, usual, asked = None, max(1, len(episodes)), TASKS[episodes.task]
    if ready.tokenizer is not None:
        path = file_of(ready.data.folder, episodes.task, episodes.split)
        tokens = tokenise(episodes, ready.tokenizer, path, walker.max_tokens or asked.max_tokens)
        tokens, usual = tokens.to(ready.data.device), usual_batch(ready.data.device)
    return evaluate_agent(
        ready.environment,
        ready.agent,
        episodes,
        tokens,
        max_steps=walker.max_steps or asked.max_steps,
        batch=batch or usual,
        dtype=ready.dtype,
    )
