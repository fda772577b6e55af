"""Verbs for data: what a folder holds, where one can go, what views and objects look like, more to learn from."""

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from vlnbert.cli.output import answer, print_json, show, tell
from vlnbert.cli.parser import command
from vlnbert.errors import PREFIX
from vlnbert.tables import Table


@command("data check", "vlnbert.api.data:check_data", ["folder"])
def check_data(verb: Callable[..., Any], folder: Path, json: bool = False) -> None:
    """Check every file of a data folder.

    Read every file of a data folder and say what is there, what is damaged and what each preset still needs.

    Exits with code 2 when something is damaged; data that is merely absent is no fault.

    Example: vlnbert data check data

    Args:
        json: Print one JSON object instead of tables.
    """
    found = verb(folder)
    if json:
        print_json(found.to_plain())
    else:
        for table in found.tables():
            show(table)
        for path, note in ((part.path, note) for part in found.parts for note in part.notes):
            tell(f"{path}: {note}")
        for fault in (fault for part in found.parts for fault in part.faults):
            tell(f"{PREFIX}{fault}", aside=True)
    if found.damaged:
        raise SystemExit(2)


@command("data r4r", "vlnbert.api.data:make_r4r", ["data"])
def make_r4r(verb: Callable[..., Any], data: Path) -> None:
    """Make R4R of a data folder's R2R.

    Example: vlnbert data r4r data
    """
    for split, (paths, instructions) in verb(data).items():
        tell(f"{data}/r4r/R4R_{split}.json: {paths:,} paths, {instructions:,} instructions")


@command("data holdout", "vlnbert.api.data:holdout_houses", ["data"])
def holdout_houses(verb: Callable[..., Any], data: Path, json: bool = False, **options: Any) -> None:
    """List the houses that a training with --holdout keeps out.

    Example: vlnbert data holdout data --holdout 6 --holdout-seed 0

    Args:
        json: Print one JSON object instead of a table: by house, by split, the number of instructions.
    """
    found = verb(data, **options)
    splits = next(iter(found.values()))
    rows = [[house, *(f"{count:,}" for count in counts.values())] for house, counts in found.items()]
    rows.append(["all", *(f"{sum(counts[split] for counts in found.values()):,}" for split in splits)])
    answer(found, Table(["house", *splits], rows, f"kept out of {data} for dev_unseen"), json)


@command("world candidates", "vlnbert.api.data:candidates", ["scan"])
def candidates(verb: Callable[..., Any], scan: str, data: Path, json: bool = False) -> None:
    """Show where one can go from each viewpoint of a scan.

    Example: vlnbert world candidates 17DRP5sb8fy --data data --json

    Args:
        json: Print one JSON line a viewpoint: its candidates with view, heading, elevation, distance from the view's
            centre (radians) and idx, the 1-based place in that view.
    """
    found = verb(data, scan)
    if json:
        for viewpoint, listed in found.items():
            print_json({"viewpoint": viewpoint, "candidates": listed})
        return
    rows = []
    for viewpoint, listed in found.items():
        for place, item in enumerate(listed or [{}]):
            angles = [f"{math.degrees(item[name]):.0f}°" if item else "" for name in ("heading", "elevation")]
            start = "" if place else viewpoint
            rows.append([start, item.get("viewpoint", "nowhere"), str(item.get("view", "")), *angles])
    show(Table(["viewpoint", "leads to", "view", "heading", "elevation"], rows, scan))


@command("world check", "vlnbert.api.data:check_world")
def check_world(verb: Callable[..., Any], data: Path) -> None:
    """Check the graphs of a data folder.

    Example: vlnbert world check --data data
    """
    world = verb(data).world
    edges = int((world.choices - 1).sum()) // 2
    tell(f"{data}: {len(world.scans):,} scans, {len(world):,} viewpoints, {edges:,} edges; every promise is kept")


@command("features views", "vlnbert.api.data:view_features")
def view_features(verb: Callable[..., Any], data: Path, json: bool = False, **options: Any) -> None:
    """Make channels of the views' feature.

    Example: vlnbert features views --data data --views captions,observations

    Args:
        json: Print one JSON object instead of a table: views, channels with the width of each, width, seconds.
    """
    facts = verb(data, **options)
    _show_channels(data, facts, f"{facts['views']:,} views that face a neighbour", json)


@command("features captions", "vlnbert.api.data:caption_features")
def caption_features(verb: Callable[..., Any], data: Path, json: bool = False, **options: Any) -> None:
    """Make features of the views' captions and detections.

    Example: vlnbert features captions --data data

    Args:
        json: Print one JSON object instead of a table: views, captions, caption_width, classes, width, seconds, and
            cache, the file (null where none could be written).
    """
    facts = verb(data, **options)
    words = {
        "views": "views that face a neighbour",
        "captions": "distinct captions",
        "caption_width": "width of a caption's embedding",
        "classes": "classes of detected objects",
        "width": "width of a view's feature",
    }
    rows = [[text, f"{facts[name]:,}"] for name, text in words.items()]
    note = f"cached in {facts['cache']}" if facts["cache"] else "not cached: $VLNBERT_CACHE cannot be written"
    rows.append(["seconds", f"{facts['seconds']:.1f}"])
    answer(facts, Table(["what", "value"], rows, f"{data}/captions", note), json)


@command("features objects", "vlnbert.api.data:object_features")
def object_features(verb: Callable[..., Any], data: Path, json: bool = False, **options: Any) -> None:
    """Make channels of the objects' feature.

    Example: vlnbert features objects --data data
    Example: vlnbert features objects --data data --objects names,observations

    Args:
        json: Print one JSON object instead of a table: objects, channels with the width of each, width, seconds, and
            targets, the counts of each split.
    """
    facts = verb(data, **options)
    _show_channels(data, facts, f"{facts['objects']:,} objects", json)
    if not json:
        from vlnbert.tasks.splits import TargetReport

        for split, report in facts["targets"].items():
            for line in TargetReport(**report).lines():
                tell(f"{split}: {line}")


def _show_channels(data: Path, facts: dict[str, Any], counted: str, json: bool) -> None:
    widths = {**facts["channels"], "all of them": facts["width"]}
    rows = [[name, f"{width:,}"] for name, width in widths.items()]
    answer(facts, Table(["channel", "width"], rows, str(data), f"{counted}, {facts['seconds']:.1f} seconds"), json)


@command("augment paths", "vlnbert.api.speaking:augment_paths")
def augment_paths(verb: Callable[..., Any], out: Path, json: bool = False, **options: Any) -> None:
    """Write paths for a speaker to describe.

    Example: vlnbert augment paths --data data --out paths.json --count 75000

    Args:
        holdout: Houses of the train split to keep out, as in a training with --holdout: 6 of them, say.
        json: Print one JSON object instead of a line: paths, known, described.
    """
    found = verb(out=out, **options)
    values = {"paths": len(found), "known": found.known, "described": found.described}
    text = f"{out}: {len(found):,} of {found.known:,} paths; {found.described:,} left out, val_seen describes them"
    answer(values, text, json)


@command(
    "augment speak",
    "vlnbert.api.speaking:augment_speak",
    ["speaker"],
)
def augment_speak(verb: Callable[..., Any], json: bool = False, **options: Any) -> None:
    """Let a speaker describe paths, as data to train on.

    Example: vlnbert augment paths --data data --out paths.json --count 75000
    Example: vlnbert augment speak runs/speaker --paths paths.json --out data/r2r/told_aug.json --device cuda
    Example: vlnbert train r2r-open-told --data data --out runs/told --device cuda

    Args:
        json: Print one JSON object instead of a line: path, paths, written, left_out.
    """
    found = verb(**options)
    answer(found.values(), str(found), json)


@command("augment sub-instructions", "vlnbert.api.speaking:augment_sub_instructions")
def augment_sub_instructions(verb: Callable[..., Any], out: Path, json: bool = False, **options: Any) -> None:
    """Cut R2R's train instructions in parts.

    Example: vlnbert augment sub-instructions --data data --out parts.json

    Args:
        json: Print one JSON object instead of a line: sub_instructions, beginnings, ends, instructions, cut, left_out.
    """
    found = verb(out=out, **options)
    answer(found.values(), f"{out}: {found}", json)
