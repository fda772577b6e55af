"""A small house for the examples to run in, and trainings that take a second."""

from pathlib import Path

from tests.api.conftest import data

__all__ = ["data"]  # fixtures, here as there

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
