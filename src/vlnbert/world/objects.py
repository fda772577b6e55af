"""Objects in the world: from which viewpoints each of them is visible."""

from collections.abc import Iterable
from pathlib import Path

from vlnbert.errors import DataError
from vlnbert.sources.boxes import ViewpointObjects
from vlnbert.world.world import World

Sightings = dict[tuple[str, str], list[int]]  # (scan, object id) -> viewpoints


def find_sightings(world: World, boxes: Iterable[ViewpointObjects]) -> Sightings:
    """Where each object is visible. Presence in a file is not enough: some view must show it."""
    sightings: Sightings = {}
    for place in boxes:
        if place.scan not in world.scans:
            continue  # a world of some scans has no use for the others' boxes
        number = world.numbers.get((place.scan, place.viewpoint))
        if number is None:
            name = Path(f"{place.scan}_{place.viewpoint}.json")
            raise DataError(name, "its viewpoint is not in the graph", "use the boxes and graphs of one data set")
        for item in place.objects:
            if item.views:
                sightings.setdefault((place.scan, item.id), []).append(number)
    return sightings
