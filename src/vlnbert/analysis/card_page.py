"""One episode as a card of a page: what was asked, what became of it, the plan and every step."""

from itertools import count
from pathlib import Path
from typing import Any

from vlnbert.analysis.page import table, text, write_page
from vlnbert.analysis.still_card import facts, outcome, still_card
from vlnbert.evaluation.episode_record import RecordedEpisode
from vlnbert.evaluation.tables import score_table
from vlnbert.tables import escaped

DIGITS = 5  # of the numbers that the viewer draws; scores keep all of theirs

Json = dict[str, Any]


class Cards:
    """The cards of one page, and the data that their viewers read: a house's plan is there once."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self._numbers = count(1)

    def card(self, record: RecordedEpisode, plan: Json, title: str = "") -> str:
        """An episode as HTML; its record and its house go into `data`."""
        name, house = f"record-{next(self._numbers)}", f"plan-{record.scan}"
        told = record.to_json()
        self.data |= {name: rounded(told), house: plan}
        return (
            f'<article class="card" data-record="{name}" data-plan="{escaped(house)}">\n'
            f"<header><h3>{text(title or f'Episode {record.id}')}</h3>{outcome(told)}</header>\n"
            f'{facts(told)}\n<div class="viewer"></div>\n'
            f'<div class="still">\n{still_card(told, plan)}\n</div>\n</article>'
        )


def write_card_page(path: Path, record: RecordedEpisode, plan: Json) -> None:
    """Write a page with one episode."""
    cards, title = Cards(), f"Episode {record.id}"
    card = cards.card(record, plan, record.where)
    scores = table(score_table("Scores", {record.agent: record.scores})) if record.scores else ""
    body = f'<h1>{text(title)}</h1>\n<p class="lead">{text(f"Walked by {record.agent}.")}</p>\n<h2>Step by step</h2>\n'
    write_page(path, title, f"{body}{card}\n{scores}", cards.data)


def rounded(told: Any) -> Any:
    """Numbers in few digits, which is all that a picture shows; scores stay as they are."""
    match told:
        case float():
            return float(f"{told:.{DIGITS}g}")
        case dict():
            return {key: value if key == "scores" else rounded(value) for key, value in told.items()}
        case list() | tuple():
            return [rounded(value) for value in told]
    return told
