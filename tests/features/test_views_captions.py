"""The captions bank shows in every slot the caption of the view that faces it, and opens from the cache."""

import json
import shutil
from pathlib import Path
from typing import Any, NoReturn

import pytest
import torch
from safetensors.torch import load_file, save_file

from tests.features.samples import of_views, plainly, write_bert
from vlnbert.errors import DataError
from vlnbert.features import encoder
from vlnbert.features import views as module
from vlnbert.features.views import open_captions_beside
from vlnbert.sources.layout import DataFolder
from vlnbert.world.build import open_world
from vlnbert.world.world import World


@pytest.fixture
def world(house: DataFolder) -> World:
    return open_world(house)


def closed(*_: object, **__: object) -> NoReturn:
    raise AssertionError("read again")


def shut_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on neither captions are read nor an encoder opened."""
    monkeypatch.setattr(module, "index_captions", closed)
    monkeypatch.setattr(encoder, "open_encoder", closed)


def written(house: DataFolder, world: World) -> dict[tuple[int, int], str]:
    """The caption of the view that faces each neighbour, by viewpoint and slot, straight from the files."""
    files = [json.loads((house.captions / f"{scan}.json").read_text()) for scan in world.scans]
    return {
        (number, slot): files[world.scan_of[number]][name][str(int(world.view[number, slot]))]["global_cap"]
        for number, name in enumerate(world.viewpoints)
        for slot in range(1, int(world.choices[number]))
    }


def test_each_slot_shows_its_view(house: DataFolder, world: World, bert: Path) -> None:
    bank = of_views(world, house, bert).captions
    assert bank.width == 24
    seen = bank.look(torch.arange(len(world)))
    expected = torch.zeros(len(world), world.slots, 24)
    texts = written(house, world)
    distinct = sorted(set(texts.values()))
    vectors = plainly(bert, distinct)
    for place, text in texts.items():
        expected[place] = vectors[distinct.index(text)]
    assert seen.dtype == torch.float32
    assert (seen - expected).abs().max() < 1e-3  # half precision in the cache
    assert (vectors[0] - vectors[-1]).abs().max() > 0.1


def test_the_captions_beside_a_view(house: DataFolder, world: World, bert: Path) -> None:
    """The mean of those 30 degrees to either side, also where the turn begins anew."""
    bank = open_captions_beside(of_views(world, house, bert), "captions-beside")
    files = [json.loads((house.captions / f"{scan}.json").read_text()) for scan in world.scans]
    expected, wrapped = torch.zeros(len(world), world.slots, 24), 0
    for number, name in enumerate(world.viewpoints):
        for slot in range(1, int(world.choices[number])):
            level, step = divmod(int(world.view[number, slot]), 12)
            beside = (level * 12 + (step + 11) % 12, level * 12 + (step + 1) % 12)
            texts = [files[world.scan_of[number]][name][str(view)]["global_cap"] for view in beside]
            expected[number, slot] = plainly(bert, texts).mean(dim=0)
            wrapped += step in (0, 11)
    assert wrapped
    assert (bank.look(torch.arange(len(world))) - expected).abs().max() < 1e-3
    assert of_views(world, house, bert).captions_key.kind == "captions"


def test_captions_are_kept_once(house: DataFolder, world: World, bert: Path) -> None:
    bank = of_views(world, house, bert).captions
    assert len(bank.table) == 1 + len(set(written(house, world).values()))
    assert not bank.table[0].any()


def test_the_second_opening_reads_and_embeds_nothing(
    house: DataFolder, world: World, bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = of_views(world, house, bert).captions
    shut_all(monkeypatch)
    second = of_views(world, house, str(bert)).captions
    assert torch.equal(second.table, first.table)
    assert torch.equal(second.row, first.row)
    assert (second.table.dtype, second.row.dtype) == (torch.float32, torch.long)


def test_the_cache_holds_halves(house: DataFolder, world: World, bert: Path) -> None:
    _ = of_views(world, house, bert).captions
    kept = load_file(of_views(world, house, bert).captions_key.path)
    assert kept["vectors"].dtype == torch.float16


def test_another_encoder_is_another_entry(house: DataFolder, world: World, bert: Path, tmp_path: Path) -> None:
    other = write_bert(tmp_path / "other", house.vocabulary, seed=1)
    assert of_views(world, house, bert).captions_key != of_views(world, house, other).captions_key
    one, two = (of_views(world, house, source).captions for source in (bert, other))
    assert not torch.allclose(one.table, two.table, atol=0.1)


def test_other_captions_are_another_entry(tiny: Any, bert: Path) -> None:
    world = open_world(tiny.folder)
    before = of_views(world, tiny.folder, bert).captions
    tiny.edit("captions/beta.json", _all_alike)
    after = of_views(world, tiny.folder, bert).captions
    assert len(after.table) < len(before.table)


def test_other_graphs_are_another_entry(tiny: Any, bert: Path) -> None:
    keys = {of_views(open_world(tiny.folder, scans), tiny.folder, bert).captions_key for scans in (None, ["beta"])}
    tiny.edit("connectivity/beta_connectivity.json", lambda entries: entries[0]["pose"].__setitem__(3, 4.0))
    keys.add(of_views(open_world(tiny.folder), tiny.folder, bert).captions_key)
    assert len(keys) == 3


def test_missing_and_damaged_captions_are_named(tiny: Any, bert: Path, refuses: Any, cache: Path) -> None:
    world, folder = open_world(tiny.folder), tiny.folder.captions

    def call() -> object:
        return of_views(world, tiny.folder, bert).captions

    tiny.cut("captions/gamma.json", -20)
    refuses(folder / "gamma.json", call, "is not whole JSON")
    tiny.edit("captions/beta.json", lambda document: document.pop("b1"))
    tiny.path("captions/gamma.json").unlink()
    refuses(folder / "gamma.json", call, "no such caption file; get them with: vlnbert data fetch DIR")
    shutil.rmtree(folder)
    refuses(folder / "alpha.json", call, "no such caption file; get them with: vlnbert data fetch DIR")
    assert not list(cache.glob("captions-*"))


def test_an_encoder_that_cannot_read_is_refused_before_the_captions(
    house: DataFolder, world: World, tmp_path: Path, refuses: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "index_captions", closed)
    path = tmp_path / "none"
    refuses(path, lambda: of_views(world, house, path).captions, "no such file or folder")
    mute = write_bert(tmp_path / "mute", house.vocabulary)
    (mute / "vocab.txt").unlink()
    refuses(mute, lambda: of_views(world, house, mute).captions, "comes without a vocabulary")


def test_embeddings_that_are_not_numbers_are_not_kept(
    house: DataFolder, world: World, tmp_path: Path, cache: Path
) -> None:
    folder = write_bert(tmp_path / "sick", house.vocabulary)
    tensors = load_file(folder / "model.safetensors")
    tensors["encoder.layer.1.output.LayerNorm.bias"][3] = 3e38
    save_file(tensors, folder / "model.safetensors")
    with pytest.raises(DataError, match="sick: gives embeddings that are not numbers"):
        _ = of_views(world, house, folder).captions
    assert not list(cache.glob("captions-*"))


def _all_alike(document: dict[str, Any]) -> None:
    for views in document.values():
        for view in views.values():
            view["global_cap"] = "a wall"
