"""A report as one HTML file: findings on the walks of a run, and sections of text, bars, figures and episodes."""

from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from vlnbert.analysis.card import Cards
from vlnbert.analysis.figures import draw_losses, draw_rates, figure_svg
from vlnbert.analysis.page import Markup, table, text, write_page
from vlnbert.evaluation.evaluate import RAN_OUT, Evaluation
from vlnbert.evaluation.metrics import Scores, Summary, is_rate, own_keys, score_keys, shown
from vlnbert.evaluation.recording import RecordedEpisode
from vlnbert.tables import Table, escaped
from vlnbert.tasks.episodes import Episodes
from vlnbert.tasks.task import METRICS, TASKS
from vlnbert.world.world import World

MOST_HOUSES = 12  # shown one by one; of more, those with the most and the least success
FARTHEST = 5  # moves along the reference after which to leave it counts as one

SUCCESS, EARLY, LATE, LOST, OUT_OF_STEPS = "success", "too early", "too late", "lost", "ran out of steps"
ENDINGS = {  # of every episode one
    SUCCESS: "ended where it should",
    EARLY: "stopped on the described path, before the goal",
    LATE: "came by a place where stopping succeeds, and went on",
    LOST: "stopped away from the described path, and was never where it should",
    OUT_OF_STEPS: "was still walking when its steps were used up",
}
NEVER_LEFT = "never left it"
BEST, TYPICAL, WORST = "best", "typical", "worst"
R2R_METRICS, REVERIE_METRICS = ("tl", "ne", "sr", "spl"), ("sr", "osr", "spl", "tl", "rgs", "rgspl")
NO_START, OSCAR, PREVALENT = "paper, from nothing", "paper, from OSCAR", "paper, from PREVALENT"

# As printed: rates in percent, TL and NE in metres.
ROWS: Mapping[str, Mapping[str, str]] = {
    "r2r/val_seen": {
        NO_START: "9.78 3.92 62 59",
        OSCAR: "10.79 3.11 71 67",
        PREVALENT: "11.13 2.90 72 68",
    },
    "r2r/val_unseen": {
        NO_START: "10.31 5.10 50 46",
        OSCAR: "11.86 4.29 59 53",
        PREVALENT: "12.01 3.93 63 57",
    },
    "reverie/val_seen": {
        NO_START: "39.56 42.09 36.29 12.06 21.15 19.39",
        OSCAR: "39.85 41.32 35.86 12.85 24.46 22.28",
        PREVALENT: "51.79 53.90 47.96 13.44 38.23 35.61",
    },
    "reverie/val_unseen": {
        NO_START: "25.76 29.28 22.16 14.52 11.62 9.87",
        OSCAR: "25.53 27.66 21.06 14.35 14.20 12.00",
        PREVALENT: "30.67 35.02 24.90 16.78 18.77 15.27",
    },
}
# Of the houses and ids of the published splits: generated houses have splits of the same names.
DIGESTS = {
    "r2r/val_seen": "3cefa176755a8ad0",
    "r2r/val_unseen": "7f46c68e6839f684",
    "reverie/val_seen": "bc145d6607f90d87",
    "reverie/val_unseen": "0ef883fd804d0848",
}

ASKED = {
    "r2r": "An agent stands in a house and reads an instruction, such as “{example}” It walks from one viewpoint to "
    "the next, choosing at each among those that it can see, until it decides to stop. It has succeeded if it ends "
    "less than 3 m from the end of the path that was described, measured along the ways that can be walked.",
    "reverie": "An agent stands in a house and reads a request, such as “{example}” It walks from one viewpoint to the "
    "next until it decides to stop, and then says which of the objects in view was meant. The way has succeeded if it "
    "ends where that object can be seen, and the whole request if it also names the right one.",
}
HOUSES = {
    "val_seen": "The houses are those that it learned in; these instructions are new to it.",
    "val_unseen": "It has never been in these houses.",
    "dev_unseen": "These houses were kept out of its training.",
}
MEANINGS = {
    "sr": "success rate: the share of episodes that ended less than 3 m from the goal",
    "osr": "oracle success rate: the share that came so close at any time, whether or not it stopped there",
    "spl": "success weighted by path length: a success counts fully where the way was no longer than the shortest",
    "ndtw": "how much the walk is like the described path, in its order; 100 where both are the same",
    "sdtw": "the same, counted only where the episode succeeded",
    "cls": "how much of the described path was covered, less where the walk was too long or too short",
    "rgs": "remote grounding success: the share of episodes in which the right object was named",
    "rgspl": "the same, weighted by path length as SPL is",
    "tl": "trajectory length: how far it walked",
    "ne": "navigation error: how far from the goal it ended, along the ways that can be walked; less is better",
}
SEEN = {
    "sr": "success rate: the share of episodes that ended where the object can be seen",
    "osr": "oracle success rate: the share that came by such a place at any time",
}
ENDS = (".", "!", "?")
BASELINES = "random picks a direction and walks five steps; shortest knows the goal and cannot be beaten."


@dataclass(frozen=True)
class EpisodeCard:
    """An episode in its house."""

    title: str
    record: RecordedEpisode
    plan: dict[str, Any]


Part = Markup | Table | EpisodeCard
Group = tuple[str, float, int]  # of episodes: its name, success rate and size


@dataclass(frozen=True)
class Section:
    title: str
    parts: Sequence[Part]


@dataclass(frozen=True)
class Report:
    """The parts of a page, from top to bottom. `data` is in it as JSON, by id."""

    title: str
    opening: Sequence[Part]
    sections: Sequence[Section]
    data: dict[str, Any] = field(default_factory=dict)


def write_report(path: Path, report: Report) -> None:
    """Write the report; a reader never sees half of it."""
    cards = Cards()
    parts = [f"<h1>{text(report.title)}</h1>", *(_part(part, cards) for part in report.opening)]
    for section in report.sections:
        inner = "\n".join(_part(part, cards) for part in section.parts)
        parts.append(
            f'<section aria-label="{escaped(section.title)}">\n<h2>{text(section.title)}</h2>\n{inner}\n</section>'
        )
    write_page(path, report.title, "\n".join(parts), report.data | cards.data)


def _part(part: Part, cards: Cards) -> str:
    match part:
        case EpisodeCard(title, record, plan):
            return cards.card(record, plan, title)
        case Table():
            return table(part)
    return part


def paragraph(words: str, kind: str = "") -> Markup:
    """A paragraph; `kind` is "note" or "lead"."""
    return Markup(f'<p class="{escaped(kind)}">{text(words)}</p>' if kind else f"<p>{text(words)}</p>")


def figures(numbers: Iterable[tuple[str, str, str]]) -> Markup:
    """The few numbers that matter most: value, unit and meaning of each."""
    cells = ((label, value, f" <small>{text(unit)}</small>" if unit else "") for value, unit, label in numbers)
    inner = "".join(f"<div><dt>{text(label)}</dt><dd>{text(value)}{unit}</dd></div>" for label, value, unit in cells)
    return Markup(f'<dl class="figures">{inner}</dl>')


def terms(meanings: Iterable[tuple[str, str]]) -> Markup:
    """Words and what they mean."""
    inner = "".join(f"<dt>{text(term)}</dt><dd>{text(meaning)}</dd>" for term, meaning in meanings)
    return Markup(f'<dl class="words-of">{inner}</dl>')


def bars(title: str, measure: str, rows: Iterable[tuple[str, float, int]], note: str = "") -> Markup:
    """Shares side by side, as bars: the name of each, its share of 1, and its number of episodes."""
    inner = "\n".join(
        f'<tr><th scope="row" title="{escaped(name)}">{text(name)}</th>'
        f'<td class="bar"><span style="--share: {share:.1%}"></span></td>'
        f'<td class="number">{100 * share:.1f} %</td><td class="number">{count:,}</td></tr>'
        for name, share, count in rows
    )
    remark = f'\n<p class="note">{text(note)}</p>' if note else ""
    return Markup(
        f'<h3>{text(title)}</h3>\n<table class="bars"><thead><tr>'
        f'<th scope="col"><span class="unseen">which</span></th>'
        f'<th scope="col" colspan="2" class="number">{text(measure)}</th>'
        f'<th scope="col" class="number">episodes</th></tr></thead>\n<tbody>\n{inner}\n</tbody></table>{remark}'
    )


def drawing(svg: str, caption: str) -> Markup:
    """A figure, as `figure_svg` makes it: it enters the page as it is."""
    return Markup(f'<figure><div class="hold">{svg}</div><figcaption>{text(caption)}</figcaption></figure>')


def columns(*parts: Markup, kind: str = "columns") -> Markup:
    """Parts side by side where there is room; `kind` is "columns" or "drawings"."""
    return Markup(f'<div class="{kind}">{"".join(f"<div>{part}</div>" for part in parts)}</div>')


def listing(code: str) -> Markup:
    """Commands or a file."""
    return Markup(f'<pre tabindex="0"><code>{text(code)}</code></pre>')


def folded(summary: str, part: Markup) -> Markup:
    """A part that is folded until it is clicked."""
    return Markup(f"<details>\n<summary>{text(summary)}</summary>\n{part}\n</details>")


def own(name: str) -> Markup:
    """The name of the agent that a report is about: its row stands out."""
    return Markup(f'<span class="own">{escaped(name)}</span>')


def what_was_asked(task: str, split: str, example: str) -> list[Markup]:
    """The task in plain words."""
    first, *_ = (TASKS[task].__doc__ or f"The task {task}.").strip().splitlines()
    example = example.strip()
    words = ASKED.get(task, f"{first} An instruction: “{{example}}”")
    words = words.replace("{example}", example if example.endswith(ENDS) else f"{example}.")
    return [paragraph(part, "lead") for part in (words, HOUSES.get(split)) if part]


def headline(task: str, scores: Mapping[str, Summary], agent: str) -> list[tuple[str, str, str]]:
    """The `figures` that matter most, beside those of the random agent."""
    finds, own_metrics = TASKS[task].sees_objects, own_keys(scores[agent])
    labels = {
        "sr": "ended where the object can be seen (SR)" if finds else "of episodes succeeded (SR)",
        "spl": "success weighted by path length (SPL)",
        "rgs": "named the right object (RGS)",
        "ne": "from the goal in the end, on average (NE)",
    }
    labels |= {key: METRICS[key].meaning or METRICS[key].title for key in own_metrics}
    if not finds:
        del labels["rgs"]
    numbers = []
    for key, label in labels.items():
        value, random = scores[agent].get(key), scores.get("random", {}).get(key)
        if value is not None:
            beside = "" if random is None else f"; random: {shown(key, random)}"
            numbers.append((shown(key, value), METRICS[key].unit, label + beside))
    return numbers


def how_well(
    task: str, scores: Mapping[str, Summary], agent: str, paper: Mapping[str, Mapping[str, str]], note: str
) -> Section:
    """The scores beside those of the baselines and, on a published split, of the paper; and what they mean."""
    keys = score_keys(scores.values())
    rows = [
        [own(name) if name == agent else name, *(shown(key, summary.get(key)) for key in keys)]
        for name, summary in scores.items()
    ]
    rows += [[name, *(row.get(key, "-") for key in keys)] for name, row in paper.items()]
    remarks = [BASELINES, note, "The paper's rows are as printed; its agents saw image features." if paper else ""]
    words = MEANINGS | (SEEN if TASKS[task].sees_objects else {})
    words |= {key: METRICS[key].meaning for key in own_keys(scores[agent]) if METRICS[key].meaning}
    table = Table(["agent", *(METRICS[key].heading for key in keys)], rows, note=" ".join(filter(None, remarks)))
    meanings = [(METRICS[key].title, words[key]) for key in keys if key in words]
    others = [METRICS[key] for key in own_keys(scores[agent]) if not is_rate(key)]
    units = "".join(f", {metric.title} {f'in {metric.unit}' if metric.unit else 'has no unit'}" for metric in others)
    unit = f"TL and NE are in metres{units}, the other scores in percent, as means over all episodes."
    return Section("How well it did", [table, terms(meanings), paragraph(unit, "note")])


def how_it_learned(log: Sequence[dict[str, Any]], split: str, others: Mapping[str, float]) -> Section:
    """The curves of the losses and of the scores on a split."""
    losses = drawing(
        figure_svg(draw_losses(log)), "The losses, which training tries to make smaller, update by update."
    )
    rates = drawing(
        figure_svg(draw_rates(log, split, others)), f"The scores on {split} at each validation, in percent."
    )
    return Section("How it learned", [columns(losses, rates, kind="drawings")])


def what_went_wrong(mistakes: "Mistakes") -> Section:
    """How episodes ended, where paths were left, and which episodes are hard."""
    total = sum(mistakes.endings.values()) or 1
    endings, left = (
        [(name, count / total, count) for name, count in counts.items()]
        for counts in (mistakes.endings, mistakes.left_path)
    )
    some = len(mistakes.by_house) < mistakes.houses
    houses = f"The easiest and the hardest of {mistakes.houses} houses." if some else ""
    note = "Counted in the moves made along it before. Who stops on the path has not left it."
    return Section(
        "Where it went wrong",
        [
            columns(
                bars("How episodes ended", "share", endings),
                bars("Where it left the described path", "share", left, note),
            ),
            terms(ENDINGS.items()),
            columns(
                bars("By the length of the path", "SR", mistakes.by_path_length),
                bars("By the length of the instruction", "SR", mistakes.by_words),
            ),
            bars("By house", "SR", mistakes.by_house, houses),
        ],
    )


@dataclass(frozen=True)
class Mistakes:
    """Counts of an agent's failures, by kind, on one split."""

    endings: dict[str, int]  # by `ENDINGS`
    left_path: dict[str, int]  # by how many moves along the reference were made before it was left
    by_path_length: Sequence[Group]
    by_words: Sequence[Group]
    by_house: Sequence[Group]
    houses: int  # of which `by_house` shows all or some


def find_mistakes(evaluation: Evaluation) -> Mistakes:
    """Count the kinds of mistakes in a scored evaluation."""
    scores, episodes = evaluation.scores, evaluation.episodes
    if scores is None:
        raise ValueError("goals are withheld: nobody knows what went wrong")
    world, walked = evaluation.world, evaluation.trajectories
    succeeded = [bool(value) for value in scores.sr.tolist()]
    rows = zip(walked.viewpoint.tolist(), walked.length.tolist(), strict=True)
    # Staying repeats no viewpoint.
    walks = [[viewpoint for viewpoint, _ in groupby(row[:length])] for row, length in rows]
    rows = zip(episodes.path.tolist(), episodes.path_length.tolist(), strict=True)
    references = [row[:length] for row, length in rows]
    endings = endings_of(evaluation, scores, walks, references)
    left = Counter(moves_along(*pair) for pair in zip(walks, references, strict=True))
    left_path = {"at the start": left[0]} | {f"after {moves}": left[moves] for moves in range(1, FARTHEST)}
    late = sum(count for moves, count in left.items() if moves is not None and moves >= FARTHEST)
    left_path |= {f"after {FARTHEST} or more": late, NEVER_LEFT: left[None]}
    metres = [float(world.metres(row[:-1], row[1:]).sum()) for row in episodes.path]
    words = [len(text.split()) for text in episodes.texts]
    houses = sorted(_grouped(_scans(world, episodes), succeeded), key=lambda group: (-group[1], group[0]))
    half = MOST_HOUSES // 2
    return Mistakes(
        endings={name: endings.count(name) for name in ENDINGS},
        left_path=left_path,
        by_path_length=_in_quarters(metres, succeeded, "m"),
        by_words=_in_quarters(words, succeeded, "words"),
        by_house=houses if len(houses) <= MOST_HOUSES else houses[:half] + houses[-half:],
        houses=len(houses),
    )


def _scans(world: World, episodes: Episodes) -> list[str]:
    return [world.scans[number] for number in world.scan_of[episodes.start].tolist()]


def endings_of(
    evaluation: Evaluation, scores: Scores, walks: Sequence[list[int]], references: Sequence[list[int]]
) -> list[str]:
    """[episode] how it ended, one of `ENDINGS`."""
    found = []
    for row, (walk, reference) in enumerate(zip(walks, references, strict=True)):
        if scores.sr[row]:
            found.append(SUCCESS)
        elif evaluation.outcomes[row] == RAN_OUT:
            found.append(OUT_OF_STEPS)
        elif scores.osr[row]:
            found.append(LATE)
        else:
            found.append(EARLY if walk[-1] in reference else LOST)
    return found


def moves_along(walk: Sequence[int], reference: Sequence[int]) -> int | None:
    """How many moves along the reference were made before it was left; None where it was not left.

    An agent that walks beyond its end leaves it there; one that stops on it does not.
    """
    for move, viewpoint in enumerate(walk):
        if move >= len(reference) or viewpoint != reference[move]:
            return move - 1
    return None


def _in_quarters(values: Sequence[float], succeeded: Sequence[bool], unit: str) -> list[Group]:
    """Episodes in about four groups of like size, between whole numbers."""
    edges = sorted({int(edge) for edge in np.quantile(values, [0.25, 0.5, 0.75]).round()})
    places = np.searchsorted(edges, values, side="right").tolist()
    between = [f"{low} to {high} {unit}" for low, high in pairwise(edges)]
    names = [f"under {edges[0]} {unit}", *between, f"{edges[-1]} {unit} or more"]
    return sorted(_grouped([names[place] for place in places], succeeded), key=lambda group: names.index(group[0]))


def _grouped(names: Sequence[str], succeeded: Sequence[bool]) -> list[Group]:
    counted, successes = Counter(names), Counter(name for name, right in zip(names, succeeded, strict=True) if right)
    return [(name, successes[name] / count, count) for name, count in counted.items()]


def pick_episodes(scores: Scores, count: int, paths: Sequence[Hashable]) -> list[tuple[str, int]]:
    """Pick up to `count` rows, each once, with their kind: about a third of each, best first.

    Episodes are ordered by success, then by SPL and nDTW; of the best the longer ones are shown, of the worst those
    that ended farthest from the goal. Typical are those in the middle of that order. Of episodes on the same path, by
    `paths` [row], only one is shown as long as there are others.
    """
    rows = range(len(scores))
    sr, spl, ndtw, tl, ne = (one.tolist() for one in (scores.sr, scores.spl, scores.ndtw, scores.tl, scores.ne))
    best = sorted(rows, key=lambda row: (-sr[row], -round(spl[row], 2), -round(ndtw[row], 1), -tl[row], row))
    worst = sorted(rows, key=lambda row: (sr[row], -ne[row], row))
    ordered = sorted(rows, key=lambda row: (sr[row], spl[row], ndtw[row], row))
    # From the middle outwards.
    typical = [ordered[place] for place in sorted(rows, key=lambda place: (abs(place - len(ordered) // 2), place))]
    share = {BEST: -(-count // 3), TYPICAL: -(-(count - 1) // 3), WORST: count // 3}
    picked, taken, walked = list[tuple[str, int]](), set[int](), set[Hashable]()
    for kind, candidates in ((BEST, best), (WORST, worst), (TYPICAL, typical)):
        for _ in range(share[kind]):
            free = [row for row in candidates if row not in taken]
            chosen = next((row for row in free if paths[row] not in walked), next(iter(free), None))
            if chosen is not None:
                taken.add(chosen)
                walked.add(paths[chosen])
                picked.append((kind, chosen))
    return sorted(picked, key=lambda pick: (BEST, TYPICAL, WORST).index(pick[0]))


def paper_rows(world: World, episodes: Episodes) -> dict[str, dict[str, str]]:
    """The paper's rows, metric by metric, where the episodes are those of a published split; else none."""
    name = f"{episodes.task}/{episodes.split}"
    if DIGESTS.get(name) != digest(world, episodes):
        return {}
    metrics = REVERIE_METRICS if episodes.task == "reverie" else R2R_METRICS
    return {agent: dict(zip(metrics, numbers.split(), strict=True)) for agent, numbers in ROWS[name].items()}


def digest(world: World, episodes: Episodes) -> str:
    """Tells splits apart by their houses and the ids of their instructions."""
    names = sorted(f"{scan}/{id}" for scan, id in zip(_scans(world, episodes), episodes.ids, strict=True))
    return blake2b("\n".join(names).encode(), digest_size=8).hexdigest()
