"""State refinement (section 3.3): how the state takes in the last decision and what it attended to; and its critic.

It knows no backbone. In print Eq. 12 and 13 are bare linear maps at the end of a step. As in the published code there
is a LayerNorm after each and one of the product in Eq. 12, a tanh in Eq. 13, and Eq. 13 runs as the next step begins.
"""

import torch
from torch import Tensor, nn

from vlnbert.navigator import fast
from vlnbert.navigator.model.config import Matching
from vlnbert.navigator.model.layers import EPS


class PastDecision(nn.Module):
    """Eq. 13, at the start of a step: s_t = LayerNorm(tanh([s^f_t; a_t] W^s)), a_t the direction of the last action.

    a_t is where the agent looks now, as an absolute direction; in print it is that of the action, seen from before it.
    """

    uses_fast = True

    def __init__(self, hidden: int, angle_width: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.project = nn.Linear(hidden + angle_width, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPS)

    def forward(self, state: Tensor, action: Tensor) -> Tensor:
        """[row, hidden] states and [row, angle width] directions -> [row, hidden]."""
        fused = fast.linear(torch.cat((state, action), dim=-1), self.project, width=self.hidden)
        return fast.layer_norm(self.norm, torch.tanh(fused))


class Refinement(nn.Module):
    """Eq. 12, cross-modal matching at the end of a step: s^f_t = LayerNorm([s^r_t; LayerNorm(F^x * F^v)] W^r).

    `visual` matching is REVERIE's, [s^r_t; F^v] W^r, and `off` leaves the state as it is (Table 3 without Matching).
    """

    uses_fast = True

    def __init__(self, hidden: int, matching: Matching) -> None:
        super().__init__()
        self.hidden, self.matching = hidden, matching
        if matching == "cross-modal":
            self.match_norm = nn.LayerNorm(hidden, eps=EPS)
        if matching != "off":
            self.project = nn.Linear(2 * hidden, hidden)
            self.norm = nn.LayerNorm(hidden, eps=EPS)

    def forward(self, pooled: Tensor, words: Tensor, views: Tensor) -> Tensor:
        """[row, hidden] each: the pooled state s^r_t, the attended words F^x_t and the attended views F^v_t."""
        if self.matching == "off":
            return pooled
        matched = fast.layer_norm(self.match_norm, words * views) if self.matching == "cross-modal" else views
        fused = fast.linear(torch.cat((pooled, matched), dim=-1), self.project, width=self.hidden)
        return fast.layer_norm(self.norm, fused)


class Critic(nn.Sequential):
    """Eq. 19: [..., 1] what a state [..., hidden] is worth, by two linear maps with a ReLU between."""

    uses_fast = True

    def __init__(self, hidden: int, width: int, dropout: float) -> None:
        super().__init__(nn.Linear(hidden, width), nn.ReLU(), nn.Dropout(dropout), nn.Linear(width, 1))
        self.width = width

    def forward(self, state: Tensor) -> Tensor:
        inner, relu, dropout, outer = self
        return fast.linear(dropout(relu(fast.linear(state, inner, width=self.width))), outer, width=1)


def attention_pool(scores: Tensor, mask: Tensor, tokens: Tensor) -> tuple[Tensor, Tensor]:
    """Eq. 10 and 11: softmax of mean scores [row, token] under a mask, and tokens [row, token, hidden] summed by it.

    A row in which nothing is allowed attends to nothing.
    """
    weights = scores.masked_fill(~mask, torch.finfo(scores.dtype).min).softmax(dim=-1) * mask
    return weights, torch.einsum("rt,rth->rh", weights, tokens)
