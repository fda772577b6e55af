"""From features to visual tokens (section 3.3, Vision Processing, and B.1): views in each direction, and objects.

In print V_t = I^v_t W. As in the published code a LayerNorm follows, and in the two-stream model a dropout; features,
not directions, have a dropout of their own. Directions are (sin, cos, sin, cos) where B.1 says (cos, sin, cos, sin).
"""

import torch
from torch import Tensor, nn

from vlnbert.navigator import fast
from vlnbert.navigator.model.layers import EPS

BOX = 5  # left, top, right, bottom and area of an object's box, as shares of the view: p of Eq. 16


class ViewEmbedding(nn.Module):
    """LayerNorm([f; d] W) of every choice (Eq. 15): f a view's feature, d its direction. Stop is all zeros (Eq. 17)."""

    uses_fast = True

    def __init__(
        self, feature_width: int, angle_width: int, hidden: int, feature_dropout: float, dropout: float
    ) -> None:
        super().__init__()
        self.hidden = hidden
        self.project = nn.Linear(feature_width + angle_width, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPS)
        self.feature_dropout, self.dropout = nn.Dropout(feature_dropout), nn.Dropout(dropout)

    def forward(self, features: Tensor, direction: Tensor, packing: fast.Packing) -> Tensor:
        """[row, slot, width] features and [row, slot, angle] directions -> [row, slot, hidden]."""
        features = self.feature_dropout(packing.pack(features)).to(direction.dtype)
        tokens = torch.cat((features, packing.pack(direction)), dim=-1)
        tokens = fast.linear(tokens, self.project, width=self.hidden)
        return packing.unpack(self.dropout(fast.layer_norm(self.norm, tokens)))


class ObjectEmbedding(nn.Module):
    """LayerNorm([f; p W^p; d] W) of every object (Eq. 16), with an all-zero "no object" behind them.

    The paper has no such token; with it a viewpoint that shows no objects can be stopped at.
    """

    uses_fast = True

    def __init__(
        self, object_width: int, angle_width: int, hidden: int, feature_dropout: float, dropout: float
    ) -> None:
        super().__init__()
        self.hidden, self.angle_width = hidden, angle_width
        self.position = nn.Linear(BOX, angle_width, bias=False)
        self.project = nn.Linear(object_width + 2 * angle_width, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPS)
        self.feature_dropout, self.dropout = nn.Dropout(feature_dropout), nn.Dropout(dropout)

    def forward(self, features: Tensor, position: Tensor, direction: Tensor) -> Tensor:
        """[row, object, width] each -> [row, object + 1, hidden]."""
        features = self.feature_dropout(features).to(direction.dtype)
        position = fast.linear(position, self.position, width=self.angle_width)
        tokens = torch.cat((features, position, direction), dim=-1)
        no_object = tokens.new_zeros(tokens.shape[0], 1, tokens.shape[2])
        tokens = torch.cat((tokens, no_object), dim=1)
        return self.dropout(fast.layer_norm(self.norm, fast.linear(tokens, self.project, width=self.hidden)))
