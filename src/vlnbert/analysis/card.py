"""One episode as a card: text for a terminal, an article of a page, or a file."""

from dataclasses import dataclass
from itertools import count
from json import dumps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlnbert.analysis.house_plan import house_plan
from vlnbert.analysis.page import laid_out, most_read, percent, table, text, way_to, write_page
from vlnbert.analysis.still_card import facts, outcome, still_card
from vlnbert.data.data import Data
from vlnbert.errors import UsageError
from vlnbert.evaluation.episode_record import RecordedEpisode, RecordedStep
from vlnbert.evaluation.tables import score_table
from vlnbert.tables import WIDE, Table, escaped

if TYPE_CHECKING:
    from rich.text import Text

READ = 3  # words that a step names
# Shading from a share of the strongest word's attention on; black ink stays readable on dark screens.
SHADES = (
    (0.66, "black on rgb(255,150,60)"),
    (0.4, "black on rgb(255,190,130)"),
    (0.2, "black on rgb(255,225,195)"),
)
COLOURS = {"Success": "bold green", "Failure": "bold red"}
DIGITS = 5  # of the numbers that the viewer draws; scores keep all of theirs

Json = dict[str, Any]
PAGE = ".html"
PICTURES = (".svg", ".png", ".pdf")


@dataclass(frozen=True, repr=False)
class Episode:
    """One episode that was walked and scored: `print` it, look at it in a notebook, or take its `record`."""

    record: RecordedEpisode
    data: Data

    def to_json(self, indent: int | None = None) -> str:
        """The record as a JSON object."""
        return dumps(self.record.to_json(), indent=indent)

    def write(self, path: str | Path) -> Path:
        """Write its card: by its ending a page (.html) or a picture of the floor plan (.svg, .png, .pdf)."""
        write_card(Path(path), self.record, self.data)
        return Path(path)

    def __repr__(self) -> str:
        return card_text(self.record)

    def _repr_html_(self) -> str:
        return "".join(table.html() for table in tables(self.record))


def card_text(record: RecordedEpisode, width: int = WIDE) -> str:
    """The whole card without colour."""
    head = "\n".join(head_lines(record))
    return "\n\n".join([head, record.instruction.text.strip(), *(table.text(width) for table in tables(record))])


def head_lines(record: RecordedEpisode) -> tuple[str, str]:
    """Two lines: which episode, and its outcome."""
    return f"Episode {record.id}, {record.where}, walked by {record.agent}", f"{record.verdict}: {record.ending}"


def tables(record: RecordedEpisode) -> list[Table]:
    """The steps and, where there are some, the scores."""
    scores = [score_table("scores", {record.agent: record.scores})] if record.scores else []
    return [step_table(record), *scores]


def step_table(record: RecordedEpisode) -> Table:
    """A row for each decision; empty columns are left out."""
    words = record.instruction.words
    rows = [(str(number), *_cells(step, words)) for number, step in enumerate(record.steps, start=1)]
    columns = ("step", "to goal", "chooses", "p", "next best", "teacher", "object", "attends to", "sees there")
    said = [place for place, column in enumerate(zip(*rows, strict=True)) if place < 3 or any(map(str.strip, column))]
    return Table([columns[place] for place in said], [[row[place] for place in said] for row in rows], title="Steps")


def shaded_instruction(record: RecordedEpisode) -> "Text":
    """The words as read, shaded by their mean attention over all steps; as written without attention."""
    from rich.text import Text

    attention = [step.attention for step in record.steps if step.attention is not None]
    if not attention:
        return Text(record.instruction.text.strip())
    mean = [sum(weights) / len(attention) for weights in zip(*attention, strict=True)]
    most, text = max(mean, default=0.0) or 1.0, Text()
    for piece, place in laid_out(record.instruction.text.strip(), record.instruction.words):
        weight = 0.0 if place is None else mean[place]
        text.append(piece, next((style for share, style in SHADES if weight >= share * most), ""))
    return text


def _cells(step: RecordedStep, words: tuple[str, ...]) -> tuple[str, ...]:
    chosen = step.choices[step.chosen]
    others = [number for number in range(len(step.choices)) if number != step.chosen]
    best = max(others, key=lambda number: step.choices[number].probability or 0.0, default=None)
    known = best is not None and step.choices[best].probability is not None
    teacher = "" if step.teacher is None else "same" if step.teacher == step.chosen else direction(step, step.teacher)
    seen = max(step.objects, key=lambda one: one.probability or 0.0, default=None)
    return (
        "" if step.distance_to_goal is None else f"{step.distance_to_goal:.2f} m",
        direction(step, step.chosen),
        percent(chosen.probability),
        f"{direction(step, best)} {percent(step.choices[best].probability)}" if known and best is not None else "",
        teacher,
        "" if seen is None or seen.probability is None else f"{seen.name} {percent(seen.probability)}",
        "" if step.attention is None else ", ".join(most_read(words, step.attention, READ)),
        chosen.texts.get("captions", ""),
    )


def direction(step: RecordedStep, choice: int) -> str:
    """A choice in words: its direction, relative to where the agent faces, and distance."""
    it = step.choices[choice]
    if it.viewpoint is None:
        return "stop"
    return way_to(it.heading, it.elevation, it.distance, facing=step.heading)


class Cards:
    """The cards of one page, and the data that their viewers read: a house's plan is there once."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {}
        self._numbers = count(1)

    def card(self, record: RecordedEpisode, plan: Json, title: str = "") -> str:
        """An episode as HTML; its record and its house go into `data`."""
        name, house = f"record-{next(self._numbers)}", f"plan-{record.scan}"
        values = record.to_json()
        self.data |= {name: rounded(values), house: plan}
        return (
            f'<article class="card" data-record="{name}" data-plan="{escaped(house)}">\n'
            f"<header><h3>{text(title or f'Episode {record.id}')}</h3>{outcome(values)}</header>\n"
            f'{facts(values)}\n<div class="viewer"></div>\n'
            f'<div class="still">\n{still_card(values, plan)}\n</div>\n</article>'
        )


def write_card_page(path: Path, record: RecordedEpisode, plan: Json) -> None:
    """Write a page with one episode."""
    cards, title = Cards(), f"Episode {record.id}"
    card = cards.card(record, plan, record.where)
    scores = table(score_table("Scores", {record.agent: record.scores})) if record.scores else ""
    body = f'<h1>{text(title)}</h1>\n<p class="lead">{text(f"Walked by {record.agent}.")}</p>\n<h2>Step by step</h2>\n'
    write_page(path, title, f"{body}{card}\n{scores}", cards.data)


def rounded(values: Any) -> Any:
    """Numbers in few digits, which is all that a picture shows; scores stay as they are."""
    match values:
        case float():
            return float(f"{values:.{DIGITS}g}")
        case dict():
            return {key: value if key == "scores" else rounded(value) for key, value in values.items()}
        case list() | tuple():
            return [rounded(value) for value in values]
    return values


def write_card(path: Path, record: RecordedEpisode, data: Data) -> None:
    """Write a card, by its ending as a page to step through (.html) or as a picture (.svg, .png, .pdf)."""
    require_card_name(path)
    if path.suffix.lower() == PAGE:
        write_card_page(path, record, house_plan(data, record.scan))
        return
    from vlnbert.analysis.figures import save_figure  # both need matplotlib, which the explorer does without
    from vlnbert.analysis.floorplan import draw_episode

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
