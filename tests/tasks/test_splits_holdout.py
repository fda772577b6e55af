"""Houses kept out of training: the same for both tasks, of the seed's choosing, and a split of their own."""

import json
import shutil
from pathlib import Path

import pytest

from vlnbert.data.data import Data, open_data
from vlnbert.errors import DataError, UnknownNameError, UsageError
from vlnbert.house import generate
from vlnbert.sources.layout import open_folder
from vlnbert.tasks.splits import Split, choose_houses, count_by_house, file_of, without_houses


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("holdout") / "house"
    generate(folder, scans=8, paths_per_scan=4)
    return folder


@pytest.fixture
def copy(house: Path, tmp_path: Path) -> Path:
    return shutil.copytree(house, tmp_path / "copy")


def choose(folder: Path, count: int = 2, seed: int = 0, task: str = "r2r") -> tuple[str, ...]:
    return choose_houses(open_folder(folder), (task,), count, seed)


def scans_of(data: Data, name: str) -> set[str]:
    world = data.world
    return {world.scans[place] for place in world.scan_of[data.episodes(name).start].tolist()}


def target_of(split: Split) -> dict[str, int]:
    """By instruction, the place of its target among the objects of the goal; none in R2R."""
    found = [0] * len(split.episodes) if split.target is None else split.target.tolist()
    return dict(zip(split.episodes.ids, found, strict=True))


def drop_house(path: Path, house: str) -> None:
    items = json.loads(path.read_text())
    path.write_text(json.dumps([item for item in items if item["scan"] != house]))


def test_the_seed_chooses(house: Path) -> None:
    known = set(count_by_house(open_folder(house), "r2r"))
    chosen = {seed: choose(house, seed=seed) for seed in range(8)}
    assert all(len(set(houses)) == 2 and set(houses) < known for houses in chosen.values())
    assert len(set(chosen.values())) > 1
    assert choose(house) == chosen[0], "always the same"
    assert set(choose(house, 2)) < set(choose(house, 3)), "more houses are the same and others"
    assert choose(house, 0) == ()


def test_both_tasks_keep_out_the_same(copy: Path) -> None:
    """Also where one of them trains in fewer houses, as REVERIE does."""
    left_out = choose(copy, 1)[0]
    drop_house(copy / "reverie" / "REVERIE_train.json", left_out)
    assert choose(copy, 2, task="r2r") == choose(copy, 2, task="reverie")
    assert left_out not in choose(copy, 2)
    shutil.rmtree(copy / "reverie")
    assert left_out in choose(copy, 2), "who has R2R alone may keep it out"


def test_the_split_is_made_of_them(house: Path) -> None:
    houses = choose(house)
    data = open_data(house).holding_out(houses)
    for task in ("r2r", "reverie"):
        whole, dev = data.episodes(f"{task}/train"), data.episodes(f"{task}/dev_unseen")
        assert scans_of(data, f"{task}/dev_unseen") == set(houses)
        count = count_by_house(data.folder, task)
        assert len(dev) == sum(count[house] for house in houses)
        assert (dev.task, dev.split) == (task, "dev_unseen")
        split = data.split(f"{task}/dev_unseen")
        assert split.name == f"{task}/dev_unseen"
        assert split.episodes.ids == dev.ids
        rows = [whole.ids.index(id) for id in dev.ids]
        train = data.split(f"{task}/train")
        assert split.tokens.ids.equal(train.tokens.ids[rows])
        assert split.tokens.count.equal(train.tokens.count[rows])
        rest = without_houses(data.world, train, houses)
        for part in (split, rest):
            assert target_of(part) == {id: target_of(train)[id] for id in part.episodes.ids}, "each its own object"
        assert len(set(target_of(split).values())) > 1 or task == "r2r"
        assert {*rest.episodes.ids, *dev.ids} == set(whole.ids)
        assert len(rest.episodes) + len(dev) == len(whole)
        assert len(rest.tokens.ids) == len(rest.episodes)
        assert f"{task}/dev_unseen" in data.splits
    seen = data.seen_as(data.features)
    assert seen.held_out == houses, "other features see the same houses"
    assert "r2r/dev_unseen" not in open_data(house).splits


def test_without_any_a_split_is_what_it_is(house: Path) -> None:
    data = open_data(house)
    split = data.split("r2r/train")
    assert without_houses(data.world, split, ()) is split
    unseen = data.split("r2r/val_unseen")
    assert without_houses(data.world, unseen, choose(house)) is unseen


def test_what_cannot_be_kept_out_is_told(house: Path, copy: Path) -> None:
    count = len(count_by_house(open_folder(house), "r2r"))
    for many in (count, count + 5):
        with pytest.raises(UsageError, match=rf"{many} houses held out would leave none of the {count} that .* fewer"):
            choose(house, many)
    for name in ("R2R_train.json", "REVERIE_train.json"):
        (copy / name.split("_")[0].lower() / name).unlink()
    with pytest.raises(UnknownNameError, match="train"):
        choose(copy)
    shutil.rmtree(copy / "r2r")
    with pytest.raises(DataError, match=r"holds no R2R_<split>\.json"):
        choose(copy)


def test_a_file_of_that_name_is_not_passed_over(copy: Path) -> None:
    shutil.copy(copy / "r2r" / "R2R_val_seen.json", copy / "r2r" / "R2R_dev_unseen.json")
    with pytest.raises(UsageError, match=r"R2R_dev_unseen\.json is a dev_unseen already; train without holdout,"):
        choose(copy)
    data = open_data(copy)
    assert data.episodes("r2r/dev_unseen").ids == data.episodes("r2r/val_seen").ids
    assert file_of(data.folder, "r2r", "dev_unseen").name == "R2R_dev_unseen.json"
    assert file_of(data.folder, "reverie", "dev_unseen").name == "REVERIE_train.json"


def test_a_split_that_nobody_made_is_told(house: Path) -> None:
    data = open_data(house)
    for ask in (data.split, data.episodes):
        with pytest.raises(UsageError, match=r"is made of houses that a training kept out.*holdout=6"):
            ask("r2r/dev_unseen")
    with pytest.raises(UnknownNameError, match="nowhere"):
        data.holding_out(["nowhere"]).split("r2r/dev_unseen")
    elsewhere = data.holding_out([*scans_of(data, "r2r/val_unseen")])
    with pytest.raises(UsageError, match="r2r/train has no episodes in the houses that are held out"):
        elsewhere.split("r2r/dev_unseen")
    whole = data.split("r2r/train")
    with pytest.raises(UsageError, match="r2r/train has no episodes outside of the houses that are held out"):
        without_houses(data.world, whole, [*scans_of(data, "r2r/train")])
