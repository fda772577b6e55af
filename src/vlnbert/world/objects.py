"""Objects in the world: from which viewpoints each of them is visible."""

from collections.abc import Iterable
from pathlib import Path

from vlnbert.errors import Faults
from vlnbert.sources.boxes import ViewpointObjects
from vlnbert.world.world import World

Sightings = dict[tuple[str, str], list[int]]  # (scan, object id) -> viewpoints


def find_sightings(world: World, boxes: Iterable[ViewpointObjects], folder: Path) -> Sightings:
    """Where each object is visible. Presence in a file is not enough: some view must show it.

    `folder` is where the boxes lie: all that is wrong with its files is reported together.
    """
    sightings, faults = Sightings(), Faults(folder)
    with faults.including():
        for place in boxes:
            number = world.numbers.get((place.scan, place.viewpoint))
            if number is not None:
                for item in place.objects:
                    if item.views:
                        sightings.setdefault((place.scan, item.id), []).append(number)
            elif place.scan in world.scans:  # a world of some scans has no use for the others' boxes
                remedy = "use the boxes and graphs of one data set"
                faults.add("", "its viewpoint is not in the graph", remedy, place.path)
    faults.raise_if_any()
    return sightings
