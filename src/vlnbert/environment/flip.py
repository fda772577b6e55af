"""A house in a mirror: as good a house as any, if the words change sides with it.

Directions and boxes are mirrored, and words. Features of views stay: what a caption says of a view holds in either
house, what a picture shows does not. In a panorama the views change places, as headings run the other way.
"""

from dataclasses import replace

import torch
from tokenizers import Tokenizer
from torch import Tensor

from vlnbert.environment.environment import Observation, Panorama
from vlnbert.errors import UsageError, setting
from vlnbert.world.geometry import STEPS, VIEWS
from vlnbert.world.object_bank import VisibleObjects

SIDES = {"left": "right", "Left": "Right", "LEFT": "RIGHT"}
MARKS = ("##", "Ġ", "▁", "")  # before pieces of words, or of their beginnings, in the tokenizers of the field


def flip_observation(observation: Observation, flipped: Tensor) -> Observation:
    """What is seen, by the rows that are `flipped` [row] in a mirror."""
    seen, around = observation.visible_objects, observation.panorama
    return replace(
        observation,
        direction=_flip_directions(observation.direction, flipped),
        facing=_flip_directions(observation.facing[:, None], flipped).squeeze(1),
        visible_objects=None if seen is None else _flip_objects(seen, flipped),
        panorama=None if around is None else _flip_panorama(around, flipped),
    )


def flip_words(tokens: Tensor, flipped: Tensor, sides: Tensor) -> Tensor:
    """[row, token] instructions, those of flipped rows with the other sides."""
    return torch.where(flipped[:, None], sides[tokens], tokens)


def other_sides(tokenizer: Tokenizer | None) -> Tensor:
    """[piece] what each word piece becomes in a mirror: left and right change places, the rest stays."""
    vocabulary = {} if tokenizer is None else tokenizer.get_vocab()
    table = torch.arange(1 + max(vocabulary.values(), default=0))
    pairs = [(mark + one, mark + other) for mark in MARKS for one, other in SIDES.items()]
    found = [(vocabulary[one], vocabulary[other]) for one, other in pairs if one in vocabulary and other in vocabulary]
    if not found:
        problem = f"{setting('training.flip')} needs the words left and right, which the vocabulary lacks"
        raise UsageError(f"{problem}; do without: {setting('training.flip', 0)}")
    for one, other in found:
        table[one], table[other] = other, one
    return table


def _flip_directions(direction: Tensor, flipped: Tensor) -> Tensor:
    """[row, any, 4] directions, of which the sine of the heading changes its sign."""
    sine = torch.where(flipped[:, None], -direction[..., 0], direction[..., 0])
    return torch.cat((sine[..., None], direction[..., 1:]), dim=-1)


def _flip_panorama(seen: Panorama, flipped: Tensor) -> Panorama:
    """A view shows what the view as far to the other side of heading 0 does, at its own elevation."""
    view = torch.arange(VIEWS, device=flipped.device)
    other = view - view % STEPS + (-view) % STEPS
    changed = flipped[:, None, None]
    features = torch.where(changed, seen.features.index_select(1, other), seen.features)
    direction = torch.where(changed, seen.direction.index_select(1, other), seen.direction)
    return Panorama(features, _flip_directions(direction, flipped))


def _flip_objects(seen: VisibleObjects, flipped: Tensor) -> VisibleObjects:
    left, top, right, bottom, area = seen.position.unbind(dim=-1)
    other = torch.stack((1 - right, top, 1 - left, bottom, area), dim=-1)
    changed = flipped[:, None] & seen.present  # padding stays zero
    return replace(
        seen,
        position=torch.where(changed[..., None], other, seen.position),
        direction=_flip_directions(seen.direction, flipped),
    )
