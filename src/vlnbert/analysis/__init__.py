"""What agents did and why, to look at: floor plans of episodes and reports that are one file."""

from vlnbert.analysis.floorplan import draw_episode
from vlnbert.analysis.inline_svg import figure_svg
from vlnbert.analysis.report import Drawing, EpisodeCard, Markup, Report, attended_words, write_report

__all__ = [
    "Drawing",
    "EpisodeCard",
    "Markup",
    "Report",
    "attended_words",
    "draw_episode",
    "figure_svg",
    "write_report",
]
