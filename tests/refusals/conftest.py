"""What users get wrong, and the one line that answers it."""

from tests.api.conftest import data, trained
from tests.cli.conftest import run

__all__ = ["data", "run", "trained"]  # fixtures, here as there
