"""Parity of rewards, returns and the A2C loss with the reference, step by step."""

import gzip
import json
from pathlib import Path

import pytest
import torch

from vlnbert.learning.losses import actor_critic_loss, discounted_returns
from vlnbert.learning.rewards import RewardConfig, Rewards, running_ndtw
from vlnbert.world.world import World

TOLERANCE = 1e-5


def slot_of(world: World, here: int, there: int) -> int:
    return int((world.neighbour[here] == there).int().argmax())


def test_every_reward_agrees(golden: Path, open_data_world: World) -> None:
    world = open_data_world
    by_metres, by_hops = Rewards(world, RewardConfig()), Rewards(world, RewardConfig(unit="hops"))
    trajectories = json.loads((golden / "rewards.json").read_text())["trajectories"]
    assert len(trajectories) == 300
    for item in trajectories:
        names = [item["start"]["viewpoint"], *(step["viewpoint"] for step in item["steps"])]
        numbers = [world.find(item["scan"], name) for name in names]
        path = torch.tensor([[world.find(item["scan"], name) for name in item["gt_path"]]])
        length = torch.tensor([path.shape[1]])
        viewpoint = torch.tensor(numbers)[:, None]
        moves = zip(numbers, numbers[1:], item["steps"], strict=False)
        slot = torch.tensor([0 if step["action"] == "stop" else slot_of(world, a, b) for a, b, step in moves])[:, None]
        facts = {
            "reward": by_hops(viewpoint, slot, path, length),
            "reward_with_metre_ndtw": by_metres(viewpoint, slot, path, length),
            "ndtw_hops": running_ndtw(world, viewpoint, path, length, by_hops.distance)[1:],
            "ndtw_metres": running_ndtw(world, viewpoint, path, length, world.distance)[1:],
            "distance": world.metres(viewpoint, path[:, -1].expand_as(viewpoint))[1:],
        }
        for name, found in facts.items():
            expected = [step[name] for step in item["steps"]]
            assert found.flatten().tolist() == pytest.approx(expected, abs=TOLERANCE), (item["instr_id"], name)


def test_every_return_and_loss_agrees(numbers: Path) -> None:
    batches = json.loads(gzip.decompress((numbers / "a2c_batches.json.gz").read_bytes()))
    assert len(batches) == 20
    for batch in batches:
        names = ("rewards", "masks", "log_probs", "entropies", "values", "last_value", "ended", "returns")
        reward, mask, log_probability, entropy, value, last, ended, expected = (torch.tensor(batch[n]) for n in names)
        live = mask.bool()
        returns = discounted_returns(reward, live, last, ended, batch["gamma"])
        torch.testing.assert_close(returns[live], expected[live], rtol=0, atol=TOLERANCE)
        loss = actor_critic_loss(log_probability, entropy, value, returns, live)
        assert float(loss.total) == pytest.approx(batch["rl_loss"], abs=TOLERANCE)
