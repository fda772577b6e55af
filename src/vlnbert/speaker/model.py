"""The speaker's network: an encoder over all choices of a path, and a decoder that writes an instruction.

`encode` reads paths once; `forward` scores given instructions, all words at once; `step` writes a word at a time with
keys and values kept. The speaker-follower of Fried et al. (2018, arXiv:1806.02724), as a Transformer that also sees
what was not taken.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from vlnbert.errors import UsageError
from vlnbert.speaker.config import SpeakerConfig
from vlnbert.speaker.layers import DecoderLayer, EncoderLayer, KeyValues, empty_key_values
from vlnbert.speaker.paths import PathSights

DIRECTION, POSITION = 4, 5  # numbers of a direction, and of an object's box
DEVIATION = 0.02  # of initial weights at BERT's width, kept in proportion where tokens are narrower


@dataclass(frozen=True)
class EncodedPaths:
    """Paths that were read: what every word may look at, projected once for each layer."""

    kept: tuple[KeyValues, ...]  # of each decoder layer, [row, head, choice, width]
    mask: Tensor  # [row, 1, 1, choice] bool

    def select(self, rows: Tensor) -> "EncodedPaths":
        """Some of the rows, each as often as it is named."""
        kept = tuple(KeyValues(one.keys[rows], one.values[rows]) for one in self.kept)
        return EncodedPaths(kept, self.mask[rows])


class PathEncoder(nn.Module):
    """Every choice of every step is a token; they attend to each other, those of all steps together."""

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__()
        hidden = config.hidden
        self.feature, self.direction = nn.Linear(config.feature_width, hidden), nn.Linear(DIRECTION, hidden)
        self.hop = nn.Embedding(config.max_hops, hidden)
        self.taken = nn.Embedding(2, hidden)
        self.stop = nn.Parameter(torch.zeros(hidden))
        self.target: nn.Linear | None = None
        if config.object_width:
            self.target = nn.Linear(config.object_width + DIRECTION + POSITION, hidden)
        self.norm, self.out_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.dropout, self.feature_dropout = nn.Dropout(config.dropout), nn.Dropout(config.feature_dropout)
        sizes = hidden, config.heads, config.inner
        self.layers = nn.ModuleList(EncoderLayer(*sizes, config.dropout) for _ in range(config.encoder_layers))

    def forward(self, sights: PathSights) -> tuple[Tensor, Tensor]:
        """[row, choice, hidden] tokens and [row, choice] which of them are there."""
        _, hops, slots = sights.present.shape
        marked = torch.arange(slots, device=sights.taken.device) == sights.taken[..., None]
        tokens = self.feature(self.feature_dropout(self._cast(sights.features)))
        tokens = tokens + self.direction(self._cast(sights.direction)) + self.taken(marked.long())
        tokens = tokens + self.hop.weight[:hops, None]
        tokens = torch.cat((tokens[:, :, :1] + self.stop, tokens[:, :, 1:]), dim=2).flatten(1, 2)
        present = sights.present.flatten(1)
        if self.target is not None and sights.target is not None:
            shown = sights.target
            parts = self.feature_dropout(self._cast(shown.features)), shown.direction, shown.position
            target = self.target(torch.cat([self._cast(part) for part in parts], dim=-1))
            tokens, present = torch.cat((tokens, target), dim=1), torch.cat((present, shown.present), dim=1)
        tokens, mask = self.dropout(self.norm(tokens)), present[:, None, None]
        for layer in self.layers:
            tokens = layer(tokens, mask)
        return self.out_norm(tokens), present

    def _cast(self, values: Tensor) -> Tensor:
        """In the precision of the weights, unless autocast sees to it."""
        return values if torch.is_autocast_enabled(values.device.type) else values.to(self.feature.weight.dtype)


class SpeakerModel(nn.Module):
    """An encoder, a decoder and words that serve as its input and its output."""

    spoken: Tensor

    def __init__(self, config: SpeakerConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = PathEncoder(config)
        self.word = nn.Embedding(config.vocabulary, config.hidden)
        self.position = nn.Embedding(config.max_tokens, config.hidden)
        self.word_norm, self.out_norm = nn.LayerNorm(config.hidden), nn.LayerNorm(config.hidden)
        self.dropout = nn.Dropout(config.dropout)
        sizes = config.hidden, config.heads, config.inner
        self.layers = nn.ModuleList(DecoderLayer(*sizes, config.dropout) for _ in range(config.decoder_layers))
        self.bias = nn.Parameter(torch.zeros(config.vocabulary))
        self.register_buffer("spoken", torch.ones(config.vocabulary, dtype=torch.bool))  # what it may say
        self._initialise(DEVIATION * (768 / config.hidden) ** 0.5)

    def _initialise(self, deviation: float) -> None:
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=deviation)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.encoder.stop, std=deviation)

    def encode(self, sights: PathSights) -> EncodedPaths:
        """Read some paths, once for all words."""
        if sights.present.shape[1] > self.config.max_hops:
            problem = (
                f"a path has {sights.present.shape[1]} viewpoints, the speaker reads at most {self.config.max_hops}"
            )
            raise UsageError(f"{problem}; tell of shorter ones")
        tokens, present = self.encoder(sights)
        kept = tuple(layer.cross_attention.project(tokens) for layer in self._decoder_layers())
        return EncodedPaths(kept, present[:, None, None])

    def forward(self, sights: PathSights, tokens: Tensor) -> Tensor:
        """[row, token, hidden] what is thought behind each of the words [row, token]; `logits` tells the next ones."""
        return self.decode(self.encode(sights), tokens)

    def decode(self, paths: EncodedPaths, tokens: Tensor) -> Tensor:
        """The same for paths that were read before."""
        words = self.word(tokens) + self.position.weight[: tokens.shape[1]]
        words = self.dropout(self.word_norm(words))
        for layer, kept in zip(self._decoder_layers(), paths.kept, strict=True):
            words = layer(words, kept, paths.mask)
        thought: Tensor = self.out_norm(words)
        return thought

    def step(self, token: Tensor, position: Tensor, before: tuple[KeyValues, ...], paths: EncodedPaths) -> Tensor:
        """[row, hidden] the same behind one more word [row] at `position` [1], those `before` it being kept."""
        words = (self.word(token) + self.position(position))[:, None]
        words, places = self.word_norm(words), torch.arange(before[0].keys.shape[2], device=token.device)
        seen = (places <= position)[None, None, None]
        for layer, own, kept in zip(self._decoder_layers(), before, paths.kept, strict=True):
            words = layer.step(words, position, own, seen=seen, path=kept, path_mask=paths.mask)
        thought: Tensor = self.out_norm(words)
        return thought[:, 0]

    def logits(self, thought: Tensor) -> Tensor:
        """[..., piece] scores of the next word: those of the words that it reads, tied."""
        return linear(thought, self.word.weight, self.bias)

    def room(self, rows: int, tokens: int) -> tuple[KeyValues, ...]:
        """Empty keys and values of so many words, for each layer."""
        config, like = self.config, self.word.weight
        width = config.hidden // config.heads
        return tuple(empty_key_values(rows, config.heads, tokens, width=width, like=like) for _ in self.layers)

    def _decoder_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]
