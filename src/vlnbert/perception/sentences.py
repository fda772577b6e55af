"""Sentence embeddings from any BERT: the mean of its last hidden states over all tokens, scaled to length one.

Of all-MiniLM-L6-v2 that is what sentence-transformers gives (Reimers and Gurevych 2019, arXiv:1908.10084).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from vlnbert.errors import DataError
from vlnbert.navigator import Navigator
from vlnbert.navigator.storage.hub import BESIDE
from vlnbert.progress import track
from vlnbert.weights.importing import load_weights
from vlnbert.weights.options import ImportOptions, resolve_source
from vlnbert.weights.reading import read_checkpoint
from vlnbert.world.cache import Key

LIMIT = 128  # tokens of a text; longer ones lose their end
BATCH = 256  # texts that are read together
# A navigator reads with its BERT unchanged; "initial" keeps it from projecting keys that only its steps would need, and
# as it never looks, the width of what it sees is any.
AS_READER = ImportOptions(backbone="one-stream", language_attention="initial", feature_width=8)


@dataclass(frozen=True)
class SentenceEncoder:
    """A BERT with its tokenizer, which cuts texts at the limit."""

    navigator: Navigator
    tokenizer: Tokenizer
    device: torch.device
    source: str | Path  # where it came from, for messages

    @property
    def width(self) -> int:
        return self.navigator.config.hidden

    def encode(self, texts: Sequence[str]) -> Tensor:
        """[text, width] embeddings of length one, on the CPU."""
        tokens = [torch.tensor(item.ids) for item in self.tokenizer.encode_batch(list(texts))]
        order = sorted(range(len(tokens)), key=lambda number: len(tokens[number]))  # like lengths need little padding
        batches = [order[start : start + BATCH] for start in range(0, len(order), BATCH)]
        found = torch.zeros(len(tokens), self.width)
        for rows in track(batches, "sentences"):
            found[rows] = self._embed([tokens[row] for row in rows]).cpu()
        if not found.isfinite().all():
            raise DataError(self.source, "gives embeddings that are not numbers", "give a BERT whose weights are whole")
        return found

    @torch.inference_mode()
    def _embed(self, tokens: list[Tensor]) -> Tensor:
        ids = pad_sequence(tokens, batch_first=True).to(self.device)
        count = torch.tensor([len(item) for item in tokens], device=self.device)[:, None]
        mask = torch.arange(ids.shape[1], device=self.device) < count
        read = self.navigator.backbone.encode(ids, mask)
        hidden = torch.cat((read.state[:, None], read.language.features), dim=1)
        return normalize((hidden * mask[..., None]).sum(dim=1) / count, dim=1)


def open_encoder(source: str | Path, device: torch.device | str = "cpu") -> SentenceEncoder:
    """The encoder at a path, on the hub or under a short name; in single precision, whatever its weights are in."""
    navigator = load_weights(resolve_source(source), AS_READER).navigator
    if navigator.tokenizer is None:
        remedy = "give a BERT's folder that holds its vocab.txt or tokenizer.json"
        raise DataError(source, "comes without a vocabulary, so it cannot read", remedy)
    navigator.tokenizer.enable_truncation(min(LIMIT, navigator.config.positions))
    return SentenceEncoder(navigator.float().to(device), navigator.tokenizer, torch.device(device), source)


def encoder_digest(source: str | Path) -> str:
    """A hash of all that an encoder's embeddings depend on: its weights, its settings and its vocabulary."""
    weights = read_checkpoint(resolve_source(source)).path
    return Key.of("encoder", [weights, *(weights.with_name(name) for name in BESIDE)]).digest
