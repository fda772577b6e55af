"""What captions and observations say of all 36 views of a panorama, as codebooks of distinct texts.

A view that faces a neighbour looks the same as in the banks of facing views. In the open data a table of all 380,412
views would take 580 MB for each channel of 384 numbers. So the distinct texts are kept, and which of them a viewpoint
has; what lies between two texts is mixed when somebody looks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from vlnbert.perception.captions import BESIDE
from vlnbert.perception.captions import VERSION as CAPTIONS_VERSION
from vlnbert.perception.observations import DEGREES, nearest_headings, observation_files, read_observations_of
from vlnbert.perception.observations import VERSION as OBSERVATIONS_VERSION
from vlnbert.perception.sentences import encoder_digest
from vlnbert.perception.texts import TextCodes, embedded
from vlnbert.sources.annotations import HEADINGS, LEVELS
from vlnbert.weights.options import MINILM
from vlnbert.world.banks import FeatureBank, MixedBank
from vlnbert.world.cache import Key
from vlnbert.world.sights import caption_files, placed, read_captions_of
from vlnbert.world.world import STEPS, VIEWS, World


@dataclass(frozen=True)
class PanoramaCaptions:
    """The captions of all 36 views, as two panorama banks that share a codebook."""

    own: FeatureBank
    beside: MixedBank  # the mean of those of the views to the left and to the right


@dataclass(frozen=True)
class PanoramaObservations:
    """The observations in the directions of all 36 views, as two panorama banks that share a codebook."""

    ahead: MixedBank  # at the view's own elevation
    above_below: MixedBank  # the mean of the two others


def open_panorama_captions(
    world: World, folder: Path, encoder: str | Path = MINILM, device: torch.device | str = "cpu"
) -> PanoramaCaptions:
    """The captions of all views; embedded once, on the device given."""

    def index() -> tuple[dict[str, list[str]], dict[str, Tensor]]:
        codes, code = TextCodes(), np.zeros((len(world), VIEWS), dtype=np.int32)
        for viewpoint, panorama in placed(world, read_captions_of(world, folder), folder):
            code[viewpoint] = _from_one(codes.of(view.text for view in panorama.views))
        return {"vectors": codes.texts}, {"code": torch.from_numpy(code)}

    key = _key("panorama-captions", caption_files(world, folder), CAPTIONS_VERSION, world, encoder)
    tensors = embedded(key, encoder, device, index)
    own = _codebook(world, tensors)
    view = torch.arange(VIEWS)
    first = view - view % STEPS  # of its elevation
    place = torch.stack([first + (view + step) % STEPS for step in BESIDE], dim=1)
    weight = torch.full(place.shape, 1 / len(BESIDE))
    return PanoramaCaptions(own, _mixed(own, place, weight))


def open_panorama_observations(
    world: World, folder: Path, encoder: str | Path = MINILM, device: torch.device | str = "cpu"
) -> PanoramaObservations:
    """The observations of all views; embedded once, on the device given."""

    def index() -> tuple[dict[str, list[str]], dict[str, Tensor]]:
        codes, code = TextCodes(), np.zeros((len(world), HEADINGS * len(LEVELS)), dtype=np.int32)
        for viewpoint, panorama in placed(world, read_observations_of(world, folder), folder):
            code[viewpoint] = _from_one(codes.of(text for levels in panorama.captions for text in levels))
        return {"vectors": codes.texts}, {"code": torch.from_numpy(code)}

    key = _key("panorama-observations", observation_files(world, folder), OBSERVATIONS_VERSION, world, encoder)
    said = _codebook(world, embedded(key, encoder, device, index))
    view = torch.arange(VIEWS)
    before, share = nearest_headings(DEGREES * (view % STEPS))
    heading = torch.stack((before, (before + 1) % HEADINGS), dim=1)[:, :, None]  # [view, heading, 1]
    of_heading = torch.stack((1 - share, share), dim=1)[:, :, None]
    own = torch.div(view, STEPS, rounding_mode="floor")[:, None]
    others = (own + torch.arange(1, len(LEVELS))) % len(LEVELS)
    banks = []
    for level in (own, others):  # [view, level]
        place = heading * len(LEVELS) + level[:, None]
        weight = (of_heading / level.shape[1]).expand(place.shape)
        banks.append(_mixed(said, place.flatten(1), weight.flatten(1)))
    return PanoramaObservations(banks[0], banks[1])


def _key(kind: str, files: Sequence[Path], version: int, world: World, encoder: str | Path) -> Key:
    return Key.of(kind, files, f"version {version}", encoder_digest(encoder), world.fingerprint())


def _from_one(codes: list[int]) -> NDArray[np.int32]:
    """Codes that count from 1, since 0 is for viewpoints of which nothing is said."""
    return np.array(codes, dtype=np.int32) + 1


def _codebook(world: World, tensors: dict[str, Tensor]) -> FeatureBank:
    vectors, code = tensors["vectors"].float(), tensors["code"].long()
    return FeatureBank.from_codebook(vectors.to(world.device), code.to(world.device))


def _mixed(texts: FeatureBank, place: Tensor, weight: Tensor) -> MixedBank:
    device = texts.table.device
    return MixedBank(texts.table, texts.row, place.to(device), weight.to(device))
