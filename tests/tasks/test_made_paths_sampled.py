"""Paths that nobody described: of R2R's kind, in train houses alone, none of val_seen's, nested by count."""

import json
import math
import shutil
from pathlib import Path

import pytest
import torch

import vlnbert as vln
from tests.cli.conftest import called
from vlnbert.data.data import open_data
from vlnbert.errors import DataError, UsageError
from vlnbert.house import generate
from vlnbert.tasks.made_paths import train_houses


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sampled") / "house"
    generate(folder, scans=4, paths_per_scan=12)
    return folder


def items(path: Path) -> list[dict[str, object]]:
    return json.loads(path.read_text())


def described(house: Path, split: str) -> set[tuple[str, ...]]:
    return {tuple(item["path"]) for item in json.loads((house / "r2r" / f"R2R_{split}.json").read_text())}


def test_every_path_of_the_kind_is_found_once(house: Path, tmp_path: Path) -> None:
    """By hand: from every viewpoint to every other, step by step."""
    world = open_data(house).world
    expected = set()
    for scan in train_houses(open_data(house).folder):
        names = world.names_in(scan)
        for start in names:
            for end in names:
                here, goal = world.find(scan, start), world.find(scan, end)
                path = [here]
                while here != goal and len(path) < 20:
                    here = int(world.neighbour[here, world.slot_toward(torch.tensor(here), torch.tensor(goal))])
                    path.append(here)
                metres = float(world.metres(torch.tensor(path[0]), torch.tensor(goal)))
                if here == goal and 5 <= len(path) <= 7 and metres >= 5:
                    expected.add((scan, *(world.viewpoints[one] for one in path)))
    found = vln.augment_paths(house, tmp_path / "paths.json")
    written = items(tmp_path / "paths.json")
    seen = described(house, "val_seen")
    wanted = {path for path in expected if path[1:] not in seen}
    assert {(item["scan"], *item["path"]) for item in written} == wanted
    assert len(written) == len(wanted) == len(found) == found.known - found.described
    assert found.known == len(expected)
    assert found.described == len(expected) - len(wanted) > 0
    assert len({item["path_id"] for item in written}) == len(written)
    assert all(0 <= item["heading"] < 2 * math.pi and item["distance"] >= 5 for item in written)


def test_fewer_are_the_first_of_more(house: Path, tmp_path: Path) -> None:
    few, more, other = (tmp_path / name for name in ("few.json", "more.json", "other.json"))
    vln.augment_paths(house, few, 10, seed=3)
    vln.augment_paths(house, more, 40, seed=3)
    vln.augment_paths(house, other, 10, seed=4)
    assert items(few) == items(more)[:10]
    assert [item["path"] for item in items(few)] != [item["path"] for item in items(other)]


def test_houses_are_kept_out(house: Path, tmp_path: Path) -> None:
    kept_out = set(vln.holdout_houses(house, 1))
    assert called("augment", "paths", "--data", house, "--out", tmp_path / "paths.json", "--holdout", 1).code == 0
    scans = {item["scan"] for item in items(tmp_path / "paths.json")}
    assert scans
    assert not scans & kept_out
    assert scans | kept_out == set(train_houses(open_data(house).folder))
    unseen = {item["scan"] for item in json.loads((house / "r2r" / "R2R_val_unseen.json").read_text())}
    assert not scans & unseen


def test_an_older_file_is_kept(house: Path, tmp_path: Path) -> None:
    file = tmp_path / "paths.json"
    file.write_text("mine")
    refused = called("augment", "paths", "--data", house, "--out", file)
    assert (refused.code, refused.err) == (
        2,
        f"vlnbert: {file}: is there already; remove it, or write to another file\n",
    )
    assert file.read_text() == "mine"


def test_more_than_there_are(house: Path, tmp_path: Path) -> None:
    with pytest.raises(
        UsageError, match=r"there are [\d,]+ paths of the kind .*, not 1,000,000; ask for fewer: count="
    ):
        vln.augment_paths(house, tmp_path / "paths.json", 1_000_000)
    assert not (tmp_path / "paths.json").exists()


def test_houses_without_a_graph_are_named(house: Path, tmp_path: Path) -> None:
    own = tmp_path / "house"
    shutil.copytree(house, own)
    file = own / "r2r/R2R_train.json"
    told = json.loads(file.read_text())
    told[0]["scan"] = "elsewhere"
    file.write_text(json.dumps(told))
    with pytest.raises(
        DataError, match=r"has paths in elsewhere, which has no graph; add the scan's connectivity file"
    ):
        vln.augment_paths(own, tmp_path / "paths.json")


def test_houses_that_are_too_small(house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is written rather than an empty file."""
    monkeypatch.setattr("vlnbert.tasks.made_paths.LENGTH", 1e4)
    with pytest.raises(UsageError, match=r"have no shortest path of 4 to 6 hops .* give larger houses"):
        vln.augment_paths(house, tmp_path / "paths.json")
    assert not (tmp_path / "paths.json").exists()
