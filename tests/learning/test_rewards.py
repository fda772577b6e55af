"""Rewards by name: called with what they were promised, checked, kept by a run and by processes that learn together."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.learning.samples import CONFIG, NO_DROPOUT, SCORED, SHAPE, Watcher, same, trainer, weights
from tests.learning.test_trainer_distributed import TOGETHER, Learned, distance, learn
from tests.processes import together
from vlnbert.data.data import open_data
from vlnbert.errors import UnknownNameError, UsageError
from vlnbert.learning.experiment import Experiment, TrainConfig
from vlnbert.learning.rewards import REWARDS, RewardConfig, Rewards, register_reward
from vlnbert.learning.runs import begin_run, read_record, resume_run
from vlnbert.learning.updates import TORCH, unrecordable
from vlnbert.plugins import load_plugin
from vlnbert.ranks import ALONE, Ranks
from vlnbert.rollout.mixed import Rollout
from vlnbert.tasks.batches import Batch
from vlnbert.world.world import World

ONCE = replace(CONFIG, iterations=1, warmup=0, batch=8)
EXPERIMENT = Experiment(validate_on=(SCORED,), navigator=SHAPE, training=replace(CONFIG, iterations=4))
PLUGIN = """
import torch
import vlnbert as vln

@vln.register_reward("of-a-plugin")
class Steady:
    def __init__(self, world, config):
        self.world = world

    def __call__(self, rollout, batch):
        return {gives}
"""


@register_reward("half-of-the-papers")
class Half:
    """Registered when this module is imported, so that the processes of a team know it as well."""

    def __init__(self, world: World, config: RewardConfig) -> None:
        self.rewards = Rewards(world, config)

    def __call__(self, rollout: Rollout, batch: Batch) -> Tensor:
        return self.rewards(rollout.viewpoint, rollout.slot, batch.path, batch.path_length) / 2


def losses(house: Path, run: Path, config: TrainConfig) -> dict[str, float]:
    one, watcher = trainer(house, run, config, shape=replace(SHAPE, **NO_DROPOUT)), Watcher()
    one.callbacks = [watcher]
    one.train()
    return watcher.losses[1]


def test_a_function_earns_what_it_says(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    """The paper's reward, written as a function of rollout, batch and world, teaches the same to the last bit."""

    @register_reward("the-same")
    def reward(rollout: Rollout, batch: Batch, world: World) -> Tensor:
        assert rollout.viewpoint.shape == (len(rollout.slot) + 1, len(batch.start))
        return Rewards(world, RewardConfig())(rollout.viewpoint, rollout.slot, batch.path, batch.path_length)

    usual = losses(house, tmp_path / "usual", ONCE)
    assert losses(house, tmp_path / "own", replace(ONCE, reward="the-same")) == usual
    other = losses(house, tmp_path / "other", replace(ONCE, reward="half-of-the-papers"))
    assert other["policy"] != usual["policy"]
    assert other["imitation"] == usual["imitation"]


def test_a_class_is_made_once_with_the_settings(
    house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    made = list[RewardConfig]()

    @register_reward("counted")
    class Counted:
        def __init__(self, world: World, config: RewardConfig) -> None:
            made.append(config)

        def __call__(self, rollout: Rollout, batch: Batch) -> Tensor:
            return torch.ones(rollout.slot.shape)

    hops = RewardConfig(unit="hops")
    losses(house, tmp_path / "run", replace(ONCE, iterations=3, reward="counted", rewards=hops))
    assert made == [hops]


BROKEN = {
    "a list": (lambda rollout: [0.0], r"gives a list, not a tensor"),
    "a row": (lambda rollout: rollout.slot[0].float(), r"has the shape \[8\], not \[time, row\], here \[\d, 8\]"),
    "with the end": (lambda rollout: rollout.viewpoint.float(), r"has the shape \[\d, 8\], not \[time, row\]"),
    "numbers of things": (lambda rollout: rollout.slot, r"is of int64, not of floating-point numbers"),
    "no number": (lambda rollout: rollout.slot * torch.nan, r"is not finite where rows are live"),
    "infinite": (lambda rollout: rollout.slot + torch.inf, r"is not finite where rows are live"),
    "elsewhere": (
        lambda rollout: torch.ones(rollout.slot.shape, device="meta"),
        r"gives a meta tensor, not one that",
    ),
}


@pytest.mark.parametrize("kind", BROKEN)
def test_what_does_not_fit_is_told(house: Path, tmp_path: Path, forget_plugins: Callable[[], None], kind: str) -> None:
    gives, words = BROKEN[kind]
    register_reward("broken")(lambda rollout, batch, world: gives(rollout))
    with pytest.raises(UsageError, match=rf"^the reward 'broken' {words}.*; mend it, or choose another$"):
        losses(house, tmp_path / "run", replace(ONCE, reward="broken"))


class Scaled(torch.nn.Module):
    """The live steps, times a parameter."""

    def __init__(self, world: World, config: RewardConfig) -> None:
        super().__init__()
        self.scale = torch.nn.Linear(1, 1)

    def forward(self, rollout: Rollout, batch: Batch) -> Tensor:
        return self.scale.bias * rollout.live


class Frozen(Scaled):
    def __init__(self, world: World, config: RewardConfig) -> None:
        super().__init__(world, config)
        self.requires_grad_(False)


@pytest.mark.parametrize("kind", [Scaled, Frozen])
def test_parameters_of_a_reward_are_saved_and_resumed(
    house: Path, tmp_path: Path, forget_plugins: Callable[[], None], kind: type[Scaled]
) -> None:
    register_reward("scaled")(kind)
    first = trainer(house, tmp_path / "run", replace(ONCE, reward="scaled"))
    reward = first.learner.objective.reward_module
    with torch.no_grad():
        reward.scale.bias.fill_(3.0)  # another than is drawn anew
    first.train()
    saved = dict(reward.state_dict())
    assert saved.keys() == {"scale.weight", "scale.bias"}
    again = trainer(house, tmp_path / "run", replace(ONCE, reward="scaled"))
    assert not same(dict(again.learner.objective.reward_module.state_dict()), saved)
    again.resume()
    assert same(dict(again.learner.objective.reward_module.state_dict()), saved)


def test_a_reward_may_be_a_function(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    register_reward("made")(lambda rollout, batch, world: rollout.live.float())
    losses(house, tmp_path / "made", replace(ONCE, reward="made"))


def test_what_comes_after_a_stop_may_be_anything(
    house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    register_reward("cut")(lambda rollout, batch, world: torch.where(rollout.live, 1.0, torch.nan))
    assert all(abs(part) < 1e6 for part in losses(house, tmp_path / "run", replace(ONCE, reward="cut")).values())


def test_other_arguments_are_refused_at_once(forget_plugins: Callable[[], None]) -> None:
    with pytest.raises(UsageError, match=r"'few' takes other arguments; a function is called with \(rollout, batch"):
        register_reward("few")(lambda rollout: rollout)
    with pytest.raises(UsageError, match=r"'Few' takes other arguments; a class is made with \(world, config\)"):
        register_reward("Few")(type("Few", (), {"__init__": lambda self, world: None}))
    assert "few" not in REWARDS


def test_an_unknown_one_is_answered_and_leaves_nothing(house: Path, tmp_path: Path) -> None:
    wrong = replace(EXPERIMENT, training=replace(EXPERIMENT.training, reward="papre"))
    with pytest.raises(UnknownNameError, match="no reward 'papre'; did you mean paper"):
        begin_run("mine", wrong, open_data(house), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def begun(house: Path, run: Path, plugin: Path, gives: str = "torch.ones(rollout.slot.shape)") -> Path:
    """A run that learns by a plugin's reward, two of its four updates made."""
    plugin.write_text(PLUGIN.format(gives=gives))
    load_plugin(plugin)
    training = replace(EXPERIMENT.training, reward="of-a-plugin")
    one = begin_run("mine", replace(EXPERIMENT, training=training), open_data(house), run)
    one.callbacks = [Stopper(one)]
    one.train()
    assert one.progress.iteration == 2
    return run


class Stopper(Watcher):
    """Asks for a stop after two updates."""

    def __init__(self, one: Any) -> None:
        super().__init__()
        self.one = one

    def updated(self, iteration: int, learning_rate: float, parts: dict[str, float]) -> None:
        self.one.stopping = iteration >= 2


def test_a_run_brings_its_plugins_back(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    run = begun(house, tmp_path / "run", tmp_path / "my.py")
    record = read_record(run)
    assert (record.plugins, record.experiment.training.reward) == ((str(tmp_path / "my.py"),), "of-a-plugin")
    resume_run(run).train()
    forget_plugins()
    again = begun(house, tmp_path / "again", tmp_path / "my.py")
    forget_plugins()
    assert "of-a-plugin" not in REWARDS
    resume_run(again).train()
    assert same(weights(run), weights(again))


def test_a_plugin_that_was_moved_is_given_again(
    house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    run, plugin = begun(house, tmp_path / "run", tmp_path / "my.py"), tmp_path / "my.py"
    forget_plugins()
    (tmp_path / "there").mkdir()
    moved = plugin.rename(tmp_path / "there" / "my.py")
    with pytest.raises(
        UsageError, match=rf"the plugin {plugin}, which is no longer there; load its plugin: --plugin FILE"
    ):
        resume_run(run)
    load_plugin(moved)
    resume_run(run).train()


def test_a_reward_of_no_plugin_is_missed(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    """As when a script registered it, which is no plugin until it is named as one."""
    run = begun(house, tmp_path / "run", tmp_path / "my.py")
    forget_plugins()
    values = json.loads((run / "run.json").read_text())
    (run / "run.json").write_text(json.dumps({**values, "plugins": []}))
    with pytest.raises(UsageError, match="by the reward 'of-a-plugin', which nobody registers here; load its plugin"):
        resume_run(run)
    load_plugin(tmp_path / "my.py")
    assert resume_run(run).progress.iteration == 2


def learn_by_half(ranks: Ranks, house: Path, folder: Path) -> Learned:
    return learn(ranks, house, folder, replace(TOGETHER, reward="half-of-the-papers"))


def test_processes_that_learn_together_use_it(house: Path, tmp_path: Path) -> None:
    alone, usual = learn_by_half(ALONE, house, tmp_path / "alone"), learn(ALONE, house, tmp_path / "usual", TOGETHER)
    first, second = together(2, tmp_path, learn_by_half, house, tmp_path / "two")
    assert distance(first, second) == 0
    assert distance(first, alone) < 1e-8
    assert distance(first, usual) > 1e-6


def test_one_that_waits_for_the_device_is_named(
    house: Path, tmp_path: Path, forget_plugins: Callable[[], None]
) -> None:
    """Where a graph is recorded, to wait raises, which is faked here; rewards are called inside of what is recorded."""
    (tmp_path / "waiting.py").write_text(PLUGIN.format(gives="refused(rollout.slot)") + REFUSED)
    load_plugin(tmp_path / "waiting.py")
    one = trainer(house, tmp_path / "run", replace(ONCE, reward="of-a-plugin"))
    with pytest.raises(RuntimeError) as caught:
        one.eager.accumulate(*one.batches[0])
    told = unrecordable(caught.value)
    assert isinstance(told, UsageError)
    assert str(told).startswith("waiting.py line ")
    assert "waits for the device, or has a shape that depends on values, while an update is recorded" in str(told)
    other = RuntimeError("of another kind")
    assert unrecordable(other) is other


def test_the_first_fault_of_a_recording_is_named(tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    """A recording that failed fails again when it is ended, inside of torch; the first fault is the one to tell."""
    ending = """
class Recording:
    def __enter__(self): ...

    def __exit__(self, *fault):
        raise RuntimeError("operation failed due to a previous error during capture")
"""
    within_torch: dict[str, Any] = {}
    exec(compile(ending, str(TORCH / "cuda" / "graphs.py"), "exec"), within_torch)
    (tmp_path / "waiting.py").write_text(REFUSED)
    refused = load_plugin(tmp_path / "waiting.py").refused
    with pytest.raises(RuntimeError, match="previous error during capture") as caught, within_torch["Recording"]():
        refused(None)
    assert str(unrecordable(caught.value)).startswith("waiting.py line 3 (raise RuntimeError(")


REFUSED = """
def refused(tensor):
    raise RuntimeError("operation not permitted when stream is capturing")
"""
