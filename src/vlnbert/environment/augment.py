"""The same episodes in other houses: seen in a mirror, or with the compass turned.

A house in a mirror is as good a house as any, if the words change sides with it: what a caption says of a view holds in
either. Features of views are not touched, so that image features, whose pictures would have to be flipped too, are not
for this.
"""

from dataclasses import dataclass, replace

import torch
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.environment.environment import Observation
from vlnbert.errors import UsageError, setting
from vlnbert.world.object_bank import VisibleObjects

SIDES = {"left": "right", "Left": "Right", "LEFT": "RIGHT"}
MARKS = ("##", "Ġ", "▁", "")  # before pieces of words, or of their beginnings, in the tokenizers of the field


@dataclass(frozen=True)
class Augmentation:
    """How each row's house differs from the one it is in."""

    side: Tensor  # [row] -1 where it is seen in a mirror, else 1
    turn: Tensor  # [row] radians by which the compass is turned

    def only(self, rows: Tensor | None) -> "Augmentation":
        """Of some rows; None for all."""
        if rows is None:
            return self
        return Augmentation(self.side.index_select(0, rows), self.turn.index_select(0, rows))

    def __call__(self, observation: Observation) -> Observation:
        """What is seen there."""
        sine, cosine = self.turn.sin(), self.turn.cos()
        first, second = observation.facing[:, 0], observation.facing[:, 1]
        facing = observation.facing.clone()
        facing[:, 0] = (first * cosine + second * sine) * self.side
        facing[:, 1] = second * cosine - first * sine
        return replace(
            observation,
            direction=self._mirrored(observation.direction),
            facing=facing,
            visible_objects=None if observation.visible_objects is None else self._objects(observation.visible_objects),
        )

    def _mirrored(self, direction: Tensor) -> Tensor:
        """[row, any, 4] directions, of which the sine of the heading changes sides."""
        signs = torch.ones(len(self.side), 1, 4, dtype=direction.dtype, device=direction.device)
        signs[:, 0, 0] = self.side
        return direction * signs

    def _objects(self, seen: VisibleObjects) -> VisibleObjects:
        left, top, right, bottom, area = seen.position.unbind(dim=-1)
        changed = torch.stack((1 - right, top, 1 - left, bottom, area), dim=-1) * seen.present[..., None]
        position = torch.where(self.side[:, None, None] < 0, changed, seen.position)
        return replace(seen, position=position, direction=self._mirrored(seen.direction))


def other_side(tokenizer: Tokenizer | None) -> Tensor:
    """[piece] what each word piece becomes in a mirror: left and right change places, the rest stays."""
    vocabulary = {} if tokenizer is None else tokenizer.get_vocab()
    table = torch.arange(1 + max(vocabulary.values(), default=0))
    pairs = [(mark + one, mark + other) for mark in MARKS for one, other in SIDES.items()]
    found = [(vocabulary[one], vocabulary[other]) for one, other in pairs if one in vocabulary and other in vocabulary]
    if not found:
        problem = f"{setting('training.flip')} needs the words left and right, which the vocabulary lacks"
        raise UsageError(f"{problem}; leave it out")
    for one, other in found:
        table[one], table[other] = other, one
    return table
