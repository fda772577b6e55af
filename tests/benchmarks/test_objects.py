"""What objects cost is measured on the same agents, and what is measured is what happened."""

import json
from dataclasses import replace

import pytest
import torch

from benchmarks.objects import (
    BATCHES,
    as_leaves,
    compare_objects,
    object_environments,
    random_states,
    training_step,
)
from tests.benchmarks.conftest import benched
from tests.world.samples import CROWD, furnish, furnished
from vlnbert.navigator import SIZES, Navigator
from vlnbert.world.objects import STRIDE

WAYS = ["without", "trimmed", "padded"]
QUICK = ("--size", "tiny", "--agents", "2", "--tokens", "8", "--rounds", "2", "--threads", "1")


@pytest.fixture(params=["one-stream", "two-stream"])
def config(request):
    return replace(SIZES["tiny"][request.param], vocabulary=50, feature_width=32, object_width=32, matching="visual")


def test_objects_cost_and_trimming_saves(tiny, world, config):
    without, trimmed, padded = compare_objects(world, furnished(tiny, world), config, agents=3, tokens=8, rounds=2)
    assert [each.sees for each in (without, trimmed, padded)] == WAYS
    assert without.tokens == world.slots
    assert padded.tokens == world.slots + CROWD
    assert without.tokens + STRIDE <= trimmed.tokens < padded.tokens
    for work in ("step", "training"):
        costs = [getattr(each, work) for each in (without, trimmed, padded)]
        assert all(len(cost.memory) == BATCHES and cost.seconds > 0 for cost in costs)
        assert costs[0].peak < costs[1].peak < costs[2].peak
        assert all(narrow <= wide for narrow, wide in zip(costs[1].memory, costs[2].memory, strict=True))
    assert all(each.training.peak > each.step.peak for each in (without, trimmed, padded))  # activations are kept


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here")
def test_on_a_gpu_nothing_is_trimmed(tiny, world, config):
    objects = furnished(tiny, world)
    without, padded = compare_objects(world.to("cuda"), objects, config, agents=3, tokens=8, rounds=2)
    assert (without.sees, padded.sees) == ("without", "padded")
    assert 0 < without.step.peak < padded.step.peak < padded.training.peak


def test_trimmed_and_padded_decide_alike(tiny, world, config):
    torch.manual_seed(0)
    navigator, ways = Navigator(config).eval(), object_environments(world, furnished(tiny, world), config)
    words = torch.randint(5, 50, (3, 8))
    instruction = navigator.encode(words, torch.ones_like(words, dtype=torch.bool))
    for state in random_states(world, agents=3):
        narrow, wide = (navigator.step(instruction.state, instruction, ways[name].observe(state)) for name in WAYS[1:])
        torch.testing.assert_close(narrow.logits, wide.logits)
        torch.testing.assert_close(narrow.state, wide.state)
        width = narrow.object_logits.shape[1] - 1
        torch.testing.assert_close(narrow.object_logits[:, :width], wide.object_logits[:, :width])


def test_gradients_reach_the_weights_of_a_step_and_the_language(tiny, world, config):
    navigator, ways = Navigator(config), object_environments(world, furnished(tiny, world), config)
    words = torch.randint(5, 50, (3, 8))
    instruction = as_leaves(navigator.encode(words, torch.ones_like(words, dtype=torch.bool)))
    training_step(navigator, instruction, ways["trimmed"], random_states(world, agents=3)[0])
    used = (navigator.object_embedding, navigator.view_embedding, navigator.past_decision, navigator.refinement)
    assert all(weight.grad is not None for module in used for weight in module.parameters())
    assert all(made.grad is not None for made in instruction.language.kv_cache)


def test_the_command_tells_scripts(tiny, capfd):
    furnish(tiny)
    outcome = benched("objects", "--data", tiny.root, *QUICK, "--json")
    found = json.loads(outcome.out)
    assert outcome.err == capfd.readouterr().err == ""  # nothing from beneath Python either
    assert list(found) == ["size", "agents", "tokens", "threads", "device", "objects", "backbones"]
    assert found["objects"]["most"] == CROWD
    assert list(found["backbones"]) == ["one-stream", "two-stream"]
    for rows in found["backbones"].values():
        assert list(rows) == WAYS
        for row in rows.values():
            assert list(row) == ["visual_tokens", "step", "training"]
            for work in ("step", "training"):
                assert list(row[work]) == ["seconds", "spread", "ratio", "peak_bytes", "peak_bytes_most"]
                assert row[work]["peak_bytes"] <= row[work]["peak_bytes_most"]


def test_the_command_tells_people(tiny):
    furnish(tiny)
    shown = benched("objects", "--data", tiny.root, *QUICK, "--backbone", "two-stream").out
    assert "with objects, trimmed to the batch" in shown
    assert f"{CROWD} at most" in shown
    assert "one-stream" not in shown


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--agents", "0"), "--agents 0"),
        (("--tokens", "513"), "--tokens 513"),
        (("--rounds", "1"), "--rounds 1"),
        (("--threads", "257"), "--threads 257"),
        (("--size", "tini"), "did you mean tiny"),
        (("--device", "gpu"), "no device 'gpu'"),
        (("--device", "meta"), "no device 'meta' here"),
        (("--data", "nowhere"), "no such data folder"),
    ],
)
def test_mistakes_end_in_one_line(words, told):
    outcome = benched("objects", *words)
    assert outcome.code == 2
    assert outcome.out == ""
    [line] = outcome.err.splitlines()
    assert told in line


def test_a_folder_without_boxes(tiny):
    for path in tiny.folder.boxes.iterdir():
        path.unlink()
    outcome = benched("objects", "--data", tiny.root, *QUICK)
    assert outcome.code == 2
    assert "vlnbert data fetch DIR --only reverie" in outcome.err
