"""Writing instructions: greedy or nucleus, a word of every row at a time, with keys and values kept.

Shapes are static and nothing waits for the device, so that one step can be recorded as a CUDA graph and replayed for
each word. What nucleus sampling draws is a hash of the seed, the path and the word's place: a row's instruction is the
same in any batch.
"""

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from vlnbert.errors import UnknownNameError, UsageError, setting
from vlnbert.rollout.mixed import uniform
from vlnbert.speaker.layers import KeyValues
from vlnbert.speaker.likelihood import PAD
from vlnbert.speaker.model import EncodedPaths, SpeakerModel

Method = Literal["greedy", "nucleus", "beam"]
MOST_BEAMS = 64
# settings that one method alone has
OF_METHOD = {"top_p": "nucleus", "temperature": "nucleus", "beams": "beam", "length_penalty": "beam"}


@dataclass(frozen=True)
class Decoding:
    """How instructions are chosen among all that could be said."""

    method: Method = "greedy"
    """greedy takes the likeliest word at each place; nucleus draws one among the likeliest words that together have a
    probability of top_p; beam looks for the likeliest instruction."""
    top_p: float = 0.9
    """Of nucleus: 1 draws among all words."""
    temperature: float = 0.9
    """Of nucleus: below 1 the likely gets likelier."""
    beams: int = 4
    """Of beam: instructions that are kept at each place."""
    length_penalty: float = 0.6
    """Of beam: the logarithm of a probability is divided by the number of words to this power; 0 for the likeliest
    instruction, which is often a short one."""
    max_tokens: int | None = None
    """Longest instruction, in word pieces, [CLS] and [SEP] included; by default the speaker's."""
    seed: int = 0
    """Of nucleus."""

    def __post_init__(self) -> None:
        if self.method not in get_args(Method):
            raise UnknownNameError("decoding", str(self.method), get_args(Method))
        limits = {"top_p": (1e-6, 1.0), "temperature": (1e-3, 100.0), "length_penalty": (0.0, 10.0)}
        limits |= {"beams": (1, MOST_BEAMS), "seed": (0, 2**63 - 1)}
        limits |= {"max_tokens": (3, 2**20)} if self.max_tokens is not None else {}
        for name, (least, most) in limits.items():
            value = getattr(self, name)
            whole = name in ("beams", "seed", "max_tokens")
            if (
                isinstance(value, bool)
                or not isinstance(value, int if whole else int | float)
                or not least <= value <= most
            ):
                raise UsageError(f"{setting(name)} is {value!r}; choose {least:,} to {most:,}")
        for name, method in OF_METHOD.items():
            if method != self.method and (value := getattr(self, name)) != getattr(Decoding, name):
                problem = f"{setting(name, value)} is of {method} decoding, which was not asked for"
                raise UsageError(f"{problem}; leave it out, or add {setting('decoding', method)}")


@dataclass(frozen=True)
class Written:
    """Instructions as they were written."""

    tokens: Tensor  # [row, token] from [CLS] on; [PAD] behind [SEP]
    log_probability: Tensor  # [row] of all that was written, by the speaker itself, whatever the temperature
    ended: Tensor  # [row] bool: whether [SEP] was written within the limit

    @classmethod
    def nothing(cls, tokens: int, device: torch.device) -> "Written":
        """No row, of so many tokens."""
        rows = torch.zeros(0, device=device)
        return cls(torch.zeros(0, tokens, dtype=torch.long, device=device), rows, rows.bool())

    def first(self, rows: int) -> "Written":
        return Written(self.tokens[:rows], self.log_probability[:rows], self.ended[:rows])


class Vocabulary:
    """The word pieces that may be written, laid out side by side, and the marks of beginning and end."""

    def __init__(self, model: SpeakerModel, begin: int, end: int) -> None:
        pieces = model.spoken.nonzero().flatten()
        self.pieces, self.begin, self.end = pieces, begin, end  # [piece] their ids
        self.weight, self.bias = model.word.weight[pieces], model.bias[pieces]

    def log_probabilities(self, thought: Tensor) -> Tensor:
        """[row, piece] of the next word, in float32."""
        return torch.nn.functional.linear(thought, self.weight, self.bias).float().log_softmax(dim=-1)


class Draft:
    """Instructions under way, in tensors that stay where they are: what a recorded graph reads and writes."""

    def __init__(self, model: SpeakerModel, words: Vocabulary, paths: EncodedPaths, tokens: int, key: Tensor) -> None:
        rows, device = len(key), key.device
        self.paths, self.key = paths, key.clone()
        self.before: tuple[KeyValues, ...] = model.room(rows, tokens)
        self.tokens = torch.full((rows, tokens), PAD, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)
        self.token = torch.full((rows,), words.begin, device=device)
        self.ended = torch.zeros(rows, dtype=torch.bool, device=device)
        self.log_probability = torch.zeros(rows, device=device)
        self.begin = words.begin
        self.restart(paths, key)

    def restart(self, paths: EncodedPaths, key: Tensor) -> None:
        """Begin anew, in the same memory, with other paths of the same shape. What was kept of old words is masked."""
        for old, new in zip(self.paths.kept, paths.kept, strict=True):
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

    def written(self) -> Written:
        return Written(self.tokens.clone(), self.log_probability.clone(), self.ended.clone())


def write_word(model: SpeakerModel, words: Vocabulary, draft: Draft, decoding: Decoding) -> None:
    """One more word of every row that has not ended. Changes the draft in place, and never waits for the device."""
    thought = model.step(draft.token, draft.position, draft.before, draft.paths)
    log_probability = words.log_probabilities(thought)
    if decoding.method == "nucleus":
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
