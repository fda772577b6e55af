"""What walks and learns: a policy reads instructions, remembers, and scores where it could go.

Recurrent VLN-BERT is one policy (`rollout/recurrent.py`); others are registered by a name. The rollout, the losses, the
checkpoints and the evaluation know policies by this contract alone.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from tokenizers import Tokenizer
from torch import Tensor, nn

from vlnbert.environment.environment import Observation
from vlnbert.errors import UsageError
from vlnbert.rollout.agents import EpisodeBatch


@dataclass(frozen=True)
class Decision:
    """What a policy makes of one observation."""

    logits: Tensor
    """[row, slot] of the actions: slot 0 stops, -inf where nothing can be chosen."""
    memory: Any
    """What it remembers for the next step: a tree of tensors [row, ...]."""
    hidden: Tensor | None = None
    """[row, width] the vector that loss terms read, the critic's among them."""
    object_logits: Tensor | None = None
    """[row, object + 1] of the objects in view, where there are any; the last stands for "no object"."""
    language_weights: Tensor | None = None
    """[row, token] attention over the tokens after the first, of policies that attend to words."""


class Policy(nn.Module):
    """The base of all policies: `begin` reads the instructions, `step` decides.

    Memory is any tree of tensors (tuples, lists, dictionaries, dataclasses) whose first dimension is the row: rows that
    have stopped leave it, and CUDA graphs record it. Shapes may follow the number of the step, never values. A step
    runs inside `fast.enabled(dtype)`, where modules that are not ours are called under autocast.
    """

    hidden_width: int = 0
    """Width of `Decision.hidden`; 0 for a policy that gives none."""

    def begin(self, batch: EpisodeBatch) -> Any:
        """Read the instructions of a batch and return the memory of the first step."""
        raise NotImplementedError

    def step(self, observation: Observation, memory: Any, attention: bool = False) -> Decision:
        """Decide where to go from what is seen now; `attention` asks for `Decision.language_weights`."""
        raise NotImplementedError

    tokenizer: Tokenizer | None = None
    """What instructions are tokenised with; saved and opened with the policy."""

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
