"""An agent opened with its data: the one way in which agents walk, for scores, records, reports and the explorer."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer

from vlnbert.data.data import Data, open_data
from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError, setting
from vlnbert.evaluation.evaluate import Evaluation, evaluate_agent
from vlnbert.evaluation.options import WalkOptions
from vlnbert.evaluation.recording import RecordedEpisode, Recorder
from vlnbert.features.opening import (
    in_data_folder,
    is_in_memory,
    object_file_width,
    require_encoder_folder,
    view_file_width,
)
from vlnbert.features.spec import OFF, FeatureSpec, as_spec
from vlnbert.navigator import fast
from vlnbert.progress import quiet
from vlnbert.records import chosen
from vlnbert.rollout.agents import Agent, AgentFactory, names_objects
from vlnbert.rollout.policy import GreedyAgent, Policy
from vlnbert.runtime import chosen_precision, usual_batch
from vlnbert.sources.instructions import EpisodeRecord
from vlnbert.tasks.batches import PADDING, piece_count, tokenise
from vlnbert.tasks.episodes import Episodes, bind, pad_paths
from vlnbert.tasks.splits import file_of, full_name
from vlnbert.tasks.task import R2R, TASKS
from vlnbert.world.objects import Sightings, find_sightings
from vlnbert.world.world import STOP, World

USUAL = ("val_seen", "val_unseen")  # the splits that are walked by default
DEFAULTS = WalkOptions()


@dataclass(frozen=True)
class LoadedAgent:
    """An agent that has no data yet, and how it walked in its training, as far as that is known."""

    name: str
    agent: Policy | Agent | AgentFactory
    task: str = R2R.name
    data: str | None = None  # the folder that a run was trained on; None for agents that are no run's
    features: FeatureSpec = field(default_factory=FeatureSpec)
    max_steps: int | None = None  # by default the task's
    max_tokens: int | None = None
    held_out: tuple[str, ...] = ()  # the houses of dev_unseen
    weights: str = ""  # which of a run's weights, in words
    settings: Mapping[str, Any] = field(default_factory=dict)  # of a run, for comparisons
    require_data: Callable[[Data], None] | None = None  # refuses data other than what a run was trained on


@dataclass(frozen=True)
class WalkRequest:
    """A typed instruction to follow from a start, and the goal if it is known."""

    scan: str
    start: str  # viewpoint
    text: str
    heading: float = 0.0  # radians
    goal: str | None = None  # viewpoint; in tasks that look for an object, one that shows it


class Walker:
    """An agent opened once with its data; it walks splits, episodes of other origins and typed instructions."""

    agent: Agent
    data: Data
    environment: Environment
    tokenizer: Tokenizer | None = None  # None for agents that do not read
    dtype: torch.dtype | None = None

    def __init__(
        self,
        loaded: LoadedAgent,
        data: Data | str | Path | None = None,
        split: str | Sequence[str] = (),
        options: WalkOptions = DEFAULTS,
    ) -> None:
        """Open the data, read its splits and fit the agent to them; by default the data of a run's training."""
        self.loaded, self.name, self.options = loaded, loaded.name, options
        names = (split,) if isinstance(split, str) else tuple(split)
        names = tuple(full_name(name, loaded.task) for name in names or USUAL)
        data = loaded.data if data is None else data
        if data is None:
            raise UsageError(f"no data to walk in; give a data folder: {setting('data', 'DIR')}")
        opened = open_data(data, device=options.device)
        opened = opened.holding_out(loaded.held_out) if loaded.held_out else opened
        # All splits are read before any is walked, so that a fault in the last leaves no result file of the first.
        self.episodes = {name: opened.episodes(name) for name in names}
        features = options.features
        self._require_used()
        if is_in_memory(features):
            opened, features = opened.seen_by(features), None
        requested = opened.features.updated_by(as_spec(features))
        spec = loaded.features.updated_by(requested)
        # Runs store absolute paths.
        if loaded.data is None:
            spec = in_data_folder(spec, opened.folder, requested)
        if isinstance(loaded.agent, Policy):
            self._open_policy(loaded.agent, opened, spec)
        else:
            self._open_agent(loaded.agent, opened, spec)
        self.environment = self.environment.showing(self.agent.wants, f"{self.name}.wants")

    def walk(self, split: str, *, record: bool = False, only: Sequence[str] | None = None) -> Evaluation:
        """Walk a split, or some of its episodes by their ids, and score it; `record` asks for explanations."""
        episodes = self.episodes[split]
        file = file_of(self.data.folder, episodes.task, episodes.split)
        return self.walk_episodes(episodes, file, record=record, only=only)

    def walk_episodes(
        self,
        episodes: Episodes,
        file: Path | None = None,
        *,
        record: bool = False,
        only: Sequence[str] | None = None,
    ) -> Evaluation:
        """Walk episodes of any origin and score them; errors about their words name `file`."""
        task, tokens = TASKS[episodes.task], None
        batch = self.options.batch or len(episodes) or 1
        if self.tokenizer is not None:
            limit = self.loaded.max_tokens or task.max_tokens
            tokens = tokenise(episodes, self.tokenizer, file or self.data.folder.root, limit).to(self.data.device)
            batch = self.options.batch or usual_batch(self.data.device)
        return evaluate_agent(
            self.environment,
            self.agent,
            episodes,
            tokens,
            max_steps=self.options.max_steps or self.loaded.max_steps or task.max_steps,
            batch=batch,
            dtype=self.dtype,
            record=record,
            only=None if only is None else torch.tensor([episodes.row(id) for id in only], dtype=torch.long),
        )

    def walk_records(self, records: Sequence[EpisodeRecord], file: Path, task: str) -> Evaluation:
        """Walk by instructions that are in no file yet, such as generated ones; errors name `file`."""
        if not self._reads_as_the_data:
            records = [replace(record, tokens=None) for record in records]
        world, sightings = self.data.world, self._sightings if TASKS[task].sees_objects else None
        episodes = bind(file, records, world, task=task, split="generated", sightings=sightings)
        return self.walk_episodes(episodes.to(world.device), file)

    def follow(self, requests: Sequence[WalkRequest], task: str | None = None) -> list[RecordedEpisode]:
        """Follow typed instructions; a record for each, in their order. The default task is that of the first split.

        With a goal, the walk is scored against the shortest path there.
        """
        if not requests:
            return []
        task = task or next((split.task for split in self.episodes.values()), self.loaded.task)
        episodes = typed_episodes(self.data.world, requests, task)
        if self.agent.oracle and any(request.goal is None for request in requests):
            raise UsageError(f"{self.name} must know the goal; give one with every instruction")
        with quiet():
            evaluation = self.walk_episodes(episodes, record=True)
            return [self.recorder.episode(evaluation, row, one.goal is not None) for row, one in enumerate(requests)]

    @cached_property
    def recorder(self) -> Recorder:
        """Makes records of walked episodes: `recorder.episode(evaluation, row)`."""
        return Recorder(self.data, self.name, self.environment, self.tokenizer)

    @cached_property
    def _reads_as_the_data(self) -> bool:
        """Whether the token ids of the data mean the same to the agent."""
        own = self.tokenizer
        return own is not None and own.get_vocab() == self.data.tokenizer.get_vocab()

    @cached_property
    def _sightings(self) -> Sightings:
        return find_sightings(self.data.world, self.data.objects)

    def _require_used(self) -> None:
        """Refuse options about a policy's input, by name, for an agent that has no such input."""
        agent, features, precision = self.loaded.agent, self.options.features, self.options.precision
        if isinstance(agent, Policy):
            return
        if precision != "float32":
            raise UsageError(
                f"{setting('precision', precision)} is of a navigator's tokens, but {self.name} is none; leave it out"
            )
        places = ["views"] if is_in_memory(features) else chosen(as_spec(features), FeatureSpec())
        for place in places if not agent.sees_features else ():
            raise UsageError(f"{setting(f'features.{place}')} was chosen, but {self.name} sees none; leave it out")

    def _open_policy(self, policy: Policy, data: Data, spec: FeatureSpec) -> None:
        """Give a policy the features and tokens that it was trained with, or refuse data that has others."""
        inputs = policy.to(data.device).inputs
        finds = inputs.object_width > 0 and self._walks_for_objects
        spec = spec if finds else replace(spec, objects=OFF)
        require_encoder_folder(spec, self.name)
        self.data = data = data.seen_as(spec)
        width = view_file_width(data.folder, spec) if spec.reads_view_file else data.view_bank.width
        self._require_width("view", inputs.feature_width, width, in_file=spec.reads_view_file)
        if finds and spec.objects != OFF:
            width = object_file_width(data.folder, spec) if spec.reads_object_file else data.object_width
            self._require_width("object", inputs.object_width, width, in_file=spec.reads_object_file)
        if self.loaded.require_data is not None:
            self.loaded.require_data(data)
        self.tokenizer = policy.tokenizer or data.tokenizer
        pieces, rows = piece_count(self.tokenizer), inputs.vocabulary
        # Tokenizer and embedding have different sizes.
        if pieces > rows or (policy.tokenizer is None and rows >= pieces + PADDING):
            problem = f"{self.name} knows {rows:,} word pieces, the vocabulary has {pieces:,}"
            raise UsageError(f"{problem}; keep its own with it: vlnbert weights import --vocabulary FILE")
        self.dtype = fast.dtype_of(chosen_precision(self.options.precision, data.device, policy.hidden_width))
        self.agent, self.environment = GreedyAgent(policy), data.environment

    def _require_width(self, kind: str, width: int, found: int, *, in_file: bool) -> None:
        """Refuse features of another width than in the training; only those of a file can be cut."""
        if found == width:
            return
        place = f"features.{kind}"
        if in_file:
            remedy = f"give the features that it was trained with: {setting(f'{place}s', 'FILE')}"
        else:
            remedy = f"name the channels, or the file, that it was trained with: {setting(f'{place}s', 'NAME')}"
        if in_file and found > width:
            remedy += f"; if these begin with them, cut them: {setting(f'{place}_width', width)}"
        raise UsageError(f"{self.name} sees {kind}s {width} wide, and they are {found}; {remedy}")

    def _open_agent(self, agent: Agent | AgentFactory, data: Data, spec: FeatureSpec) -> None:
        """Make an agent by its class, if need be, and give it what it reads and sees."""
        environment = Environment(data.world)
        if agent.sees_features:
            names = agent.names_objects if isinstance(agent, AgentFactory) else names_objects(agent)
            finds = names and self._walks_for_objects
            data = data.seen_as(spec if finds else replace(spec, objects=OFF))
            # This says what is missing where an agent that names objects would see none.
            _ = finds and data.object_bank
            environment = data.environment
        self.data, self.environment = data, environment
        self.agent = agent(environment, self.options.seed, data.texts) if isinstance(agent, AgentFactory) else agent
        for split, episodes in self.episodes.items():
            if self.agent.oracle and not episodes.scored:
                raise UsageError(f"{split} withholds its goals, so nobody knows the shortest path; leave it out")
        self.tokenizer = data.tokenizer if self.agent.reads_tokens else None

    @property
    def _walks_for_objects(self) -> bool:
        return any(TASKS[split.task].sees_objects for split in self.episodes.values())


def typed_episodes(world: World, requests: Sequence[WalkRequest], task: str) -> Episodes:
    """The requests as episodes of no split; one without a goal has its start alone, as those of test splits have."""
    paths = [_path(world, request) for request in requests]
    hops = pad_paths(paths)
    return Episodes(
        task=task,
        split="",
        ids=tuple(str(number) for number in range(len(requests))),
        texts=tuple(request.text for request in requests),
        tokens=(None,) * len(requests),
        targets=(None,) * len(requests),
        start=hops[:, 0],
        heading=torch.tensor([request.heading for request in requests], dtype=torch.float64),
        path=hops,
        path_length=torch.tensor([len(path) for path in paths], dtype=torch.long),
        sightings=hops[:, -1:] if TASKS[task].sees_objects else None,
    ).to(world.device)


def _path(world: World, request: WalkRequest) -> list[int]:
    """The shortest path to the goal, or the start alone."""
    if not request.text.strip():
        raise UsageError("the instruction has no words; write what to do")
    if not math.isfinite(request.heading):
        raise UsageError(f"the heading is {request.heading}; give a number of radians")
    if request.goal == request.start:
        raise UsageError("the goal is the start; choose another goal, or none")
    path = [world.find(request.scan, request.start)]
    if request.goal is None:
        return path
    goal = torch.tensor([world.find(request.scan, request.goal)], device=world.device)
    while path[-1] != int(goal):
        here = torch.tensor([path[-1]], device=world.device)
        slot = int(world.slot_toward(here, goal))
        if slot == STOP:
            raise UsageError(f"no way leads from {request.start} to {request.goal}; choose another goal")
        path.append(int(world.neighbour[path[-1], slot]))
    return path
