"""An episode's card as a file: a page by itself, or the picture of its floor plan."""

from pathlib import Path

from vlnbert.analysis.card_text import step_table
from vlnbert.analysis.curves import save_figure
from vlnbert.analysis.episode_record import RecordedEpisode
from vlnbert.analysis.floorplan import draw_episode
from vlnbert.analysis.inline_svg import figure_svg
from vlnbert.analysis.report import EpisodeCard, Report, write_report
from vlnbert.errors import UsageError
from vlnbert.evaluation.tables import score_table
from vlnbert.world.world import World

PAGE = ".html"
PICTURES = (".svg", ".png", ".pdf")


def write_card(path: Path, record: RecordedEpisode, world: World) -> None:
    """Write a card, by its ending as a page with all facts (.html) or as a picture (.svg, .png, .pdf)."""
    require_card_name(path)
    walked, reference = (
        [world.find(record.scan, name) for name in names] for names in (record.path, record.reference or ())
    )
    title = "" if path.suffix.lower() == PAGE else f"Episode {record.id}, {record.agent}"
    figure = draw_episode(world, walked, reference, title, succeeded=record.success, ending=record.ending)
    if path.suffix.lower() != PAGE:
        save_figure(figure, path)
        return
    card = EpisodeCard(
        title=f"Episode {record.id}",
        instruction=record.instruction.text,
        outcome=record.ending,
        svg=figure_svg(figure),
        succeeded=record.success,
        steps=step_table(record),
    )
    scores = (score_table("Scores", {record.agent: record.scores}),) if record.scores else ()
    context = f"{record.where}, walked by {record.agent}."
    write_report(path, Report(f"Episode {record.id}", context, tables=scores, episodes=(card,)))


def require_card_name(path: Path) -> None:
    """Refuse a name whose ending says no kind of card."""
    if path.suffix.lower() not in (PAGE, *PICTURES):
        raise UsageError(
            f"{path} names no kind of card; end it in {', '.join((PAGE, *PICTURES[:-1]))} or {PICTURES[-1]}"
        )
