"""The contract of policies, which walk and learn: one reads instructions, remembers, and scores where it could go.

Recurrent VLN-BERT is one policy; others are registered by a name. The rollout, the losses, the checkpoints and
the evaluation know policies by this contract alone. A policy that is evaluated walks as a `GreedyAgent`.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, is_dataclass
from html import escape
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch
from safetensors.torch import save_file
from tokenizers import Tokenizer
from torch import Tensor, nn

from vlnbert.environment.environment import Observation
from vlnbert.errors import DataError, UsageError
from vlnbert.navigator import Instruction, Navigator
from vlnbert.navigator.storage.folder import (
    CONFIG,
    FEATURES,
    TOKENIZER,
    WEIGHTS,
    WHOLE_WEIGHTS,
    Limits,
    Shown,
    check_fit,
    noting,
    read_safetensors,
    stored_shapes,
    weight_problem,
    write_tokenizer,
)
from vlnbert.rollout.agents import HOPS_PER_STEP, Agent, EpisodeBatch, Explanation
from vlnbert.rollout.episodes import RowMemory, narrow_rows, select_rows
from vlnbert.sources.files import FORMAT
from vlnbert.world.objects import NONE

POLICY, SETTINGS, INPUTS = "policy", "settings", "inputs"  # in a policy's config.json
POLICY_FORMAT = 1  # its format
NOWHERE = 1 << 40  # the number of no viewpoint
PAD = 0  # the token that fills short instructions up
CARD = """---
library_name: vlnbert
tags: [vision-and-language-navigation, embodied-ai]
---

# A {policy} policy

An agent that reads an instruction and walks through a house.
{scores}
| configuration | |
| --- | --- |
{facts}
"""


@dataclass(frozen=True)
class Decision:
    """A policy's answer to one observation.

    Attributes:
        logits: [row, slot] of the actions: slot 0 stops, -inf where nothing can be chosen.
        memory: What it remembers for the next step: a tree of tensors [row, ...].
        hidden: [row, width] the vector that loss terms read, the critic's among them.
        object_logits: [row, object + 1] of the objects in view, where there are any; the last stands for "no
            object".
        language_weights: [row, token] attention over the tokens after the first, of policies that attend to words.
        place_logits: [row, place] of going to viewpoints seen before, in one softmax with `logits`; of policies
            that go back.
        places: [row, place] int64: those viewpoints, by number. Negative ones are padding, whose logits are -inf.
    """

    logits: Tensor
    memory: Any
    hidden: Tensor | None = None
    object_logits: Tensor | None = None
    language_weights: Tensor | None = None
    place_logits: Tensor | None = None
    places: Tensor | None = None

    @property
    def all_logits(self) -> Tensor:
        """[row, slot + place] of everything that can be chosen."""
        return self.logits if self.place_logits is None else torch.cat((self.logits, self.place_logits), dim=1)

    def choice(self, action: Tensor) -> Tensor:
        """[row] what an agent's `act` answers for a place in `all_logits`: slots, and beyond them viewpoints."""
        if self.places is None or not self.places.shape[1]:
            return action
        slots = self.logits.shape[1]
        place = self.places.gather(1, (action - slots).clamp(min=0)[:, None]).squeeze(1)
        return torch.where(action < slots, action, slots + torch.where(place < 0, NOWHERE, place))


@dataclass(frozen=True)
class Inputs:
    """The inputs that a policy is made for, beside its settings.

    Attributes:
        feature_width: Width of a view's feature.
        object_width: Width of an object's feature; 0 where no objects are shown.
        vocabulary: Word pieces: tokens are below.
        tasks: The tasks that it learns, such as r2r.
        tokenizer: What instructions are tokenised with.
    """

    feature_width: int = 0
    object_width: int = 0
    vocabulary: int = 0
    tasks: tuple[str, ...] = ()
    tokenizer: Tokenizer | None = field(default=None, compare=False)

    def values(self) -> dict[str, Any]:
        """Those that a policy's folder keeps in its configuration."""
        return {name: value for name, value in vars(self).items() if name != "tokenizer"}


class Policy(nn.Module):
    """The base of all policies: `begin` reads the instructions, `step` decides.

    Memory is any tree of tensors (tuples, lists, dictionaries, dataclasses) whose first dimension is the row: rows that
    have stopped leave it, and CUDA graphs record it. Shapes may follow the number of the step, never values. A step
    runs inside `fast.enabled(dtype)`, where modules that are not ours are called under autocast.
    """

    wants: tuple[str, ...] = ()
    """What it sees beside its choices, `neighbours` and `panorama`: fields of `Observation`, None unless asked for."""
    goes_back: bool = False
    """Whether its decisions have `places`: viewpoints that it visited, and neighbours of these."""
    hops_per_step: int = HOPS_PER_STEP
    """Of one that goes back: an episode may have as many hops as it may have decisions, times this."""
    teaches_going_back: bool = False
    """Whether, where the task's teacher takes shortest paths, its target is a place that lies on one, not the slot."""
    mask_checked: bool = False
    """Whether it is known that its logits are -inf where nothing can be chosen; set once they were looked at."""
    hidden_width: int = 0
    """Width of `Decision.hidden`; 0 for a policy that gives none."""
    max_tokens: int | None = None
    """The longest instruction that it can read; None for any."""
    brings_tokenizer: bool = False
    """Whether it reads with a tokenizer of its own, which may be no BERT's."""

    def begin(self, batch: EpisodeBatch) -> Any:
        """Read the instructions of a batch and return the memory of the first step."""
        raise NotImplementedError

    def step(self, observation: Observation, memory: Any, attention: bool = False) -> Decision:
        """Decide where to go from what is seen now; `attention` asks for `Decision.language_weights`."""
        raise NotImplementedError

    tokenizer: Tokenizer | None = None
    """What instructions are tokenised with; saved and opened with the policy."""
    limits: Limits = Limits()
    """How long the episodes are that it is trained for; saved and opened with it."""
    features: Shown | None = None
    """What it is shown, as plain values: `vln.FeatureSpec(**policy.features)`; saved and opened with it."""
    name: str = ""
    """What it is registered as; set, with the next two, where it is made by its name."""
    settings: Mapping[str, Any] = MappingProxyType({})
    """The values of its configuration."""
    inputs: Inputs = Inputs()
    """What it is shown, by widths."""

    @property
    def trained(self) -> nn.Module:
        """The module whose parameters are optimised, averaged and saved."""
        return self

    @property
    def critic(self) -> nn.Module | None:
        """The critic that the policy brings; without one the value loss makes its own."""
        return None

    def value(self, hidden: Tensor) -> Tensor:
        """[...] what the policy's own critic expects of hidden vectors [..., width]."""
        raise NotImplementedError

    def save_pretrained(self, folder: Path, *, model_card_kwargs: Mapping[str, Any] | None = None) -> None:
        """Write the policy's folder: configuration, weights, tokenizer, digests and a card.

        Args:
            folder: Where to write it.
            model_card_kwargs: What its card shall tell: preset and scores.
        """
        folder.mkdir(parents=True, exist_ok=True)
        values = {FORMAT: POLICY_FORMAT, POLICY: self.name, SETTINGS: dict(self.settings), INPUTS: self.inputs.values()}
        values |= {**self.limits.values(), **({} if self.features is None else {FEATURES: self.features})}
        weights = {name: tensor.detach().contiguous() for name, tensor in self.state_dict().items()}
        with noting(folder, {WEIGHTS: weights, CONFIG: None, TOKENIZER: None}):
            save_file(weights, folder / WEIGHTS)
            (folder / CONFIG).write_text(json.dumps(values, sort_keys=True, indent=2), encoding="utf-8")
            if self.tokenizer is not None:
                write_tokenizer(folder / TOKENIZER, self.tokenizer)
        (folder / "README.md").write_text(_card(self, model_card_kwargs or {}), encoding="utf-8")

    @property
    def described(self) -> dict[str, Any]:
        """Its settings as plain values, nested, as comparisons list them."""
        return {POLICY: {"name": self.name, SETTINGS: dict(self.settings)}}

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each tensor that is saved."""
        return {name: tuple(tensor.shape) for name, tensor in self.state_dict().items()}

    def read_weights(self, folder: Path) -> dict[str, Tensor]:
        """The weights in a folder, if they are all of this policy's, no others, in their shapes."""
        path = folder / WEIGHTS
        check_fit(path, stored_shapes(path), self.shapes())
        tensors, _ = read_safetensors(path)
        for name, tensor in tensors.items():
            if (problem := weight_problem(tensor)) is not None and tensor.is_floating_point():
                raise DataError(path, problem, WHOLE_WEIGHTS, name)
        return tensors


def checked_decision(policy: Policy, decision: Decision, observation: Observation) -> Decision:
    """A decision, if its logits, its memory and its places are what they should be.

    Values are not looked at, since to look is to wait for the device: but for the first logits of all, which must be
    -inf where nothing can be chosen.
    """
    name, (rows, slots) = type(policy).__name__, observation.choosable.shape
    given: Any = getattr(decision, "logits", None)
    if not isinstance(given, Tensor) or given.shape != (rows, slots):
        found = f"logits {list(given.shape)}" if isinstance(given, Tensor) else f"a {type(decision).__name__}"
        raise UsageError(f"{name} gave {found}; its step must give a vln.Decision with logits [{rows}, {slots}]")
    if not (policy.mask_checked or (given.is_cuda and torch.cuda.is_current_stream_capturing())):
        if bool((~observation.choosable & ~given.isneginf() & ~observation.state.ended[:, None]).any()):
            problem = f"{name} gave other logits than -inf for slots that cannot be chosen"
            raise UsageError(f"{problem}; mask them: logits.masked_fill(~observation.choosable, -torch.inf)")
        policy.mask_checked = True
    require_rows(policy, decision.memory, rows)
    logits, places = decision.place_logits, decision.places
    if logits is None and places is None:
        return decision
    if not policy.goes_back:
        raise UsageError(f"{name} decides about places, and does not say so; write goes_back = True in its class")
    if logits is None or places is None or logits.dim() != 2 or places.shape != logits.shape or len(logits) != rows:
        found = " and ".join("None" if one is None else str(list(one.shape)) for one in (logits, places))
        raise UsageError(f"{name} gave place_logits and places of {found}; give both, [{rows}, place]")
    if places.dtype != torch.int64:
        kind = str(places.dtype).removeprefix("torch.")
        raise UsageError(f"{name} gave places of {kind}; viewpoints are int64, observation.neighbours and state")
    return decision


def require_rows(policy: Policy, memory: Any, rows: int) -> None:
    """Refuse a memory with a tensor that does not have one entry a row: rows could not leave it."""
    for name, tensor in _leaves(memory):
        if tensor.dim() == 0 or len(tensor) != rows:
            problem = f"{type(policy).__name__} remembers a tensor {list(tensor.shape)}{name and f' ({name})'}"
            raise UsageError(f"{problem} for {rows} rows; make the row the first dimension of all that it remembers")


def _leaves(tree: Any, name: str = "") -> list[tuple[str, Tensor]]:
    if isinstance(tree, Tensor):
        return [(name, tree)]
    parts: Mapping[Any, Any] = {}
    if isinstance(tree, tuple | list):
        parts = dict(enumerate(tree))
    elif isinstance(tree, Mapping):
        parts = tree
    elif is_dataclass(tree) and not isinstance(tree, type):
        parts = {one.name: getattr(tree, one.name) for one in fields(tree)}
    return [leaf for key, part in parts.items() for leaf in _leaves(part, f"{name}.{key}".strip("."))]


def _card(policy: Policy, facts: Mapping[str, Any]) -> str:
    lines = [f"\nTrained with the preset `{facts['preset']}`.\n"] if facts.get("preset") else []
    rates = [
        (split, *(f"{100 * score[name]:.2f}" for name in ("sr", "spl")))
        for split, score in facts.get("scores", {}).items()
        if {"sr", "spl"} <= score.keys()
    ]
    if rates:
        lines += ["| split | SR | SPL |", "| --- | --- | --- |", *(f"| {' | '.join(row)} |" for row in rates), ""]
    shape = {**policy.settings, **policy.inputs.values()}
    rows = (f"| {escape(str(name))} | {escape(str(value))} |" for name, value in shape.items())
    return CARD.format(policy=policy.name, scores="\n".join(lines), facts="\n".join(rows))


@dataclass(frozen=True)
class RecurrentMemory:
    """The state and the encoded instructions."""

    state: Tensor  # [row, hidden]
    instruction: Instruction


class RecurrentPolicy(Policy):
    """A navigator that walks."""

    mask_checked = True

    def __init__(self, navigator: Navigator) -> None:
        super().__init__()
        self.navigator = navigator
        self.hidden_width, self.max_tokens = navigator.config.hidden, navigator.config.positions
        self.brings_tokenizer = hasattr(navigator.backbone, "tokenizer")

    @property
    def tokenizer(self) -> Tokenizer | None:  # type: ignore[override]  # the navigator's
        return self.navigator.tokenizer

    @property
    def limits(self) -> Limits:  # type: ignore[override]
        return self.navigator.limits

    @property
    def features(self) -> Shown | None:  # type: ignore[override]
        return self.navigator.features

    @property
    def inputs(self) -> Inputs:  # type: ignore[override]
        shape = self.navigator.config
        return Inputs(shape.feature_width, shape.object_width, shape.vocabulary, tokenizer=self.navigator.tokenizer)

    @property
    def described(self) -> dict[str, Any]:
        return {"navigator": asdict(self.navigator.config)}

    @property
    def trained(self) -> Navigator:
        return self.navigator

    @property
    def critic(self) -> nn.Module:
        return self.navigator.critic

    def value(self, hidden: Tensor) -> Tensor:
        return self.navigator.value(hidden)

    def begin(self, batch: EpisodeBatch) -> RecurrentMemory:
        instruction = self.navigator.encode(batch.tokens, batch.tokens != PAD)
        return RecurrentMemory(instruction.state, instruction)

    def step(self, observation: Observation, memory: RecurrentMemory, attention: bool = False) -> Decision:
        step = self.navigator.step(memory.state, memory.instruction, observation)
        return Decision(
            logits=step.logits,
            memory=RecurrentMemory(step.state, step.instruction),
            hidden=step.state,
            object_logits=step.object_logits,
            language_weights=step.language_weights,
        )


def as_policy(thing: nn.Module) -> Policy:
    """A policy as it is; a navigator as the policy that it is the network of."""
    if isinstance(thing, Policy):
        return thing
    if isinstance(thing, Navigator):
        return RecurrentPolicy(thing)
    raise UsageError(f"a {type(thing).__name__} is no policy; derive from vln.Policy, or give a navigator")


@dataclass(frozen=True)
class GreedyMemory(RowMemory):
    """A policy's memory, of the rows that are active, and its last decision."""

    memory: Any
    rows: Tensor | None = None
    decision: Decision | None = None

    def select(self, kept: Tensor) -> "GreedyMemory":
        return GreedyMemory(select_rows(self.memory, kept), narrow_rows(self.rows, kept))


class GreedyAgent(Agent):
    """A policy, or a navigator, that walks many episodes at once, each with its own instruction."""

    def __init__(self, policy: nn.Module) -> None:
        self.policy = as_policy(policy)
        self.wants = self.policy.wants
        self.goes_back, self.hops_per_step = self.policy.goes_back, self.policy.hops_per_step

    def begin(self, batch: EpisodeBatch) -> GreedyMemory:
        memory = self.policy.begin(batch)
        require_rows(self.policy, memory, len(batch.state.viewpoint))
        return GreedyMemory(memory)

    def act(self, observation: Observation, memory: GreedyMemory) -> tuple[Tensor, GreedyMemory]:
        decision = self.policy.step(observation, memory.memory, attention=True)
        checked_decision(self.policy, decision, observation)
        choice = decision.choice(decision.all_logits.argmax(dim=1))
        return choice, GreedyMemory(decision.memory, memory.rows, decision)

    def name_object(self, observation: Observation, memory: GreedyMemory) -> Tensor:
        """The best real object in view, by the logits of the step; the last place, "no object", where there is none."""
        logits = None if memory.decision is None else memory.decision.object_logits
        if logits is None:
            return torch.full_like(observation.state.viewpoint, NONE)
        # Padding is lower still.
        last_resort = torch.full_like(logits[:, :1], torch.finfo(logits.dtype).min)
        return torch.cat((logits[:, :-1], last_resort), dim=1).argmax(dim=1)

    def explain(self, observation: Observation, memory: GreedyMemory) -> Explanation | None:
        """Logits as probabilities; those of objects are shared with "no object", which comes last."""
        decision = memory.decision
        if decision is None:
            return None
        objects, places = decision.object_logits, decision.places
        probability, slots = decision.all_logits.float().softmax(dim=1), decision.logits.shape[1]
        return Explanation(
            probability=probability[:, :slots],
            language_weights=decision.language_weights,
            object_probability=None if objects is None else objects.float().softmax(dim=1),
            place_probability=None if places is None else probability[:, slots:],
            places=places,
        )
