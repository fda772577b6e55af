"""Objects in rollouts, by hand: what naming the target costs, and where the gradients of stopping go."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.learning.objectives import Costed, collected, navigation_objective
from tests.navigator.samples import CONFIGS, make
from vlnbert.environment.environment import Environment, State
from vlnbert.features.views import facing_views
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.learning.rewards import RewardConfig, Rewards
from vlnbert.navigator import Navigator, fast
from vlnbert.rollout.mixed import SAMPLE, TEACHER, MixedAgent, Rollout, keys
from vlnbert.sources.annotations import BoxedObject, ViewpointObjects
from vlnbert.tasks.episodes import pad_paths
from vlnbert.world.banks import FeatureBank
from vlnbert.world.objects import NONE, ObjectBank, build_object_table
from vlnbert.world.world import STOP, World

LIMIT = 6
SHOWN = {"a3": 2, "a4": 5, "a5": 1, "g0": 13}  # how many objects a viewpoint shows; the others show none
WALKS = ["a0 a3 a4", "a1 a2 a3", "a5 a4 a3 a0", "a3"]
TARGETS = [4, NONE, NONE, 1]  # their places at the goals a4, a3 (which does not show the second's), a0 and a3
BACKBONES = ["one-stream objects", "two-stream objects"]


@dataclass(frozen=True)
class Scene:
    """A navigator in double precision, and where four rows of it walk."""

    navigator: Navigator
    environment: Environment
    path: Tensor
    tokens: Tensor
    target: Tensor

    def rollout(self, how: list[int]) -> Costed:
        key = keys(0, 0, torch.arange(len(how)))
        agent = MixedAgent(self.navigator, self.environment, self.tokens, torch.tensor(how), key, LIMIT)
        start, goal = self.path[:, 0], self.path[:, -1]
        return collected(self.environment, agent, start, torch.zeros(len(how)), goal, target=self.target)

    def objective(self, how: list[int], **weights: Any) -> Any:
        length = torch.tensor([len(walk.split()) for walk in WALKS])
        rewards, config = Rewards(self.environment.world, RewardConfig()), ObjectiveConfig(**weights)
        rollout = self.rollout(how)
        reward = rewards(rollout.viewpoint, rollout.slot, self.path, length)
        return navigation_objective(rollout, torch.tensor(how), reward, config)

    def fixed(self) -> "Scene":
        """The same, with as much room for objects everywhere as the fullest viewpoint needs."""
        bank = replace(self.environment.object_bank, fixed=True)
        return replace(self, environment=Environment(self.environment.world, self.environment.view_bank, bank))

    def gradients(self, loss: Tensor) -> dict[str, Tensor]:
        weights = dict(self.navigator.named_parameters())
        found = torch.autograd.grad(loss, list(weights.values()), allow_unused=True, retain_graph=True)
        return {name: torch.zeros(1) if grad is None else grad for name, grad in zip(weights, found, strict=True)}


@pytest.fixture(params=BACKBONES)
def scene(world: World, request: pytest.FixtureRequest) -> Scene:
    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    views = facing_views(world)
    table = draw(views.count + 1, 7)
    table[0] = 0
    shown = [
        ViewpointObjects(
            {"a": "alpha", "g": "gamma"}[name[0]],
            name,
            tuple(BoxedObject(str(k), "chair", (3 * k % 36,), ((9, 9, 50 + k, 60),)) for k in range(count)),
            Path(),
        )
        for name, count in SHOWN.items()
    ]
    objects = build_object_table(world, shown, Path())
    bank = ObjectBank.from_codebook(objects, draw(len(objects), 5))
    environment = Environment(world, FeatureBank(table, views.row), bank)
    path = pad_paths([[world.find("alpha", name) for name in walk.split()] for walk in WALKS])
    tokens = torch.randint(4, 50, (4, 6), generator=torch.Generator().manual_seed(1))
    return Scene(make(CONFIGS[request.param]), environment, path, tokens, torch.tensor(TARGETS))


def plain_grounding_loss(scene: Scene, rollout: Rollout) -> Tensor:
    """[time, row] where a row looks from, one at a time, with the target's column looked up by its id."""
    world, objects = scene.environment.world, scene.environment.object_bank.object_table
    costs = torch.zeros(rollout.live.shape, dtype=torch.float64)
    for row, target in enumerate(TARGETS):
        tokens = scene.tokens[row : row + 1]
        instruction = scene.navigator.encode(tokens, tokens != 0)
        hidden, goal = instruction.state, int(scene.path[row, -1])
        for time in range(len(costs)):
            where = rollout.viewpoint[time, row : row + 1]
            state = State(where, rollout.view[time, row : row + 1], torch.tensor([False]))
            step = scene.navigator.step(hidden, instruction, scene.environment.observe(state))
            hidden, instruction = step.state, step.instruction
            if int(where) == goal and target != NONE:
                name = world.viewpoints[goal]
                real = torch.cat((step.object_logits[0, : SHOWN[name]], step.object_logits[0, -1:]))
                assert objects.ids_at(where, torch.tensor([target])) == [str(target)]
                costs[time, row] = real.exp().sum().log() - real[target]
    return costs


@pytest.fixture
def nobody_leaves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who has stopped looks on, as on a GPU."""
    monkeypatch.setattr("vlnbert.rollout.mixed.active_rows", lambda state, rows: None)


@pytest.mark.usefixtures("nobody_leaves")
@pytest.mark.parametrize("how", [[TEACHER] * 4, [SAMPLE] * 4])
def test_the_target_s_cross_entropy_at_the_goal_and_nothing_elsewhere(scene: Scene, how: list[int]) -> None:
    rollout = scene.rollout(how)
    torch.testing.assert_close(rollout.grounding_loss, plain_grounding_loss(scene, rollout), rtol=0, atol=1e-9)
    at_goal = rollout.viewpoint[:-1] == scene.path[:, -1]
    assert torch.equal(rollout.grounding_loss > 0, at_goal & (scene.target != NONE))
    assert (rollout.grounding_loss > 0)[:, 3].any()


@pytest.mark.usefixtures("nobody_leaves")
def test_only_steps_before_the_end_count(scene: Scene) -> None:
    """Summed over steps, divided by the rows of either kind, and weighted."""
    how = [TEACHER, TEACHER, SAMPLE, TEACHER]
    rollout, found = scene.rollout(how), scene.objective(how, grounding=3.0)
    expected = (rollout.grounding_loss[2, 0] + rollout.grounding_loss[0, 3]).item()  # where the teacher's rows stop
    assert (rollout.grounding_loss[1:, 3] > 0).sum() >= 2, "who has stopped looks on"
    assert found.grounding.item() == pytest.approx(3 * expected / 4)
    forced = scene.objective(how, grounding=3.0, grounding_rows="teacher-forced")
    assert forced.grounding.item() == pytest.approx(3 * expected / 3), "which are three"
    nothing = scene.objective(how, grounding=0.0)
    assert nothing.grounding.item() == 0.0
    assert (found.total - nothing.total).item() == pytest.approx(found.grounding.item())


@pytest.mark.parametrize("how", [[TEACHER] * 4, [SAMPLE] * 4, [TEACHER, SAMPLE, TEACHER, SAMPLE]])
def test_padding_and_missing_targets_leave_only_numbers(scene: Scene, how: list[int]) -> None:
    for given in (scene, replace(scene, target=torch.full((4,), NONE))):
        loss = given.objective(how, imitation=1.0, student_forcing=0.5, grounding=2.0)
        assert all(part.isfinite() for part in vars(loss).values())
        assert all(grad.isfinite().all() for grad in given.gradients(loss.total).values())
        if given is not scene:
            assert loss.grounding.item() == 0.0
            assert not any(grad.any() for grad in given.gradients(loss.grounding).values())


def test_a_target_unseen_teaches_its_row_nothing(scene: Scene) -> None:
    """Rows 1 and 2 look for what their goals do not show: not even "no object" is what they should have named."""
    rollout = scene.rollout([TEACHER] * 4)
    found = scene.gradients(rollout.grounding_loss[:, 1:3].sum())
    assert not any(grad.any() for grad in found.values())


def test_room_for_more_objects_changes_nothing(scene: Scene) -> None:
    how = [TEACHER, SAMPLE, TEACHER, SAMPLE]
    narrow, wide = (one.objective(how, imitation=1.0, grounding=2.0) for one in (scene, scene.fixed()))
    for name, part in vars(narrow).items():
        torch.testing.assert_close(part, getattr(wide, name), msg=name)
    torch.testing.assert_close(scene.gradients(narrow.total), scene.fixed().gradients(wide.total))
    state = State(scene.path[:, 0], torch.zeros(4, dtype=torch.long), torch.zeros(4, dtype=torch.bool))
    widths = [one.environment.observe(state).visible_objects.present.shape[1] for one in (scene, scene.fixed())]
    assert widths == [4, 13]


def look(scene: Scene, names: str) -> tuple:
    """A step of the first rows at some viewpoints of alpha."""
    where = torch.tensor([scene.environment.world.find("alpha", name) for name in names.split()])
    tokens = scene.tokens[: len(where)]
    instruction = scene.navigator.encode(tokens, tokens != 0)
    state = State(where, torch.full_like(where, 12), torch.zeros_like(where, dtype=torch.bool))
    return scene.navigator.step(instruction.state, instruction, scene.environment.observe(state)), where


def test_no_object_comes_last_and_can_always_be_named(scene: Scene) -> None:
    step, _ = look(scene, "a0 a3 a4 a5")
    assert step.object_logits.isfinite().tolist() == [
        [column < count or column == 8 for column in range(9)] for count in (0, 2, 5, 1)
    ]


def test_to_stop_is_to_choose_the_best_object(scene: Scene) -> None:
    """The stop logit's gradient lies on the best object, or on "no object", alone."""
    step, where = look(scene, "a0 a3 a4 a5")
    assert torch.equal(step.logits[:, STOP], step.object_logits.max(dim=1).values)
    for row in range(len(where)):
        (found,) = torch.autograd.grad(step.logits[row, STOP], step.object_logits, retain_graph=True)
        expected = torch.zeros_like(found)
        expected[row, step.object_logits[row].argmax()] = 1
        assert torch.equal(found, expected)


def test_reinforcement_reaches_the_objects(scene: Scene) -> None:
    """What a stop earned is learned by how objects are seen, without the grounding loss too."""
    loss = scene.objective([SAMPLE] * 4, imitation=0.0, grounding=0.0, value=0.0, entropy=0.0)
    found = scene.gradients(loss.total)
    for name in ("object_embedding.project.weight", "object_embedding.position.weight"):
        assert found[name].abs().max() > 1e-6


def test_the_state_takes_in_directions_alone(scene: Scene) -> None:
    caught: list[Tensor] = []
    scene.navigator.refinement.register_forward_pre_hook(lambda _, inputs: caught.append(inputs[2]))
    step, where = look(scene, "a3 a4 a5")
    state = State(where, torch.full_like(where, 12), torch.zeros_like(where, dtype=torch.bool))
    seen = scene.environment.observe(state)
    tokens = scene.navigator.view_embedding(
        seen.features, seen.direction.double().repeat(1, 1, 2), fast.Packing(seen.choosable)
    )
    weights = step.logits[:, 1:].softmax(dim=-1)  # of directions among themselves; neither stop nor objects take part
    torch.testing.assert_close(caught[0], torch.einsum("rs,rsh->rh", weights, tokens[:, 1:]))
