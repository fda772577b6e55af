"""`vlnbert world candidates` and `vlnbert world check`: look into the tables that agents walk on."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import tyro

from vlnbert.cli.options import DataPath, Flag
from vlnbert.cli.tables import screen


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

    rows = _rows(data, scan)
    if json:
        for viewpoint, found in rows:
            print(dumps({"viewpoint": viewpoint, "candidates": found}))
    else:
        _print_table(scan, rows)


def check_world(data: DataPath) -> None:
    """Check that the graphs of a data folder make a world that agents can rely on.

    Example: vlnbert world check --data data

    Args:
        data: Folder with connectivity/.
    """
    from vlnbert.environment import contract
    from vlnbert.environment.environment import Environment
    from vlnbert.world.build import open_world

    world = open_world(data)
    contract.require(contract.check_world(world) + contract.check_environment(Environment(world)))
    edges = int((world.choices - 1).sum()) // 2
    print(f"{data}: {len(world.scans):,} scans, {len(world):,} viewpoints, {edges:,} edges; every promise is kept")


def _rows(data: Path, scan: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """Each viewpoint of a scan with its candidates as plain values."""
    from vlnbert.errors import UnknownNameError
    from vlnbert.sources.connectivity import read_connectivity
    from vlnbert.sources.layout import open_folder
    from vlnbert.world.candidates import find_candidates

    paths = open_folder(data).graphs()
    if scan not in paths:
        raise UnknownNameError("scan", scan, paths)
    graph = read_connectivity(paths[scan])
    found = find_candidates(graph)
    listed: dict[str, list[dict[str, Any]]] = {name: [] for name in graph.viewpoints}
    for edge, start in enumerate(found.viewpoint):
        listed[graph.viewpoints[start]].append(
            {
                "viewpoint": graph.viewpoints[found.neighbour[edge]],
                "view": int(found.view[edge]),
                "heading": float(found.heading[edge]),
                "elevation": float(found.elevation[edge]),
                "distance": float(found.distance[edge]),
                "idx": int(found.rank[edge]),
            }
        )
    yield from listed.items()


def _print_table(scan: str, rows: Iterator[tuple[str, list[dict[str, Any]]]]) -> None:
    import math

    from rich.table import Table

    table = Table("viewpoint", "leads to", "view", "heading", "elevation", title=scan, title_justify="left")
    for viewpoint, found in rows:
        for item in found or [{}]:
            angles = [f"{math.degrees(item[name]):.0f}°" for name in ("heading", "elevation") if item]
            table.add_row(viewpoint, item.get("viewpoint", "nowhere"), str(item.get("view", "")), *angles)
            viewpoint = ""
        table.add_section()
    screen().print(table)
