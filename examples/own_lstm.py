"""A policy of your own: an LSTM that reads the instruction once, attends to its words, and remembers.

Try it: vlnbert --plugin examples/own_lstm.py train demo --policy.name lstm --data house --out runs/lstm
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

import vlnbert as vln


@dataclass(frozen=True)
class LSTMConfig:
    """Settings of the policy; --policy.settings hidden=192 changes them."""

    hidden: int = 128
    dropout: float = 0.2


@vln.register_policy("lstm")
class LSTMPolicy(vln.Policy):
    """A bidirectional LSTM over words, attention to words and views, and an LSTM cell for the state."""

    def __init__(self, config: LSTMConfig, inputs: vln.Inputs) -> None:
        super().__init__()
        self.hidden_width = width = config.hidden
        self.words = nn.Embedding(inputs.vocabulary, width, padding_idx=0)
        self.reader = nn.LSTM(width, width // 2, batch_first=True, bidirectional=True)
        self.see, self.drop = nn.Linear(inputs.feature_width + 4, width), nn.Dropout(config.dropout)
        self.cell = nn.LSTMCell(width + 4, width)
        self.ask, self.fuse = nn.Linear(width, width), nn.Linear(2 * width, width)

    def begin(self, batch: Any) -> Any:
        """Read the words; the memory is a tuple of tensors, each with one entry a row."""
        words, mask = self.reader(self.drop(self.words(batch.tokens)))[0], batch.tokens != 0
        state = (words * mask[..., None]).sum(dim=1) / mask.sum(dim=1, keepdim=True)
        return state, torch.zeros_like(state), words, mask

    def step(self, observation: Any, memory: Any, attention: bool = False) -> vln.Decision:
        """Look, remember, read, decide."""
        state, cell, words, mask = memory
        shown = torch.cat((self.drop(observation.features), observation.direction.to(words)), dim=-1)
        views = torch.tanh(self.see(shown))
        seen, _ = attend(state, views, observation.choosable)
        state, cell = self.cell(torch.cat((seen, observation.facing.to(words)), dim=1), (state, cell))
        read, weights = attend(self.ask(state), words, mask)
        hidden = torch.tanh(self.fuse(torch.cat((read, state), dim=1)))
        logits = (views * self.drop(hidden)[:, None]).sum(dim=-1).masked_fill(~observation.choosable, -torch.inf)
        return vln.Decision(logits, (state, cell, words, mask), hidden, language_weights=weights[:, 1:])


def attend(query: Tensor, tokens: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Soft-dot attention: tokens [row, token, width] summed by their softmax weights, and the weights."""
    weights = (tokens * query[:, None]).sum(dim=-1).masked_fill(~mask, -torch.inf).softmax(dim=1)
    return (weights[..., None] * tokens).sum(dim=1), weights
