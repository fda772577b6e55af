"""From observations to visual tokens: views in each direction, and objects."""

import torch
from torch import Tensor, nn

from vlnbert.navigator.layers import EPS
from vlnbert.navigator.layout import Layout
from vlnbert.navigator.linear import project
from vlnbert.navigator.norms import normalised

POSITION = 5  # left, top, right, bottom and area of an object's box, as shares of the view


class Views(nn.Module):
    """LayerNorm(W [feature; direction]) of every choice."""

    def __init__(
        self, feature_width: int, angle_width: int, hidden: int, feature_dropout: float, dropout: float
    ) -> None:
        super().__init__()
        self.project = nn.Linear(feature_width + angle_width, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPS)
        self.feature_dropout, self.dropout = nn.Dropout(feature_dropout), nn.Dropout(dropout)

    def forward(self, features: Tensor, direction: Tensor, layout: Layout) -> Tensor:
        """[row, slot, width] features and [row, slot, angle] directions -> [row, slot, hidden]."""
        features = self.feature_dropout(layout.pack(features)).to(direction.dtype)
        seen = torch.cat((features, layout.pack(direction)), dim=-1)
        return layout.spread(self.dropout(normalised(self.norm, project(seen, self.project))))


class Objects(nn.Module):
    """LayerNorm(W [feature; W_p position; direction]) of every object, with an all-zero "no object" behind them."""

    def __init__(
        self, object_width: int, angle_width: int, hidden: int, feature_dropout: float, dropout: float
    ) -> None:
        super().__init__()
        self.position = nn.Linear(POSITION, angle_width, bias=False)
        self.project = nn.Linear(object_width + 2 * angle_width, hidden)
        self.norm = nn.LayerNorm(hidden, eps=EPS)
        self.feature_dropout, self.dropout = nn.Dropout(feature_dropout), nn.Dropout(dropout)

    def forward(self, features: Tensor, position: Tensor, direction: Tensor) -> Tensor:
        """[row, object, width] each -> [row, object + 1, hidden]."""
        features = self.feature_dropout(features).to(direction.dtype)
        seen = torch.cat((features, project(position, self.position), direction), dim=-1)
        nothing = seen.new_zeros(seen.shape[0], 1, seen.shape[2])
        return self.dropout(normalised(self.norm, project(torch.cat((seen, nothing), dim=1), self.project)))
