"""A small house for the examples to run in, and trainings that take a second."""

from pathlib import Path

from tests.api.conftest import data, house

__all__ = ["data", "house"]  # fixtures, here as there

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
