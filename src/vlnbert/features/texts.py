"""Texts of many places, embedded once: distinct texts go through the encoder, and the cache keeps what comes out.

What is kept is a codebook, in half precision, whose rounding is far below what captions can tell.
"""

from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag

from vlnbert.features.sentences import open_encoder
from vlnbert.world.cache import Built, Key, Pieces, cached_in_pieces

Tables = dict[str, Tensor]
Texts = dict[str, list[str]]


class TextCodes:
    """Gives each distinct text a number, from 0."""

    def __init__(self) -> None:
        self.codes = dict[str, int]()

    def __getitem__(self, text: str) -> int:
        return self.codes.setdefault(text, len(self.codes))

    def of(self, texts: Iterable[str]) -> list[int]:
        return [self[text] for text in texts]

    @property
    def texts(self) -> list[str]:
        return list(self.codes)


def embedded(
    key: Key, source: str | Path, device: torch.device | str, index: Callable[[], tuple[Texts, Tables]]
) -> Tables:
    """Tables from the cache, or as `index` makes them of the files, with a codebook in place of each list of texts.

    An interrupted embedding goes on where it was.
    """

    def build(pieces: Pieces) -> Built:
        encoder = open_encoder(source, device)  # before the files, whose reading takes longer
        texts, tables = index()
        vectors = {name: encoder.encode(one, partial(pieces.piece, name)).half() for name, one in texts.items()}
        return vectors | tables, {}

    tensors, _ = cached_in_pieces(key, build)
    return tensors


def mixed(vectors: Tensor, code: Tensor, weight: Tensor) -> Tensor:
    """[row, width] sums of [row, part] vectors of a codebook, by weight."""
    return embedding_bag(code.long(), vectors.float(), per_sample_weights=weight.float(), mode="sum")
