"""Splits bound to a world."""

import pytest
import torch

from vlnbert.errors import UnknownNameError, VlnbertError
from vlnbert.sources.instructions import read_r2r
from vlnbert.tasks.episodes import NONE, bind, load_episodes, require_goals
from vlnbert.tasks.task import TASKS
from vlnbert.world.build import open_world
from vlnbert.world.objects import open_object_table

TRAIN = "r2r/R2R_train.json"


@pytest.fixture
def load(tiny, world):
    return lambda task, split: load_episodes(tiny.folder, world, task, split)


def test_r2r(load, world):
    episodes = load("r2r", "train")
    assert (len(episodes), episodes.task, episodes.split) == (4, "r2r", "train")
    assert episodes.ids == ("10_0", "10_1", "11_0", "12_0")
    assert episodes.texts[3] == "Go up the stairs and stop"
    paths = [[world.viewpoints[number] for number in row] for row in episodes.path]
    assert paths == [["a0", "a3", "a4", "a4"]] * 2 + [["b3", "b2", "b1", "b0"], ["g5", "g4", "g4", "g4"]]
    assert episodes.path_length.tolist() == [3, 3, 4, 2]
    assert torch.equal(episodes.start, episodes.path[:, 0])
    assert [world.viewpoints[number] for number in episodes.goal] == ["a4", "a4", "b0", "g4"]
    assert episodes.heading.dtype == torch.float64
    assert episodes.heading.tolist() == [0.1, 0.1, 6.2, 3.0]
    assert episodes.scored
    assert episodes.sightings is None
    assert episodes.targets == (None,) * 4


@pytest.mark.parametrize("split", ["train", "val_unseen"])
def test_reverie_targets_and_where_they_are_visible(load, world, split):
    """Object 8 lies near every viewpoint but no view shows it: it is visible nowhere."""
    episodes = load("reverie", split)
    assert episodes.ids == ("10_7_0", "11_8_0")
    assert episodes.targets == ("7", "8")
    assert episodes.sightings.tolist() == [[world.find("alpha", "a3"), world.find("alpha", "a4")], [NONE, NONE]]


def test_objects_that_are_open_are_not_opened_again(tiny, world, load, monkeypatch):
    objects = open_object_table(world, tiny.folder.boxes)
    opened = load("reverie", "train")
    monkeypatch.setattr("vlnbert.tasks.episodes.open_object_table", None)
    given = load_episodes(tiny.folder, world, "reverie", "train", objects)
    assert torch.equal(given.sightings, opened.sightings)


def test_a_target_at_every_other_scan_is_not_this_ones(tiny, load):
    tiny.edit("reverie/BBox/alpha_a3.json", lambda document: document["a3"].pop("7"))
    tiny.edit("reverie/BBox/alpha_a4.json", lambda document: document["a4"].pop("7"))
    assert load("reverie", "train").sightings.tolist() == [[NONE], [NONE]]


@pytest.mark.parametrize("task", ["r2r", "reverie"])
def test_test_splits_withhold_their_goals(tiny, load, refuses, task):
    episodes = load(task, "test")
    assert not episodes.scored
    path = TASKS[task].file(tiny.folder, "test")
    refuses(path, lambda: require_goals(episodes, path), "withholds its goals")
    require_goals(load(task, "train"), path)


def test_one_path_of_a_single_viewpoint_withholds_nothing(tiny, load):
    tiny.edit(TRAIN, lambda items: items[0].update(path=["a0"]))
    assert load("r2r", "train").scored


def test_augmented(load):
    episodes = load("r2r", "aug")
    assert (episodes.ids, episodes.tokens) == (("x_1",), ((2, 5, 6, 7, 8, 3),))


def test_episodes_move(load):
    moved = load("reverie", "train").to("meta")
    for tensor in (moved.start, moved.heading, moved.path, moved.path_length, moved.sightings, moved.goal):
        assert tensor.device.type == "meta"
    assert load("r2r", "train").to("meta").sightings is None


def test_viewpoints_and_scans_that_are_not_in_the_graph(tiny, load, refuses):
    def break_it(items):
        items[0]["path"][1] = "nowhere"
        items[1]["path"][0] = "b4"  # there, but left out
        items[2]["scan"] = "delta"
        items[2]["path"] = ["g5"]

    path = tiny.edit(TRAIN, break_it)
    expected = [
        "instruction 10_0: viewpoint nowhere is not in the graph of scan alpha; use the instructions and graphs of one",
        "instruction 10_1: viewpoint nowhere is not in the graph of scan alpha",
        "instruction 11_0: viewpoint b4 is not in the graph of scan beta",
        "instruction 12_0: viewpoint g5 is not in the graph of scan delta; add the scan's connectivity file",
    ]
    refuses(path, lambda: load("r2r", "train"), *expected)


def test_an_unreachable_goal(tiny, load, refuses):
    path = tiny.edit(TRAIN, lambda items: items[2].update(path=["g0", "g4"]))
    refuses(path, lambda: load("r2r", "train"), "instruction 12_0: its goal g4 cannot be reached from its start")


def test_faults_of_the_file_and_of_its_viewpoints_together(tiny, load):
    def break_it(items):
        items[0]["path"][0] = "nowhere"
        items[1]["heading"] = None
        items[2]["path"] = ["g0", "g4"]

    tiny.edit(TRAIN, break_it)
    with pytest.raises(VlnbertError) as caught:
        load("r2r", "train")
    for words in ("nowhere", "'heading'", "cannot be reached"):
        assert words in str(caught.value)


def test_boxes_of_a_viewpoint_that_is_not_in_the_graph(tiny, load, refuses):
    path = tiny.write("reverie/BBox/alpha_a9.json", {"a9": {}})
    refuses(path, lambda: load("reverie", "train"), "its viewpoint is not in the graph")


def test_all_faults_of_the_boxes_at_once(tiny, load):
    paths = [tiny.cut("reverie/BBox/alpha_a0.json", 5)]
    paths += [tiny.write(f"reverie/BBox/{name}.json", {name[-2:]: {}}) for name in ("alpha_a9", "beta_b9")]
    with pytest.raises(VlnbertError) as caught:
        load("reverie", "train")
    assert {fault.path for fault in caught.value.faults} == set(paths)


def test_boxes_of_left_out_scans_do_not_matter(tiny):
    alpha = open_world(tiny.folder, scans=["alpha"])
    tiny.edit("reverie/REVERIE_train.json", lambda items: items.pop())
    assert load_episodes(tiny.folder, alpha, "reverie", "train").ids == ("10_7_0",)


def test_names_that_are_unknown(load):
    with pytest.raises(UnknownNameError, match="did you mean train"):
        load("r2r", "trian")
    with pytest.raises(UnknownNameError, match="no task"):
        load("r5r", "train")


def test_no_boxes(tiny, load, refuses):
    for path in tiny.folder.boxes.iterdir():
        path.unlink()
    refuses(tiny.folder.boxes, lambda: load("reverie", "train"), "holds no <scan>_<viewpoint>.json")


def test_records_of_a_caller(tiny, world):
    path = tiny.path(TRAIN)
    some = bind(path, list(read_r2r(path))[2:], world, "r2r", "mine")
    assert (some.ids, some.split) == (("11_0", "12_0"), "mine")
    nobody = bind(path, [], world, "r2r", "none", sightings={})
    assert len(nobody) == 0
    for name in ("start", "path", "path_length", "sightings"):
        assert getattr(nobody, name).dtype == torch.long, name


def test_some_rows(load):
    episodes = load("reverie", "train")
    some = episodes.select(torch.tensor([1, 0, 1]))
    assert some.ids == ("11_8_0", "10_7_0", "11_8_0")
    assert some.targets == ("8", "7", "8")
    for name in ("start", "heading", "path", "path_length", "sightings"):
        assert torch.equal(getattr(some, name), getattr(episodes, name)[[1, 0, 1]]), name
