"""The speaker's network: an encoder over all choices of a path, a decoder that writes an instruction, and its losses.

`encode` reads paths once; `forward` scores given instructions, all words at once; `step` writes a word at a time with
cached keys and values. The speaker of Fried et al. (2018, arXiv:1806.02724), as a Transformer that normalises first and
also sees the choices that were not taken.
"""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import gelu, linear, scaled_dot_product_attention

from vlnbert.environment.environment import Environment
from vlnbert.errors import UsageError, setting
from vlnbert.progress import track
from vlnbert.ranks import ALONE, Ranks
from vlnbert.sources.instructions import PAD
from vlnbert.speaker.config import SpeakerConfig
from vlnbert.speaker.paths import Paths, PathSights, observe_paths
from vlnbert.tasks.batches import Batch, bucket, evaluation_batches, take
from vlnbert.tasks.splits import Split

DIRECTION, POSITION = 4, 5  # numbers of a direction, and of an object's box
DEVIATION = 0.02  # of initial weights at BERT's width, kept in proportion where tokens are narrower


@dataclass(frozen=True)
class KeyValues:
    """Keys and values of one attention."""

    keys: Tensor  # [row, head, token, width of a head]
    values: Tensor


class Attention(nn.Module):
    """Multi-head attention over keys and values that `project` made before."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query, self.output = nn.Linear(hidden, hidden), nn.Linear(hidden, hidden)
        self.key_value = nn.Linear(hidden, 2 * hidden)

    def project(self, tokens: Tensor) -> KeyValues:
        """The keys and values of [row, token, hidden]."""
        keys, values = (self._split(part) for part in self.key_value(tokens).chunk(2, dim=-1))
        return KeyValues(keys, values)

    def forward(self, tokens: Tensor, over: KeyValues, mask: Tensor | None = None, causal: bool = False) -> Tensor:
        """[row, token, hidden]; `mask` is bool and broadcasts to [row, head, query, key], false where it is hidden."""
        query = self._split(self.query(tokens))
        mixed = scaled_dot_product_attention(query, over.keys, over.values, mask, is_causal=causal)
        return self.output(mixed.transpose(1, 2).flatten(2))

    def _split(self, tokens: Tensor) -> Tensor:
        return tokens.view(*tokens.shape[:2], self.heads, -1).transpose(1, 2)


class FeedForward(nn.Module):
    """Two linear layers with a GELU between them."""

    def __init__(self, hidden: int, inner: int) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(hidden, inner), nn.Linear(inner, hidden)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.down(gelu(self.up(tokens)))


class EncoderLayer(nn.Module):
    """Self-attention, then feed-forward, each behind a normalisation."""

    def __init__(self, hidden: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.feed_forward = Attention(hidden, heads), FeedForward(hidden, inner)
        self.attention_norm, self.feed_forward_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.dropout = nn.Dropout(dropout)

    def forward(self, tokens: Tensor, mask: Tensor) -> Tensor:
        normed = self.attention_norm(tokens)
        tokens = tokens + self.dropout(self.attention(normed, self.attention.project(normed), mask))
        return tokens + self.dropout(self.feed_forward(self.feed_forward_norm(tokens)))


class DecoderLayer(nn.Module):
    """Causal self-attention, attention to the path, then feed-forward, each behind a normalisation."""

    def __init__(self, hidden: int, heads: int, inner: int, dropout: float) -> None:
        super().__init__()
        self.attention, self.cross_attention = Attention(hidden, heads), Attention(hidden, heads)
        self.feed_forward, self.dropout = FeedForward(hidden, inner), nn.Dropout(dropout)
        self.attention_norm, self.cross_norm = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.feed_forward_norm = nn.LayerNorm(hidden)

    def forward(self, words: Tensor, path: KeyValues, path_mask: Tensor) -> Tensor:
        """All words of the instructions at once, each seeing those before it."""
        normed = self.attention_norm(words)
        words = words + self.dropout(self.attention(normed, self.attention.project(normed), causal=True))
        return self._attend_and_feed_forward(words, path, path_mask)

    def step(
        self, word: Tensor, position: Tensor, cache: KeyValues, seen: Tensor, path: KeyValues, path_mask: Tensor
    ) -> Tensor:
        """One word [row, 1, hidden] at `position` [1], whose keys and values are added to the cache.

        `seen` is false for the places behind it. No shape depends on the value of `position`.
        """
        normed = self.attention_norm(word)
        projected = self.attention.project(normed)
        cache.keys.index_copy_(2, position, projected.keys)
        cache.values.index_copy_(2, position, projected.values)
        word = word + self.dropout(self.attention(normed, cache, seen))
        return self._attend_and_feed_forward(word, path, path_mask)

    def _attend_and_feed_forward(self, words: Tensor, path: KeyValues, path_mask: Tensor) -> Tensor:
        words = words + self.dropout(self.cross_attention(self.cross_norm(words), path, path_mask))
        return words + self.dropout(self.feed_forward(self.feed_forward_norm(words)))


@dataclass(frozen=True)
class EncodedPaths:
    """Encoded paths: the keys and values that every word attends to, projected once for each layer."""

    key_values: tuple[KeyValues, ...]  # of each decoder layer, [row, head, choice, width]
    mask: Tensor  # [row, 1, 1, choice] bool

    def select(self, rows: Tensor) -> "EncodedPaths":
        """Some of the rows, each as often as it is named."""
        key_values = tuple(KeyValues(layer.keys[rows], layer.values[rows]) for layer in self.key_values)
        return EncodedPaths(key_values, self.mask[rows])


class PathEncoder(nn.Module):
    """An encoder whose tokens are all choices of all steps of a path."""

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
        """[row, choice, hidden] tokens and [row, choice] a mask that is false for padding."""
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
        """The values in the precision of the weights, unless autocast sees to it."""
        return values if torch.is_autocast_enabled(values.device.type) else values.to(self.feature.weight.dtype)


class SpeakerModel(nn.Module):
    """An encoder and a decoder whose word embeddings are its output weights too."""

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
        # The word pieces that may be written.
        self.register_buffer("spoken", torch.ones(config.vocabulary, dtype=torch.bool))
        deviation = DEVIATION * (768 / config.hidden) ** 0.5
        for module in self.modules():
            if isinstance(module, nn.Linear | nn.Embedding):
                nn.init.normal_(module.weight, std=deviation)
            if isinstance(module, nn.Linear):
                nn.init.zeros_(module.bias)
        nn.init.normal_(self.encoder.stop, std=deviation)

    def encode(self, sights: PathSights) -> EncodedPaths:
        """Encode some paths, once for all words."""
        if (hops := sights.present.shape[1]) > (most := self.config.max_hops):
            raise UsageError(f"a path has {hops} viewpoints, the speaker reads at most {most}; give shorter ones")
        tokens, present = self.encoder(sights)
        key_values = tuple(layer.cross_attention.project(tokens) for layer in self._decoder_layers())
        return EncodedPaths(key_values, present[:, None, None])

    def forward(self, sights: PathSights, tokens: Tensor) -> Tensor:
        """[row, token, hidden] the outputs for the words [row, token]; `logits` scores the next words by them."""
        return self.decode(self.encode(sights), tokens)

    def decode(self, paths: EncodedPaths, tokens: Tensor) -> Tensor:
        """The same for paths that were encoded before."""
        words = self.word(tokens) + self.position.weight[: tokens.shape[1]]
        words = self.dropout(self.word_norm(words))
        for layer, path in zip(self._decoder_layers(), paths.key_values, strict=True):
            words = layer(words, path, paths.mask)
        return self.out_norm(words)

    def step(self, token: Tensor, position: Tensor, cache: tuple[KeyValues, ...], paths: EncodedPaths) -> Tensor:
        """[row, hidden] the output for one more word [row] at `position` [1]; the cache has the words before it."""
        words = (self.word(token) + self.position(position))[:, None]
        words, places = self.word_norm(words), torch.arange(cache[0].keys.shape[2], device=token.device)
        seen = (places <= position)[None, None, None]
        for layer, own, path in zip(self._decoder_layers(), cache, paths.key_values, strict=True):
            words = layer.step(words, position, own, seen=seen, path=path, path_mask=paths.mask)
        return self.out_norm(words)[:, 0]

    def logits(self, output: Tensor) -> Tensor:
        """[..., piece] scores of the next word; the output weights are tied to the embeddings."""
        return linear(output, self.word.weight, self.bias)

    def empty_cache(self, rows: int, tokens: int) -> tuple[KeyValues, ...]:
        """Keys and values for so many words, for each layer. Zeros, since what is masked must be finite too."""
        shape = rows, self.config.heads, tokens, self.config.hidden // self.config.heads
        zeros = self.word.weight.new_zeros
        return tuple(KeyValues(zeros(shape), zeros(shape)) for _ in self.layers)

    def _decoder_layers(self) -> list[DecoderLayer]:
        return [layer for layer in self.layers if isinstance(layer, DecoderLayer)]


@dataclass(frozen=True)
class TokenLosses:
    """Losses of every word but the first, [CLS]; [SEP] is among them. 0 in padding."""

    smoothed: Tensor  # [row, token - 1] cross-entropy with smoothed labels
    negative_log: Tensor  # [row, token - 1] minus the logarithm of its probability
    real: Tensor  # [row, token - 1] bool


def token_losses(logits: Tensor, tokens: Tensor, smoothing: float = 0.0) -> TokenLosses:
    """The losses of the words [row, token] under the logits [row, token - 1, piece] of each next one.

    With smoothing s, a word's label is 1 - s, and s is shared out evenly over all word pieces.
    """
    following = tokens[:, 1:]
    logits = logits if logits.dtype == torch.float64 else logits.float()
    whole = logits.logsumexp(dim=-1)
    negative_log = whole - logits.gather(-1, following[..., None]).squeeze(-1)
    smoothed = (1 - smoothing) * negative_log + smoothing * (whole - logits.mean(dim=-1)) if smoothing else negative_log
    real = following != PAD
    return TokenLosses(smoothed * real, negative_log * real, real)


def batch_losses(model: SpeakerModel, environment: Environment, batch: Batch, smoothing: float = 0.0) -> TokenLosses:
    """The losses of a batch's instructions for its paths. Nothing waits for the device."""
    sights = observe_paths(environment, Paths.of(batch, batch.target))
    # A bucket may be wider than the speaker reads; the rest is padding.
    tokens = batch.tokens[:, : model.config.max_tokens]
    return token_losses(model.logits(model(sights, tokens[:, :-1])), tokens, smoothing)


@torch.no_grad()
def instruction_likelihoods(
    model: SpeakerModel, environment: Environment, split: Split, batch: int = 256, ranks: Ranks = ALONE
) -> tuple[Tensor, Tensor]:
    """[episode] the logarithm of each instruction's probability, and [episode] its words, [SEP] included, [CLS] not."""
    device, count = environment.world.device, split.tokens.count.cpu()
    longest, most = max(count.tolist(), default=0), model.config.max_tokens
    if longest > most:
        problem = f"{split.name} has instructions of {longest} word pieces, the speaker writes at most {most}"
        raise UsageError(f"{problem}; cut them when it is opened: {setting('max_tokens', most)}")
    log_probability = torch.zeros(len(count), dtype=torch.float64, device=device)
    words = torch.zeros(len(count), dtype=torch.long, device=device)
    training = model.training
    model.eval()
    try:
        for rows in track(list(evaluation_batches(count, batch, ranks.rank, ranks.count)), split.name):
            index = rows.to(device)
            width = bucket(int(count[rows].max()))
            part = take(split.episodes, split.tokens, index, width, split.target)
            losses = batch_losses(model, environment, part)
            log_probability[index] = -losses.negative_log.double().sum(dim=1)
            words[index] = losses.real.sum(dim=1)
    finally:
        model.train(training)
    return ranks.sum(log_probability), ranks.sum(words)


def perplexity(log_probability: Tensor, words: Tensor) -> float:
    """The exponential of the mean cross-entropy of a word, over all words of all instructions."""
    return float(torch.exp(-log_probability.sum() / words.sum()))
