"""State refinement: how the state takes in the last decision, and what it looked at. It knows no backbone."""

import torch
from torch import Tensor, nn

from vlnbert.navigator.config import Matching
from vlnbert.navigator.layers import EPS
from vlnbert.navigator.linear import project
from vlnbert.navigator.norms import normalised


class PastDecision(nn.Module):
    """At the start of a step: fuse the direction of the last action into the state (the paper's equation 13)."""

    def __init__(self, hidden: int, angle_width: int) -> None:
        super().__init__()
        self.project = nn.Linear(hidden + angle_width, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPS)

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        return normalised(self.norm, torch.tanh(project(torch.cat((state, action), dim=-1), self.project)))


class Refinement(nn.Module):
    """At the end of a step: fuse what was attended to into the state (equation 12).

    `cross-modal` takes the product of attended words and sights, `visual` the attended sights alone.
    """

    def __init__(self, hidden: int, matching: Matching) -> None:
        super().__init__()
        self.matching = matching
        if matching == "cross-modal":
            self.match_norm = nn.LayerNorm(hidden, eps=EPS)
        if matching != "off":
            self.project = nn.Linear(2 * hidden, hidden)
            self.norm = nn.LayerNorm(hidden, eps=EPS)

    def forward(self, pooled: Tensor, words: Tensor, sights: Tensor) -> Tensor:
        """[row, hidden] each: the pooled state, the attended words and the attended sights."""
        if self.matching == "off":
            return pooled
        matched = normalised(self.match_norm, words * sights) if self.matching == "cross-modal" else sights
        return normalised(self.norm, project(torch.cat((pooled, matched), dim=-1), self.project))


def attended(scores: Tensor, mask: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Softmax the scores [row, token] where the mask allows, and weigh tokens [row, token, hidden] by them.

    A row in which nothing is allowed attends to nothing.
    """
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1) * mask
    return weights, torch.einsum("rt,rth->rh", weights, tokens)
