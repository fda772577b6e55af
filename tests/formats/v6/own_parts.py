"""What run-plugin was trained with: a reward, features and a backbone of somebody's own."""

from math import sqrt

import torch
from torch import Tensor, nn

import vlnbert as vln
from vlnbert.navigator import BackboneOutput, Instruction, Language, VisualTokens, register_backbone


@vln.register_reward("fixture-reward")
def closer(rollout, batch, world) -> Tensor:
    """Metres that a choice comes closer to the goal, less a little."""
    left = world.metres(rollout.viewpoint, batch.goal.expand_as(rollout.viewpoint))
    return left[:-1] - left[1:] - 0.25


@vln.register_features("fixture-views")
def counted(world) -> Tensor:
    """Numbers that rounding cannot change."""
    numbers = torch.arange(len(world) * 36 * 6).remainder(17).view(len(world), 36, 6)
    return numbers / 16


@register_backbone("fixture-backbone")
class OneLook(nn.Module):
    """The state looks at words, then at views."""

    def __init__(self, config) -> None:
        super().__init__()
        self.words = nn.Embedding(config.vocabulary, config.hidden, padding_idx=0)
        self.query, self.key = nn.Linear(config.hidden, config.hidden), nn.Linear(config.hidden, config.hidden)
        self.after = nn.LayerNorm(config.hidden)

    def encode(self, tokens: Tensor, mask: Tensor) -> Instruction:
        words = self.after(self.words(tokens).cumsum(dim=1))
        return Instruction(words[:, 0], Language(words[:, 1:], mask[:, 1:], kv_cache=None))

    def forward(
        self, state: Tensor, visual: VisualTokens, language: Language, attention_maps: bool = False
    ) -> BackboneOutput:
        read, heard = self.look(state, language.features, language.mask)
        seen, shown = self.look(state + heard, visual.tokens, visual.mask)
        return BackboneOutput(self.after(state + heard + shown), seen, read, language, attention_maps=None)

    def look(self, state: Tensor, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
        """[row, token] scores, and [row, number] what is seen by them."""
        scores = (self.query(state)[:, None] * self.key(tokens)).sum(dim=2) / sqrt(tokens.shape[2])
        weights = scores.masked_fill(~mask, -torch.inf).softmax(dim=1)
        return scores, (weights[:, :, None] * tokens).sum(dim=1)
