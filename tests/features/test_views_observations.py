"""Each slot shows what was observed in the direction of its view: between two headings, at and off its elevation."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor

from tests.features.samples import of_views, plainly
from vlnbert.features import encoder, views
from vlnbert.features.views import nearest_headings
from vlnbert.sources.layout import DataFolder
from vlnbert.world.banks import FeatureBank
from vlnbert.world.build import open_world
from vlnbert.world.world import World

# Of each of twelve steps of 30 degrees: the described heading, of 45 degrees, at or before it, and the next one's share
BETWEEN = [(0, 0), (0, 2 / 3), (1, 1 / 3), (2, 0), (2, 2 / 3), (3, 1 / 3)]
BETWEEN += [(4, 0), (4, 2 / 3), (5, 1 / 3), (6, 0), (6, 2 / 3), (7, 1 / 3)]


@pytest.fixture
def world(house: DataFolder) -> World:
    return open_world(house)


def everything(world: World, bank: FeatureBank) -> Tensor:
    return bank.look(torch.arange(len(world)))


def test_the_nearest_headings() -> None:
    before, share = nearest_headings(30.0 * torch.arange(12))
    assert before.tolist() == [heading for heading, _ in BETWEEN]
    assert share.tolist() == pytest.approx([share for _, share in BETWEEN])
    before, share = nearest_headings(torch.tensor([-9.0, 351.0, 369.0, 44.0]))
    assert before.tolist() == [7, 7, 0, 0]
    assert share.tolist() == pytest.approx([0.8, 0.8, 0.2, 44 / 45])


def test_each_slot_shows_its_direction(house: DataFolder, world: World, bert: Path) -> None:
    here, others = of_views(world, house, bert).observations
    files = [json.loads((house.observations / f"{scan}.json").read_text()) for scan in world.scans]
    said = sorted({line for file in files for one in file.values() for text in one for line in text.split("\n")})
    vector = dict(zip(said, plainly(bert, [line.partition(": ")[2] for line in said]), strict=True))
    ahead, beyond = (torch.zeros(len(world), world.slots, 24) for _ in range(2))
    for number, name in enumerate(world.viewpoints):
        described = [text.split("\n") for text in files[world.scan_of[number]][name]]
        for slot in range(1, int(world.choices[number])):
            level, step = divmod(int(world.view[number, slot]), 12)
            heading, share = BETWEEN[step]
            after = described[(heading + 1) % 8]
            levels = [
                (1 - share) * vector[one] + share * vector[two]
                for one, two in zip(described[heading], after, strict=True)
            ]
            ahead[number, slot] = levels.pop(level)
            beyond[number, slot] = (levels[0] + levels[1]) / 2
    assert (everything(world, here) - ahead).abs().max() < 1e-3  # half precision in the cache
    assert (everything(world, others) - beyond).abs().max() < 1e-3
    assert (ahead - beyond).abs().max() > 0.1
    assert not here.table[0].any()


def test_only_what_some_view_needs_is_embedded(tiny: Any, bert: Path) -> None:
    """A viewpoint that nobody leaves towards the east need not say what is there."""
    world = open_world(tiny.folder)
    needed = set()
    for number in range(len(world)):
        for slot in range(1, int(world.choices[number])):
            heading, share = BETWEEN[int(world.view[number, slot]) % 12]
            name, scan = world.viewpoints[number], world.scans[int(world.scan_of[number])]
            described = tiny.read(f"observations/{scan}.json")[name]
            for one in {heading, (heading + 1) % 8 if share else heading}:
                needed |= {line.partition(": ")[2] for line in described[one].split("\n")}
    _ = of_views(world, tiny.folder, bert).observations
    embedded = load_file(of_views(world, tiny.folder, bert).observations_key.path)["vectors"]
    assert len(embedded) == len(needed) < 40


def test_the_second_opening_reads_and_embeds_nothing(
    house: DataFolder, world: World, bert: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = of_views(world, house, bert).observations
    for place, name in ((views, "read_observations"), (encoder, "open_encoder")):
        monkeypatch.setattr(place, name, lambda *_: pytest.fail("read again"))
    second = of_views(world, house, bert).observations
    for before, after in zip(first, second, strict=True):
        assert torch.equal(after.table, before.table)


def test_what_is_missing_is_named(tiny: Any, bert: Path, refuses: Any, cache: Path) -> None:
    world, folder = open_world(tiny.folder), tiny.folder.observations

    def call() -> object:
        return of_views(world, tiny.folder, bert).observations

    tiny.edit("observations/beta.json", lambda document: (document.pop("b1"), document.pop("b5")))
    refuses(folder, call, "scan beta viewpoint b1: is missing; use files made for these graphs")  # b5 has no neighbour
    tiny.edit("observations/alpha.json", lambda document: document["a0"].pop())
    refuses(folder / "alpha.json", call, "viewpoint a0: holds 7 headings, not 8")
    tiny.path("observations/alpha.json").unlink()
    refuses(folder / "alpha.json", call, "no such observation file")
    assert not list(cache.glob("observations-*"))


def test_the_entry_depends_on_files_and_graphs(tiny: Any, bert: Path) -> None:
    keys = {of_views(open_world(tiny.folder), tiny.folder, bert).observations_key}
    keys.add(of_views(open_world(tiny.folder, ["beta"]), tiny.folder, bert).observations_key)
    tiny.edit("observations/beta.json", lambda document: document["b0"].reverse())
    keys.add(of_views(open_world(tiny.folder), tiny.folder, bert).observations_key)
    assert len(keys) == 3
