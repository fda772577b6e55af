"""Verbs to start with: a demo, generated houses, the open data."""

from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

from vlnbert.cli.output import print_json, show, tell
from vlnbert.cli.parser import command
from vlnbert.errors import UsageError

# The open data is enough for it.
PRESET = "r2r-open"


@command("demo", "vlnbert.api.demonstrating:demo", metavars={"task": "", "out": "DIR"})
def demo(verb: Callable[..., Any], **options: Any) -> None:
    """Train a tiny navigator in made-up houses, without any data.

    Example: vlnbert demo --out demo
    Example: vlnbert demo --task reverie
    """
    from vlnbert.cli.train import end_stopped

    made = verb(**options)
    if made.run.interrupted:
        end_stopped(made.run, f"the same command (--out {options.get('out', 'demo')})")
    show(made.table())
    tell(f"open {made.report} in a browser")


@command("house", "vlnbert.api.demonstrating:generate_house", ["folder"])
def house(verb: Callable[..., Any], folder: Path, **options: Any) -> None:
    """Generate houses in the formats of the real data.

    Example: vlnbert house my-house --seed 1 --scans 12
    """
    from vlnbert.house import generate

    summary = generate(folder, **options)
    tell(f"{folder}: {summary.scans} houses, {summary.viewpoints:,} viewpoints, {summary.objects:,} objects")
    for task, splits in summary.episodes.items():
        tell(f"  {task}: " + ", ".join(f"{count:,} {split}" for split, count in splits.items()) + " instructions")


@command("data fetch", "vlnbert.api.data:fetch_data", ["folder"])
def fetch_data(
    verb: Callable[..., Any], folder: Path, only: tuple[str, ...] | None = None, json: bool = False, **options: Any
) -> None:
    """Fetch the open data and verify every file.

    Example: vlnbert data fetch data
    Example: vlnbert data fetch data --only graphs r2r vocabulary
    Example: vlnbert data fetch data --dry-run

    Args:
        json: Print one JSON object instead of a table.
    """
    if only is not None and not only:
        raise UsageError("--only names no part; for example --only graphs r2r vocabulary")
    found = verb(folder, only or (), **options)
    if json:
        print_json(found.to_plain())
        return
    show(found.table())
    where, size = quote(str(folder)), f"{found.missing_bytes / 1e6:,.1f} MB"
    archives = len({part.url for part in found.parts if part.missing_files})
    if found.dry_run and archives:
        print(f"{size} would be kept of {archives} archives, which come compressed.")
        return
    # Here, since it imports torch.
    from vlnbert.learning.presets import presets

    print(f"Fetched and verified {size}." if archives else "All of it is there, and right.")
    whole = {part.part for part in found.parts} >= set(presets[PRESET].experiment.needs)
    train = f"vlnbert train {PRESET} --data {where} --out runs/{PRESET}"
    print(f"Next:\n  vlnbert data check {where}")
    print(f"  {train if whole else f'vlnbert data fetch {where}    # the other parts'}")
