"""Instructions as WordPiece tokens, and seeded batches of episodes, bucketed by length so that little is padding."""

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from torch import Tensor
from torch.nn.functional import pad

from vlnbert.errors import DataError, Faults, UsageError, setting
from vlnbert.sources.files import FETCH_AGAIN, MEGABYTE, read_bytes
from vlnbert.sources.layout import MAKE_ONE
from vlnbert.sources.tokenizer import encode_texts, numbers_problem, require_size
from vlnbert.tasks.episodes import Episodes, Extra, Picked
from vlnbert.world.cache import Built, Key, cached

MAX_TOKENS = 80
MANY = 1000  # texts from which tokens are cached; fewer are encoded as fast as they would be read
LARGEST_VOCABULARY = 64 * MEGABYTE  # bytes; an uncased BERT's has 0.2
VERSION = 1  # of the cached tensors; another one makes old caches unused
PADDING = 128  # rows that an embedding may have beyond its vocabulary, to be a round number
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
ENDS = ("[CLS]", "[SEP]")  # of an instruction


@dataclass(frozen=True, repr=False)
class Tokens:
    """The instructions of a split, one row an episode."""

    ids: Tensor  # [episode, token], padded with [PAD] = 0
    count: Tensor  # [episode] real tokens, [CLS] and [SEP] included

    def __repr__(self) -> str:
        return f"Tokens({len(self.ids):,} instructions of up to {self.ids.shape[1]}, on {self.ids.device})"

    def to(self, device: torch.device | str) -> "Tokens":
        return Tokens(self.ids.to(device), self.count.to(device))


def load_tokenizer(path: Path) -> Tokenizer:
    """An uncased BERT tokenizer from a vocabulary file with one piece a line."""
    require_size(path)
    content = read_bytes(path, "vocabulary", LARGEST_VOCABULARY, MAKE_ONE)
    try:
        pieces = [line.rstrip("\r") for line in content.decode("utf-8-sig").split("\n")]
    except UnicodeDecodeError as error:
        raise DataError(path, "is not UTF-8 text", FETCH_AGAIN, f"byte {error.start}") from None
    vocabulary = {piece: number for number, piece in enumerate(pieces) if piece}
    faults = Faults(path)
    for name in SPECIAL:
        if name not in vocabulary:
            faults.add("", f"lacks the token {name}", "use the vocab.txt of an uncased BERT")
    if vocabulary.get("[PAD]", 0) != 0:
        faults.add(f"line {vocabulary['[PAD]'] + 1}", "[PAD] is not the first token", FETCH_AGAIN)
    if (problem := numbers_problem(vocabulary)) is not None:
        faults.add("", problem, "use the vocab.txt of an uncased BERT")
    faults.raise_if_any()
    tokenizer = Tokenizer(WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = BertPreTokenizer()
    ends = [(token, vocabulary[token]) for token in ENDS]
    tokenizer.post_processor = TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ends)
    return tokenizer


def piece_count(tokenizer: Tokenizer) -> int:
    """The number of embeddings that a navigator needs for a tokenizer's word pieces."""
    return 1 + max(tokenizer.get_vocab().values())


def require_fit(path: Path, tokenizer: Tokenizer, rows: int, padded: bool = False) -> None:
    """Refuse a vocabulary larger than an embedding of so many rows.

    Unless the embedding is known to be `padded`, also one so much smaller that it must be another or incomplete.
    """
    pieces = piece_count(tokenizer)
    if not pieces <= rows or not (padded or rows < pieces + PADDING):
        problem = f"has {pieces:,} word pieces, but the weights have embeddings for {rows:,}"
        raise DataError(path, problem, "give the vocabulary that the weights were trained with")


def tokenise(episodes: Episodes, tokenizer: Tokenizer, path: Path, max_tokens: int = MAX_TOKENS) -> Tokens:
    """The tokens of a split; longer instructions lose their end. `path` is named where one has no words.

    Augmented data comes tokenised, and must have the same vocabulary.
    """
    if max_tokens < 3:
        raise UsageError(f"{setting('max_tokens', max_tokens)} leaves no room for words; [CLS] and [SEP] count too")
    texts = [text for text, tokens in zip(episodes.texts, episodes.tokens, strict=True) if not tokens]
    made = iter(_encoded(tokenizer, texts))
    whole = [tokens or next(made) for tokens in episodes.tokens]
    encoded = [ids if len(ids) <= max_tokens else [*ids[: max_tokens - 1], ids[-1]] for ids in whole]
    faults, last = Faults(path), piece_count(tokenizer) - 1
    for name, ids in zip(episodes.ids, encoded, strict=True):
        if len(ids) < 3:
            faults.add(f"instruction {name}", "has no words", "write an instruction or remove the item")
        elif max(ids) > last:
            faults.add(f"instruction {name}", f"token {max(ids)} is not in the vocabulary", "use its own vocab.txt")
    faults.raise_if_any()
    count = torch.tensor([len(ids) for ids in encoded], dtype=torch.long)
    padded = torch.zeros(len(encoded), max(map(len, encoded), default=0), dtype=torch.long)
    real = torch.arange(padded.shape[1]) < count[:, None]
    padded[real] = torch.tensor([token for ids in encoded for token in ids], dtype=torch.long)
    return Tokens(padded, count)


def _encoded(tokenizer: Tokenizer, texts: list[str]) -> list[list[int]]:
    """The tokens of each text, uncut; those of many texts are cached."""

    def build() -> Built:
        made = encode_texts(tokenizer, texts)
        flat = torch.tensor([token for ids in made for token in ids], dtype=torch.int32)
        return {"ids": flat, "count": torch.tensor([len(ids) for ids in made])}, {}

    if len(texts) < MANY:
        tensors, _ = build()
    else:
        tensors, _ = cached(Key.of("tokens", (), f"version {VERSION}", tokenizer.to_str(), json.dumps(texts)), build)
    flat, ends = tensors["ids"].tolist(), tensors["count"].cumsum(0).tolist()
    return [flat[start:end] for start, end in pairwise((0, *ends))]


BUCKET = 8  # token widths are rounded up to a multiple of this
WINDOW = 16  # batches that are sorted by length together: more means less padding and less mixing


@dataclass(frozen=True)
class Batch:
    """Some episodes of a split, ready for a device.

    Attributes:
        task: The name of their task.
        index: [row] their places in the split.
        tokens: [row, token] ids of word pieces, padded with 0, as wide as the bucket of the longest.
        token_count: [row] how many tokens are real.
        start: [row] viewpoint.
        heading: [row] float64 radians at the start.
        goal: [row] viewpoint: the end of the path, or the first of several goals.
        path: [row, hop] viewpoints of the described path; the last one repeats as padding.
        path_length: [row] viewpoints in the path.
        sightings: [row, any] viewpoints that show REVERIE's target, padded with -1; None in other tasks.
        target: [row] in REVERIE, the place of the target among the objects of the goal, -1 where not shown; else None.
        aligned: [row, hop, token] bool: the words that are due there; None without word labels.
        goals: [row, any] viewpoints at any of which the episode may end, the first one repeated as padding; None where
            every episode of the split has one goal.
        extra: User-defined fields by name: tensors [row, ...]; values that are no numbers as a sequence, one a row.
        ids: [row] the names of the instructions. Like values of `extra` that are no tensors they are looked up on the
            host when they are read, which waits for the device; a recorded update cannot read them.
    """

    task: str
    index: Tensor
    tokens: Tensor
    token_count: Tensor
    start: Tensor
    heading: Tensor
    goal: Tensor
    path: Tensor
    path_length: Tensor
    sightings: Tensor | None = None
    target: Tensor | None = None
    aligned: Tensor | None = None
    goals: Tensor | None = None
    extra: Extra = field(default_factory=Extra)
    ids: Sequence[str] = ()

    def tensors(self) -> dict[str, Tensor]:
        """Every tensor by name; tensors of `extra` as extra.<name>."""
        named = {each.name: getattr(self, each.name) for each in fields(self)}
        named |= {f"extra.{name}": value for name, value in self.extra.items()}
        return {name: value for name, value in named.items() if isinstance(value, Tensor)}

    def each(self, change: Callable[[Tensor], Tensor]) -> "Batch":
        """A copy with each of its tensors changed."""
        changed: dict[str, Any] = {
            name: change(value) for name, value in vars(self).items() if isinstance(value, Tensor)
        }
        return replace(self, **changed, extra=self.extra.each(change))


def take(
    episodes: Episodes,
    tokens: Tokens,
    index: Tensor,
    width: int,
    target: Tensor | None = None,
    aligned: Tensor | None = None,
) -> Batch:
    """Gather rows of a split, with tokens cut or padded to `width`. The index is on the episodes' device.

    `target` [episode] is, in REVERIE, the place of each target among the objects of its goal; `aligned` [episode, hop,
    token] are the words that are due at each viewpoint of a path.
    """
    return Batch(
        task=episodes.task,
        index=index,
        tokens=pad(tokens.ids[index], (0, width - tokens.ids.shape[1])),
        token_count=tokens.count[index],
        start=episodes.start[index],
        heading=episodes.heading[index],
        goal=episodes.goal[index],
        path=episodes.path[index],
        path_length=episodes.path_length[index],
        sightings=None if episodes.sightings is None else episodes.sightings[index],
        target=None if target is None else target[index],
        aligned=None if aligned is None else pad(aligned[index], (0, width - aligned.shape[2])),
        goals=None if episodes.goals is None else episodes.goals[index],
        extra=episodes.extra.rows(index),
        ids=Picked(episodes.ids, index),
    )


def bucket(count: int) -> int:
    """The token width that holds `count` tokens."""
    return -(-count // BUCKET) * BUCKET


@dataclass(frozen=True, eq=False)  # compared and hashed as itself, so that its orders can be kept
class TrainingBatches:
    """An endless sequence of batches over the lengths of a split: epoch after epoch, each in an order of its own.

    `size` is the batch of all ranks together; each rank gets an equal share of every batch. The last batch of an epoch
    is filled up from the epoch's first rows.
    """

    lengths: Tensor  # [episode] tokens of each, on the CPU
    size: int
    seed: int
    rank: int = 0
    ranks: int = 1

    def __post_init__(self) -> None:
        _check_share(self.size, self.rank, self.ranks)
        if self.size % self.ranks:
            problem = f"a batch of {self.size} cannot be shared out over {self.ranks} ranks"
            raise UsageError(f"{problem}; choose a multiple of {self.ranks}")
        if not len(self.lengths):
            raise UsageError("there are no episodes to make batches of; choose a split that has some")

    def __len__(self) -> int:
        """Batches in an epoch."""
        return -(-len(self.lengths) // self.size)

    def __getitem__(self, number: int) -> Tensor:
        """[row] the episodes of batch `number` that fall to this rank, counting on through the epochs."""
        epoch, place = divmod(number, len(self))
        rows = _epoch_order(self, epoch)[place * self.size : (place + 1) * self.size]
        return rows[self.rank :: self.ranks]


@lru_cache(maxsize=8)  # the batches of one epoch share its order
def _epoch_order(batches: TrainingBatches, epoch: int) -> Tensor:
    """[batches x size] a permutation of the episodes, filled up; sorted by length within windows, then shuffled.

    Batches are shuffled, and the rows of each: a row's place must not depend on its length, as the first half is
    teacher-forced.
    """
    # The generator keeps 32 bits of its seed: a hash fills them from all of ours.
    seed = hashlib.blake2b(f"{batches.seed} {epoch}".encode(), digest_size=4).digest()
    generator = torch.Generator().manual_seed(int.from_bytes(seed))
    order = torch.randperm(len(batches.lengths), generator=generator)
    order = order.repeat(1 + len(batches) * batches.size // len(order))[: len(batches) * batches.size]
    windows = torch.split(order, WINDOW * batches.size)
    rows = torch.cat([window[batches.lengths[window].argsort(stable=True)] for window in windows])
    shuffled = rows.view(len(batches), batches.size)[torch.randperm(len(batches), generator=generator)]
    places = torch.rand(shuffled.shape, generator=generator).argsort(dim=1, stable=True)
    return shuffled.gather(1, places).flatten()


def evaluation_batches(lengths: Tensor, size: int, rank: int = 0, ranks: int = 1) -> Iterator[Tensor]:
    """Every episode exactly once over all ranks, the longest first so that memory peaks at once."""
    _check_share(size, rank, ranks)
    order = lengths.argsort(descending=True, stable=True)
    return iter(torch.split(order, size)[rank::ranks])


def _check_share(size: int, rank: int, ranks: int) -> None:
    if size < 1 or not 0 <= rank < ranks:
        raise UsageError(
            f"there are no batches of {size} for rank {rank} of {ranks}; count ranks from 0 and rows from 1"
        )
