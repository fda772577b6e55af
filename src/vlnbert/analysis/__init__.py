"""Renders records of episodes: cards, floor plans, curves, and reports that are one file."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vlnbert.analysis.figures import figure_svg
    from vlnbert.analysis.floorplan import draw_episode

__all__ = ["draw_episode", "figure_svg"]


def __getattr__(name: str) -> Any:
    """Both need matplotlib, which the explorer does without: it is loaded when one of them is first used."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{'floorplan' if name == 'draw_episode' else 'figures'}"), name)
