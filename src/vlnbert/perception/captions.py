"""The captions bank: what a view shows, as the embedding of its caption and the confidences of what was detected."""

from pathlib import Path

import torch
from torch import Tensor

from vlnbert.perception.sentences import encoder_digest, open_encoder
from vlnbert.weights.options import MINILM
from vlnbert.world.banks import FeatureBank, JoinedBank
from vlnbert.world.cache import Key, cached
from vlnbert.world.sights import caption_files, index_captions, open_labels
from vlnbert.world.world import World

VERSION = 1  # of embeddings and codes; a new one makes old caches unused


def open_captions(
    world: World, folder: Path, encoder: str | Path = MINILM, device: torch.device | str = "cpu"
) -> JoinedBank:
    """The bank of a captions folder: sentence embeddings, then detected classes; made once, on the device given."""
    sentences = open_sentences(world, folder, encoder, device)
    labels, _ = open_labels(world, folder)
    return JoinedBank((sentences, labels))


def open_sentences(
    world: World, folder: Path, encoder: str | Path = MINILM, device: torch.device | str = "cpu"
) -> FeatureBank:
    """The captions alone: a codebook, since many views share a caption."""
    key = captions_key(world, folder, encoder)
    tensors, _ = cached(key, lambda: (_embedded(world, folder, encoder, device), {}))
    vectors, code = tensors["vectors"].float(), tensors["code"].long()
    return FeatureBank.from_codebook(vectors.to(world.device), code.to(world.device))


def captions_key(world: World, folder: Path, encoder: str | Path = MINILM) -> Key:
    """What the embedded captions depend on; its `path` is where they are cached."""
    files = caption_files(world, folder)
    return Key.of("captions", files, f"version {VERSION}", encoder_digest(encoder), world.fingerprint())


def _embedded(world: World, folder: Path, source: str | Path, device: torch.device | str) -> dict[str, Tensor]:
    """Embeddings in half precision, whose rounding is far below what captions can tell, and the code of each slot."""
    encoder = open_encoder(source, device)  # before the files, whose reading takes longer
    texts, code = index_captions(world, folder)
    return {"vectors": encoder.encode(texts).half(), "code": code.int().cpu()}
