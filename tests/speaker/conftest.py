"""A small speaker with random weights, in the tiny houses."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.conftest import TinyData
from vlnbert.data.data import Data, open_data
from vlnbert.features.spec import OFF, FeatureSpec
from vlnbert.speaker.config import SpeakerConfig
from vlnbert.speaker.paths import Paths
from vlnbert.speaker.speaker import Speaker
from vlnbert.tasks.batches import piece_count

SHAPE: dict[str, Any] = {
    **{"hidden": 16, "heads": 2, "inner": 32, "encoder_layers": 2, "decoder_layers": 2},
    **{"max_tokens": 12, "max_hops": 6},
}


@pytest.fixture
def data(tiny: TinyData) -> Data:
    return open_data(tiny.root, features=FeatureSpec(views=str(tiny.path("features/tiny.hdf5")), objects=OFF))


@pytest.fixture
def data_with_objects(data: Data) -> Data:
    return data.seen_as(replace(data.features, objects="names"))


@pytest.fixture
def make_speaker(data: Data) -> Callable[..., Speaker]:
    """A speaker for the tiny houses; strong weights, so that words differ in probability."""

    def make(seed: int = 0, **changes: Any) -> Speaker:
        torch.manual_seed(seed)
        sizes = {"vocabulary": piece_count(data.tokenizer), "feature_width": data.view_bank.width}
        speaker = Speaker(SpeakerConfig(**{**SHAPE, **sizes, **changes}))
        with torch.no_grad():
            for weight in speaker.parameters():
                weight.mul_(4 if weight.dim() > 1 else 1)
        speaker.tokenizer, speaker.features = data.tokenizer, data.features
        speaker.may_write(torch.arange(4, piece_count(data.tokenizer)))
        return speaker.eval()

    return make


@pytest.fixture
def speaker(make_speaker: Callable[..., Speaker]) -> Speaker:
    return make_speaker()


@pytest.fixture
def paths(data: Data) -> Paths:
    """Several paths of one to four viewpoints, some of them twice."""
    routes = [
        ("alpha", ("a0", "a3", "a4")),
        ("beta", ("b3", "b2", "b1", "b0")),
        ("gamma", ("g5", "g4")),
        ("alpha", ("a5",)),
        ("alpha", ("a0", "a3", "a4")),
        ("beta", ("b0", "b1")),
    ]
    return Paths.through(data.world, routes)
