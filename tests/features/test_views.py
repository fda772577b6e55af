"""What is seen in each slot equals what a straight loop over files gives."""

import numpy as np
import pytest
import torch
from torch import Tensor

from vlnbert.errors import DataError
from vlnbert.features.views import (
    facing_views,
    index_captions,
    open_features,
    open_labels,
    shares_across,
)
from vlnbert.sources.annotations import read_captions
from vlnbert.world.banks import FeatureBank, JoinedBank, in_dtype, side_by_side
from vlnbert.world.build import open_world

HDF5, TSV = "features/tiny.hdf5", "features/tiny.tsv"


def straight(world, seen, width):
    """[viewpoint, slot, width] by a loop: `seen(scan, viewpoint, view)` in real slots, zeros elsewhere."""
    table = torch.zeros(len(world), world.slots, width)
    for number, name in enumerate(world.viewpoints):
        scan = world.scans[world.scan_of[number]]
        for slot in range(1, int(world.choices[number])):
            table[number, slot] = torch.as_tensor(seen(scan, name, int(world.view[number, slot])))
    return table


def everything(world, bank) -> Tensor:
    return bank.look(torch.arange(len(world)))


@pytest.mark.parametrize("file", [HDF5, TSV])
@pytest.mark.parametrize("width", [None, 4])
def test_image_features(tiny, world, file, width):
    bank = open_features(world, tiny.path(file), width)
    expected = straight(world, lambda scan, name, view: tiny.features[scan, name][view, :width], width or 6)
    assert bank.width == (width or 6)
    assert torch.equal(everything(world, bank), expected)


def test_look_follows_the_agents(tiny, world):
    bank = open_features(world, tiny.path(HDF5))
    agents = torch.tensor([3, 0, 3])
    assert torch.equal(bank.look(agents), everything(world, bank)[agents])


def test_stop_and_padding_are_zero_and_the_rest_is_not(tiny, world):
    seen = everything(world, open_features(world, tiny.path(HDF5)))
    slots = torch.arange(world.slots)
    real = (slots > 0) & (slots < world.choices[:, None])
    assert torch.equal(seen.any(dim=-1), real)


def test_only_facing_views_are_kept(world):
    views = facing_views(world)
    slots = torch.arange(world.slots)
    real = (slots > 0) & (slots < world.choices[:, None])
    pairs = {(number, int(world.view[number, slot])) for number, slot in real.nonzero().tolist()}
    assert views.count == len(pairs)
    for number, view in pairs:
        assert views.number[number, view] in views.row[number]
    assert not views.row[~real].any()
    assert sorted(set(views.row.flatten().tolist())) == list(range(views.count + 1))


def test_labels_are_the_surest_detection_of_each_class(tiny, world):
    bank, classes = open_labels(world, tiny.folder.captions)
    assert classes == ("chair", "table")
    found = {
        (panorama.scan, panorama.viewpoint): panorama
        for scan in world.scans
        for panorama in read_captions(tiny.folder.captions / f"{scan}.json")
    }

    def surest(scan, name, view):
        seen = found[scan, name].views[view].detections
        return [max([item.confidence for item in seen if item.label == label], default=0.0) for label in classes]

    expected = straight(world, surest, 2)
    assert torch.equal(everything(world, bank), expected)
    assert {0.4, 0.9} <= set(expected[..., 0].double().round(decimals=6).flatten().tolist())


@pytest.mark.parametrize(
    ("box", "shares"),
    [
        ((0, 0, 640, 480), [1 / 3, 1 / 3, 1 / 3]),
        ((0, 0, 160, 9), [1, 0, 0]),
        ((160, 0, 320, 9), [(640 / 3 - 160) / 160, (320 - 640 / 3) / 160, 0]),
        ((-40, 0, 200, 9), [1, 0, 0]),  # what lies beside the image does not count
        ((600, 0, 900, 9), [0, 0, 1]),
        ((640, 0, 640, 9), [0, 0, 1]),
        ((300, 0, 300, 9), [0, 1, 0]),
        ((310, 0, 300, 9), [0, 1, 0]),  # the wrong way round: by its left edge
    ],
)
def test_thirds_of_a_view(box, shares):
    assert shares_across(box, 3) == pytest.approx(shares)


def test_label_places_are_the_surest_detection_in_each_third(tiny, world):
    bank, classes = open_labels(world, tiny.folder.captions, parts=3)
    chair = [0.9 if view % 4 == 3 else 0.4 if view % 4 in (1, 2) else 0.0 for view in range(4)]

    def by_third(scan, name, view):
        kind = (view + int(name[1])) % 4  # the chair's box lies at the left, the table's fills the view
        table = 0.75 * np.array([639 / 3 + 1 / 3, 640 / 3, 639 - 1280 / 3]) / 639 * (kind == 2)
        return np.stack((np.array([chair[kind], 0, 0]), table), axis=1).flatten()

    assert classes == ("chair", "table")
    assert torch.allclose(everything(world, bank), straight(world, by_third, 6))


def test_captions_are_a_codebook(tiny, world):
    texts, code = index_captions(world, tiny.folder.captions, facing_views(world))
    assert len(texts) == len(set(texts)) < int((world.choices - 1).sum())
    vectors = torch.arange(1.0, len(texts) + 1)[:, None].expand(-1, 3)
    bank = FeatureBank.from_codebook(vectors, code)
    expected = straight(world, lambda scan, _, view: [texts.index(f"view {view % 6} of {scan[0]}") + 1.0] * 3, 3)
    assert torch.equal(everything(world, bank), expected)


def test_banks_side_by_side(tiny, world):
    image, (labels, _) = open_features(world, tiny.path(HDF5)), open_labels(world, tiny.folder.captions)
    both = JoinedBank((image, labels)).to("cpu")
    assert both.width == 8
    seen = everything(world, both)
    assert torch.equal(seen[..., :6], everything(world, image))
    assert torch.equal(seen[..., 6:], everything(world, labels))


def test_tables_of_the_same_rows_become_one(tiny, world):
    image, (labels, _) = open_features(world, tiny.path(HDF5)), open_labels(world, tiny.folder.captions)
    texts, code = index_captions(world, tiny.folder.captions, facing_views(world))
    codebook = FeatureBank.from_codebook(torch.rand(len(texts), 3), code)
    expected = [everything(world, bank) for bank in (image, labels, codebook)]
    assert isinstance(side_by_side([image, labels]), FeatureBank)
    assert side_by_side([image]) is image
    three = side_by_side([image, labels, codebook])
    assert [part.width for part in three.parts] == [8, 3]
    assert torch.equal(everything(world, three), torch.cat(expected, dim=-1))
    laid_out = codebook.laid_out(facing_views(world).row)
    assert torch.equal(everything(world, laid_out), expected[2])
    assert isinstance(side_by_side([image, labels, laid_out]), FeatureBank)


def test_features_in_another_precision(tiny, world):
    class Own:
        width = 1

    own, image = Own(), open_features(world, tiny.path(HDF5))
    joined = in_dtype(JoinedBank((image, own)), torch.bfloat16)
    assert joined.parts[0].table.dtype == torch.bfloat16
    assert joined.parts[1] is own
    assert in_dtype(image, torch.float32) is image


@pytest.mark.parametrize("name", ["a.hdf5", "a.tsv"])
def test_missing_viewpoints_are_named(tmp_path, tiny, world, refuses, write_features, name):
    missing = {("alpha", "a1"), ("beta", "b0"), ("beta", "b5"), ("beta", "b4")}  # the last two need no views
    path = tmp_path / name
    write_features(path, {place: values for place, values in tiny.features.items() if place not in missing})
    expected = ["scan alpha viewpoint a1: is missing; use", "scan beta viewpoint b0: is missing; use"]
    refuses(path, lambda: open_features(world, path), *expected)


def test_missing_captions_are_named(tiny, world, refuses):
    path = tiny.edit("captions/beta.json", lambda document: document.pop("b1"))
    refuses(
        path.parent,
        lambda: index_captions(world, path.parent, facing_views(world)),
        "scan beta viewpoint b1: is missing",
    )
    refuses(path.parent, lambda: open_labels(world, path.parent), "scan beta viewpoint b1: is missing")
    path.unlink()
    refuses(
        path, lambda: open_labels(world, path.parent), "no such caption file; get them with: vlnbert data fetch DIR"
    )


@pytest.mark.parametrize("name", ["no.hdf5", "no.tsv"])
def test_a_missing_feature_file_is_named(tmp_path, world, refuses, name):
    refuses(tmp_path / name, lambda: open_features(world, tmp_path / name), "no such feature file; check the path")


def test_other_scans_features_are_skipped(tiny):
    world = open_world(tiny.folder, scans=["beta"])
    bank = open_features(world, tiny.path(HDF5))
    expected = straight(world, lambda scan, name, view: tiny.features[scan, name][view], 6)
    assert torch.equal(everything(world, bank), expected)


def test_features_of_another_scan_are_not_taken_from_the_cache(tmp_path, tiny, write_features):
    """Two houses of the same shape and the same viewpoint names, in one feature file."""
    twin = "connectivity/twin_connectivity.json"
    tiny.write(twin, tiny.read("connectivity/alpha_connectivity.json"))
    alpha = {place: values for place, values in tiny.features.items() if place[0] == "alpha"}
    other = {("twin", name): values + 1 for (_, name), values in alpha.items()}
    path = write_features(tmp_path / "a.hdf5", alpha | other)
    for scan, features in (("alpha", alpha), ("twin", other)):
        world = open_world(tiny.folder, scans=[scan])
        expected = straight(world, lambda scan, name, view, features=features: features[scan, name][view], 6)
        assert torch.equal(everything(world, open_features(world, path)), expected)


def test_damaged_features_leave_no_cache(tiny, world, cache):
    before = sorted(cache.iterdir())
    tiny.cut(TSV, -30)
    with pytest.raises(DataError, match="line 18"):
        open_features(world, tiny.path(TSV))
    assert sorted(cache.iterdir()) == before


def test_half_precision_on_request(tiny, world):
    bank = open_features(world, tiny.path(HDF5)).to("cpu", torch.bfloat16)
    assert bank.look(torch.tensor([0])).dtype == torch.bfloat16
    assert np.isfinite(bank.table.float().numpy()).all()
