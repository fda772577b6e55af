"""Build the tables of docs/results.md and README.md from the logs in docs/measured/.

    python docs/tables.py            # rewrite the tables in the pages
    python docs/tables.py --check    # name the tables that differ from what the logs give, and exit with 1

A table stands between `<!-- table: NAME -->` and `<!-- end of table -->`. What no log holds is typed below and carries
the mark † on the page. A file may gain runs and validations; a file that is not there yet has no rows.
"""

import json
import lzma
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any, NamedTuple

DOCS = Path(__file__).resolve().parent
PAGES = (DOCS / "results.md", DOCS.parent / "README.md")
BLOCK = re.compile(r"<!-- table: ([\w-]+) -->\n.*?<!-- end of table -->", re.DOTALL)
UNLOGGED = "†"
METRICS = ("SR", "OSR", "SPL", "nDTW", "SDTW", "CLS", "RGS", "RGSPL", "TL", "NE")
NAMES = {name.lower(): name for name in METRICS}
METRES = ("tl", "ne")
OVERVIEW = ("sr", "osr", "spl", "ndtw", "tl", "ne")
REVERIE = ("sr", "osr", "spl", "rgs", "rgspl", "tl", "ne")
PAPER = {  # arXiv:2011.13922, tables 1 and 2, val_unseen; in percent and metres
    "r2r": {"from nothing": {"sr": 50, "spl": 46}, "OSCAR": {"sr": 59, "spl": 53}, "PREVALENT": {"sr": 63, "spl": 57}},
    "reverie": {
        "OSCAR": {"sr": 25.53, "osr": 27.66, "spl": 21.06, "rgs": 14.20, "rgspl": 12.00, "tl": 14.35},
        "PREVALENT": {"sr": 30.67, "osr": 35.02, "spl": 24.90, "rgs": 18.77, "rgspl": 15.27, "tl": 16.78},
    },
}
MEASURED_AT = "4c12cf3"  # the commit of the runs that README.md shows
SECONDS = {  # a training took, and how many others had the same GPU; no log holds them
    "r2r-open": (517, "up to eight"),
    "r2r-open-told": (642, "up to eight"),
    "reverie-open": (434, "eight"),
    "reverie-open-names": (226, "two, most of the time"),
}

Scores = Mapping[str, float]
Line = dict[str, Any]  # of a log: the run's name, its seed and commit where they are noted, iteration and scores
Cells = Sequence[str]


class Run(NamedTuple):
    """A run in a log, by what its lines say of it."""

    name: str
    commit: str | None = None
    seed: int | None = None


def validations(file: str) -> dict[Run, list[Line]]:
    """The validations of each run of a log, in their order."""
    path, runs = DOCS / "measured" / f"{file}.jsonl", dict[Run, list[Line]]()
    for line in map(json.loads, path.read_text().splitlines() if path.exists() else ()):
        if "scores" in line:
            runs.setdefault(Run(line.get("run", file), line.get("commit"), line.get("seed")), []).append(line)
    return runs


def best(lines: Iterable[Line], split: str, metric: str = "spl") -> Line:
    """The validation that an evaluation of the run would choose: the first of the best."""
    return max(lines, key=lambda line: line["scores"][split][metric])


def last(lines: Sequence[Line], split: str) -> Line:
    return lines[-1]


def mean(scores: Sequence[Scores]) -> Scores:
    return {metric: fmean(one[metric] for one in scores) for metric in scores[0]}


def mean_of(scores: Sequence[Scores], metric: str) -> float:
    return fmean(one[metric] for one in scores)


def cell(metric: str, value: float) -> str:
    return f"{value:.2f}" if metric in METRES else f"{100 * value:.1f}"


def cells(scores: Scores, metrics: Iterable[str]) -> list[str]:
    return [cell(metric, scores[metric]) for metric in metrics]


def pair(scores: Scores) -> str:
    return " / ".join(cells(scores, ("sr", "spl")))


def bold(text: str) -> str:
    return f"**{text}**"


def typed(text: str) -> list[str]:
    """Cells that no log holds, marked; an empty one stays empty."""
    return [part and f"{part} {UNLOGGED}" for part in (one.strip() for one in text.split("|"))]


def table(head: Cells, rows: Iterable[Cells]) -> str:
    lines = [list(head), ["---"] * len(head), *rows]
    assert all(len(line) == len(head) for line in lines), f"a row of another width below {head}"
    return "\n".join("|" + "".join(f" {part} |" if part else " |" for part in line) for line in lines)


def heads(metrics: Iterable[str], linked: bool = False) -> list[str]:
    glossary = "glossary.md"
    return [f"[{NAMES[one]}]({glossary}#{one})" if linked and one == "sr" else NAMES[one] for one in metrics]


def seeds(name: str, commit: str, split: str, choose: Callable[..., Line] = best) -> list[Line]:
    """The chosen validation of each seed of a recipe."""
    runs = validations("val-unseen")
    return [choose(lines, split) for run, lines in runs.items() if (run.name, run.commit) == (name, commit)]


def seed_mean(name: str, commit: str, split: str, choose: Callable[..., Line] = best, of: str = "") -> Scores:
    return mean([line["scores"][of or split] for line in seeds(name, commit, split, choose)])


# What stands in docs/results.md, in its order.

R2R, RVR = "r2r/val_unseen", "reverie/val_unseen"


def r2r_seeds() -> str:
    rows = []
    for name, learns_from in (("r2r-open", "people"), ("r2r-open-told", "people and a speaker")):
        for choose, at in ((best, "at the best SPL of its validations"), (last, "at the last update")):
            scores = [line["scores"][R2R] for line in seeds(name, MEASURED_AT, R2R, choose)]
            told = pair(mean(scores))
            rows.append([at, learns_from, *map(pair, scores), bold(told) if choose is best else told])
    return table(["SR / SPL on val_unseen", "learns from", "seed 0", "seed 1", "seed 2", "mean"], rows)


def r2r_means() -> str:
    metrics, rows = ("sr", "osr", "spl", "ndtw", "sdtw", "cls", "tl", "ne"), []
    for name in ("r2r-open", "r2r-open-told"):
        for choose, which in ((best, "best"), (last, "last")):
            for split in ("val_seen", "val_unseen"):
                scores = seed_mean(name, MEASURED_AT, R2R, choose, of=f"r2r/{split}")
                label = f"`{name}`, {which}" if split == "val_seen" else ""
                rows.append([label, split, *cells(scores, metrics)])
    return table(["mean of three seeds", "split", *heads(metrics, linked=True)], rows)


def training_time() -> str:
    names = ("r2r-open", "r2r-open-told", "reverie-open", "reverie-open-names")
    labels = (*(f"`{name}`" for name in names[:-1]), "`reverie-open`, with names (privileged)")
    updates = [seeds(name, MEASURED_AT, R2R, last)[0]["iteration"] for name in names]
    rows = [
        [label, f"{count:,}", *typed(f"{SECONDS[name][0]} | {SECONDS[name][1]}")]
        for name, label, count in zip(names, labels, updates, strict=True)
    ]
    return table(["recipe", "updates", "seconds", "other trainings on the same GPU"], rows)


def held_out() -> str:
    """The same runs, by the checkpoint that val_unseen chooses and by the one that held-out houses choose."""
    rows = []
    for file in ("held-out", "small-192"):
        recipes = dict[tuple[str, str | None], list[list[Line]]]()
        for run, lines in validations(file).items():
            recipes.setdefault((run.name, run.commit), []).append(lines)
        for (name, commit), runs in recipes.items():
            task = "reverie" if any(RVR in line["scores"] for line in runs[0]) else "r2r"
            here, there = f"{task}/val_unseen", f"{task}/dev_unseen"
            runs = [[line for line in lines if {here, there} <= set(line["scores"])] for lines in runs]
            protocols = [mean([best(lines, on)["scores"][here] for lines in runs]) for on in (here, there)]
            rows.append([f"`{name}`", commit or "", task.upper(), str(len(runs)), *map(pair, protocols)])
    if not rows:
        return "Not measured yet: neither `docs/measured/held-out.jsonl` nor `docs/measured/small-192.jsonl` is there."
    return table(["recipe", "commit", "task", "seeds", "chosen on val_unseen", "chosen on held-out houses"], rows)


CHOICES = ("dev_unseen", "val_unseen", "the last update")  # what a run with held-out houses may choose weights by


def chosen_runs(file: str, name: str, choice: str) -> list[Scores]:
    """The scores on val_unseen of each seed of a recipe that holds houses out, where one of the choices falls."""
    task = name.split("-")[0]
    runs = [lines for run, lines in validations(file).items() if run.name == name]
    choose = last if choice not in CHOICES[:2] else best
    return [choose(lines, f"{task}/{choice}")["scores"][f"{task}/val_unseen"] for lines in runs]


def held_out_seeds() -> str:
    rows = []
    for name in ("r2r-open", "r2r-open-told"):
        for choice in CHOICES:
            scores = chosen_runs("held-out", name, choice)
            told, first = pair(mean(scores)), choice == CHOICES[0]
            label = [f"`{name}`", bold(choice)] if first else ["", choice]
            rows.append([*label, *map(pair, scores), bold(told) if first else told])
    return table(["val_unseen, SR / SPL", "chosen on", "seed 0", "seed 1", "seed 2", "mean"], rows)


def map_memory() -> str:
    metrics, rows = ("sr", "spl", "rgs"), []
    policies = {
        "recurrent": "the recurrence",
        "map-memory-taught": "the map memory",
        "map-memory": "the map memory without `teaches_going_back`",
    }
    for task in ("r2r", "reverie"):
        for name, label in policies.items():
            runs = [lines for run, lines in validations("map-memory").items() if run.name == f"{task}-{name}"]
            chosen = [best(lines, f"{task}/dev_unseen") for lines in runs]
            splits = [[line["scores"][f"{task}/{split}"] for line in chosen] for split in ("dev_unseen", "val_unseen")]
            shown = metrics if task == "reverie" else metrics[:2]
            scores = [" / ".join(cell(metric, mean_of(split, metric)) for metric in shown) for split in splits]
            seeds = ", ".join(pair(one) for one in splits[1])
            rows.append([task.upper(), label, f"{runs[0][-1]['iteration']:,}", *scores, seeds])
    heads = ("dev_unseen", "val_unseen", "val_unseen, each seed")
    return table(["task", "policy", "updates in an hour", *heads], rows)


def leaderboards() -> str:
    rows = []
    for task in ("r2r", "reverie"):
        results = json.loads(lzma.decompress((DOCS / "measured" / f"{task}-test.json.xz").read_bytes()))
        places = [[step[0] for step in result["trajectory"]] for result in results]
        hops = Counter(sum(a != b for a, b in pairwise(path)) for path in places)
        nameless = f"{sum(one['predObjId'] is None for one in results):,}" if task == "reverie" else ""
        share = f"{hops[15]:,} ({100 * hops[15] / len(results):.0f} %)"
        rows.append([task.upper(), f"{len(results):,}", share, nameless])
    return table(["task", "results", "never stopped: all 15 steps are moves", "name no object"], rows)


def r4r() -> str:
    metrics = ("sr", "osr", "spl", "ndtw", "sdtw", "cls", "tl", "ne")
    (lines,) = validations("r4r-open").values()
    scores = best(lines, "r4r/val_unseen", "sdtw")["scores"]
    rows = [[split, *cells(scores[f"r4r/{split}"], metrics)] for split in ("val_seen", "val_unseen")]
    return table(["split", *heads(metrics, linked=True)], rows)


def of_runs(
    head: str,
    rows: str,
    metrics: Cells = OVERVIEW,
    split: str = "r2r/dev_unseen",
    most: Cells = (),
    linked: bool = False,
) -> str:
    """A table of runs in dev-unseen.jsonl at their best SPL; the most of some metrics is bold.

    A row is `first cells <- run, commit`, or `first cells <- typed: the other cells`.
    """
    runs, top = validations("dev-unseen"), dict.fromkeys(most, 0.0)
    split_rows = [line.split(" <- ") for line in rows.strip().splitlines()]
    found = dict[str, Scores]()
    for _, source in split_rows:
        if not source.startswith("typed:"):
            found[source] = best(runs[Run(*source.split(", "))], split)["scores"][split]
            top = {metric: max(value, found[source][metric]) for metric, value in top.items()}
    filled = []
    for first, source in split_rows:
        if source in found:
            scores = found[source]
            told = [
                bold(cell(one, scores[one])) if scores[one] == top.get(one) else cell(one, scores[one])
                for one in metrics
            ]
        else:
            told = typed(source.removeprefix("typed:"))
        filled.append([*(part.strip() for part in first.split("|")), *told])
    return table([*(part.strip() for part in head.split("|")), *heads(metrics, linked)], filled)


def sees() -> str:
    rows = """
`r2r-open` | <- r2r-open
the same, seed 1 | `--training.seed 1` <- r2r-open-seed-1, f863f3b
sees captions and detections alone | `--features.views captions` <- r2r-open-captions
sees observations alone | `--features.views observations` <- r2r-open-observations
without the captions' text | `--features.views detections,observations` <- r2r-open-no-caption-text
without detections | `--features.views caption-text,observations` <- r2r-open-no-detections
without observations ahead | `--features.views captions,observations-above-below` <- r2r-open-no-ahead
without those above and below | `--features.views captions,observations-ahead` <- r2r-open-no-above-below
and neighbouring views, and where detections lie | `--features.views captions,observations,captions-beside,detection-places` <- r2r-open-four-channels
without averaged weights | `--training.ema 0` <- r2r-open-no-average
captions read by all-mpnet-base-v2 | `--features.encoder FOLDER` <- r2r-open-mpnet
student forcing 0.5 | `--training.objective.student-forcing 0.5` <- r2r-open-student-forcing-0.5
feature dropout 0.2 | `--navigator.feature-dropout 0.2` <- r2r-open-feature-dropout-0.2
no feature dropout | `--navigator.feature-dropout 0` <- r2r-open-feature-dropout-0
learning rate 2e-4 | `--training.learning-rate 2e-4` <- r2r-open-learning-rate-2e-4
blind to views | `--features.views nothing` ([examples/blind.py](../examples/blind.py)) <- r2r-open-blind
blind to words | every instruction is "walk" <- r2r-open-wordless
"""  # noqa: E501
    return of_runs("| `OPTIONS`", rows, linked=True)


def learns_from() -> str:
    rows = """
none (commit 2228849) | 3,000 <- r2r-open-student-forcing-0.5-long
`PARTS` | 3,000 <- sub-instructions, 4bac129
`--training.objective.alignment 0.3` | 3,000 <- alignment-0.3, 4bac129
`--training.objective.alignment 1` | 3,000 <- alignment-1, 4bac129
`FLIP` | 3,000 <- flip-student-forcing-0.25, 4bac129
`FLIP` | 4,500 <- flip-student-forcing-0.25-4500, 4bac129
`FLIP WORDS` | 4,000 <- alignment-0.5-flip-student-forcing-0.25, 4bac129
`FLIP PARTS` | 4,000 <- sub-instructions-flip-student-forcing-0.25, 4bac129
`FLIP PARTS WORDS` | 4,000 <- sub-instructions-alignment-0.5-flip-student-forcing-0.25, 4bac129
"""
    return of_runs("`OPTIONS` | `UPDATES`", rows, most=("sr", "spl"))


AMOUNTS = {  # of generated instructions: the runs that learned from so many, 4,000 updates
    0: "alignment-0.5-flip-student-forcing-0.25",
    25_000: "told-25000-alignment-0.5-4000",
    75_000: "told-75000-alignment-0.5-4000",
    166_048: "told-alignment-0.5-4000",
}


def told_amounts() -> str:
    labels = ("none (`FLIP WORDS` [above](#what-each-part-is-worth))", "25,000", "75,000", "166,048, all there are")
    faster = ("166,048, `--training.learning-rate 2e-4`", "told-alignment-0.5-learning-rate-2e-4-4000")
    named = [*zip(labels, AMOUNTS.values(), strict=True), faster]
    return of_runs(
        "generated instructions | `UPDATES`", "\n".join(f"{label} | 4,000 <- {run}, 4bac129" for label, run in named)
    )


def reverie() -> str:
    rows = []
    for name, objects in (
        ("reverie-open", "without names"),
        ("reverie-open-names", "names, observations (privileged)"),
    ):
        for seed, line in enumerate(seeds(name, MEASURED_AT, RVR)):
            rows.append([f"seed {seed}", "" if seed else objects, *cells(line["scores"][RVR], REVERIE)])
        scores = dict(zip(REVERIE, cells(seed_mean(name, MEASURED_AT, RVR), REVERIE), strict=True))
        marked = {one: bold(value) if one in ("sr", "spl", "rgs", "rgspl") else value for one, value in scores.items()}
        rows.append(["**mean**", "", *marked.values()])
        rows.append(["mean at the last update", "", *cells(seed_mean(name, MEASURED_AT, RVR, last), REVERIE)])
    for start, scores in PAPER["reverie"].items():
        told = [f"{scores[one]:.{2 if one in METRES else 1}f}" if one in scores else "" for one in REVERIE]
        rows.append([f"the paper, from {start}", "pixels", *told])
    return table(["val_unseen", "objects", *heads(REVERIE)], rows)


def reverie_others() -> str:
    rows = []
    for name, objects in (
        ("reverie-open", "without names"),
        ("reverie-open-names", "names, observations (privileged)"),
    ):
        for split in ("reverie/val_seen", "r2r/val_seen", "r2r/val_unseen"):
            scores = seed_mean(name, MEASURED_AT, RVR, of=split)
            told = [cell(one, scores[one]) if scores.get(one) is not None else "" for one in REVERIE]
            rows.append([split, objects, *told])
    return table(["split", "objects", *heads(REVERIE)], rows)


# What stands in README.md.


def readme_scores() -> str:
    metrics = ("sr", "spl", "rgs", "rgspl")
    told = "a speaker's instructions](docs/results.md#what-a-speaker-adds): `r2r-open-told`"
    rows = []
    for name, split, label in (
        ("r2r-open", R2R, "R2R, people's instructions and LAR2R's manual word labels: `r2r-open`"),
        ("r2r-open-told", R2R, f"R2R, and [{told}"),
        ("reverie-open", RVR, "REVERIE, learning from R2R too: `reverie-open`"),
        ("reverie-open-names", RVR, "REVERIE and R2R, objects seen by their annotated names (privileged)"),
    ):
        scores = seed_mean(name, MEASURED_AT, split)
        numbers = [cell(one, scores[one]) if scores.get(one) is not None else "" for one in metrics]
        rows.append([label, *numbers, f"{round(SECONDS[name][0] / 60)} min {UNLOGGED}"])
    for task, label in (
        ("r2r", "*the paper, with pixels, from OSCAR, then PREVALENT:* R2R"),
        ("reverie", "*the same:* REVERIE"),
    ):
        both = [PAPER[task][start] for start in ("OSCAR", "PREVALENT")]
        digits = 0 if task == "r2r" else 1
        numbers = [", ".join(f"{one[metric]:.{digits}f}" for one in both if metric in one) for metric in metrics]
        rows.append([label, *numbers, ""])
    linked = [f"[{NAMES[one]}](docs/glossary.md#{one})" for one in metrics]
    return table(["val_unseen, one H200", *linked, "trained in"], rows)


BUILDERS: tuple[Callable[[], str], ...] = (
    *(r2r_seeds, r2r_means, training_time, held_out, leaderboards, r4r, sees, learns_from),
    *(held_out_seeds, map_memory, told_amounts),
    *(reverie, reverie_others, readme_scores),
)
TABLES = {builder.__name__.replace("_", "-"): builder for builder in BUILDERS}


def built(text: str) -> str:
    """A page with its tables as the logs give them."""
    return BLOCK.sub(lambda block: f"<!-- table: {block[1]} -->\n\n{TABLES[block[1]]()}\n\n<!-- end of table -->", text)


def differing(text: str) -> list[str]:
    """The names of a page's tables that differ from what the logs give."""
    return [block[1] for block in BLOCK.finditer(text) if built(block[0]) != block[0]]


def main(check: bool) -> int:
    """Rewrite the pages, or with `check` name what differs."""
    stale = {page: differing(page.read_text()) for page in PAGES}
    for page, names in stale.items():
        if names and check:
            print(f"{page.name}: {', '.join(names)}: not what the logs give; run: python docs/tables.py")
        elif names:
            page.write_text(built(page.read_text()))
    return int(check and any(stale.values()))


if __name__ == "__main__":
    sys.exit(main("--check" in sys.argv[1:]))
