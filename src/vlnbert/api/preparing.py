"""An agent made ready to walk some splits: who walks, in what, with which eyes, limits and words."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from vlnbert.analysis.episode_record import RecordedEpisode
from vlnbert.analysis.equipped_agent import EquippedAgent
from vlnbert.analysis.recording import Recorder
from vlnbert.analysis.typed import WalkRequest
from vlnbert.api.arguments import require_one_of
from vlnbert.api.runs import Checkpoint, Run, require_same_bank
from vlnbert.api.walkers import Walker, find_walker
from vlnbert.data.data import Data, open_data
from vlnbert.data.features import object_file_width, view_file_width
from vlnbert.data.own import Features, is_own
from vlnbert.data.shown import in_data_folder, require_encoder_folder
from vlnbert.data.spec import OFF, FeatureSpec, as_spec
from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError, setting
from vlnbert.evaluation.evaluate import Evaluation
from vlnbert.navigator import Navigator, fast
from vlnbert.records import chosen
from vlnbert.rollout.agents import Agent, AgentFactory, names_objects
from vlnbert.rollout.greedy import GreedyAgent
from vlnbert.rollout.policy import Policy
from vlnbert.runtime import Precision, chosen_precision, require_within, usual_batch
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.splits import file_of, full_name
from vlnbert.tasks.task import TASKS
from vlnbert.tasks.tokens import PADDING, piece_count

USUAL = ("val_seen", "val_unseen")  # the splits to walk, unless told otherwise


@dataclass(frozen=True)
class PreparedAgent:
    """An agent and all that it walks with."""

    walker: Walker
    agent: Agent
    data: Data
    environment: Environment
    tokenizer: Tokenizer | None  # None for those who do not read
    episodes: Mapping[str, Episodes]  # of each split
    dtype: torch.dtype | None = None
    batch: int | None = None

    @property
    def name(self) -> str:
        return self.walker.name

    @property
    def weights(self) -> str:
        """Which of a run's weights walk, in words."""
        return self.walker.weights

    def walk(self, split: str, *, record: bool = False, only: Sequence[str] | None = None) -> Evaluation:
        """Let it walk a split, or some of its episodes by their ids, and score it; `record` asks for explanations."""
        episodes = self.episodes[split]
        file = file_of(self.data.folder, episodes.task, episodes.split)
        return self.walk_episodes(episodes, file, record=record, only=only)

    def walk_episodes(
        self, episodes: Episodes, file: Path, *, record: bool = False, only: Sequence[str] | None = None
    ) -> Evaluation:
        """The same with episodes of any origin; `file` is named where one has no words."""
        usual = None if self.tokenizer is None else usual_batch(self.data.device)  # who reads nothing walks all at once
        rows = None if only is None else torch.tensor([episodes.row(id) for id in only], dtype=torch.long)
        return self.equipped.walk(episodes, file, batch=self.batch or usual, record=record, only=rows)

    @cached_property
    def equipped(self) -> EquippedAgent:
        """The agent with all that it walks with, and its limits: what was asked for, as in the training."""
        recorder = Recorder(self.data, self.name, self.environment, self.tokenizer)
        return EquippedAgent(self.agent, recorder, self.walker.max_steps, self.walker.max_tokens, self.dtype)

    @property
    def recorder(self) -> Recorder:
        """Makes records of what it walked: `recorder.episode(evaluation, row)`."""
        return self.equipped.recorder

    def follow(self, requests: Sequence[WalkRequest], task: str | None = None) -> list[RecordedEpisode]:
        """Let it follow instructions that somebody typed, all at once; by default as in the task of its first split."""
        asked = task or next((one.task for one in self.episodes.values()), self.walker.task)
        return self.equipped.follow(requests, asked)


def prepare(
    agent: Run | Navigator | Policy | Agent | AgentFactory | str | Path,
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
) -> PreparedAgent:
    """An agent ready to walk some splits; the arguments are those of `vln.evaluate`."""
    require_within(
        max_steps=(1 if max_steps is None else max_steps, 1, 1000),
        batch=(1 if batch is None else batch, 1, 1_000_000),
    )
    require_one_of("precision", precision, Precision)
    require_one_of("checkpoint", checkpoint, Checkpoint)
    walker = find_walker(agent, checkpoint)
    names = (split,) if isinstance(split, str) else tuple(split)
    names = tuple(full_name(name, walker.task) for name in names or USUAL)
    opened = _opened(data if data is not None else walker.data, device)
    opened = opened.holding_out(walker.held_out) if walker.held_out else opened
    # All splits are read before any is walked, so that a fault in the last leaves no result file of the first.
    episodes = {name: opened.episodes(name) for name in names}
    walker = replace(walker, max_steps=max_steps or walker.max_steps)
    _require_used(walker, features, precision)
    if is_own(features):
        opened, features = opened.seen_by(features), None
    said = opened.features.updated_by(as_spec(features))
    seen = walker.features.updated_by(said)
    if walker.run is None:  # a run knows whole paths
        seen = in_data_folder(seen, opened.folder, said)
    walker = replace(walker, features=seen)
    if isinstance(walker.agent, Policy):
        ready = _prepare_policy(walker, walker.agent, opened, episodes, precision)
    else:
        ready = _prepare_agent(walker, walker.agent, opened, episodes, seed)
    return replace(ready, batch=batch)


def _require_used(walker: Walker, features: Any, precision: Precision) -> None:
    """Refuse, by name, what was chosen for a policy's eyes where the agent has none."""
    if isinstance(walker.agent, Policy):
        return
    if precision != "float32":
        raise UsageError(
            f"{setting('precision', precision)} is of a navigator's tokens, but {walker.name} is none; leave it out"
        )
    places = ["views"] if is_own(features) else chosen(as_spec(features), FeatureSpec())
    for place in places if not walker.agent.sees_features else ():
        raise UsageError(f"{setting(f'features.{place}')} was chosen, but {walker.name} sees none; leave it out")


def _opened(data: Data | str | Path | None, device: str | None) -> Data:
    if data is None:
        raise UsageError(f"no data to walk in; give a data folder: {setting('data', 'DIR')}")
    return open_data(data, device=device)


def _prepare_policy(
    walker: Walker, policy: Policy, data: Data, episodes: Mapping[str, Episodes], precision: Precision
) -> PreparedAgent:
    inputs = policy.to(data.device).inputs
    finds = inputs.object_width > 0 and any(TASKS[one.task].sees_objects for one in episodes.values())
    spec = walker.features if finds else replace(walker.features, objects=OFF)
    require_encoder_folder(spec, walker.name)
    data = data.seen_as(spec)
    seen = view_file_width(data.folder, spec) if spec.reads_view_file else data.view_bank.width
    _require_width(walker.name, "view", inputs.feature_width, seen=seen, in_file=spec.reads_view_file)
    if finds and spec.objects != OFF:
        seen = object_file_width(data.folder, spec) if spec.reads_object_file else data.object_width
        _require_width(walker.name, "object", inputs.object_width, seen=seen, in_file=spec.reads_object_file)
    if walker.run is not None:
        require_same_bank(walker.run, data)
    tokenizer = policy.tokenizer or data.tokenizer
    pieces, rows = piece_count(tokenizer), inputs.vocabulary
    if pieces > rows or (policy.tokenizer is None and rows >= pieces + PADDING):  # another's, or half of its own
        problem = f"{walker.name} knows {rows:,} word pieces, the vocabulary has {pieces:,}"
        raise UsageError(f"{problem}; keep its own with it: vlnbert weights import --vocabulary FILE")
    dtype = fast.dtype_of(chosen_precision(precision, data.device, policy.hidden_width))
    agent = GreedyAgent(policy)
    return PreparedAgent(
        walker=walker,
        agent=agent,
        data=data,
        environment=data.environment.showing(agent.wants, f"{walker.name}.wants"),
        tokenizer=tokenizer,
        episodes=episodes,
        dtype=dtype,
    )


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
) -> PreparedAgent:
    environment = Environment(data.world)
    if made.sees_features:
        names = made.names_objects if isinstance(made, AgentFactory) else names_objects(made)
        finds = names and any(TASKS[one.task].sees_objects for one in episodes.values())
        data = data.seen_as(walker.features if finds else replace(walker.features, objects=OFF))
        _ = finds and data.object_bank  # says what is missing where an agent that names objects would see none
        environment = data.environment
    agent = made(environment, seed, data.texts) if isinstance(made, AgentFactory) else made
    environment = environment.showing(agent.wants, f"{walker.name}.wants")
    for split, one in episodes.items():
        if agent.oracle and not one.scored:
            raise UsageError(f"{split} withholds its goals, so nobody knows the shortest path; leave it out")
    return PreparedAgent(
        walker=walker,
        agent=agent,
        data=data,
        environment=environment,
        tokenizer=data.tokenizer if agent.reads_tokens else None,
        episodes=episodes,
    )
