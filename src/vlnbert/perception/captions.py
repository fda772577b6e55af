"""What captions say of a view: the embedding of its own, and of those beside it."""

from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vlnbert.perception.sentences import encoder_digest
from vlnbert.perception.texts import TextCodes, embedded, mixed
from vlnbert.weights.options import MINILM
from vlnbert.world.banks import FeatureBank
from vlnbert.world.cache import Key
from vlnbert.world.sights import (
    KeptViews,
    caption_files,
    facing_views,
    index_captions,
    placed,
    read_captions_of,
)
from vlnbert.world.world import STEPS, World

VERSION = 1  # of embeddings and codes; a new one makes old caches unused
BESIDE = (-1, 1)  # steps of 30 degrees to the views whose captions stand beside a view's own


def open_sentences(
    world: World, folder: Path, encoder: str | Path = MINILM, device: torch.device | str = "cpu"
) -> FeatureBank:
    """The captions alone: a codebook, since many views share a caption."""

    def index() -> tuple[dict[str, list[str]], dict[str, Tensor]]:
        texts, code = index_captions(world, folder)
        return {"vectors": texts}, {"code": code.int().cpu()}

    tensors = embedded(captions_key(world, folder, encoder), encoder, device, index)
    vectors, code = tensors["vectors"].float(), tensors["code"].long()
    return FeatureBank.from_codebook(vectors.to(world.device), code.to(world.device))


def open_captions_beside(
    world: World, folder: Path, encoder: str | Path = MINILM, device: torch.device | str = "cpu"
) -> FeatureBank:
    """The mean of the embeddings of the captions of the views to the left and to the right, at the same elevation."""
    views = facing_views(world)
    key = captions_key(world, folder, encoder, kind="captions-beside")
    tensors = embedded(key, encoder, device, lambda: _index_beside(world, views, folder))
    weight = torch.full(tensors["code"].shape, 1 / len(BESIDE))
    table = mixed(tensors["vectors"], tensors["code"], weight)
    return FeatureBank.from_codebook(table.to(world.device), views.row)


def captions_key(world: World, folder: Path, encoder: str | Path = MINILM, kind: str = "captions") -> Key:
    """What the embedded captions depend on; its `path` is where they are cached."""
    files = caption_files(world, folder)
    return Key.of(kind, files, f"version {VERSION}", encoder_digest(encoder), world.fingerprint())


def _index_beside(world: World, views: KeptViews, folder: Path) -> tuple[dict[str, list[str]], dict[str, Tensor]]:
    codes, code = TextCodes(), np.zeros((views.count, len(BESIDE)), dtype=np.int32)
    for viewpoint, panorama in placed(world, read_captions_of(world, folder), folder):
        for view in np.flatnonzero(views.number[viewpoint]):
            first = view - view % STEPS  # of its elevation
            beside = (first + (view + step) % STEPS for step in BESIDE)
            code[views.number[viewpoint, view] - 1] = codes.of(panorama.views[other].text for other in beside)
    return {"vectors": codes.texts}, {"code": torch.from_numpy(code)}
