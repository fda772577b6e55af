"""A navigator of every kind."""

import pytest

from tests.navigator.samples import CONFIGS, make
from vlnbert.navigator import Navigator


@pytest.fixture(params=CONFIGS)
def navigator(request: pytest.FixtureRequest) -> Navigator:
    return make(CONFIGS[request.param])
