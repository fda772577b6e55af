"""R4R: paths of R2R joined by the published rule, and a teacher that follows them to the end."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import vlnbert as vln
from tests.cli.conftest import called
from vlnbert.data.data import open_data
from vlnbert.errors import DataError, UsageError
from vlnbert.house import generate
from vlnbert.tasks.made_paths import write_r4r
from vlnbert.tasks.task import TASKS, path_teacher
from vlnbert.world.world import STOP, World


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("r4r") / "house"
    generate(folder, scans=3, paths_per_scan=12)
    opened = open_data(folder)
    write_r4r(opened.folder, opened.world)
    return folder


def length(world: World, scan: str, path: list[str]) -> float:
    numbers = torch.tensor([world.find(scan, name) for name in path])
    return float(world.metres(numbers[:-1], numbers[1:]).sum())


def test_pairs_are_joined_by_the_shortest_way(house: Path) -> None:
    """By hand, from every pair of paths of a house."""
    world = open_data(house).world
    r2r = json.loads((house / "r2r" / "R2R_val_unseen.json").read_text())
    made = {item["path_id"]: item for item in json.loads((house / "r4r" / "R4R_val_unseen.json").read_text())}
    expected = 0
    for first in r2r:
        for second in r2r:
            if first["scan"] != second["scan"] or first is second:
                continue
            end, start = (world.find(first["scan"], name) for name in (first["path"][-1], second["path"][0]))
            apart = float(world.metres(torch.tensor(end), torch.tensor(start)))
            if apart >= 3:
                assert f"{first['path_id']}_{second['path_id']}" not in made
                continue
            expected += 1
            item = made[f"{first['path_id']}_{second['path_id']}"]
            assert item["path"][: len(first["path"])] == first["path"]
            assert item["path"][-len(second["path"]) :] == second["path"]
            whole = sum(length(world, first["scan"], one["path"]) for one in (first, second)) + apart
            assert length(world, first["scan"], item["path"]) == pytest.approx(whole)
            assert item["heading"] == first["heading"]
            assert len(item["instructions"]) == len(first["instructions"]) * len(second["instructions"])
            assert item["instructions"][1] == f"{first['instructions'][0].strip()} {second['instructions'][1].strip()}"
    assert expected == len(made) > 10


def test_who_follows_the_path_scores_100(house: Path) -> None:
    """Within the task's limit; the shortest way to the goal gets there and does not follow."""
    followed, shortest = (vln.evaluate(agent, house, "r4r/val_unseen", bar=False) for agent in ("follow", "shortest"))
    scores = followed["r4r/val_unseen"].scores
    assert scores is not None
    assert scores.ndtw.min() == scores.cls.min() == scores.sdtw.min() == 1.0
    other = shortest.scores["r4r/val_unseen"]
    assert other["sr"] == 1.0
    assert other["ndtw"] < 0.9


def test_the_teacher_is_who_follows(house: Path) -> None:
    """Step by step, the task's teacher takes each row along its path and stops at its end."""
    data = open_data(house)
    world, task, episodes = data.world, TASKS["r4r"], data.episodes("r4r/val_unseen")
    viewpoint, memory = episodes.start, task.begin_teacher(episodes)
    visited = [viewpoint]
    for _ in range(task.max_steps):
        slot, memory = task.teacher(world, viewpoint, memory)
        viewpoint = world.neighbour[viewpoint, slot]
        visited.append(viewpoint)
    walked = torch.stack(visited, dim=1)
    for row, length in enumerate(episodes.path_length.tolist()):
        assert torch.equal(walked[row, :length], episodes.path[row, :length])
        assert (walked[row, length:] == episodes.path[row, -1]).all()
    assert task.teacher_steps(world, episodes.start, episodes) == int(episodes.path_length.max())


def test_off_the_path_it_goes_back_and_skips_nothing(world: World) -> None:
    """alpha is a ring a0-a1-a2-a3 with a tail a3-a4-a5; the path goes round and comes by a3 twice."""
    a = [world.find("alpha", f"a{number}") for number in range(6)]
    path = torch.tensor([[a[0], a[3], a[4], a[3], a[2]]])
    memory = path, torch.tensor([5]), torch.tensor([0])

    def go(viewpoint: int) -> tuple[int, int]:
        nonlocal memory
        slot, memory = path_teacher(world, torch.tensor([viewpoint]), memory)
        return int(world.neighbour[viewpoint, slot[0]]), int(memory[2])

    assert go(a[0]) == (a[3], 0)
    assert go(a[1]) in ((a[0], 0), (a[2], 0)), "astray: back by the shortest way"
    assert go(a[0]) == (a[3], 0)
    assert go(a[3]) == (a[4], 1)
    assert go(a[2]) == (a[3], 1), "though the path's end, it is not its turn yet"
    assert go(a[3]) == (a[4], 1)
    assert go(a[5]) == (a[4], 1)
    assert go(a[4]) == (a[3], 2)
    assert go(a[3]) == (a[2], 3)
    slot, memory = path_teacher(world, torch.tensor([a[2]]), memory)
    assert (int(slot[0]), int(memory[2])) == (STOP, 4)


def test_nothing_waits_for_the_device(world: World, no_waiting: Callable[..., Any]) -> None:
    path = torch.tensor([[0, 3, 4], [1, 2, 2]])
    with no_waiting():
        path_teacher(world, torch.tensor([0, 2]), (path, torch.tensor([3, 2]), torch.tensor([0, 0])))


def test_a_folder_without_r2r(tiny: Any) -> None:
    for path in (tiny.root / "r2r").glob("*.json"):
        path.unlink()
    with pytest.raises(UsageError, match="holds none of R2R's train, val_seen, val_unseen"):
        write_r4r(tiny.folder, open_data(tiny.root).world)


def test_a_damaged_r2r_writes_nothing(tiny: Any) -> None:
    tiny.edit("r2r/R2R_train.json", lambda items: items[0].update(path=7))
    with pytest.raises(DataError, match="'path' is not a list of viewpoints"):
        write_r4r(tiny.folder, open_data(tiny.root).world)
    assert not (tiny.root / "r4r").exists()


def test_the_verb(tmp_path: Path) -> None:
    generate(tmp_path / "house", scans=3, paths_per_scan=8)
    outcome = called("data", "r4r", tmp_path / "house")
    assert outcome.code == 0
    assert "r4r/R4R_val_unseen.json: " in outcome.out
    outcome = called(
        "evaluate", "--agent", "random", "--task", "r4r", "--data", tmp_path / "house", "--splits", "val_unseen"
    )
    assert outcome.code == 0
    assert "nDTW" in outcome.out
