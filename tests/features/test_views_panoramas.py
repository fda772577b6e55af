"""All 36 views of a panorama, by every kind of features: what faces a neighbour looks as its slot does."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import vlnbert as vln
from tests.features.samples import plainly, write_bert
from tests.features.test_spec import ALL
from vlnbert.features.spec import FeatureSpec
from vlnbert.world.banks import in_dtype, memory
from vlnbert.world.cache import Key
from vlnbert.world.world import STEPS, VIEWS

TALLIED = ("caption-text", "captions-beside", "observations-ahead", "observations-above-below")


@pytest.fixture
def bert(tiny: Any, tmp_path: Path) -> str:
    return str(write_bert(tmp_path / "bert", tiny.folder.vocabulary))


def around(data: vln.Data) -> Tensor:
    """[viewpoint, 36, width]"""
    return data.panorama_bank.look(torch.arange(len(data.world)))


def assert_slots_agree(data: vln.Data, seen: Tensor) -> None:
    """Bit for bit."""
    world, here = data.world, torch.arange(len(data.world))
    slots = data.view_bank.look(here)
    assert seen.shape == (len(world), VIEWS, data.view_bank.width)
    real = (torch.arange(world.slots) > 0) & (torch.arange(world.slots) < world.choices[:, None])
    assert torch.equal(seen[here[:, None], world.view][real], slots[real])


@pytest.mark.parametrize("views", [*ALL, ",".join(ALL), "detections,detection-places"])
def test_channels(tiny: Any, bert: str, views: str) -> None:
    data = vln.open_data(tiny.root, FeatureSpec(views=views, encoder=bert))
    assert_slots_agree(data, around(data))


@pytest.mark.parametrize("width", [None, 4])
@pytest.mark.parametrize("file", ["tiny.hdf5", "tiny.tsv"])
def test_files(tiny: Any, file: str, width: int | None) -> None:
    data = vln.open_data(tiny.root, FeatureSpec(str(tiny.path(f"features/{file}")), view_width=width))
    seen = around(data)
    assert_slots_agree(data, seen)
    for number, scan in enumerate(data.world.scan_of.tolist()):
        name = data.world.scans[scan], data.world.viewpoints[number]
        assert torch.equal(seen[number], torch.from_numpy(tiny.features[name][:, :width]))


def test_every_view_says_what_the_files_say(tiny: Any, bert: str) -> None:
    """By a straight loop over the files, one text at a time, also where nothing faces a neighbour."""
    data = vln.open_data(tiny.root, FeatureSpec(views=",".join(TALLIED), encoder=bert))
    scan, name = "alpha", "a1"
    captions = tiny.read(f"captions/{scan}.json")[name]
    observed = [
        dict(line.split(": ", 1) for line in text.splitlines()) for text in tiny.read("observations/alpha.json")[name]
    ]
    texts = [captions[str(view)]["global_cap"] for view in range(VIEWS)]
    own = plainly(Path(bert), texts)
    said = {
        (heading, level): plainly(Path(bert), [words[level]])[0]
        for heading, words in enumerate(observed)
        for level in ("down", "middle", "top")
    }
    expected = torch.zeros(VIEWS, 4 * own.shape[1])
    for view in range(VIEWS):
        step, level = view % STEPS, view // STEPS
        beside = [level * STEPS + (step + turn) % STEPS for turn in (-1, 1)]
        place = step * 30 / 45
        mixed = [
            (1 - place % 1) * said[int(place), elevation] + place % 1 * said[(int(place) + 1) % 8, elevation]
            for elevation in ("down", "middle", "top")
        ]
        others = [mixed[other] for other in range(3) if other != level]
        expected[view] = torch.cat((own[view], own[beside].mean(dim=0), mixed[level], (others[0] + others[1]) / 2))
    found = around(data)[data.world.find(scan, name)]
    torch.testing.assert_close(found, expected, atol=2e-3, rtol=0)  # the cache keeps half precision


def test_features_of_ones_own(tiny: Any, bert: str, forget_plugins: Callable[[], None]) -> None:
    data = vln.open_data(tiny.root)
    values = torch.rand(len(data.world), VIEWS, 5)
    own = vln.open_data(data, features=values)
    assert torch.equal(around(own), values)
    assert_slots_agree(own, around(own))
    vln.register_features("by-view")(lambda world: values)
    beside = vln.open_data(data, features=FeatureSpec("detections,by-view,caption-text", encoder=bert))
    assert_slots_agree(beside, around(beside))
    values[0, :, 0] = float("nan")
    with pytest.raises(vln.UsageError, match="are not finite everywhere"):
        around(vln.open_data(data, features=values))


class Plain:
    width = 5

    def look(self, viewpoint: Tensor) -> Tensor:
        return torch.ones(len(viewpoint), self.slots, 5)

    def __init__(self, world: Any) -> None:
        self.slots = world.slots


@pytest.mark.parametrize("features", [Plain, lambda world: torch.ones(len(world), world.slots, 5)])
def test_what_shows_choices_alone_knows_no_panorama(tiny: Any, features: Any) -> None:
    data = vln.open_data(tiny.root, features=features)
    assert data.view_bank.width == 5
    with pytest.raises(vln.UsageError) as caught:
        data.panorama_bank  # noqa: B018  # it is opened when it is named
    said = (
        "the features '<in memory>' do not show all 36 views, and a panorama is wanted; give a tensor [viewpoint, 36, "
    )
    assert str(caught.value).startswith(said)


def kinds(cache: Path) -> set[str]:
    return {path.name.rpartition("-")[0] for path in cache.glob("*.safetensors")}


def test_nothing_is_opened_for_who_does_not_ask(tiny: Any, bert: str, cache: Path) -> None:
    """And what is cached for facing views keeps its key."""
    spec = FeatureSpec(views=",".join(ALL), objects="off", encoder=bert)
    environment = vln.open_data(tiny.root, spec).environment
    environment.showing("neighbours")
    facing = {"world", "captions", "labels", "label-places", "captions-beside", "observations"}
    assert kinds(cache) == facing
    before = {path.name for path in cache.iterdir()}
    environment.showing("panorama")
    assert before < {path.name for path in cache.iterdir()}
    assert kinds(cache) == facing | {"panorama-captions", "panorama-observations"}
    file = vln.open_data(tiny.root, tiny.path("features/tiny.hdf5"))
    assert file.view_bank.width == 6
    key = Key.of("features", [tiny.path("features/tiny.hdf5")], "version 1 width None", file.world.fingerprint())
    assert key.path.is_file()


def test_what_was_read_once_is_cached(tiny: Any, bert: str, monkeypatch: pytest.MonkeyPatch) -> None:
    spec = FeatureSpec(views=",".join(ALL), encoder=bert)
    first = around(vln.open_data(tiny.root, spec))
    for reader in ("captions_of", "observations_of"):
        monkeypatch.setattr(f"vlnbert.features.views.{reader}", lambda *_: pytest.fail("reads again"))
    assert torch.equal(around(vln.open_data(tiny.root, spec)), first)


def test_texts_are_kept_once(tiny: Any, bert: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Two channels share a codebook, which is smaller than a table of all views; what is held is told in a line."""
    data = vln.open_data(tiny.root, FeatureSpec(views="caption-text,captions-beside", encoder=bert))
    bank, world = data.panorama_bank, data.world
    texts = 1 + 6 * len(world.scans)  # of each scan six, and the row of zeros
    own, beside = bank.parts
    assert own.table is beside.table
    assert own.table.shape == (texts, 24)
    mixing = 2 * VIEWS * (8 + 4)  # which two captions count, and how much
    assert memory(bank) == 4 * 24 * texts + 8 * VIEWS * len(world) + mixing
    assert f"panoramas of {len(world)} viewpoints, 48 numbers a view: 0 MB on cpu" in capsys.readouterr().err
    half = in_dtype(bank, torch.bfloat16)
    assert all(part.table.dtype == torch.bfloat16 for part in half.parts)
    here = torch.arange(len(world))
    torch.testing.assert_close(half.look(here).float(), bank.look(here), atol=0.02, rtol=0.02)


def test_who_has_no_neighbour_needs_no_texts(tiny: Any, bert: str, refuses: Any) -> None:
    """As in the banks of facing views; elsewhere what is missing is told."""
    spec = FeatureSpec(views=",".join(ALL), encoder=bert)
    for folder in ("captions", "observations"):
        tiny.edit(f"{folder}/beta.json", lambda document: document.pop("b5"))
    data = vln.open_data(tiny.root, spec)
    seen = around(data)
    lonely = data.world.find("beta", "b5")
    assert not seen[lonely].any()
    assert seen[np.arange(len(seen)) != lonely].any(dim=-1).all()
    path = tiny.edit("captions/beta.json", lambda document: document.pop("b1"))
    other = vln.open_data(tiny.root, FeatureSpec(views="caption-text", encoder=bert))
    refuses(path.parent, lambda: other.panorama_bank, "scan beta viewpoint b1: is missing")


def test_without_features_one_line_says_so(tiny: Any) -> None:
    shutil.rmtree(tiny.path("features"))
    with pytest.raises(vln.DataError, match=r"features: holds no feature file; name one with "):
        vln.open_data(tiny.root).panorama_bank  # noqa: B018  # it is opened when it is named
