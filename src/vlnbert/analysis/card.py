"""An episode's card as a file: a page by itself, or the picture of its floor plan."""

from pathlib import Path

from vlnbert.analysis.card_page import write_card_page
from vlnbert.analysis.curves import save_figure
from vlnbert.analysis.floorplan import draw_episode
from vlnbert.analysis.house_plan import house_plan
from vlnbert.data.data import Data
from vlnbert.errors import UsageError
from vlnbert.evaluation.episode_record import RecordedEpisode

PAGE = ".html"
PICTURES = (".svg", ".png", ".pdf")


def write_card(path: Path, record: RecordedEpisode, data: Data) -> None:
    """Write a card, by its ending as a page to step through (.html) or as a picture (.svg, .png, .pdf)."""
    require_card_name(path)
    if path.suffix.lower() == PAGE:
        write_card_page(path, record, house_plan(data, record.scan))
        return
    walked, reference = (
        [data.world.find(record.scan, name) for name in names] for names in (record.path, record.reference or ())
    )
    title = f"Episode {record.id}, {record.agent}"
    figure = draw_episode(data.world, walked, reference, title, succeeded=record.success, ending=record.ending)
    save_figure(figure, path)


def require_card_name(path: Path) -> None:
    """Refuse a name whose ending says no kind of card."""
    if path.suffix.lower() not in (PAGE, *PICTURES):
        raise UsageError(
            f"{path} names no kind of card; end it in {', '.join((PAGE, *PICTURES[:-1]))} or {PICTURES[-1]}"
        )
