"""On a GPU: the same numbers as on the CPU, and no moment in which the host waits for the device."""

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import vlnbert as vln
from tests.cli.conftest import TINY
from tests.conftest import TinyData
from tests.learning.samples import CONFIG, NO_DROPOUT, SHAPE, Watcher, trainer, write_labels
from tests.navigator.samples import CONFIGS, make, sight, words
from tests.processes import PATIENCE
from tests.world.samples import codes_of, furnished
from vlnbert.environment.environment import (
    WANTS,
    Environment,
    Observation,
    State,
    flip_observation,
    shortest_path_teacher,
)
from vlnbert.house import generate
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.rewards import register_reward
from vlnbert.learning.trainer import Trainer, TrainingError
from vlnbert.learning.updates import GraphUpdate
from vlnbert.navigator import NavigatorConfig, fast
from vlnbert.plugins import load_plugin
from vlnbert.sources.instructions import EpisodeRecord
from vlnbert.tasks.task import R2R, metres_to_nearest
from vlnbert.world.banks import FeatureBank, JoinedBank, MixedBank
from vlnbert.world.objects import ObjectBank
from vlnbert.world.world import World

pytestmark = [
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
    pytest.mark.filterwarnings("ignore:Synchronization debug mode"),  # torch calls it a prototype
]


@contextmanager
def no_synchronisation() -> Iterator[None]:
    """Within the block, anything that makes the host wait for the GPU raises."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


def moved(value: Any, device: str) -> Any:
    """A bundle of tensors on another device."""
    if isinstance(value, Tensor):
        return value.to(device)
    if hasattr(value, "__dataclass_fields__"):
        return replace(value, **{field.name: moved(getattr(value, field.name), device) for field in fields(value)})
    return value


def walk(environment: Environment, start: Tensor, heading: Tensor, goal: Tensor) -> list[Tensor]:
    state = environment.reset(start, heading)
    seen = []
    for _ in range(5):
        observation = environment.observe(state)
        seen += [state.viewpoint, state.view, observation.direction, observation.choosable]
        seen += vars(observation.visible_objects).values() if observation.visible_objects is not None else ()
        state = environment.step(state, shortest_path_teacher(environment.world, state, goal))
    return seen


def test_agents_walk_alike_and_nobody_waits(world: World) -> None:
    start, goal = torch.arange(6), torch.tensor([5, 4, 3, 2, 1, 0])
    heading = torch.linspace(-3, 9, 6, dtype=torch.float64)
    expected = walk(Environment(world), start, heading, goal)
    on_gpu = Environment(world.to("cuda"))
    given = [value.cuda() for value in (start, heading, goal)]
    with no_synchronisation():
        found = walk(on_gpu, *given)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other.cpu(), one)


def test_objects_look_alike_and_nobody_waits(tiny: TinyData, world: World) -> None:
    objects = furnished(tiny, world)
    bank = ObjectBank.from_codebook(objects, codes_of(objects))
    start, goal = torch.arange(6), torch.tensor([5, 4, 3, 2, 1, 0])
    heading = torch.linspace(-3, 9, 6, dtype=torch.float64)
    expected = walk(Environment(world, object_bank=replace(bank, fixed=True)), start, heading, goal)
    on_gpu = Environment(world.to("cuda"), object_bank=bank.to("cuda"))
    given = [value.cuda() for value in (start, heading, goal)]
    with no_synchronisation():
        found = walk(on_gpu, *given)
    for one, other in zip(expected, found, strict=True):
        torch.testing.assert_close(other.cpu(), one)


@pytest.mark.parametrize("name", CONFIGS)
def test_navigators_decide_alike_and_nobody_waits(name: str) -> None:
    navigator, (tokens, mask), seen = make(CONFIGS[name]), words(3, 9), sight(CONFIGS[name], 3)
    instruction = navigator.encode(tokens, mask)
    expected = navigator.step(instruction.state, instruction, seen)
    navigator, tokens, mask, seen = navigator.cuda(), tokens.cuda(), mask.cuda(), moved(seen, "cuda")
    with no_synchronisation():
        instruction = navigator.encode(tokens, mask)
        found = navigator.step(instruction.state, instruction, seen)
    torch.testing.assert_close(found.logits.cpu(), expected.logits)
    torch.testing.assert_close(found.state.cpu(), expected.state)


EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
# All twelve episodes in every batch: one width of instructions, so that one graph serves all updates.
TRAINING = replace(CONFIG, batch=12, learning_rate=1e-4, validate_every=100)


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cuda") / "house"
    generate(folder, scans=3, paths_per_scan=8)
    return folder


def losses(one: Trainer) -> dict[int, float]:
    """Train to the end and tell the loss of every update."""
    watcher = Watcher()
    one.callbacks = [watcher]
    one.train()
    return {iteration: parts["total"] for iteration, parts in watcher.losses.items()}


def stopped_after(one: Trainer, updates: int) -> Trainer:
    """A trainer that is asked to stop after some updates."""
    update = one.update

    def counted(*words: Tensor) -> Tensor:
        one.stopping = one.progress.iteration + 1 == updates
        return update(*words)

    one.update = counted
    return one


def close(found: dict[int, float], expected: dict[int, float], share: float = 1e-4) -> None:
    assert found.keys() == expected.keys()
    for iteration, loss in expected.items():
        assert found[iteration] == pytest.approx(loss, rel=share, abs=share), f"update {iteration}"


@pytest.mark.parametrize("graphs", [False, True])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_nobody_waits_for_a_whole_update(house: Path, tmp_path: Path, graphs: bool, precision: str) -> None:
    one = trainer(house, tmp_path, replace(TRAINING, graphs=graphs, precision=precision), device="cuda")
    for iteration in range(3):  # the first warms up, the second is recorded
        one.advance(iteration)
    with no_synchronisation():
        one.advance(3)
    assert torch.stack(one.unreported).isfinite().all()


def test_features_are_kept_in_the_precision_they_are_used_in(house: Path, tmp_path: Path) -> None:
    for precision, dtype in (("float32", torch.float32), ("bfloat16", torch.bfloat16)):
        one = trainer(house, tmp_path / precision, replace(TRAINING, precision=precision), device="cuda")
        state = one.environment.reset(torch.zeros(1, dtype=torch.long, device="cuda"), torch.zeros(1, device="cuda"))
        assert one.eager.learner.environment.observe(state).features.dtype == dtype
        assert one.environment.observe(state).features.dtype == torch.float32  # validation's


@pytest.mark.parametrize(("precision", "share"), [("float32", 1e-4), ("bfloat16", 1e-2)])
def test_replayed_updates_are_what_they_would_be(house: Path, tmp_path: Path, precision: str, share: float) -> None:
    """Dropout too: what is random in a recording follows the seed of each update."""
    config = replace(TRAINING, iterations=50, precision=precision)
    replayed = trainer(house, tmp_path / "replayed", config, device="cuda")
    assert isinstance(replayed.update, GraphUpdate)
    eager = trainer(house, tmp_path / "eager", replace(config, graphs=False), device="cuda")
    found = losses(replayed)
    assert len(replayed.update.recordings) == 1
    assert len(set(found.values())) == 50, "every update is another"
    close(found, losses(eager), share)


@pytest.mark.parametrize("graphs", [False, True])
def test_a_loss_that_is_no_number_is_named(house: Path, tmp_path: Path, graphs: bool) -> None:
    """A recording gives all terms, and which of them is none is told from there as well."""
    config = replace(TRAINING, iterations=8, report_every=8, graphs=graphs)
    one = trainer(house, tmp_path, config, device="cuda")

    def breaking(iteration: int) -> None:
        if iteration == 5:
            with torch.no_grad():
                one.model.critic[3].bias.fill_(torch.nan)

    one.advanced = breaking
    with pytest.raises(
        TrainingError, match=r"^the loss of batch 5 is nan, in its terms policy, value \(instructions .*"
    ):
        one.train()
    assert any(one.update.recordings.values()) if isinstance(one.update, GraphUpdate) else not graphs


def test_replayed_flips_are_what_they_would_be(house: Path, tmp_path: Path) -> None:
    """A recording draws anew who sees the house in a mirror, by the keys of each batch; and nobody waits."""
    config = replace(TRAINING, iterations=20, flip=0.5)
    replayed = trainer(house, tmp_path / "replayed", config, device="cuda")
    found = losses(replayed)
    assert isinstance(replayed.update, GraphUpdate)
    assert any(replayed.update.recordings.values())
    close(found, losses(trainer(house, tmp_path / "eager", replace(config, graphs=False), device="cuda")))
    assert found != losses(trainer(house, tmp_path / "plain", replace(config, flip=0.0), device="cuda"))
    with no_synchronisation():
        replayed.advance(20)


@pytest.mark.parametrize(("precision", "share"), [("float32", 1e-4), ("bfloat16", 1e-2)])
def test_replayed_alignment_is_what_it_would_be(house: Path, tmp_path: Path, precision: str, share: float) -> None:
    """Where rows stand decides which words they should attend to, in a recording too; and nobody waits."""
    labelled = write_labels(shutil.copytree(house, tmp_path / "house"))
    config = replace(TRAINING, iterations=20, precision=precision, objective=ObjectiveConfig(alignment=2.0))
    replayed = trainer(labelled, tmp_path / "replayed", config, device="cuda")
    found = losses(replayed)
    assert isinstance(replayed.update, GraphUpdate)
    assert any(replayed.update.recordings.values())
    close(found, losses(trainer(labelled, tmp_path / "eager", replace(config, graphs=False), device="cuda")), share)
    plain = replace(config, objective=ObjectiveConfig())
    assert found != losses(trainer(labelled, tmp_path / "plain", plain, device="cuda"))
    with no_synchronisation():
        replayed.advance(20)


def test_replayed_gradients_are_what_they_would_be(house: Path, tmp_path: Path) -> None:
    found, expected = (gradient(house, tmp_path / str(graphs), graphs) for graphs in (True, False))
    assert torch.nn.functional.cosine_similarity(found, expected, dim=0) > 0.99999


def gradient(house: Path, run: Path, graphs: bool) -> Tensor:
    """That of the fifth update, all weights together."""
    one = trainer(house, run, replace(TRAINING, graphs=graphs), device="cuda")
    for iteration in range(5):
        one.advance(iteration)
    return torch.cat([weight.grad.flatten() for weight in one.model.parameters() if weight.grad is not None])


@pytest.mark.parametrize("shape", [SHAPE, replace(SHAPE, backbone="one-stream", cross_layers=0)])
@pytest.mark.parametrize(("precision", "share", "updates"), [("float32", 1e-3, 10), ("bfloat16", 2e-2, 5)])
def test_our_kernels_learn_what_torchs_own_learn(
    house: Path, tmp_path: Path, shape: NavigatorConfig, precision: str, share: float, updates: int
) -> None:
    """In bfloat16 a rounding soon lets a row that explores choose otherwise: losses are then of other walks."""
    config = replace(TRAINING, iterations=updates, graphs=False, precision=precision)
    shape = replace(shape, **NO_DROPOUT)
    with fast.torch_kernels():
        expected = losses(trainer(house, tmp_path / "torch", config, shape=shape, device="cuda"))
    close(losses(trainer(house, tmp_path / "ours", config, shape=shape, device="cuda")), expected, share)


def test_a_foreign_module_is_recorded_and_learns() -> None:
    """An adapter in float32 that meets bfloat16 tokens inside of a CUDA graph: replays see weights as they are."""

    class Louder(nn.Linear):
        def forward(self, tokens: Tensor) -> Tensor:
            return 2 * super().forward(tokens)

    torch.manual_seed(0)
    adapter, tokens = Louder(8, 4).cuda(), torch.randn(5, 8, device="cuda", dtype=torch.bfloat16)

    def update() -> Tensor:
        with fast.enabled(torch.bfloat16):
            out = fast.linear(tokens, adapter)
        adapter.weight.grad, adapter.bias.grad = torch.autograd.grad(out.float().square().sum(), adapter.parameters())
        return out.detach()

    aside = torch.cuda.Stream()
    with torch.cuda.stream(aside):
        update()
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        recorded = update()
    recorded_grad = adapter.weight.grad
    for factor in (1.0, 3.0):
        with torch.no_grad():
            adapter.weight.mul_(factor)
        graph.replay()
        out, grad = recorded.clone(), recorded_grad.clone()
        torch.testing.assert_close(out, update())
        torch.testing.assert_close(grad, adapter.weight.grad)


@pytest.mark.parametrize("reward", ["metres", "fewer-hops"])
def test_a_foreign_reward_is_recorded(
    house: Path, tmp_path: Path, reward: str, forget_plugins: Callable[[], None]
) -> None:
    """A function and a class, of the example: replayed updates earn what eager ones do."""
    load_plugin(EXAMPLES / "own_reward.py")
    config = replace(TRAINING, iterations=10, reward=reward)
    replayed = trainer(house, tmp_path / "replayed", config, device="cuda")
    found = losses(replayed)
    assert isinstance(replayed.update, GraphUpdate)
    assert any(replayed.update.recordings.values())
    eager = losses(trainer(house, tmp_path / "eager", replace(config, graphs=False), device="cuda"))
    close(found, eager)
    assert found != losses(trainer(house, tmp_path / "paper", replace(config, reward="paper"), device="cuda"))


def test_replayed_fields_and_goals_are_what_they_would_be(
    house: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, forget_plugins: Callable[[], None]
) -> None:
    """Fields of one's own are fed to a recording as all else of a batch is; and nobody waits."""
    plain = R2R.read

    def read(self: R2R, path: Path) -> Iterator[EpisodeRecord]:
        for place, record in enumerate(plain(self, path)):
            yield replace(record, goals=record.path[-2:], extra={"weight": place / 10, "said": record.text})

    def weighted(rollout: Any, batch: Any, world: World) -> Tensor:
        return (batch.extra["weight"] - metres_to_nearest(world, rollout.viewpoint[:-1], batch.goals)).float()

    monkeypatch.setattr(R2R, "read", read)
    register_reward("weighted")(weighted)
    config = replace(TRAINING, iterations=20, reward="weighted")
    replayed = trainer(house, tmp_path / "replayed", config, device="cuda")
    found = losses(replayed)
    assert isinstance(replayed.update, GraphUpdate)
    assert any(replayed.update.recordings.values())
    close(found, losses(trainer(house, tmp_path / "eager", replace(config, graphs=False), device="cuda")))
    with no_synchronisation():
        replayed.advance(20)


def test_a_policy_that_goes_back_is_recorded(house: Path, tmp_path: Path, forget_plugins: Callable[[], None]) -> None:
    """Ways are found, and hops earn, within a recorded graph; it learns what an eager update does."""
    load_plugin(EXAMPLES / "own_policy.py")
    few = {"batch": 8, "iterations": 8, "validate_every": 8, "report_every": 1, "max_steps": 6, "precision": "float32"}
    found = list[dict[int, float]]()
    for graphs in (True, False):
        watcher, out = Watcher(), tmp_path / str(graphs)
        named = {"policy": "map-memory", "policy.settings": {"dropout": 0.0}, "callbacks": [watcher]}
        vln.train("demo", house, out, device="cuda", graphs=graphs, bar=False, tensorboard=False, **named, **few)
        found.append({iteration: parts["total"] for iteration, parts in watcher.losses.items()})
    assert len(found[0]) == 8
    close(*found)


IMPATIENT = """
import vlnbert as vln

@vln.register_reward("impatient")
def impatient(rollout, batch, world):
    return {gives}
"""
WAITS = {
    "asks": "rollout.slot.float() * (1.0 if rollout.live.any() else 0.0)",
    "selects": "rollout.slot.float() + rollout.slot[rollout.live].float().mean()",
}


@pytest.mark.parametrize("kind", WAITS)
def test_a_reward_that_waits_for_the_device_is_named(
    house: Path, tmp_path: Path, kind: str, forget_plugins: Callable[[], None]
) -> None:
    """One line with its place, and no run is left; without graphs it trains.

    In a process of its own: what is left of a recording that failed would trouble the tests that follow.
    """
    plugin, run = tmp_path / "impatient.py", tmp_path / "run"
    plugin.write_text(IMPATIENT.format(gives=WAITS[kind]))
    command = [sys.executable, "-m", "vlnbert", "--plugin", plugin, "train", "demo", "--data", house, "--out", run]
    options = [*TINY, "--training.reward", "impatient", "--training.validate-every", "800", "--device", "cuda"]
    ended = subprocess.run(list(map(str, [*command, *options])), capture_output=True, text=True, timeout=PATIENCE)
    told = [line for line in ended.stderr.splitlines() if line.startswith("vlnbert: ")]
    assert ended.returncode == 2, ended.stderr
    assert re.fullmatch(r"vlnbert: impatient.py line 6 \(return .*\) waits for the device.*no-graphs", told[0])
    assert len(told) == 1
    assert "Traceback" not in ended.stderr
    assert not run.exists()
    load_plugin(plugin)
    eager = replace(TRAINING, iterations=2, reward="impatient", graphs=False)
    assert len(losses(trainer(house, tmp_path / "eager", eager, device="cuda"))) == 2


def test_graphs_of_several_widths_take_turns(house: Path, tmp_path: Path) -> None:
    config = replace(TRAINING, iterations=30, batch=2)
    replayed = trainer(house, tmp_path / "replayed", config, device="cuda")
    found = losses(replayed)
    assert len(replayed.update.recordings) > 1
    close(found, losses(trainer(house, tmp_path / "eager", replace(config, graphs=False), device="cuda")))


def test_what_agents_want_is_seen_without_waiting(tiny: TinyData, world: World) -> None:
    """Neighbours and a panorama, of a table and of mixed texts, mirrored or not; also replayed from a graph."""
    texts, views = torch.rand(8, 6), torch.arange(len(world) * 36).view(-1, 36)
    code, place = torch.randint(8, (len(world), 24)), torch.randint(24, (36, 3))
    bank = JoinedBank(
        (FeatureBank(torch.rand(views.numel(), 4), views), MixedBank(texts, code, place, torch.rand(36, 3)))
    )
    here = torch.arange(len(world))
    state = State(here, 5 * here % 36, torch.zeros_like(here, dtype=torch.bool))
    flipped = here % 2 == 0

    def seen(device: str, state: State) -> Observation:
        environment = Environment(world.to(device), open_panoramas=lambda: bank.to(device)).showing(WANTS)
        there = flipped.to(device)
        with no_synchronisation() if device == "cuda" else nullcontext():
            if device == "cpu":
                return flip_observation(environment.observe(state), there)
            for _ in range(2):
                flip_observation(environment.observe(state), there)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = flip_observation(environment.observe(state), there)
        graph.replay()
        return found

    expected, found = seen("cpu", state), moved(seen("cuda", moved(state, "cuda")), "cpu")
    assert torch.equal(found.neighbours, expected.neighbours)
    torch.testing.assert_close(found.panorama.features, expected.panorama.features)
    torch.testing.assert_close(found.panorama.direction, expected.panorama.direction)
    half = Environment(world.to("cuda"), open_panoramas=lambda: bank.to("cuda")).in_dtype(torch.bfloat16)
    half = half.showing("panorama").in_dtype(torch.bfloat16)
    assert half.observe(moved(state, "cuda")).panorama.features.dtype == torch.bfloat16


@pytest.mark.parametrize("graphs", [False, True])
def test_a_resumed_run_goes_on_as_it_would_have(house: Path, tmp_path: Path, graphs: bool) -> None:
    config = replace(TRAINING, iterations=10, validate_every=5, graphs=graphs)
    expected = losses(trainer(house, tmp_path / "whole", config, device="cuda"))
    found = losses(stopped_after(trainer(house, tmp_path / "halves", config, device="cuda"), 5))
    second = trainer(house, tmp_path / "halves", config, device="cuda")
    second.resume()
    assert second.progress.iteration == 5
    close(found | losses(second), expected)


def flat(tensors: Iterable[Tensor]) -> Tensor:
    return torch.cat([tensor.detach().flatten() for tensor in tensors]).double()


@pytest.mark.parametrize("graphs", [False, True])
def test_averages_follow_the_weights_and_nobody_waits(house: Path, tmp_path: Path, graphs: bool) -> None:
    """By hand from the weights after each update: a replayed graph must not keep the decay of when it was recorded."""
    one = trainer(house, tmp_path, replace(TRAINING, ema=0.9, graphs=graphs), device="cuda")
    expected = flat(one.model.parameters())
    for iteration in range(12):
        with no_synchronisation() if iteration > 2 else nullcontext():  # the first warms up, the second is recorded
            one.advance(iteration)
        decay = min(0.9, (1 + iteration) / (10 + iteration))
        expected = decay * expected + (1 - decay) * flat(one.model.parameters())
    torch.testing.assert_close(flat(one.averaged.average.values()), expected, rtol=1e-5, atol=1e-7)


def test_replayed_averages_are_what_they_would_be(house: Path, tmp_path: Path) -> None:
    config, averages = replace(TRAINING, iterations=20, validate_every=7, ema=0.9), []
    for graphs in (True, False):
        one = trainer(house, tmp_path / str(graphs), replace(config, graphs=graphs), device="cuda")
        one.train()  # validations put the averaged weights in place and take them back
        averages.append(flat(one.averaged.average.values()))
    torch.testing.assert_close(*averages, rtol=1e-3, atol=1e-4)


@pytest.mark.parametrize("graphs", [False, True])
def test_a_resumed_run_has_the_average_that_it_would_have(house: Path, tmp_path: Path, graphs: bool) -> None:
    """To the bit right after the resumption, and to rounding at the end."""
    config = replace(TRAINING, iterations=10, validate_every=5, ema=0.9, graphs=graphs)
    whole = trainer(house, tmp_path / "whole", config, device="cuda")
    whole.train()
    first = stopped_after(trainer(house, tmp_path / "halves", config, device="cuda"), 5)
    first.train()
    second = trainer(house, tmp_path / "halves", config, device="cuda")
    second.resume()
    assert torch.equal(flat(second.averaged.average.values()), flat(first.averaged.average.values()))
    assert torch.equal(flat(second.model.parameters()), flat(first.model.parameters()))
    second.train()
    ends = (flat(one.averaged.average.values()) for one in (second, whole))
    torch.testing.assert_close(*ends, rtol=1e-3, atol=1e-4)


def test_the_gpu_learns_what_the_cpu_learns(house: Path, tmp_path: Path) -> None:
    shape, config = replace(SHAPE, **NO_DROPOUT), replace(TRAINING, iterations=5)
    expected = losses(trainer(house, tmp_path / "cpu", config, shape=shape))
    close(losses(trainer(house, tmp_path / "cuda", config, shape=shape, device="cuda")), expected, share=1e-3)
