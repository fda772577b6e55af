"""Observation files: `observations/<scan>.json`, captions of a viewpoint by eight headings and three elevations.

String i looks along 45 i degrees; its lines `down: ...`, `middle: ...` and `top: ...` describe the three elevations at
which the simulator has its views.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlnbert.errors import Faults
from vlnbert.sources.checks import is_text
from vlnbert.sources.files import FETCH_AGAIN, read_by_viewpoint

HEADINGS = 8  # that are described, from 0 on, clockwise
LEVELS = ("down", "middle", "top")  # of views 0 to 11, 12 to 23 and 24 to 35


@dataclass(frozen=True, slots=True)
class PanoramaObservations:
    scan: str
    viewpoint: str
    captions: tuple[tuple[str, ...], ...]  # of 8 headings, each at the three levels, from below


def read_observations(path: Path) -> list[PanoramaObservations]:
    """Read and check the observations of one scan."""
    remedy = "get them with: vlnbert data fetch DIR --only observations"
    return read_by_viewpoint(path, "observation file", remedy, _panorama)


def _panorama(scan: str, viewpoint: str, headings: Any, faults: Faults) -> PanoramaObservations:
    place = f"viewpoint {viewpoint}"
    if not is_text(viewpoint) or not isinstance(headings, list) or len(headings) != HEADINGS:
        found = f"holds {len(headings)} headings" if isinstance(headings, list) else "holds no list of headings"
        faults.add(place, f"{found}, not {HEADINGS}", FETCH_AGAIN)
        return PanoramaObservations(scan, viewpoint, ())
    captions = (_heading(entry, f"{place} heading {number}", faults) for number, entry in enumerate(headings))
    return PanoramaObservations(scan, viewpoint, tuple(captions))


def _heading(entry: Any, place: str, faults: Faults) -> tuple[str, ...]:
    """The captions of one heading. White space and the order of the lines may be any."""
    lines = [line.partition(":") for line in entry.splitlines() if line.strip()] if is_text(entry) else []
    said = {level.strip().lower(): " ".join(caption.split()) for level, _, caption in lines}
    if len(lines) != len(LEVELS) or said.keys() != set(LEVELS):
        faults.add(place, "is not a text of the lines 'down: ...', 'middle: ...' and 'top: ...'", FETCH_AGAIN)
        return ()
    for level in LEVELS:
        if not said[level]:
            faults.add(place, f"'{level}' has an empty caption", FETCH_AGAIN)
    return tuple(said[level] for level in LEVELS)
