"""The shortest-path teacher and the distance to the goal, at every step of 300 trajectories."""

import json

import pytest
import torch

from vlnbert.environment.environment import State, shortest_path_teacher


@pytest.fixture(scope="module")
def steps(golden, open_data_world):
    """(viewpoint before, goal, teacher, viewpoint after, distance after) for every step."""
    found = []
    for trajectory in json.loads((golden / "rewards.json").read_text())["trajectories"]:
        scan, goal, before = trajectory["scan"], trajectory["gt_path"][-1], trajectory["start"]["viewpoint"]
        found.append((scan, before, goal, None, before, trajectory["start"]["distance"]))
        for step in trajectory["steps"]:
            found.append((scan, before, goal, step["teacher"], step["viewpoint"], step["distance"]))
            before = step["viewpoint"]
    return found


def numbers(world, steps, column):
    return torch.tensor([world.find(step[0], step[column]) for step in steps])


def test_distances(steps, open_data_world):
    world = open_data_world
    metres = world.metres(numbers(world, steps, 4), numbers(world, steps, 2))
    wanted = torch.tensor([step[5] for step in steps], dtype=torch.float64)
    assert len(wanted) > 1500
    assert (metres - wanted).abs().max() < 1e-5


def test_teachers(steps, open_data_world):
    """Where the agent is at the goal, the reference's teacher is the goal itself: stop."""
    world, taught = open_data_world, [step for step in steps if step[3] is not None]
    here, goal, teacher = (numbers(world, taught, column) for column in (1, 2, 3))
    state = State(here, torch.zeros_like(here), torch.zeros_like(here, dtype=torch.bool))
    slot = shortest_path_teacher(world, state, goal)
    assert torch.equal(world.neighbour[here, slot], teacher)
    assert torch.equal(slot == 0, here == goal)
