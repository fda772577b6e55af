"""Objects without names: what overlaps their box, what was said of their view, and what was observed behind them."""

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import vlnbert as vln
from tests.features.samples import of_objects, plainly, write_bert
from vlnbert.features.objects import (
    box_direction,
    overlap,
)
from vlnbert.features.spec import OBJECT_CHANNELS, FeatureSpec
from vlnbert.features.views import open_labels
from vlnbert.sources.layout import DataFolder
from vlnbert.world.build import open_world
from vlnbert.world.objects import ObjectTable, open_object_table
from vlnbert.world.world import World

LAMP, SOFA, TABLE = "a lamp", "a blue sofa", "a table in a room"
CLASSES = ("chair", "lamp", "sofa", "table")


def channel(name: str, world: World, objects: ObjectTable, folder: DataFolder, bert: Path) -> torch.Tensor:
    shown = OBJECT_CHANNELS[name].open(of_objects(world, folder, objects, bert))
    assert isinstance(shown, torch.Tensor)
    return shown


def detection(label: str, box: str, confidence: float, caption: str) -> dict[str, str]:
    return {"obj_class": label, "coordinates": box, "confidence": str(confidence), "caption": caption}


@pytest.fixture
def objects(tiny: Any, world: World) -> ObjectTable:
    """Two objects at a1. The first is seen in view 14, among three detections of which one lies elsewhere."""
    entries = {
        "1": {"name": "door", "visible_pos": [14], "bbox2d": [[100, 100, 100, 100]]},
        "2": {"name": "bed", "visible_pos": [3], "bbox2d": [[500, 300, 300, 100]]},
    }
    seen = [
        detection("lamp", "100 100 200 200", 0.5, LAMP),  # the box itself
        detection("lamp", "100 100 150 200", 0.9, SOFA),  # its left half
        detection("sofa", "150 150 250 250", 0.7, TABLE),  # a quarter of either
        detection("table", "300 300 400 400", 1.0, TABLE),
    ]
    for scan, name in (("alpha", f"a{number}") for number in range(6)):
        tiny.write(f"reverie/BBox/{scan}_{name}.json", {name: entries if name == "a1" else {}})
    tiny.edit("captions/alpha.json", lambda document: document["a1"]["14"].update(dense_cap=seen))
    tiny.edit("captions/alpha.json", lambda document: document["a1"]["3"].update(dense_cap=[]))
    found = open_object_table(world, tiny.folder.boxes)
    return found.select((found.viewpoint == world.numbers["alpha", "a1"]).nonzero().flatten())


def test_the_detections_that_overlap_a_box(tiny: Any, world: World, objects: ObjectTable, bert: Path) -> None:
    found = channel("overlapping-detections", world, objects, tiny.folder, bert)
    assert found.shape == (2, len(CLASSES) + 24)
    weights = [1.0 * 0.5, 0.5 * 0.9, 2500 / 17500 * 0.7]
    assert found[0, :4].tolist() == pytest.approx([0.0, weights[0], weights[2], 0.0])  # the surest lamp
    texts = plainly(bert, [LAMP, SOFA, TABLE])
    expected = (torch.tensor(weights)[:, None] * texts).sum(dim=0) / sum(weights)
    assert (found[0, 4:] - expected).abs().max() < 1e-3
    assert not found[1].any()


def test_where_nothing_is_detected_nothing_overlaps(tiny: Any, world: World, objects: ObjectTable, bert: Path) -> None:
    for scan in world.scans:
        for name in tiny.read(f"captions/{scan}.json"):
            tiny.edit(
                f"captions/{scan}.json",
                lambda document, name=name: [v.update(dense_cap=[]) for v in document[name].values()],
            )
    found = channel("overlapping-detections", world, objects, tiny.folder, bert)
    assert found.shape == (2, 24)
    assert not found.any()


@pytest.fixture
def shown_twice(tiny: Any, world: World, objects: ObjectTable) -> ObjectTable:
    """The first object also in view 15, smaller, where a sofa lies on its box and a chair beside it."""
    boxes = {"visible_pos": [15, 14], "bbox2d": [[0, 100, 50, 100], [100, 100, 100, 100]]}
    seen = [detection("sofa", "0 100 50 200", 0.8, SOFA), detection("chair", "100 100 200 200", 1.0, LAMP)]
    tiny.edit("reverie/BBox/alpha_a1.json", lambda document: document["a1"]["1"].update(boxes))
    tiny.edit("captions/alpha.json", lambda document: document["a1"]["15"].update(dense_cap=seen))
    found = open_object_table(world, tiny.folder.boxes)
    return found.select((found.viewpoint == world.numbers["alpha", "a1"]).nonzero().flatten())


def test_detections_in_all_views_that_show_an_object(
    tiny: Any, world: World, shown_twice: ObjectTable, bert: Path
) -> None:
    assert shown_twice.view.tolist() == [14, 3]
    found = channel("detections-in-all-views", world, shown_twice, tiny.folder, bert)
    weights = [1.0 * 0.5, 0.5 * 0.9, 2500 / 17500 * 0.7, 1.0 * 0.8]
    assert found[0, :4].tolist() == pytest.approx([0.0, weights[0], weights[3], 0.0])  # the sofa of the other view
    texts = plainly(bert, [LAMP, SOFA, TABLE, SOFA])
    expected = (torch.tensor(weights)[:, None] * texts).sum(dim=0) / sum(weights)
    assert (found[0, 4:] - expected).abs().max() < 1e-3
    assert not found[1].any()


def test_of_one_view_all_views_tell_the_same(tiny: Any, world: World, objects: ObjectTable, bert: Path) -> None:
    found = channel("detections-in-all-views", world, objects, tiny.folder, bert)
    assert (found - channel("overlapping-detections", world, objects, tiny.folder, bert)).abs().max() < 1e-6


def test_a_box_in_another_view_is_another_entry_of_the_cache(
    tiny: Any, world: World, shown_twice: ObjectTable, bert: Path
) -> None:
    """Though the largest boxes, which the table has, stay where they were."""
    before = channel("detections-in-all-views", world, shown_twice, tiny.folder, bert)
    moved = {"bbox2d": [[120, 100, 50, 100], [100, 100, 100, 100]]}
    tiny.edit("reverie/BBox/alpha_a1.json", lambda document: document["a1"]["1"].update(moved))
    after = channel("detections-in-all-views", world, shown_twice, tiny.folder, bert)
    assert before[0, :4].tolist() == pytest.approx([0, 0.5, 0.8, 0])
    assert after[0, :4].tolist() == pytest.approx([0.5, 0.5, 0.1, 0])


def test_the_shape_of_a_box(tiny: Any, world: World, objects: ObjectTable, bert: Path) -> None:
    """The second is cut off by the right edge of its view, 140 pixels behind its left one."""
    shapes = channel("box-shape", world, objects, tiny.folder, bert)
    small, cut = shapes.tolist()
    assert small == pytest.approx([(math.log(101) - 5) / 2] * 2 + [0, 0, 0], abs=1e-5)
    assert cut == pytest.approx([(math.log(141) - 5) / 2, (math.log(101) - 5) / 2, 0.5, 0, 0], abs=1e-5)
    left, top, right, bottom, area = objects.position.T
    mirrored = replace(objects, position=torch.stack((1 - right, top, 1 - left, bottom, area), dim=1))
    torch.testing.assert_close(channel("box-shape", world, mirrored, tiny.folder, bert), shapes)


def test_intersection_over_union() -> None:
    others = np.array([[0, 0, 10, 10], [5, 0, 15, 10], [10, 0, 20, 10], [2, 2, 4, 4], [6, 6, 5, 5]], dtype=np.float64)
    assert overlap(np.array([0.0, 0, 10, 10]), others).tolist() == pytest.approx([1, 1 / 3, 0, 0.04, 0])
    assert overlap(np.zeros(4), np.zeros((1, 4))).tolist() == [0]


@pytest.mark.parametrize("view", [0, 5, 14, 12, 35])
def test_the_heading_of_a_box_is_that_of_what_it_shows(objects: ObjectTable, view: int) -> None:
    """A point somewhere in front of the camera, projected as a camera does, and found again."""
    heading, elevation = math.radians(30 * (view % 12)), math.radians(30 * (view // 12 - 1))
    for turn, rise in ((0.0, 0.0), (0.3, 0.0), (-0.4, 0.2), (0.2, -0.3)):
        h, e = heading + turn, elevation + rise
        x, y, z = math.cos(e) * math.sin(h), math.cos(e) * math.cos(h), math.sin(e)
        level = x * math.sin(heading) + y * math.cos(heading)
        right, depth = (
            x * math.cos(heading) - y * math.sin(heading),
            level * math.cos(elevation) + z * math.sin(elevation),
        )
        up, focal = z * math.cos(elevation) - level * math.sin(elevation), 240 / math.tan(math.radians(30))
        across, down = 0.5 + focal * right / depth / 640, 0.5 - focal * up / depth / 480
        object.__setattr__(objects, "view", torch.tensor([view, view]))
        position = torch.tensor([[across - 0.1, down - 0.2, across + 0.1, down + 0.2, 0.08]] * 2)
        object.__setattr__(objects, "position", position)
        assert box_direction(objects)[0].tolist() == pytest.approx([h, h], abs=1e-5)


def test_observations_in_the_direction_of_a_box(tiny: Any, world: World, objects: ObjectTable, bert: Path) -> None:
    """View 14 looks along 60 degrees; the box's middle at x = 150 lies 22.24 degrees to the left of that."""
    found = channel("observations", world, objects, tiny.folder, bert)
    degrees = 60 - math.degrees(math.atan(170 * math.tan(math.radians(30)) / 240))
    before, after = plainly(bert, ["a sofa in a", "a table in a"])
    expected = (1 - degrees / 45) * before + degrees / 45 * after
    assert degrees == pytest.approx(37.76, abs=0.01)
    assert (found[0] - expected).abs().max() < 1e-3


def test_observations_at_the_elevation_of_the_view(tiny: Any, world: World, objects: ObjectTable, bert: Path) -> None:
    """One object below, one ahead and one above, all in the middle of their views."""
    entries = {
        str(number): {"name": "door", "visible_pos": [view], "bbox2d": [[270, 190, 100, 100]]}
        for number, view in enumerate((2, 14, 26))
    }
    tiny.write("reverie/BBox/alpha_a1.json", {"a1": entries})
    said = "\n".join((f"down: {LAMP}", f"middle: {SOFA}", f"top: {TABLE}"))
    tiny.edit("observations/alpha.json", lambda document: document.update(a1=[said] * 8))
    table = open_object_table(world, tiny.folder.boxes)
    table = table.select((table.viewpoint == world.numbers["alpha", "a1"]).nonzero().flatten())
    found = channel("observations", world, table, tiny.folder, bert)
    assert (found - plainly(bert, [LAMP, SOFA, TABLE])).abs().max() < 1e-3


def test_a_box_elsewhere_is_another_entry_of_the_cache(
    tiny: Any, world: World, objects: ObjectTable, bert: Path
) -> None:
    """Though the objects have the same ids: what overlaps them, and lies behind them, is other."""
    tiny.edit("reverie/BBox/alpha_a1.json", lambda document: document["a1"]["1"].update(bbox2d=[[300, 300, 100, 100]]))
    moved = open_object_table(world, tiny.folder.boxes)
    moved = moved.select((moved.viewpoint == world.numbers["alpha", "a1"]).nonzero().flatten())
    assert moved.fingerprint() == objects.fingerprint()
    before, after = (channel("overlapping-detections", world, one, tiny.folder, bert) for one in (objects, moved))
    assert before[0, :4].tolist() == pytest.approx([0, 0.5, 0.1, 0])
    assert after[0, :4].tolist() == pytest.approx([0, 0, 0, 1])


def test_each_channel_stands_where_it_is_named(tiny: Any, objects: ObjectTable, bert: Path) -> None:
    def seen(channels: str) -> torch.Tensor:
        bank = vln.open_data(tiny.root, FeatureSpec("captions", objects=channels, encoder=str(bert))).object_bank
        assert bank is not None
        return bank.look(torch.tensor([1]), torch.tensor([12])).features

    widths = {"name": 24, "view-caption": 24, "overlapping-detections": 28, "detections-in-all-views": 28}
    widths |= {"observations": 24, "box-shape": 5}
    alone = {name: seen(name) for name in widths}
    assert {name: one.shape[-1] for name, one in alone.items()} == widths
    for text, names in (
        ("names", ("name", "view-caption")),
        ("detections", ("view-caption", "overlapping-detections")),
        ("detections,observations", ("view-caption", "overlapping-detections", "observations")),
        ("view-caption,detections-in-all-views", ("view-caption", "detections-in-all-views")),
        ("box-shape,observations", ("box-shape", "observations")),
        ("names,detections", ("name", "view-caption", "overlapping-detections")),
    ):
        assert torch.equal(seen(text), torch.cat([alone[name] for name in names], dim=-1))


def test_names_do_not_matter_without_names(tiny: Any, world: World, objects: ObjectTable, bert: Path) -> None:
    spec = FeatureSpec(
        "captions", objects="detections,detections-in-all-views,observations,box-shape", encoder=str(bert)
    )
    before = vln.open_data(tiny.root, spec).object_bank
    tiny.edit("reverie/BBox/alpha_a1.json", lambda document: document["a1"]["1"].update(name="elephant"))
    after = vln.open_data(tiny.root, spec).object_bank
    assert before is not None
    assert after is not None
    assert torch.equal(before.table, after.table)


@pytest.mark.parametrize(
    ("channels", "said"),
    [
        ("names,detection", "no channel 'detection'; did you mean detections"),
        ("name,", "names an empty channel"),
        ("detectons", r"no features of objects 'detectons': no file and no channel \(names, detections, name, "),
    ],
)
def test_a_channel_that_is_not_there(tiny: Any, channels: str, said: str) -> None:
    with pytest.raises(vln.VlnbertError, match=said):
        _ = vln.open_data(tiny.root, FeatureSpec("captions", objects=channels)).object_bank


def test_what_is_read() -> None:
    spec = FeatureSpec("features.hdf5", objects="detections")
    assert (spec.reads_captions, spec.reads_observations, spec.reads_object_file) == (True, False, False)
    spec = FeatureSpec("features.hdf5", objects="observations")
    assert (spec.reads_captions, spec.reads_observations, spec.uses_encoder) == (False, True, True)
    spec = FeatureSpec("features.hdf5", objects="box-shape")
    assert (spec.reads_captions, spec.reads_observations, spec.uses_encoder) == (False, False, False)
    assert FeatureSpec("captions", objects="objects.hdf5").reads_object_file
    assert not FeatureSpec("captions", objects="off").reads_object_file


def test_the_second_opening_reads_nothing(house: DataFolder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    bert = write_bert(tmp_path / "bert", house.vocabulary)
    spec = FeatureSpec("captions", objects="detections,observations", encoder=str(bert))
    first = vln.open_data(house.root, spec).object_bank
    monkeypatch.setattr("vlnbert.features.encoder.open_encoder", lambda *_: pytest.fail("read again"))
    second = vln.open_data(house.root, spec).object_bank
    assert first is not None
    assert second is not None
    assert torch.equal(first.table, second.table)
    classes = len(open_labels(open_world(house), house.captions)[1])
    assert first.width == 24 + (classes + 24) + 24
