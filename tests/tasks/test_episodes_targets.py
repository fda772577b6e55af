"""Where targets stand among the objects of their goal, and what is told of those that do not."""

from dataclasses import replace

import pytest
import torch

from tests.world.samples import ORDER, codes_of, furnish
from vlnbert.tasks.episodes import load_episodes
from vlnbert.tasks.splits import report_targets, target_index
from vlnbert.world.objects import ObjectBank, open_object_table


@pytest.fixture
def episodes(tiny, world):
    """Two requests: for object 7, which the goal a4 shows, and for object 8, which no viewpoint shows."""
    furnish(tiny)
    return load_episodes(tiny.folder, world, "reverie", "train")


@pytest.fixture
def objects(tiny, world, episodes):
    return open_object_table(world, tiny.folder.boxes)


def ending_at(episodes, viewpoint):
    return replace(episodes, path=torch.cat((episodes.path, torch.full((2, 1), viewpoint)), dim=1))


def test_the_place_at_the_goal(world, objects, episodes):
    assert target_index(objects, episodes).tolist() == [0, -1]
    ending = ending_at(episodes, world.find("alpha", "a1"))
    assert target_index(objects, ending).tolist() == [ORDER.index("7"), -1]
    assert report_targets(objects, episodes).at_goal == 1


def test_the_place_at_any_viewpoint(world, objects, episodes):
    where = torch.tensor([world.find("alpha", "a1"), world.find("beta", "b3")])
    assert target_index(objects, episodes, where).tolist() == [ORDER.index("7"), -1]


def test_the_place_in_a_bank_that_leaves_some_out(world, objects, episodes):
    bank = ObjectBank.from_codebook(objects, codes_of(objects), max_objects=3)
    ending = ending_at(episodes, world.find("alpha", "a1"))
    assert target_index(bank.object_table, ending).tolist() == [-1, -1], "its box is among the smaller ones"
    report = report_targets(bank.object_table, ending)
    assert (report.at_goal, report.elsewhere, report.nowhere) == (0, ("10_7_0",), ("11_8_0",))


def test_the_report_in_words(world, objects, episodes):
    report = report_targets(objects, episodes)
    assert (report.at_goal, report.elsewhere, report.nowhere, report.withheld) == (1, (), ("11_8_0",), 0)
    hint = "use annotations and boxes of one version"
    assert report.lines() == ["1 targets are visible at the goal", f"1 are visible nowhere: 11_8_0; {hint}"]
    ending = ending_at(episodes, world.find("alpha", "a2"))
    many = ending.select(torch.zeros(7, dtype=torch.long))
    assert report_targets(objects, many).lines() == [f"7 are visible elsewhere only: {', '.join(['10_7_0'] * 5)}, ..."]


def test_targets_that_are_withheld(tiny, world, objects):
    episodes = load_episodes(tiny.folder, world, "reverie", "test")
    assert target_index(objects, episodes).tolist() == [-1, -1]
    assert report_targets(objects, episodes).lines() == ["2 are withheld"]


def test_a_split_of_nobody(objects, episodes):
    nobody = episodes.select(torch.zeros(0, dtype=torch.long))
    assert target_index(objects, nobody).dtype == torch.long
    assert report_targets(objects, nobody).lines() == []
