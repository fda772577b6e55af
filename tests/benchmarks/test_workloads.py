"""Parts of worlds and splits are what they should be, and who never stops does not."""

from pathlib import Path

import torch

from benchmarks.training import StepCounter
from benchmarks.workloads import episodes_within, equal_instructions, first_scans
from tests.conftest import TinyData
from tests.learning.samples import trainer
from vlnbert.benchmarking import NeverStops, first_episodes
from vlnbert.learning.experiment import TrainConfig
from vlnbert.learning.navigator_recipe import NAVIGATOR
from vlnbert.learning.trainer import Trainer
from vlnbert.world.build import open_world
from vlnbert.world.world import World


def test_the_first_scans_are_a_world(tiny: TinyData, world: World) -> None:
    cut, expected = first_scans(world, 2), open_world(tiny.folder, ["alpha", "beta"])
    assert (cut.scans, cut.viewpoints) == (expected.scans, expected.viewpoints)
    for name, tensor in expected.tensors().items():
        found = cut.tensors()[name]
        assert torch.equal(found[:, : tensor.shape[1]] if tensor.dim() == 2 else found, tensor), name


def test_episodes_elsewhere_are_left_out(house: Path, tmp_path: Path) -> None:
    ours = trainer(house, tmp_path)
    world, whole = ours.environment.world, ours.batches.splits[0]
    counts = [len(episodes_within(whole, first_scans(world, scans)).episodes) for scans in range(1, 5)]
    scan = world.scan_of[whole.episodes.start]
    assert counts == [int((scan < scans).sum()) for scans in range(1, 5)]


def test_instructions_are_of_one_length(house: Path, tmp_path: Path) -> None:
    ours = trainer(house, tmp_path)
    made = equal_instructions(ours.batches.splits[0], 20, vocabulary=30).tokens
    assert made.ids.shape == (12, 20)
    assert made.ids.min() >= 5
    assert made.ids.max() < 30
    assert made.count.tolist() == [20] * 12


def test_no_more_episodes_than_there_are(house: Path, tmp_path: Path) -> None:
    split = trainer(house, tmp_path).batches.splits[0]
    assert first_episodes(split, 5).episodes.ids == split.episodes.ids[:5]
    assert len(first_episodes(split, 1000).episodes) == len(split.episodes)


def test_who_never_stops_learns_all_the_same(house: Path, tmp_path: Path) -> None:
    config = TrainConfig(batch=4, learning_rate=1e-3, max_steps=11)
    usual = trainer(house, tmp_path, config)
    environment = StepCounter(usual.environment.world, usual.environment.view_bank)
    navigator = NeverStops(usual.model.config)
    endless = Trainer(NAVIGATOR, tmp_path, navigator, environment, usual.batches.splits, {}, config)
    for iteration in range(2):
        environment.steps = 0
        endless.advance(iteration)
        taught = environment.steps - 2 * config.max_steps  # the other half walked on and on
        assert 2 <= taught <= 2 * 7, "the teacher stops after six hops at most"
    assert torch.stack(endless.unreported).isfinite().all()
    assert all(weight.isfinite().all() for weight in navigator.parameters())
