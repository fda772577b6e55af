"""Navigation graphs: `<scan>_connectivity.json`, one entry a viewpoint, as the Matterport3D simulator ships them."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vlnbert.errors import DataError, Faults
from vlnbert.sources.files import FETCH_AGAIN, is_list_of, is_numbers, is_text, read_json
from vlnbert.sources.layout import MAKE_ONE

# Of a viewpoint; every table has room for those of the fullest. The open data has 15 at most.
MOST_NEIGHBOURS = 128
FIELDS = {"image_id": str, "pose": list, "included": bool, "visible": list, "unobstructed": list}


@dataclass(frozen=True)
class ScanGraph:
    """The included viewpoints of one scan, in file order."""

    scan: str
    viewpoints: tuple[str, ...]
    position: NDArray[np.float64]  # [viewpoint, 3] metres; x and y span the floor, z is up
    adjacent: NDArray[np.bool_]  # [viewpoint, viewpoint] both ends included, nothing in the way


def read_connectivity(path: Path) -> ScanGraph:
    """Read and check one graph; all its faults are reported together."""
    entries = read_json(path, "connectivity file", MAKE_ONE)
    scan = path.name.removesuffix("_connectivity.json")
    if not isinstance(entries, list) or not entries:
        raise DataError(path, "does not hold a list of viewpoints", FETCH_AGAIN)
    faults = Faults(path)
    for index, entry in enumerate(entries):
        _check_entry(index, entry, len(entries), faults)
    faults.raise_if_any()
    included = [index for index, entry in enumerate(entries) if entry["included"]]
    names = [entries[index]["image_id"] for index in included]
    adjacent = np.array([entry["unobstructed"] for entry in entries], dtype=bool)[np.ix_(included, included)]
    np.fill_diagonal(adjacent, val=False)
    for place, name in enumerate(names):
        if name in names[:place]:
            faults.add(f"viewpoint {name}", "occurs twice", "keep one of the two")
    for crowded in np.flatnonzero(adjacent.sum(axis=1) > MOST_NEIGHBOURS):
        problem = f"leads to {adjacent[crowded].sum():,} others"
        faults.add(f"viewpoint {names[crowded]}", problem, f"keep at most {MOST_NEIGHBOURS}")
    for start, end in np.argwhere(adjacent & ~adjacent.T):
        problem = f"leads to {names[end]}, which does not lead back"
        faults.add(f"viewpoint {names[start]}", problem, "make 'unobstructed' the same in both directions")
    faults.raise_if_any()
    poses = np.array([entries[index]["pose"] for index in included], dtype=np.float64).reshape(-1, 16)
    return ScanGraph(scan, tuple(names), np.ascontiguousarray(poses[:, [3, 7, 11]]), adjacent)


def _check_entry(index: int, entry: Any, count: int, faults: Faults) -> None:
    place = f"viewpoint {index}"
    if not isinstance(entry, dict):
        return faults.add(place, "is not an object", FETCH_AGAIN)
    for name, kind in FIELDS.items():
        if not isinstance(entry.get(name), kind):
            faults.add(place, f"'{name}' is missing or not a {kind.__name__}", FETCH_AGAIN)
    viewpoint, pose = entry.get("image_id"), entry.get("pose")
    if isinstance(viewpoint, str) and not is_text(viewpoint):
        faults.add(place, "'image_id' holds an unpaired surrogate", FETCH_AGAIN)
    if isinstance(pose, list) and not is_numbers(pose, 16):
        faults.add(place, "'pose' is not 16 finite numbers", "a pose is a 4 x 4 matrix, row by row")
    for name in ("visible", "unobstructed"):
        flags = entry.get(name)
        if isinstance(flags, list) and not (len(flags) == count and is_list_of(flags, bool)):
            faults.add(place, f"'{name}' is not {count} true or false", "give one flag for every viewpoint of the file")
    return None
