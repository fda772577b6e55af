"""Ways through the whole package, from data to what a user reads."""

from tests.api.conftest import data, trained
from tests.cli.conftest import run

__all__ = ["data", "run", "trained"]  # fixtures, here as there
