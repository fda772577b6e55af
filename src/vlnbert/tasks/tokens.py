"""Instructions as WordPiece tokens: [CLS], the words, [SEP], at most 80 in all, as in the paper."""

import json
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from tokenizers import Tokenizer
from tokenizers.models import WordPiece
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from torch import Tensor

from vlnbert.errors import DataError, Faults, UsageError, setting
from vlnbert.sources.files import FETCH_AGAIN, MEGABYTE, read_bytes
from vlnbert.sources.layout import MAKE_ONE
from vlnbert.sources.tokenizer import encode_texts, numbers_problem, require_size
from vlnbert.tasks.episodes import Episodes
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
