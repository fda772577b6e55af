"""How instructions are written: greedy or nucleus, a word of every row at a time; or by beam search.

Shapes are static and nothing waits for the device, so that one step can be recorded as a CUDA graph and replayed for
each word. What nucleus sampling draws is a hash of the seed, the path and the word's place: a row's instruction is the
same in any batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer, decoders
from torch import Tensor
from torch.nn.functional import linear

from vlnbert.rollout.mixed import uniform
from vlnbert.sources.instructions import PAD
from vlnbert.speaker.config import Decoding
from vlnbert.speaker.model import EncodedPaths, KeyValues, SpeakerModel

JOINED = decoders.WordPiece(prefix="##", cleanup=True)
ROWS = ("tokens", "log_probability", "ended")  # the tensors of Generated
NEVER = float("-inf")
UNENDED = 1e6  # taken from the rank of a beam without an end, so that every beam that has one comes before it


@dataclass(frozen=True)
class Generated:
    """Generated instructions, one a row."""

    tokens: Tensor  # [row, token] from [CLS] to [SEP], then [PAD]
    log_probability: Tensor  # [row] of the instruction, by the speaker itself, whatever the temperature
    ended: Tensor  # [row] bool: whether [SEP] came within the limit
    retries: int = 0  # rows that were generated again, counted each time

    @classmethod
    def joined(cls, parts: Sequence["Generated"], limit: int, device: torch.device) -> "Generated":
        """The rows of all parts, which may be none; `limit` is their number of tokens."""
        none = torch.zeros(0, device=device)
        parts = [cls(torch.zeros(0, limit, dtype=torch.long, device=device), none, none.bool()), *parts]
        tokens, log_probability, ended = (torch.cat([getattr(part, name) for part in parts]) for name in ROWS)
        return cls(tokens, log_probability, ended)

    def first(self, rows: int) -> "Generated":
        return Generated(self.tokens[:rows], self.log_probability[:rows], self.ended[:rows])

    def __len__(self) -> int:
        return len(self.tokens)

    @property
    def empty(self) -> Tensor:
        """[row] bool: whether it has no words."""
        return self.ended & (self.tokens[:, 2] == PAD)

    @property
    def usable(self) -> Tensor:
        """[row] bool: whether it has words and an end."""
        return self.ended & ~self.empty

    def texts(self, tokenizer: Tokenizer) -> list[str]:
        """The instructions as texts, without marks."""
        marks = {PAD, *(tokenizer.token_to_id(mark) for mark in ("[CLS]", "[SEP]"))}
        rows = self.tokens.tolist()
        return [
            JOINED.decode([tokenizer.id_to_token(token) or "" for token in row if token not in marks]) for row in rows
        ]

    def problems(self) -> list[str]:
        """How many are empty and how many have no end, in words."""
        empty, endless, limit = int(self.empty.sum()), int((~self.ended).sum()), self.tokens.shape[1]
        problems = [f"{empty:,} of {len(self):,} are empty"] if empty else []
        return problems + ([f"{endless:,} of {len(self):,} have no end within {limit} word pieces"] if endless else [])


class Vocabulary:
    """The word pieces that may be written, side by side, and the marks of beginning and end."""

    def __init__(self, model: SpeakerModel, begin: int, end: int) -> None:
        pieces = model.spoken.nonzero().flatten()
        self.pieces, self.begin, self.end = pieces, begin, end  # [piece] their ids
        self.weight, self.bias = model.word.weight[pieces], model.bias[pieces]

    def log_probabilities(self, output: Tensor) -> Tensor:
        """[row, piece] of the next word, in float32."""
        return linear(output, self.weight, self.bias).float().log_softmax(dim=-1)


class Draft:
    """Unfinished instructions, in tensors that stay in their places: a recorded graph reads and writes them."""

    def __init__(self, model: SpeakerModel, words: Vocabulary, paths: EncodedPaths, tokens: int, key: Tensor) -> None:
        rows, device = len(key), key.device
        self.paths, self.key = paths, key.clone()
        self.cache: tuple[KeyValues, ...] = model.empty_cache(rows, tokens)
        self.tokens = torch.full((rows, tokens), PAD, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.token = torch.full((rows,), words.begin, device=device)
        self.ended = torch.zeros(rows, dtype=torch.bool, device=device)
        self.log_probability = torch.zeros(rows, device=device)
        self.begin = words.begin
        self.restart(paths, key)

    def restart(self, paths: EncodedPaths, key: Tensor) -> None:
        """Begin anew, in the same memory, with other paths of the same shape. The cache of old words is masked."""
        for old, new in zip(self.paths.key_values, paths.key_values, strict=True):
            if old is not new:
                old.keys.copy_(new.keys)
                old.values.copy_(new.values)
        if self.paths is not paths:
            self.paths.mask.copy_(paths.mask)
        self.key.copy_(key)
        self.tokens.fill_(PAD)
        self.tokens[:, 0] = self.begin
        self.token.fill_(self.begin)
        self.position.zero_()
        self.ended.zero_()
        self.log_probability.zero_()

    def result(self) -> Generated:
        return Generated(self.tokens.clone(), self.log_probability.clone(), self.ended.clone())


def write_word(model: SpeakerModel, words: Vocabulary, draft: Draft, decoding: Decoding) -> None:
    """Write one more word of every row that has not ended. Changes the draft in place, never waits for the device."""
    log_probability = words.log_probabilities(model.step(draft.token, draft.position, draft.cache, draft.paths))
    if decoding.decoding == "nucleus":
        drawn = uniform(draft.key, draft.position)
        place = nucleus_sample(log_probability, drawn, decoding.top_p, decoding.temperature)
    else:
        place = log_probability.argmax(dim=1)
    gained = log_probability.gather(1, place[:, None]).squeeze(1)
    token = words.pieces[place].masked_fill(draft.ended, PAD)
    draft.log_probability.add_(gained.masked_fill(draft.ended, 0.0))
    draft.position.add_(1)
    draft.tokens.index_copy_(1, draft.position, token[:, None])
    draft.ended.logical_or_(token == words.end)
    draft.token.copy_(token)


def nucleus_sample(log_probability: Tensor, drawn: Tensor, top_p: float, temperature: float) -> Tensor:
    """[row] the place of a word among the likeliest that together have `top_p`, by a number `drawn` from 0 to 1 a row.

    The last word that is needed to reach `top_p` belongs to the nucleus, so that it is never empty.
    """
    sharp = (log_probability / temperature).softmax(dim=-1)
    ordered, order = sharp.sort(dim=-1, descending=True, stable=True)
    reached = ordered.double().cumsum(dim=-1)
    nucleus = reached - ordered < top_p
    within = (ordered.double() * nucleus).cumsum(dim=-1)
    chosen = torch.searchsorted(within, (drawn.double() * within[:, -1])[:, None], right=True)
    chosen = chosen.minimum(nucleus.sum(dim=-1, keepdim=True) - 1)  # rounding must not lead beyond its end
    return order.gather(1, chosen).squeeze(1)


def beam_search(
    model: SpeakerModel, words: Vocabulary, paths: EncodedPaths, tokens: int, decoding: Decoding
) -> Generated:
    """The best of `decoding.beams` instructions for each path, all rows and beams in one batch."""
    rows, beams, device = len(paths.mask), decoding.beams, paths.mask.device
    paths = paths.select(torch.arange(rows, device=device).repeat_interleave(beams))
    cache = model.empty_cache(rows * beams, tokens)
    written = torch.full((rows, beams, tokens), PAD, device=device)
    written[..., 0] = words.begin
    token, ended = written[..., 0].flatten(), torch.zeros(rows, beams, dtype=torch.bool, device=device)
    # All beams begin alike: only the first may be continued, or all would hold the same.
    score = torch.full((rows, beams), NEVER, device=device)
    score[:, 0] = 0.0
    length = torch.zeros(rows, beams, dtype=torch.long, device=device)
    first = (torch.arange(rows, device=device) * beams)[:, None]
    for place in range(tokens - 1):
        output = model.step(token, torch.full((1,), place, device=device), cache, paths)
        gained = words.log_probabilities(output).view(rows, beams, -1)
        # A beam that has ended has one continuation, at no cost.
        stays = torch.full_like(gained, NEVER)
        stays[..., 0] = 0.0
        total, longer = score[..., None] + torch.where(ended[..., None], stays, gained), length + (~ended).long()
        best = _rank(total, longer, decoding.length_penalty).flatten(1).topk(beams, dim=1).indices
        beam, piece = best // total.shape[2], best % total.shape[2]
        score, length = total.flatten(1).gather(1, best), longer.gather(1, beam)
        over = ended.gather(1, beam)
        word = words.pieces[piece].masked_fill(over, PAD)
        written = written.gather(1, beam[..., None].expand_as(written))
        written[..., place + 1] = word
        ended = over | (word == words.end)
        token = word.flatten()
        chosen = (first + beam).flatten()
        for layer in cache:
            layer.keys.copy_(layer.keys[chosen])
            layer.values.copy_(layer.values[chosen])
        if device.type == "cpu" and bool(ended.all()):  # on a GPU the look would wait for it
            break
    rank = _rank(score, length, decoding.length_penalty)
    best = torch.where(ended, rank, rank - UNENDED).argmax(dim=1, keepdim=True)
    tokens_of_best = written.gather(1, best[..., None].expand(-1, 1, tokens)).squeeze(1)
    return Generated(tokens_of_best, score.gather(1, best).squeeze(1), ended.gather(1, best).squeeze(1))


def _rank(score: Tensor, length: Tensor, penalty: float) -> Tensor:
    """Scores of instructions, made comparable over lengths."""
    by_length = length.clamp(min=1).to(score.dtype).pow(penalty)
    return score / (by_length if score.dim() == 2 else by_length[..., None])
