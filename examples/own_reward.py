"""A reward of one's own, in one file outside the package.

    python examples/own_reward.py [DATA [OUT [UPDATES]]]
    vlnbert --plugin examples/own_reward.py train demo --training.reward metres --data DATA --out OUT

A run remembers its plugins: to resume or to evaluate it, nothing needs to be said again.
"""

import sys
from tempfile import mkdtemp
from typing import Any

import torch
from torch import Tensor

import vlnbert as vln

STOP, NEAR = 0, 3.0  # the slot that stops; metres from the goal that count as there


@vln.register_reward("metres")
def metres(rollout: Any, batch: Any, world: Any) -> Tensor:
    """[time, row] the metres by which a move comes closer, less a little; 3 for a right stop, -3 for others."""
    goal = batch.goal.expand_as(rollout.viewpoint)
    left = world.metres(rollout.viewpoint, goal)  # [time + 1, row] before each choice, and at the end
    before, after = left[:-1], left[1:]
    stopped = torch.where(before < NEAR, 3.0, -3.0)
    return torch.where(rollout.slot == STOP, stopped, before - after - 0.1)


@vln.register_reward("fewer-hops")
class FewerHops:
    """The same with a table of its own, made once: the hops between any two viewpoints."""

    def __init__(self, world: Any, config: Any) -> None:
        from vlnbert.learning.rewards import hop_distances

        self.world, self.hops = world, hop_distances(world)

    def __call__(self, rollout: Any, batch: Any) -> Tensor:
        left = self.hops[self.world.pair(rollout.viewpoint, batch.goal.expand_as(rollout.viewpoint))]
        stopped = torch.where(left[:-1] == 0, 1.0, -1.0)
        return torch.where(rollout.slot == STOP, stopped, left[:-1] - left[1:])


def train(data: vln.Data, out: str, reward: str = "metres", **changes: Any) -> vln.Run:
    """The demo's training with another reward; on several processes and inside recorded graphs as well."""
    return vln.train("demo", data, out, reward=reward, **changes)


if __name__ == "__main__":
    folder, out, updates = [*sys.argv[1:], *("", "", "800")[len(sys.argv) - 1 :]]
    data = vln.open_data(folder) if folder else vln.generate_house(mkdtemp(), scans=12)
    run = train(data, out or mkdtemp(), iterations=int(updates))
    print(vln.evaluate(run, split="r2r/val_unseen"))
