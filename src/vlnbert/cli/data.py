"""`vlnbert data check`: what a data folder holds, what is damaged, and what each preset would still need."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import tyro

from vlnbert.cli.options import Flag
from vlnbert.cli.tables import screen

if TYPE_CHECKING:
    from vlnbert.tasks.inventory import Part


def check_data(
    folder: tyro.conf.Positional[Annotated[Path, tyro.conf.arg(metavar="DIR")]],
    json: Flag = False,
) -> None:
    """Read every file of a data folder and say what is there, what is damaged and what each preset still needs.

    Exits with code 2 when something is damaged; data that is merely absent is no fault.

    Example: vlnbert data check data

    Args:
        folder: The data folder.
        json: Print one JSON object instead of tables.
    """
    from json import dumps

    from vlnbert.presets import PRESETS
    from vlnbert.sources.layout import open_folder
    from vlnbert.tasks.inventory import meets, take_inventory

    parts = take_inventory(open_folder(folder))
    lacking = {preset.name: [need for need in preset.needs if not meets(need, parts)] for preset in PRESETS}
    if json:
        print(dumps({"parts": [_as_json(part) for part in parts], "presets": lacking}))
    else:
        _print(folder, parts, lacking)
    if any(part.faults for part in parts):
        raise SystemExit(2)


def _as_json(part: "Part") -> dict[str, Any]:
    return {
        "part": part.need,
        "path": str(part.path),
        "holds": part.holds,
        "faults": list(part.faults),
        "notes": list(part.notes),
    }


def _print(folder: Path, parts: list["Part"], lacking: dict[str, list[str]]) -> None:
    from rich.table import Table
    from rich.text import Text

    from vlnbert.presets import NEEDS, PRESETS

    console = screen()
    table = Table("part", "holds", "state", title=f"{folder}", title_justify="left")
    for part in parts:
        state = Text("damaged", "red") if part.faults else Text("whole", "green")
        table.add_row(part.need, part.holds or "-", state)
    console.print(table)
    presets = Table("preset", "what it is", "data it still needs", title="presets", title_justify="left")
    for preset in PRESETS:
        needs = "\n".join(NEEDS[need] for need in lacking[preset.name])
        presets.add_row(preset.name, preset.description, needs or Text("nothing", "green"))
    console.print(presets)
    for path, note in ((part.path, note) for part in parts for note in part.notes):
        print(f"{path}: {note}")
    for fault in (fault for part in parts for fault in part.faults):
        print(f"vlnbert: {fault}", file=sys.stderr)
