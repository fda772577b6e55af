"""Going back: a decision about a place seen before is walked along the edges that are known, and scored as walked."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy.sparse.csgraph import dijkstra
from torch import Tensor, nn

from vlnbert.environment.environment import Environment, Observation, State
from vlnbert.errors import UsageError
from vlnbert.learning.rewards import RewardConfig, Rewards
from vlnbert.rollout import going_back
from vlnbert.rollout.agents import Agent, EpisodeBatch
from vlnbert.rollout.episodes import Trajectories, run_episodes
from vlnbert.rollout.going_back import BacktrackGraph
from vlnbert.rollout.mixed import GREEDY, SAMPLE, TEACHER, MixedAgent, Rollout, collect_rollout, keys
from vlnbert.rollout.policy import Decision, GreedyAgent, Policy
from vlnbert.world.build import build_world
from vlnbert.world.world import STOP, World

STAY = -1


class Script(Agent):
    """Goes from viewpoint to viewpoint as it is told, [row, decision], then stops; by slots where one leads there."""

    reads_tokens = sees_features = False
    wants = ("neighbours",)
    goes_back = True

    def __init__(self, *plans: list[int]) -> None:
        longest = max(map(len, plans))
        self.plan = torch.tensor([plan + [STAY] * (longest + 1 - len(plan)) for plan in plans])

    def begin(self, batch: EpisodeBatch) -> int:
        return 0

    def act(self, observation: Observation, memory: int) -> tuple[Tensor, int]:
        target = self.plan[:, min(memory, self.plan.shape[1] - 1)]
        leads = observation.neighbours == target[:, None]
        leads[:, STOP] = False
        slot = torch.where(leads.any(dim=1), leads.int().argmax(dim=1), observation.choosable.shape[1] + target)
        return torch.where(target == STAY, STOP, slot), memory + 1


def walk(environment: Environment, *plans: list[int], start: int = 0, **more: Any) -> Trajectories:
    rows = torch.full((len(plans),), start)
    batch = EpisodeBatch(environment.reset(rows, torch.zeros(len(plans))), rows[:, None], torch.arange(len(plans)))
    return run_episodes(environment.showing("neighbours"), Script(*plans), batch, **more)


def test_the_way_back_is_expanded_along_known_edges(environment: Environment) -> None:
    world = environment.world
    walked = walk(environment, [3, 4, 1], [3, 0, 2, 3, 4], [1])
    hops = walked.hops
    assert hops is not None
    assert walked.viewpoint[:, :4].tolist() == [[0, 3, 4, 1], [0, 3, 0, 2], [0, 1, 1, 1]]
    assert [row[:count] for row, count in zip(hops.viewpoint.tolist(), hops.length.tolist(), strict=True)] == [
        [0, 3, 4, 3, 0, 1],
        [0, 3, 0, 3, 2, 3, 4],  # not by 1, which was not visited
        [0, 1],
    ]
    assert hops.decided[:, :7].tolist() == [[0, 1, 2, 5, 5, 5, 5], [0, 1, 2, 4, 5, 6, 6], [0, 1, 1, 1, 1, 1, 1]]
    assert hops.decisions.tolist() == walked.length.tolist() == [4, 6, 2]
    assert hops.ended.all()
    for row, count in enumerate(hops.length.tolist()):  # it faces where the last hop came along, as by slots
        for hop in range(1, count):
            before, here = hops.viewpoint[row, hop - 1 : hop + 1].tolist()
            slot = world.neighbour[before].tolist().index(here)
            assert int(hops.view[row, hop]) == int(world.view[before, slot])
    assert walked.view[0, 3] == hops.view[0, 5]


def test_slots_alone_walk_as_ever(environment: Environment) -> None:
    plans = [[3, 4, 3, 2], [1]]
    walked, plain = walk(environment, *plans), walk(environment, *plans)
    assert torch.equal(walked.hops.viewpoint[:, : walked.viewpoint.shape[1]], walked.viewpoint)
    assert torch.equal(walked.hops.length, walked.length)
    assert torch.equal(walked.hops.view[:, : walked.view.shape[1]], plain.view)


@pytest.mark.parametrize("seed", range(6))
def test_ways_are_the_shortest_along_the_edges_of_what_was_visited(random_graph: Callable, seed: int) -> None:
    graph, rng = random_graph(seed, 14, 10), np.random.default_rng(seed)
    environment = Environment(build_world([graph]))
    world, here, plan, visited, known = environment.world, 0, [], [0], {0}
    expected, edges = [0], np.full((14, 14), np.inf)
    for _ in range(9):
        near = world.neighbour[here, 1 : int(world.choices[here])].tolist()
        for there in near:
            edges[here, there] = edges[there, here] = float(world.metres(torch.tensor(here), torch.tensor(there)))
        known |= {*near}
        target = int(rng.choice(sorted(known - {here})))
        through = [place in (*visited, target) for place in range(14)]  # what is between was visited
        passable = np.where(np.isinf(edges) | ~np.outer(through, through), 0, edges)
        metres, before = dijkstra(passable, indices=here, return_predecessors=True)
        way = [target]
        while way[-1] != here:
            way.append(int(before[way[-1]]))
        assert np.isfinite(metres[target])
        direct = target in near
        expected += [target] if direct else way[-2::-1]
        plan, here = [*plan, target], target
        visited.append(here)
    hops = walk(environment, plan, max_steps=12).hops
    assert hops.viewpoint[0, : int(hops.length)].tolist() == expected


def test_who_never_has_enough_comes_to_a_limit_of_hops(environment: Environment, monkeypatch: Any) -> None:
    """Each decision that is left keeps a hop: what does not fit leads nowhere, and the decision is spent."""
    monkeypatch.setattr(Script, "hops_per_step", 2)
    hops = walk(environment, [3, 4, 1, 4, 1, 4], max_steps=4).hops
    assert hops.viewpoint.shape[1] == 9
    assert hops.viewpoint[0].tolist() == [0, 3, 4, 3, 0, 1, 0, 3, 4]
    assert (int(hops.length), hops.ended.tolist()) == (9, [False])
    short = walk(environment, [3, 4, 1, 4, 3], max_steps=5)
    assert short.viewpoint[0].tolist() == [0, 3, 4, 1, 4, 3]
    monkeypatch.setattr(Script, "hops_per_step", 1)
    spent = walk(environment, [3, 4, 1, 5], max_steps=4)
    assert spent.viewpoint[0].tolist() == [0, 3, 4, 4, 5]
    assert spent.hops.decided[0].tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(("place", "told"), [(5, "a5"), (7, "b1"), (10**6, "no viewpoint of this world")])
def test_an_unknown_place_is_refused_where_that_is_not_to_wait(
    environment: Environment, monkeypatch: Any, place: int, told: str
) -> None:
    with pytest.raises(UsageError) as caught:
        walk(environment, [3, place])
    assert "Script chose to go to " + told in str(caught.value)
    assert "\n" not in str(caught.value)
    monkeypatch.setattr(going_back, "_require_known", lambda *_: None)  # as on a GPU
    assert walk(environment, [3, place, 0]).viewpoint[0, :4].tolist() == [0, 3, 3, 0]


def test_nothing_waits_for_the_device(
    environment: Environment, no_waiting: Callable[[], AbstractContextManager[None]], monkeypatch: Any
) -> None:
    monkeypatch.setattr(going_back, "_require_known", lambda *_: None)
    state = environment.reset(torch.tensor([0, 0]), torch.zeros(2))
    with no_waiting():
        trail, slots = BacktrackGraph.begin(state), environment.world.slots
        start = state
        for choice in (torch.tensor([1, 2]), torch.tensor([slots + 0, slots + 1]), torch.tensor([0, slots + 5])):
            state, trail = trail.step(environment, state, choice, 9, "")
        trail.walked(start, 9)


def test_a_choice_earns_the_sum_of_its_hops(world: World) -> None:
    rewards = Rewards(world, RewardConfig())
    path, length = torch.tensor([[0, 3, 4, 5]] * 2), torch.tensor([4, 4])
    hops = torch.tensor([[0, 3, 4, 3, 0, 1, 1], [0, 1, 0, 3, 4, 5, 5]]).T
    decided = torch.tensor([[0, 1, 2, 5, 5], [0, 1, 2, 3, 5]]).T  # the second's last way is of two hops
    slot = torch.tensor([[1, 1, 9, STOP], [1, 1, 1, 9]]).T
    found = rewards(hops, slot, path, length, decided=decided)
    each = rewards(hops, torch.ones(6, 2), path, length)
    stopped = rewards(hops, torch.zeros(6, 2), path, length)
    expected = [[each[0, 0], each[1, 0], each[2:5, 0].sum(), stopped[5, 0]], [*each[:3, 1], each[3:5, 1].sum()]]
    torch.testing.assert_close(found, torch.tensor(expected, dtype=torch.float64).T)
    progress = Rewards(world, RewardConfig(fidelity=False, departure=False))
    assert progress(hops, slot, path, length, decided=decided).T.tolist() == [[1, 1, -3, -2], [-1, 1, 1, 2]]


class Toy(Policy):
    """Likes slots and places by numbers of its own; it may go back to where it was and to what it saw there."""

    wants = ("neighbours",)
    goes_back = True
    hidden_width = 3

    def __init__(self, world: World, seed: int = 0) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(seed)
        self.liked = nn.Parameter(torch.randn(len(world), generator=generator, dtype=torch.float64))

    def begin(self, batch: EpisodeBatch) -> dict[str, Tensor]:
        return {"seen": batch.tokens.new_zeros(len(batch.tokens), 0), "again": self.liked[batch.state.viewpoint]}

    def step(self, observation: Observation, memory: dict[str, Tensor], attention: bool = False) -> Decision:
        around, seen = observation.neighbours, memory["seen"]
        logits = self.liked[around].masked_fill(~observation.choosable, -torch.inf)
        old = (seen[:, :, None] == around[:, None]).any(dim=2)
        again = (seen[:, :, None] == seen[:, None]).tril(-1).any(dim=2)
        places = seen.masked_fill(old | again, -1)
        return Decision(
            logits=logits,
            memory={"seen": torch.cat((seen, around), dim=1), "again": memory["again"]},
            hidden=self.liked[around[:, :3]],
            place_logits=self.liked[places.clamp(min=0)].masked_fill(places < 0, -torch.inf),
            places=places,
        )


def roll(world: World, how: list[int], seed: int = 0, **more: Any) -> Rollout:
    environment, count = Environment(world).showing("neighbours"), len(how)
    tokens = torch.ones(count, 4, dtype=torch.long)
    agent = MixedAgent(
        Toy(world), environment, tokens, torch.tensor(how), keys(seed, 0, torch.arange(count)), max_steps=6, **more
    )
    start, goal = torch.arange(count) % 6, torch.tensor([5, 4, 0, 3, 2, 1])[torch.arange(count) % 6]
    return collect_rollout(environment, agent, start, torch.zeros(count), goal)


def test_slots_and_places_share_one_softmax(world: World) -> None:
    rollout = roll(world, [SAMPLE] * 12)
    back = (rollout.slot >= world.slots) & rollout.live
    assert back.any(), "somebody goes back"
    total = rollout.log_policy.exp().sum(dim=-1)[rollout.live]
    torch.testing.assert_close(total, torch.ones_like(total))
    assert rollout.logits.shape[2] > world.slots
    gradient = torch.autograd.grad(rollout.log_probability[back].sum(), rollout.logits)[0]
    assert gradient[..., world.slots :].count_nonzero() > 0
    assert rollout.entropy[rollout.live].isfinite().all()


def test_places_are_sampled_as_often_as_their_probability_says(world: World) -> None:
    rollout = roll(world, [SAMPLE] * 6000)
    here = rollout.live[2]
    expected = rollout.log_policy[2].exp()[here].sum(dim=0)
    counted = torch.nn.functional.one_hot(rollout.slot[2][here], expected.shape[0]).sum(dim=0).double()
    assert expected[world.slots :].sum() > 300
    spread = (expected * (1 - expected / expected.sum())).clamp(min=1).sqrt()
    assert ((counted - expected).abs() / spread).max() < 4.5


def test_the_record_is_what_was_walked(world: World) -> None:
    rollout = roll(world, [SAMPLE, TEACHER, GREEDY, SAMPLE] * 3)
    assert rollout.walked is not None
    assert rollout.decided is not None
    assert torch.equal(rollout.walked.gather(0, rollout.decided), rollout.viewpoint)
    assert world.joined(rollout.walked[:-1], rollout.walked[1:]).all()
    taught = rollout.taught & rollout.ended
    assert torch.equal(rollout.viewpoint[-1][taught], rollout.goal[taught])
    assert (rollout.teacher < world.slots).all()


def test_a_teacher_may_name_places_on_the_way_to_the_goal(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    slots = roll(world, [SAMPLE] * 60)
    monkeypatch.setattr(Toy, "teaches_going_back", True)
    rollout = roll(world, [SAMPLE] * 54 + [TEACHER] * 6)
    back = (rollout.teacher >= world.slots) & rollout.live
    assert back.any(), "somebody is told to go back"
    assert rollout.logits.gather(2, rollout.teacher[..., None])[rollout.live].isfinite().all(), "what is offered"
    same = rollout.live[:, :54] & slots.live[: len(rollout.live), :54]
    assert torch.equal(rollout.slot[:, :54][same], slots.slot[: len(rollout.slot), :54][same]), "others do as before"
    told = same & ~back[:, :54]
    assert torch.equal(rollout.teacher[:, :54][told], slots.teacher[: len(rollout.slot), :54][told])
    assert torch.equal(rollout.viewpoint[-1][rollout.taught], rollout.goal[rollout.taught])


def test_rows_that_leave_change_nothing(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    how = [TEACHER, SAMPLE, SAMPLE, GREEDY, SAMPLE, SAMPLE]
    left = roll(world, how)
    monkeypatch.setattr("vlnbert.rollout.mixed.active_rows", lambda state, rows: None)
    monkeypatch.setattr("vlnbert.rollout.episodes.active_rows", lambda state, rows: None)
    whole = roll(world, how)
    assert torch.equal(left.live, whole.live)
    for name in ("slot", "logits", "hidden"):
        torch.testing.assert_close(getattr(left, name)[left.live], getattr(whole, name)[whole.live])
    assert torch.equal(left.walked, whole.walked)
    assert torch.equal(left.decided, whole.decided)


def test_a_greedy_agent_goes_where_the_best_of_all_logits_leads(world: World) -> None:
    environment = Environment(world).showing("neighbours")
    policy = Toy(world)
    with torch.no_grad():
        policy.liked[:6] = torch.tensor([0.0, 4.0, 0.0, 9.0, 9.5, -1.0])  # 3, 4, where it stays
    agent = GreedyAgent(policy)
    observation = environment.observe(State(torch.tensor([4]), torch.tensor([12]), torch.tensor([False])))
    memory = agent.begin(EpisodeBatch(observation.state, torch.ones(1, 4).long(), torch.zeros(1)))
    choice, memory = agent.act(observation, memory)
    assert choice.tolist() == [STOP]
    with torch.no_grad():
        policy.liked[:6] = torch.tensor([0.0, 4.0, 0.0, 1.0, 1.0, -1.0])
    observation = environment.observe(State(torch.tensor([5]), torch.tensor([12]), torch.tensor([False])))
    memory = replace(memory, memory={**memory.memory, "seen": torch.tensor([[0, 1, 3, 1]])})
    choice, memory = agent.act(observation, memory)
    assert choice.tolist() == [world.slots + 1]
    told = agent.explain(observation, memory)
    assert (told.probability.sum() + told.place_probability.sum()).item() == pytest.approx(1)
    assert told.places.tolist() == [[0, 1, 3, -1]]


class Broken(Toy):
    """A policy one of whose promises is broken."""

    def __init__(self, world: World, change: Callable[[Decision], Decision]) -> None:
        super().__init__(world)
        self.change = change

    def step(self, *given: Any, **more: Any) -> Decision:
        return self.change(super().step(*given, **more))


@pytest.mark.parametrize("learns", [True, False])
@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda made: replace(made, memory={"much": [torch.zeros(2, 2)]}), "a tensor [2, 2] (much.0) for 3 rows"),
        (lambda made: replace(made, memory=torch.tensor(1)), "a tensor [] for 3 rows"),
        (lambda made: replace(made, places=None), "place_logits and places of [3, 0] and None"),
        (lambda made: replace(made, places=made.places.float()), "places of float32"),
    ],
)
def test_what_a_policy_may_not_give_is_told_in_a_line(
    world: World, learns: bool, change: Callable[[Decision], Decision], told: str
) -> None:
    environment, tokens = Environment(world).showing("neighbours"), torch.ones(3, 4).long()
    state = environment.reset(torch.tensor([0, 1, 2]), torch.zeros(3))
    policy = Broken(world, change)
    how, key = torch.tensor([SAMPLE] * 3), keys(0, 0, torch.arange(3))
    agent = MixedAgent(policy, environment, tokens, how, key) if learns else GreedyAgent(policy)
    batch = EpisodeBatch(state, tokens, torch.arange(3), goal=state.viewpoint)
    with pytest.raises(UsageError) as caught:
        run_episodes(environment, agent, batch)
    assert "Broken" in str(caught.value)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_memory_without_rows_is_refused_before_the_first_step(world: World) -> None:
    policy = Toy(world)
    policy.begin = lambda batch: SimpleNamespace  # nothing of tensors is fine
    state = Environment(world).reset(torch.tensor([0]), torch.zeros(1))
    batch = EpisodeBatch(state, torch.ones(1, 4).long(), torch.arange(1))
    GreedyAgent(policy).begin(batch)
    policy.begin = lambda batch: (torch.zeros(1), torch.zeros(4, 1))
    with pytest.raises(UsageError, match=r"Toy remembers a tensor \[4, 1\] \(1\) for 1 rows"):
        GreedyAgent(policy).begin(batch)


def test_who_does_not_say_that_it_goes_back_is_told(world: World) -> None:
    policy = Toy(world)
    policy.goes_back = False
    environment, tokens = Environment(world).showing("neighbours"), torch.ones(1, 4).long()
    batch = EpisodeBatch(environment.reset(torch.tensor([0]), torch.zeros(1)), tokens, torch.arange(1))
    with pytest.raises(UsageError, match="write goes_back = True"):
        run_episodes(environment, GreedyAgent(policy), batch)
