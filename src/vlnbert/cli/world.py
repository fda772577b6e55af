"""`vlnbert world candidates` and `vlnbert world check`: look into the tables that agents walk on."""

from typing import Annotated, Any

import tyro

from vlnbert.cli.options import DataPath, Flag, screen, tell


def candidates(
    scan: tyro.conf.Positional[Annotated[str, tyro.conf.arg(metavar="SCAN")]],
    data: DataPath,
    json: Flag = False,
) -> None:
    """Show where one can go from each viewpoint of a scan, in the simulator's order.

    Example: vlnbert world candidates 17DRP5sb8fy --data data --json

    Args:
        scan: The scan, such as 17DRP5sb8fy.
        data: Folder with connectivity/.
        json: Print one JSON line a viewpoint: its candidates with view, heading, elevation, distance from the view's
            centre (radians) and idx, the 1-based place in that view.
    """
    from json import dumps

    from vlnbert.api import inspecting

    found = inspecting.candidates(data, scan)
    if json:
        for viewpoint, listed in found.items():
            print(dumps({"viewpoint": viewpoint, "candidates": listed}))
    else:
        _print_table(scan, found)


def check_world(data: DataPath) -> None:
    """Check that the graphs of a data folder make a world that agents can rely on.

    Example: vlnbert world check --data data

    Args:
        data: Folder with connectivity/.
    """
    from vlnbert.api import inspecting

    world = inspecting.check_world(data).world
    edges = int((world.choices - 1).sum()) // 2
    tell(f"{data}: {len(world.scans):,} scans, {len(world):,} viewpoints, {edges:,} edges; every promise is kept")


def _print_table(scan: str, found: dict[str, list[dict[str, Any]]]) -> None:
    import math

    from rich.table import Table

    table = Table("viewpoint", "leads to", "view", "heading", "elevation", title=scan, title_justify="left")
    for viewpoint, listed in found.items():
        shown = viewpoint
        for item in listed or [{}]:
            angles = [f"{math.degrees(item[name]):.0f}°" for name in ("heading", "elevation") if item]
            table.add_row(shown, item.get("viewpoint", "nowhere"), str(item.get("view", "")), *angles)
            shown = ""
        table.add_section()
    screen().print(table)
