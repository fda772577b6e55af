"""Walks through the C++ simulator, state by state, all agents at once."""

import gzip
import json

import pytest
import torch

from vlnbert.environment.environment import Environment
from vlnbert.world.world import view_elevation, view_heading, wrapped


@pytest.fixture(scope="module")
def walks(golden):
    with gzip.open(golden / "walks.jsonl.gz", "rt") as file:
        return [json.loads(line) for line in file]


def check(world, walks, state, states):
    """Hold the states of some agents against golden ones."""
    viewpoints = [world.find(walk["scan"], there["viewpoint"]) for walk, there in zip(walks, states, strict=True)]
    assert state.viewpoint.tolist() == viewpoints
    assert state.view.tolist() == [there["viewIndex"] for there in states]
    for name, angle in {"heading": view_heading(state.view), "elevation": view_elevation(state.view)}.items():
        golden = torch.tensor([there[name] for there in states])
        assert wrapped(angle - golden).abs().max() < 1e-6


def test_every_state_of_every_walk(walks, open_data_world):
    world, environment = open_data_world, Environment(open_data_world)
    assert len(walks) == 945
    walks = sorted(walks, key=lambda walk: len(walk["steps"]), reverse=True)
    start = torch.tensor([world.find(walk["scan"], walk["viewpoint"]) for walk in walks])
    state = environment.reset(start, torch.tensor([walk["heading"] for walk in walks], dtype=torch.float64))
    check(world, walks, state, [walk["start"] for walk in walks])
    taken = 0
    for time in range(len(walks[0]["steps"])):
        still = sum(len(walk["steps"]) > time for walk in walks)  # the shorter walks are over
        walks = walks[:still]
        state = type(state)(state.viewpoint[:still], state.view[:still], state.ended[:still])
        steps = [walk["steps"][time] for walk in walks]
        slot = torch.tensor([step["candidate"] + 1 for step in steps])
        rows = torch.arange(still)
        relative = torch.tensor([step["rel_heading"] for step in steps], dtype=torch.float64)
        elevation = torch.tensor([step["cand_elevation"] for step in steps], dtype=torch.float64)
        found = world.heading[state.viewpoint, slot].double() - view_heading(state.view).double()
        assert (found - relative).abs().max() < 1e-6
        sines = torch.stack((relative.sin(), relative.cos(), elevation.sin(), elevation.cos()), dim=-1)
        seen = environment.observe(state)
        assert seen.choosable[rows, slot].all()
        assert (seen.direction[rows, slot] - sines).abs().max() < 1e-6
        targets = [world.find(walk["scan"], step["target"]) for walk, step in zip(walks, steps, strict=True)]
        state = environment.step(state, slot)
        assert state.viewpoint.tolist() == targets
        check(world, walks, state, steps)
        taken += still
    assert taken > 3000
    assert not state.ended.any()
