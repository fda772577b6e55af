"""What a navigator's folder keeps of a spec: no path of the machine, and enough to see the same elsewhere."""

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import TinyData
from vlnbert.data.data import open_data
from vlnbert.errors import DataError, VlnbertError
from vlnbert.features.opening import as_kept, from_kept, in_data_folder
from vlnbert.features.spec import IN_MEMORY, FeatureSpec, register_features
from vlnbert.sources.layout import DataFolder
from vlnbert.weights.options import MINILM


def test_channels_are_kept_with_their_encoder() -> None:
    spec = FeatureSpec(views="captions,observations", objects="names", max_objects=20)
    kept = {"views": "captions,observations", "objects": "names", "max_objects": 20, "encoder": MINILM}
    assert as_kept(spec, sees_objects=True) == kept
    assert from_kept(kept) == spec
    assert as_kept(FeatureSpec(views="detections"), sees_objects=False) == {"views": "detections", "objects": "off"}


def test_objects_that_are_not_shown_are_off() -> None:
    spec = FeatureSpec(views="captions", objects="names", max_objects=20, object_width=768)
    assert as_kept(spec, sees_objects=False) == {"views": "captions", "objects": "off", "encoder": MINILM}


def test_nothing_said_is_nothing_kept() -> None:
    assert as_kept(FeatureSpec(), sees_objects=True) == {}
    assert from_kept({}) == from_kept(None) == FeatureSpec()


def test_files_and_folders_are_kept_by_name(tmp_path: Path) -> None:
    spec = FeatureSpec(views=f"{tmp_path}/views.hdf5", view_width=8, objects=f"{tmp_path}/obj.hdf5")
    kept = as_kept(spec, sees_objects=True)
    assert kept == {"views": "views.hdf5", "view_width": 8, "objects": "obj.hdf5"}
    (tmp_path / "my bert").mkdir()
    for encoder, name in (
        (f"{tmp_path}/my bert", "my bert/"),
        (f"{tmp_path}/gone", "gone"),
        ("owner/model", "owner/model"),
    ):
        assert as_kept(FeatureSpec(views="captions", encoder=encoder), sees_objects=False)["encoder"] == name
    odd = as_kept(FeatureSpec(views=f"{tmp_path}/a\nb.hdf5"), sees_objects=False)
    assert odd["views"] == "a?b.hdf5"


def test_ones_own_features_are_kept_by_name(forget_plugins: Callable[[], None]) -> None:
    assert as_kept(FeatureSpec(views=IN_MEMORY), sees_objects=False)["views"] == IN_MEMORY
    register_features("depth.v2")(lambda world: None)
    for views in ("depth.v2", "detections,depth.v2"):
        assert as_kept(FeatureSpec(views=views), sees_objects=False)["views"] == views
        assert in_data_folder(FeatureSpec(views=views), DataFolder(Path("data")), FeatureSpec()).views == views


def test_a_file_is_found_in_the_data_folder(tiny: TinyData, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever lies where the user happens to be; what the user says stays as it is."""
    folder = open_data(tiny.root).folder
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny.hdf5").write_bytes(b"another")
    kept = FeatureSpec(views="tiny.hdf5", objects="objects.hdf5")
    found = in_data_folder(kept, folder, FeatureSpec())
    assert (found.views, found.objects) == tuple(str(folder.features / name) for name in ("tiny.hdf5", "objects.hdf5"))
    said = FeatureSpec(views="tiny.hdf5", objects="off")
    assert in_data_folder(kept.updated_by(said), folder, said) == said
    with pytest.raises(DataError, match=r"features/gone\.hdf5"):
        _ = open_data(tiny.root, in_data_folder(FeatureSpec(views="gone.hdf5"), folder, FeatureSpec())).view_bank
    (folder.features / "tiny.hdf5").rename(tmp_path / "store.hdf5")
    (folder.features / "link.hdf5").symlink_to(tmp_path / "store.hdf5")
    linked = in_data_folder(FeatureSpec(views="store.hdf5"), folder, FeatureSpec())
    assert linked.views == str(folder.features / "link.hdf5")


@pytest.mark.parametrize(
    "views",
    ["captions,pixels", "pixels", "x" * 4000, "x," * 2000, "x" * 4000 + ".hdf5"],
    ids=["one of two", "one", "long", "many", "a long file"],
)
def test_what_nobody_knows_is_one_line(tiny: TinyData, views: str) -> None:
    spec = in_data_folder(FeatureSpec(views=views), open_data(tiny.root).folder, FeatureSpec())
    with pytest.raises(VlnbertError) as caught:
        _ = open_data(tiny.root, spec).view_bank
    assert len(str(caught.value).splitlines()) == 1
