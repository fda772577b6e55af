"""What agents did and why, to look at: records of episodes, floor plans, and reports that are one file."""

from vlnbert.analysis.floorplan import draw_episode
from vlnbert.analysis.inline_svg import figure_svg

__all__ = ["draw_episode", "figure_svg"]
