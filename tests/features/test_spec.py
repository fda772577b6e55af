"""Channels of a view's feature: named, set side by side, dropped; what is not there is refused."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import vlnbert as vln
from tests.features.samples import of_views, write_bert
from vlnbert.features.opening import tensor_bank
from vlnbert.features.spec import FeatureSpec
from vlnbert.features.views import open_labels
from vlnbert.learning.presets import presets
from vlnbert.world.banks import FeatureBank, JoinedBank
from vlnbert.world.world import VIEWS

ALL = (
    *("caption-text", "detections", "detection-places", "captions-beside"),
    *("observations-ahead", "observations-above-below"),
)
WIDTH = {"detections": 2, "detection-places": 6}  # of two classes; every other is the embedding's


@pytest.fixture
def bert(tiny: Any, tmp_path: Path) -> str:
    return str(write_bert(tmp_path / "bert", tiny.folder.vocabulary))


def seen(tiny: Any, views: str, bert: str) -> Tensor:
    data = vln.open_data(tiny.root, FeatureSpec(views=views, encoder=bert))
    return data.view_bank.look(torch.arange(len(data.world)))


def test_names_of_channels() -> None:
    assert FeatureSpec("captions").view_channels == ("caption-text", "detections")
    assert FeatureSpec("observations,captions").view_channels == (*ALL[4:], *ALL[:2])
    assert FeatureSpec(" detections , captions,detections").view_channels == ("detections", "caption-text")
    assert FeatureSpec().view_channels == FeatureSpec("features/views.hdf5").view_channels == ()
    assert FeatureSpec("<in memory>").view_channels == ()


def test_each_channel_stands_where_it_is_named(tiny: Any, bert: str) -> None:
    alone = {name: seen(tiny, name, bert) for name in ALL}
    assert {name: one.shape[-1] for name, one in alone.items()} == {name: WIDTH.get(name, 24) for name in ALL}
    for names in (ALL, ALL[::-1], ("detections", "observations-ahead")):
        assert torch.equal(seen(tiny, ",".join(names), bert), torch.cat([alone[name] for name in names], dim=-1))


def test_objects_of_which_nobody_says_anything_are_not_seen(tiny: Any, bert: str) -> None:
    """Views alone are enough to walk; a task of objects, which needs them, says what is missing."""
    for path in tiny.folder.object_feature_files():
        path.unlink()
    data = vln.open_data(tiny.root, FeatureSpec(views="captions", encoder=bert))
    assert data.environment.view_bank is data.view_bank
    assert data.environment.object_bank is None
    for asks in (lambda: data.split("reverie/train"), lambda: data.object_bank):
        with pytest.raises(vln.DataError, match="holds no object feature file; name one"):
            asks()
    named = vln.open_data(tiny.root, FeatureSpec(views="captions", objects="view-caption", encoder=bert))
    assert named.environment.object_bank is named.object_bank is not None


def test_captions_are_what_they_were(tiny: Any, bert: str) -> None:
    """A codebook beside a table of detections gave the feature by which older runs learned."""
    world = vln.open_data(tiny.root).world
    folder = tiny.folder.captions
    before = JoinedBank((of_views(world, tiny.folder, bert).captions, open_labels(world, folder)[0]))
    assert torch.equal(seen(tiny, "captions", bert), before.look(torch.arange(len(world))))


def test_channels_of_ours_are_one_table(tiny: Any, bert: str) -> None:
    data = vln.open_data(tiny.root, FeatureSpec(views=",".join(ALL), encoder=bert))
    assert isinstance(data.view_bank, FeatureBank)


def test_a_registered_channel_beside_ours(tiny: Any, bert: str, forget_plugins: Callable[[], None]) -> None:
    values = torch.rand(17, VIEWS, 5)
    vln.register_features("my-depth")(lambda world: values[: len(world)])
    world = vln.open_data(tiny.root).world
    depth = tensor_bank(world, values).look(torch.arange(len(world)))
    detections = seen(tiny, "detections", bert)
    assert torch.equal(
        seen(tiny, "detections,my-depth,observations-ahead", bert),
        torch.cat((detections, depth, seen(tiny, "observations-ahead", bert)), dim=-1),
    )
    spec = FeatureSpec("captions,my-depth")
    assert (spec.user_views, spec.reads_captions, spec.reads_view_file) == (True, True, False)


def test_what_is_read() -> None:
    spec = FeatureSpec("detections")
    assert (spec.reads_captions, spec.reads_observations, spec.uses_encoder) == (True, False, False)
    spec = FeatureSpec("observations-ahead")
    assert (spec.reads_captions, spec.reads_observations, spec.uses_encoder) == (False, True, True)
    assert "observations" in replace(presets["r2r-open"].experiment, features=spec).needs
    assert "observations" not in replace(presets["r2r-open"].experiment, features=FeatureSpec("captions")).needs


@pytest.mark.parametrize(
    ("views", "said"),
    [
        ("captions,obervations", "no channel 'obervations'; did you mean observations"),
        ("captions,pixels", "no channel 'pixels'; known: caption-text, captions, captions-beside, detection-places, "),
        ("captions,", "names an empty channel"),
        ("pixels", "no features 'pixels': no file, no channel"),
    ],
)
def test_a_channel_that_is_not_there(tiny: Any, views: str, said: str) -> None:
    with pytest.raises(vln.VlnbertError, match=said):
        _ = vln.open_data(tiny.root, views).view_bank


def test_files_that_are_not_there(tiny: Any, bert: str) -> None:
    shutil.rmtree(tiny.folder.observations)
    with pytest.raises(
        vln.DataError, match=r"alpha\.json: no such observation file; get them with: vlnbert data fetch"
    ):
        seen(tiny, "captions,observations", bert)
    assert seen(tiny, "captions", bert).shape[-1] == 26


def test_a_file_whose_name_has_a_comma(tiny: Any) -> None:
    path = tiny.path("features/one,two.hdf5")
    shutil.copy(tiny.path("features/tiny.hdf5"), path)
    assert FeatureSpec(str(path)).reads_view_file


def test_names_that_are_taken() -> None:
    for name, said in (("observations", "is taken"), ("captions-beside", "is taken"), ("a,b", "has a comma")):
        with pytest.raises(vln.UsageError, match=said):
            vln.register_features(name)
