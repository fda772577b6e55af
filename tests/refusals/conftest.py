"""What users get wrong, and the one line that answers it."""

from tests.api.conftest import data, trained

__all__ = ["data", "trained"]  # fixtures, here as there
