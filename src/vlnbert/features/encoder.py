"""Texts as vectors: sentence embeddings of distinct texts, computed once and then opened from the cache.

An embedding is the mean of an encoder's last hidden states over all tokens, scaled to length one: of all-MiniLM-L6-v2
and all-mpnet-base-v2 that is what sentence-transformers gives (Reimers and Gurevych 2019, arXiv:1908.10084). BERTs run
on the navigator's own layers, any other encoder on the transformers library.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from tokenizers import Tokenizer
from torch import Tensor
from torch.nn.functional import embedding_bag, normalize
from torch.nn.utils.rnn import pad_sequence

from vlnbert.errors import DataError
from vlnbert.features.spec import FeatureSpec
from vlnbert.navigator import Navigator
from vlnbert.navigator.model.huggingface import open_pretrained, positions_of, read_tokens
from vlnbert.navigator.storage.folder import CONFIG_FILES, OTHER_VOCABULARIES
from vlnbert.progress import Bar
from vlnbert.sources.layout import DataFolder
from vlnbert.sources.tokenizer import encode_texts
from vlnbert.weights.importing import load_weights
from vlnbert.weights.options import ImportOptions, resolve_source
from vlnbert.weights.reading import read_checkpoint
from vlnbert.world.cache import Built, Key, Pieces, cached_in_pieces
from vlnbert.world.world import World

VERSION = 1  # of embeddings and codes; a new one makes old caches unused
LIMIT = 128  # tokens of a text; longer ones lose their end
BATCH, GPU_BATCH = 256, 1024  # texts that are read together
# Batches whose embeddings are cached together, so that an interruption costs no more.
PIECE = 64
# A navigator reads with its BERT unchanged; "initial" keeps it from projecting keys that only its steps would need, and
# as it never looks, the width of what it sees is any.
AS_READER = ImportOptions(backbone="one-stream", language_attention="initial", feature_width=8)
BERTS = ("bert", "lxmert")  # kinds of configurations whose weights the import knows

Keep = Callable[[str, Callable[[], Tensor]], Tensor]  # a piece's name and how to make it -> the piece, made or cached
Tables = dict[str, Tensor]
Index = tuple[dict[str, list[str]], Tables]  # lists of distinct texts, and tables of codes that point into them


@dataclass(frozen=True)
class SentenceEncoder:
    """An encoder with its tokenizer, which cuts texts at the limit."""

    read: Callable[[Tensor, Tensor], Tensor]  # [text, token] ids and mask -> [text, token, width] hidden states
    width: int
    tokenizer: Tokenizer
    device: torch.device
    source: str | Path  # where it came from, for messages

    def encode(self, texts: Sequence[str], keep: Keep | None = None) -> Tensor:
        """[text, width] embeddings of length one, on the CPU; `keep` caches pieces of many, by their place."""
        tokens = [torch.tensor(ids) for ids in encode_texts(self.tokenizer, texts)]
        # Like lengths need little padding.
        order = sorted(range(len(tokens)), key=lambda number: len(tokens[number]))
        batch = BATCH if self.device.type == "cpu" else GPU_BATCH
        vectors, size = torch.zeros(len(tokens), self.width), batch * PIECE
        with Bar("sentences", len(order)) as bar:
            for start in range(0, len(order), size):
                rows = order[start : start + size]
                make = partial(self._piece, [tokens[row] for row in rows], batch, bar, start)
                vectors[rows] = keep(f"{batch}-{start}", make) if keep and len(order) > size else make()
                bar.update(start + len(rows))
        if not vectors.isfinite().all():
            raise DataError(self.source, "gives embeddings that are not numbers", "give one whose weights are whole")
        return vectors

    def _piece(self, tokens: list[Tensor], batch: int, bar: Bar, done: int) -> Tensor:
        """Embed some texts, batch by batch; `done` were embedded before them."""
        vectors = torch.zeros(len(tokens), self.width)
        for start in range(0, len(tokens), batch):
            part = tokens[start : start + batch]
            ids = pad_sequence(part, batch_first=True).to(self.device)
            count = torch.tensor([len(item) for item in part], device=self.device)[:, None]
            mask = torch.arange(ids.shape[1], device=self.device) < count
            with torch.inference_mode():
                mean = (self.read(ids, mask) * mask[..., None]).sum(dim=1) / count
                embedded = normalize(mean, dim=1)
            vectors[start : start + batch] = embedded.cpu()
            bar.update(done + start)
        return vectors


def open_encoder(source: str | Path, device: torch.device | str = "cpu") -> SentenceEncoder:
    """Open an encoder at a path, on the hub or under a short name, in single precision whatever its weights are in."""
    checkpoint, device = read_checkpoint(resolve_source(source)), torch.device(device)
    if checkpoint.folder is not None and checkpoint.settings().get("model_type", "bert") not in BERTS:
        encoder, tokenizer, padding = open_pretrained(str(checkpoint.folder))
        tokenizer.enable_truncation(min(LIMIT, positions_of(encoder)))
        read = partial(read_tokens, encoder.eval().requires_grad_(False).to(device), padding)
        return SentenceEncoder(read, encoder.config.hidden_size, tokenizer=tokenizer, device=device, source=source)
    navigator = load_weights(resolve_source(source), AS_READER).navigator
    if navigator.tokenizer is None:
        remedy = "give a BERT's folder that holds its vocab.txt or tokenizer.json"
        raise DataError(source, "comes without a vocabulary, so it cannot read", remedy)
    navigator.tokenizer.enable_truncation(min(LIMIT, navigator.config.positions))
    read, width = partial(_read_bert, navigator.float().to(device)), navigator.config.hidden
    return SentenceEncoder(read, width, tokenizer=navigator.tokenizer, device=device, source=source)


def _read_bert(navigator: Navigator, tokens: Tensor, mask: Tensor) -> Tensor:
    encoded = navigator.backbone.encode(tokens, mask)
    return torch.cat((encoded.state[:, None], encoded.language.features), dim=1)


def encoder_digest(source: str | Path) -> str:
    """Hash all that an encoder's embeddings depend on: its weights, its settings and its vocabulary."""
    weights = read_checkpoint(resolve_source(source)).path
    always = (weights.with_name(name) for name in CONFIG_FILES)
    # Only those that are there, so that the digests of encoders without them stay what they were.
    others = sorted(path for pattern in OTHER_VOCABULARIES for path in weights.parent.glob(pattern))
    return Key.of("encoder", [weights, *always, *others]).digest


class TextCodes:
    """Numbers for distinct texts, in the order in which they come, from 0."""

    def __init__(self) -> None:
        self.codes = dict[str, int]()

    def of(self, texts: Iterable[str]) -> list[int]:
        return [self.codes.setdefault(text, len(self.codes)) for text in texts]

    @property
    def texts(self) -> list[str]:
        return list(self.codes)


@dataclass(frozen=True)
class Source:
    """The files of a data folder from which channels are made, and the spec that names them."""

    world: World
    folder: DataFolder
    spec: FeatureSpec

    @property
    def caption_files(self) -> list[Path]:
        return scan_files(self.world, self.folder.captions)

    @property
    def observation_files(self) -> list[Path]:
        return scan_files(self.world, self.folder.observations)

    def key(self, kind: str, files: Iterable[Path], *settings: str) -> Key:
        """Key of embedded texts of a kind, by all that they depend on; its `path` is where they are cached."""
        always = f"version {VERSION}", encoder_digest(self.spec.encoder), self.world.fingerprint()
        return Key.of(kind, files, *always, *settings)

    def embedded(self, key: Key, index: Callable[[], Index]) -> Tables:
        """Tables from the cache, or else those of `index` with an embedding for each of its texts.

        Embeddings are in half precision, whose rounding is far below what captions can tell. An interrupted embedding
        resumes where it was.
        """

        def build(pieces: Pieces) -> Built:
            # Before the files, whose reading takes longer.
            encoder = open_encoder(self.spec.encoder, self.world.device)
            lists, tables = index()
            vectors = {name: encoder.encode(texts, partial(pieces.piece, name)).half() for name, texts in lists.items()}
            return vectors | tables, {}

        return cached_in_pieces(key, build)[0]


def scan_files(world: World, folder: Path) -> list[Path]:
    """The file of each of a world's scans."""
    return [folder / f"{scan}.json" for scan in world.scans]


def mixed(vectors: Tensor, code: Tensor, weight: Tensor) -> Tensor:
    """[row, width] sums of [row, part] vectors of a codebook, by weight."""
    return embedding_bag(code.long(), vectors.float(), per_sample_weights=weight.float(), mode="sum")
