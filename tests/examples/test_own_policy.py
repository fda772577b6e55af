"""A map memory in one file: trained, killed, resumed to the same bits, evaluated; what it may go back to."""

import json
import runpy
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import vlnbert as vln
from tests.cli.conftest import called
from tests.examples.conftest import EXAMPLES
from tests.learning.samples import same
from vlnbert.environment.environment import Environment, Observation
from vlnbert.house import generate
from vlnbert.plugins import load_plugin
from vlnbert.rollout.agents import EpisodeBatch
from vlnbert.rollout.policies import open_policy
from vlnbert.rollout.policy import GreedyAgent

EXAMPLE = EXAMPLES / "own_policy.py"
FEW = {"batch": 6, "warmup": 0, "validate_every": 2, "max_steps": 5, "iterations": 6, "report_every": 1}
SMALL = {"width": 16, "heads": 2}


pytestmark = pytest.mark.usefixtures("forget_plugins")


class Stop:
    """Interrupts a training after some updates."""

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        if iteration == 5:
            raise KeyboardInterrupt

    def validated(self, *_: object) -> None: ...


def made(data: vln.Data, **settings: object) -> vln.Policy:
    module = load_plugin(EXAMPLE)
    torch.manual_seed(0)
    inputs = vln.Inputs(feature_width=data.view_bank.width, vocabulary=data.tokenizer.get_vocab_size())
    policy: vln.Policy = module.MapPolicy(module.MapConfig(**SMALL | settings), inputs)
    policy.inputs = inputs
    return policy


def test_it_is_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 120


def test_it_resumes_to_the_same_bits_and_is_evaluated(data: vln.Data, tmp_path: Path) -> None:
    load_plugin(EXAMPLE)
    quiet = {"bar": False, "tensorboard": False, "threads": 1, **FEW}
    named = {"policy": "map-memory", "policy.settings": SMALL}
    run = vln.train("demo", data, tmp_path / "whole", **named, **quiet)
    with pytest.raises(KeyboardInterrupt):
        vln.train("demo", data, tmp_path / "halves", callbacks=[Stop()], **named, **quiet)
    resumed = vln.resume(tmp_path / "halves", data, bar=False, tensorboard=False, threads=1)
    one, two = (open_policy(folder / "checkpoints" / "0000006") for folder in (run.folder, resumed.folder))
    assert same(one.state_dict(), two.state_dict())
    assert "r2r/val_unseen" in repr(vln.evaluate(run, data, split="r2r/val_unseen", bar=False))


def test_from_the_command_line(data: vln.Data, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    settings = ("--training.batch", "4", "--training.max-steps", "4", "--training.iterations", "2", "--threads", "1")
    named = ("--policy.name", "map-memory", "--policy.settings", "width=16", "heads=2")
    house = data.folder.root
    outcome = called(
        "--plugin", EXAMPLE, "train", "demo", "--out", tmp_path / "run", "--data", house, *settings, *named
    )
    assert outcome.code == 0, outcome.err
    forget_plugins()
    scored = called("evaluate", tmp_path / "run", "--data", house, "--splits", "val_unseen", "--json")
    assert scored.code == 0, scored.err
    assert json.loads(scored.out).keys() == {"r2r/val_unseen"}


def test_it_goes_to_what_it_saw_and_has_not_visited(data: vln.Data) -> None:
    """Along a walk, the places that it offers are those and no others, each once."""
    policy, world = made(data, dropout=0.0).eval(), data.world
    environment = data.environment.showing(policy.wants)
    episodes = data.episodes("r2r/val_unseen").select(torch.arange(12))
    state = environment.reset(episodes.start, episodes.heading)
    memory = policy.begin(EpisodeBatch(state, torch.randint(5, 40, (12, 7)), torch.arange(12)))
    visited, seen = [{place} for place in state.viewpoint.tolist()], [set[int]() for _ in range(12)]
    for _ in range(5):
        decision = policy.step(environment.observe(state), memory)
        for row, here in enumerate(state.viewpoint.tolist()):
            visited[row].add(here)
            around = {*world.neighbour[here].tolist()}
            offered = [place for place in decision.places[row].tolist() if place >= 0]
            assert len(offered) == len({*offered})
            assert {*offered} == seen[row] - visited[row] - around
            assert torch.equal(decision.place_logits[row].isneginf(), decision.places[row] < 0)
            seen[row] |= around
        state, memory = environment.step(state, torch.where(world.choices[state.viewpoint] > 2, 2, 1)), decision.memory


def test_no_step_waits_for_the_device(data: vln.Data, no_waiting: Callable[[], AbstractContextManager[None]]) -> None:
    policy = made(data)
    environment: Environment = data.environment.for_task("r2r").showing(policy.wants)
    episodes = data.episodes("r2r/val_unseen").select(torch.arange(3))
    state = environment.reset(episodes.start, episodes.heading)
    memory = policy.begin(EpisodeBatch(state, torch.randint(5, 40, (3, 9)), torch.arange(3)))
    with no_waiting():
        for _ in range(3):
            decision = policy.step(environment.observe(state), memory)
            state, memory = environment.step(state, decision.logits.argmax(dim=1).clamp(min=1)), decision.memory


def unmasked(policy: vln.Policy) -> None:
    """Let a policy give finite logits where nothing can be chosen."""
    step = policy.step

    def decide(observation: Observation, memory: object, attention: bool = False) -> vln.Decision:
        decision = step(observation, memory, attention)
        return replace(decision, logits=decision.logits.nan_to_num(neginf=-9.0))

    policy.step = decide  # type: ignore[method-assign]


@pytest.mark.parametrize("masks", [False, True])
def test_logits_that_are_not_masked_are_refused_when_first_seen(data: vln.Data, masks: bool) -> None:
    """And not looked at again, since to look is to wait for the device."""
    policy, line = (
        made(data).eval(),
        "^MapPolicy gave other logits than -inf for slots that cannot be chosen; mask them: ",
    )
    if masks:
        vln.evaluate(policy, data, split="r2r/val_unseen", bar=False)
    unmasked(policy)
    with nullcontext() if masks else pytest.raises(vln.VlnbertError, match=line):
        vln.evaluate(policy, data, split="r2r/val_unseen", bar=False)


def test_it_has_no_place_among_published_agents(data: vln.Data, tmp_path: Path) -> None:
    policy = made(data)
    policy.name, policy.settings = "map-memory", SMALL
    policy.save_pretrained(tmp_path / "policy")
    for words in (("inspect", tmp_path / "policy"), ("export", tmp_path / "policy", tmp_path / "agent.pt")):
        outcome = called("weights", *words)
        expected = "holds a policy of its own kind, which published agents have no format for; open it with"
        assert (outcome.code, expected in outcome.err, outcome.err.count("\n")) == (2, True, 1)
    assert not (tmp_path / "agent.pt").exists()


def test_padding_and_other_rows_change_nothing(data: vln.Data) -> None:
    policy = made(data).eval()
    environment: Environment = data.environment.showing(policy.wants)
    episodes = data.episodes("r2r/val_unseen").select(torch.arange(3))
    tokens = torch.randint(5, 40, (3, 9))
    tokens[1:, 6:] = 0
    state = environment.reset(episodes.start, episodes.heading)
    one, other = state, environment.reset(episodes.start[1:], episodes.heading[1:])
    first = policy.begin(EpisodeBatch(one, tokens, torch.arange(3)))
    second = policy.begin(EpisodeBatch(other, tokens[1:, :6], torch.arange(2)))
    for _ in range(3):
        whole, alone = (
            policy.step(environment.observe(state), memory) for state, memory in ((one, first), (other, second))
        )
        torch.testing.assert_close(whole.all_logits[1:], alone.all_logits, rtol=1e-4, atol=1e-5)
        one, other = (environment.step(at, torch.ones_like(at.viewpoint)) for at in (one, other))
        first, second = whole.memory, alone.memory
    assert GreedyAgent(policy).goes_back


def test_it_is_a_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """With a smaller house and fewer updates than it asks for."""

    def house(folder: str, seed: int) -> vln.Data:
        generate(Path(folder) / "house", seed=seed, scans=3, paths_per_scan=8)
        return vln.open_data(Path(folder) / "house")

    train = vln.train
    monkeypatch.setattr(vln, "generate_house", house, raising=False)
    monkeypatch.setattr(vln, "train", lambda *words, **more: train(*words, **{**more, **FEW}), raising=False)
    monkeypatch.setattr("sys.argv", [str(EXAMPLE), str(tmp_path / "run")])
    runpy.run_path(str(EXAMPLE), run_name="__main__")
    assert "r2r/val_unseen" in capsys.readouterr().out
