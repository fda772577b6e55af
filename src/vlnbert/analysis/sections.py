"""The sections of a report on one split: what was asked, how well it went, how it was learned, what went wrong."""

from collections.abc import Mapping, Sequence
from typing import Any

from vlnbert.analysis.curves import draw_losses, draw_rates
from vlnbert.analysis.inline_svg import figure_svg
from vlnbert.analysis.mistakes import ENDINGS, Group, Mistakes
from vlnbert.analysis.report import Bar, Bars, Columns, Drawing, Figures, Section, Terms, Words, own
from vlnbert.evaluation.tables import Summary, is_rate, own_keys, score_keys, shown
from vlnbert.tables import Table
from vlnbert.tasks.task import METRICS, TASKS

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


def what_was_asked(task: str, split: str, example: str) -> list[Words]:
    """The task in plain words."""
    first, *_ = (TASKS[task].__doc__ or f"The task {task}.").strip().splitlines()
    fallback = f"{first} An instruction: “{{example}}”"
    houses = HOUSES.get(split, "")
    example = example.strip()
    told = ASKED.get(task, fallback).replace("{example}", example if example.endswith(ENDS) else f"{example}.")
    return [Words(told, "lead"), *([Words(houses, "lead")] if houses else [])]


def headline(task: str, scores: Mapping[str, Summary], agent: str) -> Figures:
    """The numbers that matter most, beside those of the random agent."""
    keys = ("sr", "spl", "rgs", "ne") if TASKS[task].sees_objects else ("sr", "spl", "ne")
    labels = {
        "sr": "ended where the object can be seen (SR)" if TASKS[task].sees_objects else "of episodes succeeded (SR)",
        "spl": "success weighted by path length (SPL)",
        "rgs": "named the right object (RGS)",
        "ne": "from the goal in the end, on average (NE)",
    }
    own = own_keys(scores[agent])
    labels |= {key: METRICS[key].meaning or METRICS[key].title for key in own}
    numbers = []
    for key in (*keys, *own):
        value, random = scores[agent].get(key), scores.get("random", {}).get(key)
        if value is not None:
            beside = "" if random is None else f"; random: {shown(key, random)}"
            numbers.append((shown(key, value), METRICS[key].unit, labels[key] + beside))
    return Figures(numbers)


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
    told = [BASELINES, note]
    if paper:
        told.append("The paper's rows are as printed; its agents saw image features.")
    words = MEANINGS | (SEEN if TASKS[task].sees_objects else {})
    words |= {key: METRICS[key].meaning for key in own_keys(scores[agent]) if METRICS[key].meaning}
    table = Table(["agent", *(METRICS[key].heading for key in keys)], rows, note=" ".join(filter(None, told)))
    meanings = [(METRICS[key].title, words[key]) for key in keys if key in words]
    others = [METRICS[key] for key in own_keys(scores[agent]) if not is_rate(key)]
    units = "".join(f", {metric.title} {f'in {metric.unit}' if metric.unit else 'has no unit'}" for metric in others)
    unit = Words(f"TL and NE are in metres{units}, the other scores in percent, as means over all episodes.", "note")
    return Section("How well it did", [table, Terms(meanings), unit])


def how_it_learned(log: Sequence[dict[str, Any]], split: str, others: Mapping[str, float]) -> Section:
    losses = Drawing(
        figure_svg(draw_losses(log)), "The losses, which training tries to make smaller, update by update."
    )
    rates = Drawing(
        figure_svg(draw_rates(log, split, others)), f"The scores on {split} at each validation, in percent."
    )
    return Section("How it learned", [Columns([losses, rates])])


def what_went_wrong(found: Mistakes) -> Section:
    """How episodes ended, where paths were left, and which episodes are hard."""
    total = sum(found.endings.values())
    endings = [_share(name, number, total) for name, number in found.endings.items()]
    left = [_share(name, number, total) for name, number in found.left_path.items()]
    houses = "" if len(found.by_house) == found.houses else f"The easiest and the hardest of {found.houses} houses."
    meanings = Terms([(name, meaning) for name, meaning in ENDINGS.items()])
    return Section(
        "Where it went wrong",
        [
            Columns(
                [
                    Bars("How episodes ended", endings, "share"),
                    Bars(
                        "Where it left the described path",
                        left,
                        "share",
                        "Counted in the moves made along it before. Who stops on the path has not left it.",
                    ),
                ]
            ),
            meanings,
            Columns(
                [
                    Bars("By the length of the path", _rates(found.by_path_length), "SR"),
                    Bars("By the length of the instruction", _rates(found.by_words), "SR"),
                ]
            ),
            Bars("By house", _rates(found.by_house), "SR", houses),
        ],
    )


def _share(name: str, number: int, total: int) -> Bar:
    share = number / total if total else 0.0
    return Bar(name, share, f"{100 * share:.1f} %", number)


def _rates(groups: Sequence[Group]) -> list[Bar]:
    return [Bar(group.name, group.rate, f"{100 * group.rate:.1f} %", group.episodes) for group in groups]
