"""Disks that fill, processes that are killed, races, strangers, and files that are damaged or ask for too much."""

from tests.api.conftest import data, trained
from tests.explorer.conftest import app, explorer, served
from tests.fetching.conftest import manifest
from tests.learning.conftest import finished, run
from tests.weights.conftest import samples

# Fixtures, here as there.
__all__ = ["app", "data", "explorer", "finished", "manifest", "run", "samples", "served", "trained"]
