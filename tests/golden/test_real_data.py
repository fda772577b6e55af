"""Real files through the readers: sizes that their makers state, and tokens of the real vocabulary."""

import pytest
import torch

import vlnbert as vln
from vlnbert.environment.contract import check_environment, check_world
from vlnbert.environment.environment import Environment
from vlnbert.tasks.batches import load_tokenizer, tokenise
from vlnbert.tasks.splits import report_targets, target_index
from vlnbert.world.objects import ObjectBank


def test_the_world_keeps_its_promises(open_data_world):
    world = open_data_world
    assert (len(world.scans), len(world), world.slots) == (90, 10_567, 14)
    assert int((world.choices == 1).sum()) == 8
    assert check_world(world) == []
    assert check_environment(Environment(world)) == []


@pytest.mark.parametrize(
    ("split", "count"), [("train", 14_039), ("val_seen", 1021), ("val_unseen", 2349), ("test", 4173)]
)
def test_r2r_splits(open_data_episodes, split, count):
    episodes = open_data_episodes("r2r", split)
    assert len(set(episodes.ids)) == len(episodes) == count
    assert episodes.scored == (split != "test")
    if episodes.scored:
        assert int(episodes.path_length.max()) == 7


@pytest.mark.parametrize(("split", "count"), [("train", 10_466), ("val_unseen", 3521), ("test", 6292)])
def test_reverie_splits(open_data_episodes, split, count):
    episodes = open_data_episodes("reverie", split)
    assert len(set(episodes.ids)) == len(episodes) == count
    assert (episodes.sightings >= 0).any(dim=1).float().mean() > (0.99 if split != "test" else -1)


def test_objects(open_data_world, open_data_objects):
    objects = open_data_objects
    assert (len(objects), objects.widest, int((objects.count == 0).sum())) == (28_060, 60, 3558)
    assert (objects.position[:, 4] > 0).all()
    bank = ObjectBank.from_codebook(objects, torch.ones(len(objects.names), 1), objects.name)
    assert check_environment(Environment(open_data_world, object_bank=bank)) == []
    assert ObjectBank.from_codebook(objects, torch.ones(len(objects), 1), max_objects=20).object_table.left_out == 241


@pytest.mark.parametrize(("split", "targets", "missing"), [("train", 4150, 85), ("val_unseen", 1328, 0)])
def test_targets_at_the_goal(open_data_objects, open_data_episodes, split, targets, missing):
    """Several instructions ask for the same target at the same goal: it is counted once."""
    objects, episodes = open_data_objects, open_data_episodes("reverie", split)
    report = report_targets(objects, episodes)
    assert len({id.rpartition("_")[0] for id in episodes.ids}) == targets
    assert len({id.rpartition("_")[0] for id in report.elsewhere}) == missing
    assert (report.nowhere, report.withheld) == ((), 0)
    assert int((target_index(objects, episodes) >= 0).sum()) == report.at_goal == len(episodes) - len(report.elsewhere)


def test_what_views_show_is_enough_to_open_the_environment(open_data):
    """The folder has boxes of objects and no features of them; who says nothing of objects sees none."""
    environment = vln.open_data(open_data.root, "detections").environment
    assert (environment.view_bank.width, environment.object_bank) == (49, None)


def test_known_tokens(open_data, open_data_episodes):
    """Ids that every user of bert-base-uncased knows."""
    episodes = open_data_episodes("r2r", "val_unseen")
    tokenizer = load_tokenizer(open_data.vocabulary)
    assert tokenizer.encode("Hello, world!").ids == [101, 7592, 1010, 2088, 999, 102]
    assert tokenizer.encode("The unaffable café").ids == [101, 1996, 14477, 20961, 3468, 7668, 102]
    tokens = tokenise(episodes, tokenizer, open_data.root)
    assert tokens.ids.shape == (2349, 80)
    assert (tokens.ids[:, 0] == 101).all()
    last = tokens.ids[torch.arange(2349), tokens.count - 1]
    assert (last == 102).all()
    assert 30 < tokens.count.double().mean() < 36
