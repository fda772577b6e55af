"""Recurrent VLN-BERT as a policy: the state that [CLS] became is carried from step to step."""

from dataclasses import asdict, dataclass
from typing import Any

from tokenizers import Tokenizer
from torch import Tensor, nn

from vlnbert.environment.environment import Observation
from vlnbert.errors import UsageError
from vlnbert.navigator import Instruction, Navigator
from vlnbert.navigator.storage.folder import Limits
from vlnbert.navigator.storage.shown import Shown
from vlnbert.rollout.agents import EpisodeBatch
from vlnbert.rollout.policy import Decision, Inputs, Policy

PAD = 0  # the token that fills short instructions up


@dataclass(frozen=True)
class RecurrentMemory:
    """The state and the encoded instructions."""

    state: Tensor  # [row, hidden]
    instruction: Instruction


class RecurrentPolicy(Policy):
    """A navigator that walks."""

    def __init__(self, navigator: Navigator) -> None:
        super().__init__()
        self.navigator = navigator

    @property
    def hidden_width(self) -> int:  # type: ignore[override]  # here it depends on the navigator
        return self.navigator.config.hidden

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
    def max_tokens(self) -> int:
        return self.navigator.config.positions

    @property
    def brings_tokenizer(self) -> bool:
        return hasattr(self.navigator.backbone, "tokenizer")

    @property
    def trained(self) -> Navigator:
        return self.navigator

    @property
    def critic(self) -> nn.Module:
        return self.navigator.critic

    def value(self, hidden: Tensor) -> Tensor:
        return self.navigator.value(hidden)

    def begin(self, batch: EpisodeBatch) -> RecurrentMemory:
        instruction = encode_tokens(self.navigator, batch.tokens)
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


def encode_tokens(navigator: Navigator, tokens: Tensor) -> Instruction:
    """Let a navigator read instructions [row, token]."""
    return navigator.encode(tokens, tokens != PAD)


def as_policy(thing: nn.Module) -> Policy:
    """A policy as it is; a navigator as the policy that it is the network of."""
    if isinstance(thing, Policy):
        return thing
    if isinstance(thing, Navigator):
        return RecurrentPolicy(thing)
    raise UsageError(f"a {type(thing).__name__} is no policy; derive from vln.Policy, or give a navigator")
