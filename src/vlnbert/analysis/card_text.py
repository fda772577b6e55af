"""An episode's card as text, for a terminal or a pipe: what was asked, step by step what was done, what came of it."""

import math
from typing import TYPE_CHECKING

from vlnbert.analysis.words import laid_out, most_read
from vlnbert.evaluation.episode_record import RecordedEpisode, RecordedStep
from vlnbert.evaluation.tables import score_table
from vlnbert.tables import WIDE, Table

if TYPE_CHECKING:
    from rich.text import Text

READ = 3  # words that a step names
SMALL = 0.01  # a share that is not written as a number
STRAIGHT = 15  # degrees to either side that count as ahead, or as behind
SHADES = (  # from which share of the strongest word's attention, and how it is shaded; the ink is told for dark screens
    (0.66, "black on rgb(255,150,60)"),
    (0.4, "black on rgb(255,190,130)"),
    (0.2, "black on rgb(255,225,195)"),
)
COLOURS = {"Success": "bold green", "Failure": "bold red"}


def card_text(record: RecordedEpisode, width: int = WIDE) -> str:
    """The whole card without colour."""
    head = "\n".join(head_lines(record))
    return "\n\n".join([head, record.instruction.text.strip(), *(table.text(width) for table in tables(record))])


def head_lines(record: RecordedEpisode) -> tuple[str, str]:
    """Which episode, and what became of it."""
    return f"Episode {record.id}, {record.where}, walked by {record.agent}", f"{record.verdict}: {record.ending}"


def tables(record: RecordedEpisode) -> list[Table]:
    """The steps and, where there are some, the scores."""
    scores = [score_table("scores", {record.agent: record.scores})] if record.scores else []
    return [step_table(record), *scores]


def step_table(record: RecordedEpisode) -> Table:
    """A row for each decision; columns that no step has anything to say in are left out."""
    words = record.instruction.words
    rows = [(str(number), *_cells(step, words)) for number, step in enumerate(record.steps, start=1)]
    columns = ("step", "to goal", "chooses", "p", "next best", "teacher", "object", "attends to", "sees there")
    said = [place for place, column in enumerate(zip(*rows, strict=True)) if place < 3 or any(map(str.strip, column))]
    return Table([columns[place] for place in said], [[row[place] for place in said] for row in rows], title="Steps")


def shaded_instruction(record: RecordedEpisode) -> "Text":
    """The words as read, shaded by their mean attention over all steps; as written where nobody tells of any."""
    from rich.text import Text

    told = [step.attention for step in record.steps if step.attention is not None]
    if not told:
        return Text(record.instruction.text.strip())
    mean = [sum(weights) / len(told) for weights in zip(*told, strict=True)]
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
    """A choice as one would say it: which way, from where the agent looks, and how far."""
    it = step.choices[choice]
    if it.viewpoint is None:
        return "stop"
    return way_to(it.heading, it.elevation, it.distance, facing=step.heading)


def way_to(heading: float, elevation: float, distance: float, *, facing: float) -> str:
    """Which way and how far, as one would say it who faces that way."""
    turn = math.degrees((heading - facing + math.pi) % math.tau - math.pi)
    way = f"{abs(turn):.0f}° {'right' if turn > 0 else 'left'}"
    way = "ahead" if abs(turn) < STRAIGHT else "back" if abs(turn) > 180 - STRAIGHT else way
    rise = math.degrees(elevation)
    steep = "" if abs(rise) < STRAIGHT else " up" if rise > 0 else " down"
    return f"{way}{steep}, {distance:.1f} m"


def percent(share: float | None) -> str:
    """A probability as people read it; one that is small is not none."""
    if share is None:
        return ""
    return "<1 %" if 0 < share < SMALL else f"{100 * share:.0f} %"
