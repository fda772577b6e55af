"""What attending to other words costs, by hand: in every step of a rollout, whoever walks."""

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from tests.learning.objectives import Costed, collected, navigation_objective
from tests.navigator.samples import CONFIGS, make
from vlnbert.environment.environment import Environment, State
from vlnbert.errors import UsageError
from vlnbert.features.views import facing_views
from vlnbert.learning.losses import TINY, attention_loss
from vlnbert.learning.objective import ObjectiveConfig
from vlnbert.navigator import Navigator
from vlnbert.rollout.mixed import SAMPLE, TEACHER, MixedAgent, Rollout, keys
from vlnbert.tasks.episodes import pad_paths
from vlnbert.world.banks import FeatureBank
from vlnbert.world.world import World

LIMIT = 6
WALKS = ["a0 a3 a4", "a1 a2 a3", "a5 a4 a3 a0", "a3"]
TOKENS = 7
# By walk, by hop, the tokens to attend to; the third has no labels, and [CLS] is never one of them.
WORDS = [["12", "3", "34"], ["5", "5", "5"], ["", "", "", ""], ["126"]]


class Scene:
    """A navigator in double precision, and where four rows of it walk."""

    def __init__(self, world: World, backbone: str) -> None:
        views = facing_views(world)
        table = torch.randn(views.count + 1, 7, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
        table[0] = 0
        self.environment = Environment(world, FeatureBank(table, views.row))
        self.navigator: Navigator = make(replace(CONFIGS[backbone], feature_width=7))
        self.path = pad_paths([[world.find("alpha", name) for name in walk.split()] for walk in WALKS])
        self.tokens = torch.randint(4, 50, (4, TOKENS), generator=torch.Generator().manual_seed(1))
        self.tokens[1, 6:] = 0
        self.aligned = torch.zeros(4, 4, TOKENS, dtype=torch.bool)
        for row, hops in enumerate(WORDS):
            for hop, tokens in enumerate(hops):
                self.aligned[row, hop, [int(token) for token in tokens]] = True

    def rollout(self, how: list[int], labelled: bool = True) -> Costed:
        agent = MixedAgent(
            self.navigator,
            self.environment,
            self.tokens,
            row_mode=torch.tensor(how),
            key=keys(0, 0, torch.arange(4)),
            max_steps=LIMIT,
        )
        start, goal, aligned = self.path[:, 0], self.path[:, -1], self.aligned if labelled else None
        return collected(self.environment, agent, start, torch.zeros(4), goal, aligned=aligned, path=self.path)

    def plain_loss(self, rollout: Rollout) -> Tensor:
        """[time, row] of one row at a time, its words looked up by the names of WALKS."""
        costs, viewpoints = torch.zeros(rollout.live.shape, dtype=torch.float64), self.environment.world.viewpoints
        for row, walk in enumerate(WALKS):
            tokens = self.tokens[row : row + 1]
            instruction = self.navigator.encode(tokens, tokens != 0)
            hidden = instruction.state
            for time in range(len(costs)):
                where = rollout.viewpoint[time, row : row + 1]
                state = State(where, rollout.view[time, row : row + 1], torch.tensor([False]))
                step = self.navigator.step(hidden, instruction, self.environment.observe(state))
                hidden, instruction = step.state, step.instruction
                if (name := viewpoints[int(where)]) in walk.split():
                    places = [int(token) - 1 for token in WORDS[row][walk.split().index(name)]]
                    costs[time, row] = -(step.language_weights[0, places].sum() + TINY).log() if places else 0.0
        return costs


@pytest.fixture(params=["one-stream", "two-stream"])
def scene(world: World, request: pytest.FixtureRequest) -> Scene:
    return Scene(world, request.param)


@pytest.mark.parametrize("how", [[TEACHER] * 4, [SAMPLE] * 4], ids=["taught", "sampled"])
def test_minus_the_log_of_the_share_of_the_words(scene: Scene, how: list[int]) -> None:
    rollout = scene.rollout(how)
    live, expected = rollout.live, scene.plain_loss(rollout)
    torch.testing.assert_close(rollout.alignment_loss[live], expected[live], rtol=0, atol=1e-9)
    assert (expected[live] > 0).sum() > 3, "there is something to compare"
    assert not rollout.alignment_loss[:, 2].any(), "no labels, no loss"
    if how[0] == SAMPLE:
        off = ~(rollout.viewpoint[:-1, :, None] == scene.path).any(dim=2) & live
        assert off.any(), "somebody leaves the path"
        assert not rollout.alignment_loss[off].any()


def test_rows_that_leave_change_nothing(scene: Scene, monkeypatch: pytest.MonkeyPatch) -> None:
    left = scene.rollout([TEACHER, SAMPLE, TEACHER, SAMPLE])
    monkeypatch.setattr("vlnbert.rollout.mixed.active_rows", lambda state, rows: None)
    stayed = scene.rollout([TEACHER, SAMPLE, TEACHER, SAMPLE])
    live = left.live
    assert not live.all()
    torch.testing.assert_close(left.alignment_loss[live], stayed.alignment_loss[: len(live)][live])


def test_the_loss_is_a_part_of_the_objective(scene: Scene) -> None:
    how = [TEACHER, SAMPLE, TEACHER, SAMPLE]
    rollout, policy = scene.rollout(how), torch.tensor(how)
    reward = torch.zeros_like(rollout.value)
    found, nothing = (
        navigation_objective(rollout, policy, reward, ObjectiveConfig(alignment=weight)) for weight in (3.0, 0.0)
    )
    by_hand = sum(rollout.alignment_loss[time, row] for time, row in rollout.live.nonzero().tolist())
    assert found.alignment.item() == pytest.approx(3 * by_hand.item() / 4)
    assert by_hand > 0
    assert nothing.alignment.item() == 0.0
    assert (found.total - nothing.total).item() == pytest.approx(found.alignment.item())


def test_without_labels_the_walk_is_the_same_and_costs_nothing(scene: Scene) -> None:
    plain, labelled = (scene.rollout([SAMPLE] * 4, labelled) for labelled in (False, True))
    assert not plain.alignment_loss.any()
    for name in ("slot", "logits", "value", "last_value"):
        assert torch.equal(getattr(plain, name), getattr(labelled, name))


def test_attention_moves_to_the_words(scene: Scene) -> None:
    """A few steps down the gradient, and nothing else."""
    optimiser = torch.optim.Adam(scene.navigator.parameters(), 2e-3)
    losses = list[float]()
    for _ in range(20):
        rollout = scene.rollout([TEACHER] * 4)
        loss = (rollout.alignment_loss * rollout.live).sum()
        losses.append(loss.item())
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    assert losses[-1] < 0.5 * losses[0]


def test_shares_by_hand() -> None:
    weights = torch.tensor([[0.5, 0.25, 0.25], [0.0, 1.0, 0.0], [0.2, 0.3, 0.5]], dtype=torch.float64)
    words = torch.tensor([[True, True, False, True], [False, True, False, False], [True, False, False, False]])
    found = attention_loss(weights, words)  # the first token is [CLS], which nobody weighs
    expected = -torch.tensor([0.75 + TINY, TINY, 1.0], dtype=torch.float64).log()
    torch.testing.assert_close(found, expected)
    assert attention_loss(weights.bfloat16(), words).dtype == torch.float32


def test_a_backbone_that_weighs_something_else_is_refused() -> None:
    problem = "the backbone weighs 2 words of an instruction that has 3; do without: alignment=0"
    with pytest.raises(UsageError, match=f"^{problem}$"):
        attention_loss(torch.ones(1, 2), torch.ones(1, 4, dtype=torch.bool))
