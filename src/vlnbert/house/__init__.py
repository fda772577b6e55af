"""A generated house: made-up homes, instructions and features in the real formats, for demos and tests without data."""

from vlnbert.house.write import HouseSummary, generate

__all__ = ["HouseSummary", "generate"]
