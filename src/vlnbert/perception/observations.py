"""What the observations show in the direction of a view: eight headings and three elevations, interpolated.

A view looks between two of the headings; their embeddings count by how near they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vlnbert.perception.sentences import encoder_digest
from vlnbert.perception.texts import TextCodes, embedded, mixed
from vlnbert.progress import track
from vlnbert.sources.annotations import HEADINGS, LEVELS, PanoramaObservations, read_observations
from vlnbert.weights.options import MINILM
from vlnbert.world.banks import FeatureBank
from vlnbert.world.cache import Key
from vlnbert.world.sights import KeptViews, facing_views, placed
from vlnbert.world.world import STEPS, World

VERSION = 1  # of embeddings and codes; a new one makes old caches unused
DEGREES = 360 / STEPS  # between two views


@dataclass(frozen=True)
class Observations:
    """The observations in the directions of all views that face a neighbour, as two banks."""

    ahead: FeatureBank  # at the view's own elevation
    above_below: FeatureBank  # the mean of the two others


def open_observations(
    world: World, folder: Path, encoder: str | Path = MINILM, device: torch.device | str = "cpu"
) -> Observations:
    """The banks of an observations folder; embedded once, on the device given."""
    views = facing_views(world)
    key = observations_key(world, folder, encoder)
    tensors = embedded(key, encoder, device, lambda: _index(world, views, folder))
    view = torch.from_numpy(np.argwhere(views.number > 0)[:, 1])
    share = nearest_headings(DEGREES * (view % STEPS))[1]
    of_heading = torch.stack((1 - share, share), dim=1)  # [view, heading]
    own = torch.eye(len(LEVELS))[torch.div(view, STEPS, rounding_mode="floor")]  # [view, level]
    banks = []
    for of_level in (own, (1 - own) / (len(LEVELS) - 1)):
        weight = of_heading[:, :, None] * of_level[:, None]
        table = mixed(tensors["vectors"], tensors["code"].flatten(1), weight.flatten(1))
        banks.append(FeatureBank.from_codebook(table.to(world.device), views.row))
    return Observations(banks[0], banks[1])


def observations_key(world: World, folder: Path, encoder: str | Path = MINILM) -> Key:
    """What the embedded observations depend on; its `path` is where they are cached."""
    files = observation_files(world, folder)
    return Key.of("observations", files, f"version {VERSION}", encoder_digest(encoder), world.fingerprint())


def nearest_headings(degrees: Tensor) -> tuple[Tensor, Tensor]:
    """The described heading at or before a direction, and the share of the next one in it, from 0 to 1."""
    place = degrees * (HEADINGS / 360)
    before = place.floor()
    return before.long() % HEADINGS, place - before


def read_observations_of(world: World, folder: Path) -> Iterator[PanoramaObservations]:
    """The observations of a world's scans, one scan in memory at a time."""
    for path in track(observation_files(world, folder), "observations"):
        yield from read_observations(path)


def observation_files(world: World, folder: Path) -> list[Path]:
    """The observation file of each of a world's scans."""
    return [folder / f"{scan}.json" for scan in world.scans]


def _index(world: World, views: KeptViews, folder: Path) -> tuple[dict[str, list[str]], dict[str, Tensor]]:
    """The distinct captions that some view needs, and their codes [view, heading, level], from 0."""
    codes, code = TextCodes(), np.zeros((views.count, 2, len(LEVELS)), dtype=np.int32)
    before, share = (part.tolist() for part in nearest_headings(DEGREES * torch.arange(STEPS)))
    for viewpoint, panorama in placed(world, read_observations_of(world, folder), folder):
        for view in np.flatnonzero(views.number[viewpoint]):
            first = before[view % STEPS]
            second = (first + 1) % HEADINGS if share[view % STEPS] else first  # what does not count is not embedded
            code[views.number[viewpoint, view] - 1] = [codes.of(panorama.captions[one]) for one in (first, second)]
    return {"vectors": codes.texts}, {"code": torch.from_numpy(code)}
