"""Sentence embeddings: the mean of an encoder's last hidden states over all tokens, scaled to length one.

Of all-MiniLM-L6-v2 and of all-mpnet-base-v2 that is what sentence-transformers gives (Reimers and Gurevych 2019,
arXiv:1908.10084). A BERT is read by our own layers, any other encoder by the transformers library.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import normalize
from torch.nn.utils.rnn import pad_sequence

from vlnbert.errors import DataError
from vlnbert.navigator import Navigator
from vlnbert.navigator.model.huggingface import open_pretrained, positions_of, read_tokens
from vlnbert.navigator.storage.hub import CONFIG_FILES, OTHER_VOCABULARIES
from vlnbert.progress import Bar
from vlnbert.sources.tokenizer import encode_texts
from vlnbert.weights.importing import load_weights
from vlnbert.weights.options import ImportOptions, resolve_source
from vlnbert.weights.reading import Checkpoint, read_checkpoint
from vlnbert.world.cache import Key

LIMIT = 128  # tokens of a text; longer ones lose their end
BATCH, GPU_BATCH = 256, 1024  # texts that are read together
PIECE = 64  # batches whose embeddings are kept together: what an interruption may cost
# A navigator reads with its BERT unchanged; "initial" keeps it from projecting keys that only its steps would need, and
# as it never looks, the width of what it sees is any.
AS_READER = ImportOptions(backbone="one-stream", language_attention="initial", feature_width=8)

OURS = ("bert", "lxmert")  # kinds of configurations whose weights the import knows
Keep = Callable[[str, Callable[[], Tensor]], Tensor]  # a piece's name and how to make it -> the piece, made or found


def _anew(name: str, make: Callable[[], Tensor]) -> Tensor:
    return make()


@dataclass(frozen=True)
class SentenceEncoder:
    """An encoder with its tokenizer, which cuts texts at the limit."""

    read: Callable[[Tensor, Tensor], Tensor]  # [text, token] ids and mask -> [text, token, width] hidden states
    width: int
    tokenizer: Tokenizer
    device: torch.device
    source: str | Path  # where it came from, for messages

    def encode(self, texts: Sequence[str], keep: Keep = _anew) -> Tensor:
        """[text, width] embeddings of length one, on the CPU.

        Of many texts `keep` may keep what some give, by a name that tells their place, until all are read.
        """
        tokens = [torch.tensor(ids) for ids in encode_texts(self.tokenizer, texts)]
        order = sorted(range(len(tokens)), key=lambda number: len(tokens[number]))  # like lengths need little padding
        batch = BATCH if self.device.type == "cpu" else GPU_BATCH
        found, size = torch.zeros(len(tokens), self.width), batch * PIECE
        with Bar("sentences", len(order)) as bar:
            for start in range(0, len(order), size):
                rows = order[start : start + size]
                make = partial(self._piece, [tokens[row] for row in rows], batch, bar, start)
                found[rows] = make() if len(order) <= size else keep(f"{batch}-{start}", make)
                bar.update(start + len(rows))
        if not found.isfinite().all():
            raise DataError(self.source, "gives embeddings that are not numbers", "give one whose weights are whole")
        return found

    def _piece(self, tokens: list[Tensor], batch: int, bar: Bar, done: int) -> Tensor:
        """The embeddings of some texts, batch by batch; `done` are those before them."""
        found = torch.zeros(len(tokens), self.width)
        for start in range(0, len(tokens), batch):
            found[start : start + batch] = self._embed(tokens[start : start + batch]).cpu()
            bar.update(done + start)
        return found

    @torch.inference_mode()
    def _embed(self, tokens: list[Tensor]) -> Tensor:
        ids = pad_sequence(tokens, batch_first=True).to(self.device)
        count = torch.tensor([len(item) for item in tokens], device=self.device)[:, None]
        mask = torch.arange(ids.shape[1], device=self.device) < count
        hidden = self.read(ids, mask)
        return normalize((hidden * mask[..., None]).sum(dim=1) / count, dim=1)


def open_encoder(source: str | Path, device: torch.device | str = "cpu") -> SentenceEncoder:
    """The encoder at a path, on the hub or under a short name; in single precision, whatever its weights are in."""
    resolved, device = resolve_source(source), torch.device(device)
    if (folder := _foreign_folder(read_checkpoint(resolved))) is not None:
        encoder, tokenizer, padding = open_pretrained(str(folder))
        tokenizer.enable_truncation(min(LIMIT, positions_of(encoder)))
        read = partial(read_tokens, encoder.eval().requires_grad_(False).to(device), padding)
        return SentenceEncoder(read, encoder.config.hidden_size, tokenizer=tokenizer, device=device, source=source)
    navigator = load_weights(resolved, AS_READER).navigator
    if navigator.tokenizer is None:
        remedy = "give a BERT's folder that holds its vocab.txt or tokenizer.json"
        raise DataError(source, "comes without a vocabulary, so it cannot read", remedy)
    navigator.tokenizer.enable_truncation(min(LIMIT, navigator.config.positions))
    read = partial(_read_bert, navigator.float().to(device))
    width = navigator.config.hidden
    return SentenceEncoder(read, width, tokenizer=navigator.tokenizer, device=device, source=source)


def encoder_digest(source: str | Path) -> str:
    """A hash of all that an encoder's embeddings depend on: its weights, its settings and its vocabulary."""
    weights = read_checkpoint(resolve_source(source)).path
    always = (weights.with_name(name) for name in CONFIG_FILES)
    # Only those that are there, so that the digests of encoders without them stay what they were.
    others = sorted(path for pattern in OTHER_VOCABULARIES for path in weights.parent.glob(pattern))
    return Key.of("encoder", [weights, *always, *others]).digest


def _foreign_folder(checkpoint: Checkpoint) -> Path | None:
    """The folder of an encoder that is no BERT, by what its config.json says; None for those that our layers read."""
    kind = checkpoint.settings().get("model_type", "bert")
    return checkpoint.folder if kind not in OURS else None


def _read_bert(navigator: Navigator, tokens: Tensor, mask: Tensor) -> Tensor:
    read = navigator.backbone.encode(tokens, mask)
    return torch.cat((read.state[:, None], read.language.features), dim=1)
