"""Why an object is looked for in all views that show it, on the real boxes and detections."""

from collections.abc import Callable
from statistics import median

import numpy as np
import pytest

from vlnbert.features.objects import overlap
from vlnbert.features.views import captions_of
from vlnbert.sources.annotations import IMAGE_HEIGHT, IMAGE_WIDTH, Detection
from vlnbert.sources.layout import DataFolder
from vlnbert.tasks.episodes import Episodes
from vlnbert.world.objects import NONE, ObjectTable, boxes_by_view
from vlnbert.world.world import World


def test_the_view_that_shows_an_object_largest_is_often_one_in_which_it_was_not_detected(
    open_data: DataFolder,
    open_data_world: World,
    open_data_objects: ObjectTable,
    open_data_episodes: Callable[[str, str], Episodes],
) -> None:
    """Of the targets that REVERIE trains on, where their paths end."""
    world, objects = open_data_world, open_data_objects
    shown = boxes_by_view(world, objects, open_data.boxes)
    train = open_data_episodes("reverie", "train")
    wanted = dict[int, set[int]]()
    for goal, target in zip(train.goal.tolist(), train.targets, strict=True):
        if (place := objects.index(goal, target or "")) != NONE:
            wanted.setdefault(goal, set()).add(int(objects.first[goal]) + place)
    once, everywhere = list[float](), list[float]()
    for viewpoint, panorama in captions_of(world, open_data.captions):
        for row in wanted.get(viewpoint, ()):
            fits = {view: best_fit(box, panorama.views[view].detections) for view, box in shown[row]}
            once.append(fits[int(objects.view[row])])
            everywhere.append(max(fits.values()))
    assert len(once) > 1000
    assert (median(once), median(everywhere)) == pytest.approx((0.052, 0.255), abs=0.002)


def best_fit(box: tuple[float, ...], seen: tuple[Detection, ...]) -> float:
    """The highest IoU of a box, in shares of its view, with what was detected there."""
    pixels = np.array(box) * (IMAGE_WIDTH, IMAGE_HEIGHT, IMAGE_WIDTH, IMAGE_HEIGHT)
    return float(overlap(pixels, np.array([item.box for item in seen])).max()) if seen else 0.0
