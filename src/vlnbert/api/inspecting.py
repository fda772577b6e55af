"""Look into a data folder: what it holds, where one can go, and what open data shows."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vlnbert.api.arguments import checked
from vlnbert.errors import UnknownNameError
from vlnbert.progress import quiet
from vlnbert.runtime import require_within
from vlnbert.tables import Table, Tabled

if TYPE_CHECKING:
    from vlnbert.data.data import Data
    from vlnbert.data.inventory import Part

Candidate = dict[str, Any]  # viewpoint, view, heading, elevation, distance, idx: as the simulator names them


@dataclass(frozen=True, repr=False)
class DataReport(Tabled):
    """What a data folder holds, what is damaged in it, and what each preset would still need."""

    folder: Path
    parts: "list[Part]"

    @property
    def damaged(self) -> bool:
        return any(part.faults for part in self.parts)

    @property
    def missing(self) -> dict[str, list[str]]:
        """By preset, the kinds of data that it needs and the folder does not hold whole."""
        from vlnbert.data.inventory import meets
        from vlnbert.learning.presets import presets

        return {
            name: [need for need in preset.experiment.needs if not meets(need, self.parts)]
            for name, preset in presets.items()
        }

    def table(self) -> Table:
        rows = [[part.need, part.holds or "-", "damaged" if part.faults else "whole"] for part in self.parts]
        ready = [name for name, missing in self.missing.items() if not missing]
        notes = [*(fault for part in self.parts for fault in part.faults), f"can train: {', '.join(ready) or 'none'}"]
        return Table(["part", "holds", "state"], rows, str(self.folder), "\n".join(notes))

    def to_plain(self) -> dict[str, Any]:
        """As JSON can hold it."""
        parts = [
            {
                "part": part.need,
                "path": str(part.path),
                "holds": part.holds,
                "faults": list(part.faults),
                "notes": list(part.notes),
            }
            for part in self.parts
        ]
        return {"parts": parts, "presets": self.missing}


@checked()
def check_data(folder: str | Path, *, bar: bool = True) -> DataReport:
    """Read every file of a data folder and say what is there, what is damaged and what each preset still needs.

    Args:
        folder: The data folder.
        bar: Show progress.
    """
    from vlnbert.data.inventory import take_inventory
    from vlnbert.sources.layout import open_folder

    opened = open_folder(folder)
    opened.graphs()  # a folder without graphs is no data folder
    with quiet(not bar):
        return DataReport(Path(folder), take_inventory(opened))


@checked()
def make_r4r(data: "Data | str | Path", *, bar: bool = True) -> dict[str, tuple[int, int]]:
    """Make R4R of a data folder's R2R: paths joined in pairs, with every pair of their instructions.

    Two paths of a house are joined where the end of the first lies less than 3 m, along the graph, from the start of
    the second, by the shortest way between them (Jain et al. 2019). Writes r4r/R4R_<split>.json beside R2R's own files;
    the result is, by split, the numbers of paths and instructions.

    Args:
        data: The data folder, with connectivity/ and r2r/.
        bar: Show progress.
    """
    from vlnbert.data.data import open_data
    from vlnbert.tasks.made_paths import write_r4r

    opened = open_data(data)
    with quiet(not bar):
        return write_r4r(opened.folder, opened.world.to("cpu"))


@checked()
def holdout_houses(
    data: "Data | str | Path", holdout: int = 6, holdout_seed: int = 0, *, bar: bool = True
) -> dict[str, dict[str, int]]:
    """List the houses that a training with these settings keeps out, and their instructions in every train split.

    Args:
        data: The data folder.
        holdout: How many houses.
        holdout_seed: Chooses them.
        bar: Show progress.
    """
    from vlnbert.data.data import open_data
    from vlnbert.tasks.splits import TRAIN, choose_houses, count_by_house
    from vlnbert.tasks.task import R2R, TASKS

    require_within(holdout=(holdout, 1, 1_000_000), holdout_seed=(holdout_seed, 0, 2**63 - 1))
    folder = open_data(data).folder
    with quiet(not bar):
        houses = choose_houses(folder, (R2R.name,), holdout, holdout_seed)
        there = [task for task in TASKS if TRAIN in TASKS[task].files(folder)]
        counts = {f"{task}/{TRAIN}": count_by_house(folder, task) for task in there}
    return {house: {split: count[house] for split, count in counts.items()} for house in houses}


@checked()
def check_world(data: "Data | str | Path") -> "Data":
    """Check that the graphs of a data folder make a world that agents can rely on.

    Args:
        data: The data folder.
    """
    from vlnbert.data.data import open_data
    from vlnbert.environment import contract
    from vlnbert.environment.environment import Environment

    opened = open_data(data)
    contract.require(contract.check_world(opened.world) + contract.check_environment(Environment(opened.world)))
    return opened


@checked()
def candidates(data: "Data | str | Path", scan: str) -> dict[str, list[Candidate]]:
    """Show where one can go from each viewpoint of a scan, in the simulator's order.

    Args:
        data: The data folder.
        scan: The scan, such as 17DRP5sb8fy.
    """
    from vlnbert.data.data import open_data
    from vlnbert.sources.connectivity import read_connectivity
    from vlnbert.world.build import find_candidates

    paths = open_data(data).folder.graphs()
    if scan not in paths:
        raise UnknownNameError("scan", scan, paths)
    graph = read_connectivity(paths[scan])
    found = find_candidates(graph)
    listed: dict[str, list[Candidate]] = {name: [] for name in graph.viewpoints}
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
    return listed
