"""Small houses, and untrained navigators in them that are decided enough for rounding to change nothing."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

import vlnbert as vln
from vlnbert.environment.environment import Observation
from vlnbert.navigator import SIZES

SPLIT = "r2r/val_unseen"


class Pacing(vln.Agent):
    """Takes the first way, for ever; it reads nothing and sees nothing."""

    reads_tokens = False
    sees_features = False

    def act(self, observation: Observation, memory: None) -> tuple[Tensor, None]:
        return torch.ones_like(observation.state.viewpoint), memory


@pytest.fixture(scope="session")
def house(house: Path) -> vln.Data:
    return vln.open_data(house)


def made_up(data: vln.Data, object_width: int = 0) -> vln.Navigator:
    torch.manual_seed(6)
    widths = {"feature_width": data.view_bank.width, "object_width": object_width}
    shape = replace(SIZES["tiny"]["two-stream"], vocabulary=data.tokenizer.get_vocab_size(), **widths)
    navigator = vln.Navigator(replace(shape, matching="visual") if object_width else shape).eval()
    with torch.no_grad():
        for name, weight in navigator.named_parameters():
            if "norm" not in name:
                weight.mul_(4)
    return navigator


@pytest.fixture(scope="session")
def navigator(house: vln.Data) -> vln.Navigator:
    return made_up(house)


@pytest.fixture(scope="session")
def finder(house: vln.Data) -> vln.Navigator:
    """One that sees objects."""
    return made_up(house, house.object_width)
